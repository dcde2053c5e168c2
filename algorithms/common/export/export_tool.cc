// SPDX-License-Identifier: Apache-2.0
// For the parity test with Python: writes into FOLDER m.ts, q.ts (int8), and expected.pt with the
// inputs and what the models answered here.
#include "common/base/error.h"
#include "common/export/script_model.h"
#include "common/files/tensors.h"

#include <ATen/ops/arange.h>
#include <c10/core/GradMode.h>

#include <cstdio>

namespace {

using namespace alg;

/// Values in [-1, 1] as if drawn, the same everywhere.
at::Tensor noise(at::IntArrayRef shape, std::int64_t count, double step) {
    return at::arange(count, at::TensorOptions().dtype(at::kDouble))
        .mul(step)
        .sin()
        .mul(43758.5453)
        .frac()
        .to(at::kFloat)
        .view(shape);
}

ScriptModel model(bool quantised) {
    ScriptModel inner("Inner");
    inner.linear("first", noise({512, 256}, 512 * 256, 0.7).div(16), noise({512}, 512, 0.3),
                 quantised);
    inner.linear("second", noise({8, 512}, 8 * 512, 1.1).div(16), {}, quantised);
    inner.define(
        "def forward(self, x: Tensor) -> Tensor:\n"
        "    return self.second.forward(torch.relu(self.first.forward(x)))\n");
    ScriptModel outer("Outer");
    outer.child("inner", inner);
    outer.constant("scale", 2.0);
    outer.define(
        "def scaled(self, x: Tensor, times: int = 1) -> Tensor:\n"
        "    return x * self.scale * float(times)\n"
        "def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:\n"
        "    y = self.inner.forward(x)\n"
        "    if mask is not None:\n"
        "        y = y * mask\n"
        "    return y, y.sum(-1)\n");
    return outer;
}

void run(const fs::path& folder) {
    const c10::NoGradGuard no_gradient;
    const at::Tensor x = noise({4, 256}, 4 * 256, 0.9);
    Dictionary expected{{"x", x}};
    for (const bool quantised : {false, true}) {
        const torch::jit::Module made = model(quantised).module();
        const std::string name = quantised ? "q" : "m";
        torch::jit::Module copy = made;
        const c10::IValue answer = copy.forward({x});
        const at::Tensor y = answer.toTupleRef().elements()[0].toTensor();
        save_checked(made, folder / (name + ".ts"), {x}, {y, y.sum(-1)}, 1e-6);
        expected.emplace_back(name, y);
    }
    write_torch(folder / "expected.pt", expected);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc != 2) fail("usage: export_tool FOLDER");
        run(argv[1]);
        return 0;
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
}
