// SPDX-License-Identifier: Apache-2.0
#include "common/base/error.h"
#include "common/export/script_model.h"
#include "common/files/atomic_file.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <torch/csrc/jit/serialization/import.h>

using namespace alg;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path;
    Folder() {
        std::string name = (fs::temp_directory_path() / "export_test.XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
    bool empty() const { return fs::is_empty(path); }
};

/// Values in [-1, 1] as if drawn, the same everywhere.
at::Tensor noise(at::IntArrayRef shape, double step) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return at::arange(count, at::TensorOptions().dtype(at::kDouble))
        .mul(step)
        .sin()
        .mul(43758.5453)
        .frac()
        .to(at::kFloat)
        .view(shape);
}

struct Layers {
    at::Tensor w1 = noise({512, 256}, 0.7).div_(16), b1 = noise({512}, 0.3);
    at::Tensor w2 = noise({256, 512}, 1.1).div_(16), b2 = {};

    at::Tensor operator()(const at::Tensor& x) const {
        return at::linear(at::linear(x, w1, b1).relu(), w2);
    }
    /// A tree of modules: an encoder with a child, optional and default arguments, two methods.
    ScriptModel script(bool quantised) const {
        ScriptModel inner("Inner");
        inner.linear("first", w1, b1, quantised);
        inner.linear("second", w2, b2, quantised);
        inner.define(
            "def forward(self, x: Tensor) -> Tensor:\n"
            "    return self.second.forward(torch.relu(self.first.forward(x)))\n");
        ScriptModel outer("Outer");
        outer.child("inner", inner);
        outer.constant("scale", 2.0);
        outer.constant("labels", "a,b");
        outer.buffer("shift", at::ones({1}));
        outer.define(
            "def scaled(self, x: Tensor, times: int = 1) -> Tensor:\n"
            "    for i in range(times):\n"
            "        x = x * self.scale\n"
            "    return x + self.shift\n"
            "def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:\n"
            "    y = self.inner.forward(x)\n"
            "    if mask is not None:\n"
            "        y = y * mask\n"
            "    return y\n");
        return outer;
    }
};

std::string problem(const std::function<void()>& body) {
    try {
        body();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return {};
}

}  // namespace

TEST_CASE("a tree of modules answers as the trained layers, before and after saving") {
    const Folder folder;
    const Layers layers;
    const at::Tensor x = noise({3, 256}, 0.9), mask = noise({3, 1}, 2.0);
    const torch::jit::Module module = layers.script(false).module();
    const double plain = save_checked(module, folder.path / "m.ts", {x}, {layers(x)}, 1e-6);
    CHECK(plain <= 1e-6);
    save_checked(module, folder.path / "m.ts", {x, mask}, {layers(x) * mask}, 1e-6);

    torch::jit::Module loaded = torch::jit::load((folder.path / "m.ts").string());
    const at::Tensor scaled = loaded.get_method("scaled")({at::ones({2}), 3}).toTensor();
    CHECK(at::equal(scaled, at::ones({2}) * 9));
    CHECK(loaded.attr("labels").toStringRef() == "a,b");
}

TEST_CASE("parameters are listed by their paths and are the trained tensors themselves") {
    const Layers layers;
    const torch::jit::Module module = layers.script(false).module();
    std::map<std::string, at::Tensor> found;
    for (const auto& named : module.named_parameters()) found[named.name] = named.value;
    REQUIRE(found.size() == 3);
    CHECK(found.at("inner.first.weight").data_ptr() == layers.w1.data_ptr());
    CHECK(found.at("inner.first.bias").data_ptr() == layers.b1.data_ptr());
    CHECK(found.at("inner.second.weight").data_ptr() == layers.w2.data_ptr());
}

TEST_CASE("the int8 form is about a quarter of the size and answers nearly the same") {
    const Folder folder;
    const Layers layers;
    const at::Tensor x = noise({16, 256}, 0.9), expected = layers(x);
    const double scale = expected.abs().max().item<double>();
    const double apart = save_checked(layers.script(true).module(), folder.path / "q.ts", {x},
                                      {expected}, 0.05 * scale);
    MESSAGE("differs by " << apart << " of " << scale);
    save_checked(layers.script(false).module(), folder.path / "m.ts", {x}, {expected}, 1e-6);
    const auto size = [&](const char* name) {
        return static_cast<double>(fs::file_size(folder.path / name));
    };
    MESSAGE("float " << size("m.ts") << " bytes, int8 " << size("q.ts"));
    CHECK(size("m.ts") / size("q.ts") > 3.5);
}

TEST_CASE("an export that answers otherwise is refused and leaves no file") {
    const Folder folder;
    const Layers layers;
    const at::Tensor x = noise({3, 256}, 0.9);
    const torch::jit::Module module = layers.script(false).module();
    const auto save = [&](const std::vector<at::Tensor>& expected) {
        return problem([&] { save_checked(module, folder.path / "m.ts", {x}, expected, 1e-4); });
    };
    CHECK(save({layers(x) + 0.01}).find("differs from the trained model by 0.01") !=
          std::string::npos);
    CHECK(save({layers(x).narrow(0, 0, 2)}).find("inf") != std::string::npos);
    CHECK(save({layers(x) / 0}).find("inf") != std::string::npos);
    CHECK(save({layers(x) * std::numeric_limits<float>::quiet_NaN()}).find("inf") !=
          std::string::npos);
    CHECK(save({}).find("1 tensors instead of 0") != std::string::npos);
    CHECK(folder.empty());
    CHECK(save({layers(x)}).empty());
}

TEST_CASE("methods that do not compile are refused in words") {
    ScriptModel model("Wrong");
    const std::string said = problem([&] {
        model.define("def forward(self, x: Tensor) -> Tensor:\n    return torch.no_such(x)\n");
    });
    CHECK(said.find("methods of __torch__.Wrong") != std::string::npos);
    CHECK(said.find("no_such") != std::string::npos);
}

TEST_CASE("a full disk is a failure in words and leaves nothing") {
    const Folder folder;
    const Layers layers;
    const at::Tensor x = noise({3, 256}, 0.9);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit limit{.rlim_cur = 300'000, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const fs::path file = folder.path / "m.ts";
    const std::string said =
        problem([&] { save_checked(layers.script(false).module(), file, {x}, {layers(x)}, 1e-4); });
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK(said == file.string() + ": cannot write it: file too large");
    CHECK(folder.empty());
}

TEST_CASE("a folder that cannot be written to is a failure that names the file") {
    const Layers layers;
    const at::Tensor x = noise({3, 256}, 0.9);
    const std::string said = problem([&] {
        save_checked(layers.script(false).module(), "/dev/null/m.ts", {x}, {layers(x)}, 1e-4);
    });
    CHECK(said.find("/dev/null") != std::string::npos);
    CHECK(problem([&] {
              save_checked(layers.script(false).module(), "/dev/full/m.ts", {x}, {layers(x)}, 1e-4);
          }).find("/dev/full") != std::string::npos);
}
