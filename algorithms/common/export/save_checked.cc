// SPDX-License-Identifier: Apache-2.0
// Saving with proof: what was written is loaded again and must answer as the trained model did.
#include "common/base/error.h"
#include "common/export/script_model.h"
#include "common/files/atomic_file.h"
#include "common/files/file.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/isnan.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>

#include <cmath>
#include <exception>

namespace alg {
namespace {

void collect(const c10::IValue& value, std::vector<at::Tensor>& into) {
    if (value.isTensor()) {
        into.push_back(value.toTensor());
    } else if (value.isTuple()) {
        for (const c10::IValue& item : value.toTupleRef().elements()) collect(item, into);
    } else if (value.isList()) {
        for (const c10::IValue& item : value.toListRef()) collect(item, into);
    } else {
        fail("forward returns a {}; tensors and tuples or lists of them can be compared",
             value.tagKind());
    }
}

/// The largest difference; infinite where shapes or the places of NaN differ.
double difference(const at::Tensor& left, const at::Tensor& right) {
    if (left.sizes() != right.sizes()) return std::numeric_limits<double>::infinity();
    if (left.numel() == 0) return 0;
    const at::Tensor a = left.detach().cpu().to(at::kDouble);
    const at::Tensor b = right.detach().cpu().to(at::kDouble);
    if (!at::equal(a.isnan(), b.isnan())) return std::numeric_limits<double>::infinity();
    // Equal infinities would subtract to NaN.
    const at::Tensor apart = a.sub(b).abs().masked_fill(a.eq(b).logical_or(a.isnan()), 0);
    return apart.max().item<double>();
}

double compare(torch::jit::Module module, const std::vector<c10::IValue>& inputs,
               const std::vector<at::Tensor>& expected, double tolerance,
               const std::string& which) {
    std::vector<at::Tensor> outputs;
    collect(module.forward(inputs), outputs);
    if (outputs.size() != expected.size())
        fail("{} returns {} tensors instead of {}", which, outputs.size(), expected.size());
    double largest = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const double apart = difference(outputs[i], expected[i]);
        if (!(apart <= tolerance))
            fail(
                "{} differs from the trained model by {:.3g} in output {} (at most {:.3g} is "
                "allowed); nothing was saved",
                which, apart, i, tolerance);
        largest = std::max(largest, apart);
    }
    return largest;
}

void write(const torch::jit::Module& module, const std::filesystem::path& path) {
    OutputFile out(path);
    // The archive's writer is C inside: no exception may pass through it.
    std::exception_ptr problem;
    const auto append = [&](const void* data, std::size_t size) -> std::size_t {
        try {
            if (!problem) out.write({static_cast<const std::byte*>(data), size});
        } catch (...) {
            problem = std::current_exception();
        }
        return size;  // a short count would abort the archive writer's destructor
    };
    try {
        torch::jit::ExportModule(module, append);
    } catch (const std::exception&) {
        if (!problem) throw;
    }
    if (problem) std::rethrow_exception(problem);
    out.close();
}

}  // namespace

double save_checked(const torch::jit::Module& module, const std::filesystem::path& file,
                    const std::vector<c10::IValue>& inputs, const std::vector<at::Tensor>& expected,
                    double tolerance) {
    const c10::NoGradGuard no_gradient;
    double largest = 0;
    write_atomically(file, [&](const std::filesystem::path& path) {
        try {
            const double before =
                compare(module, inputs, expected, tolerance, "the exported model");
            write(module, path);
            const torch::jit::Module loaded = torch::jit::load(path.string());
            largest = std::max(before, compare(loaded, inputs, expected, tolerance,
                                               "the exported model, loaded again,"));
        } catch (const c10::Error& problem) {
            fail("{}: {}", file.string(), problem.what_without_backtrace());
        }
    });
    return largest;
}

}  // namespace alg
