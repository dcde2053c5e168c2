// SPDX-License-Identifier: Apache-2.0
#include "common/export/script_model.h"

#include "common/base/error.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/frontend/sugared_value.h>

namespace alg {
namespace {

/// The names a method's source may use besides its own: torch.<operator>, quantized.<operator>.
struct OperatorNames : torch::jit::Resolver {
    std::shared_ptr<torch::jit::SugaredValue> resolveValue(
        const std::string& name, torch::jit::GraphFunction& /*method*/,
        const torch::jit::SourceRange&) override {
        if (name == "torch") return std::make_shared<torch::jit::BuiltinModule>("aten");
        if (name == "quantized") return std::make_shared<torch::jit::BuiltinModule>("quantized");
        return nullptr;
    }
};

/// LibTorch's messages carry a stack trace that means nothing to users.
std::string plain_text(const std::exception& problem) {
    const auto* error = dynamic_cast<const c10::Error*>(&problem);
    return error != nullptr ? error->what_without_backtrace() : problem.what();
}

struct Silence : c10::WarningHandler {
    void process(const c10::Warning& /*warning*/) override {}
};

/// The packed int8 form of a layer: a scale for each row, so that one row with large weights does
/// not cost the others their precision; symmetric, because the kernels require it.
c10::IValue pack(const at::Tensor& weight, const at::Tensor& bias) {
    const c10::NoGradGuard no_gradient;
    // LibTorch 2.13 announces that quantised tensors will go; nothing a user could act on.
    Silence silent;
    const c10::WarningUtils::WarningHandlerGuard quiet(&silent);
    const at::Tensor rows = weight.detach().cpu().to(at::kFloat).contiguous();
    const at::Tensor scales = rows.abs().amax({1}).div(127).clamp_min(1e-12).to(at::kDouble);
    const at::Tensor zeros = at::zeros({rows.size(0)}, at::TensorOptions().dtype(at::kLong));
    const at::Tensor quantised = at::quantize_per_channel(rows, scales, zeros, 0, at::kQInt8);
    const auto operation =
        c10::Dispatcher::singleton().findSchemaOrThrow("quantized::linear_prepack", "");
    std::vector<c10::IValue> stack{quantised, bias.defined()
                                                  ? c10::IValue(bias.detach().cpu().to(at::kFloat))
                                                  : c10::IValue()};
    operation.callBoxed(stack);
    return stack.at(0);
}

}  // namespace

ScriptModel::ScriptModel(const std::string& type)
    : module_(c10::QualifiedName("__torch__." + type)) {}

void ScriptModel::tensor(const std::string& name, const at::Tensor& value) {
    module_.register_parameter(name, value, /*is_buffer=*/false);
}

void ScriptModel::buffer(const std::string& name, const at::Tensor& value) {
    module_.register_buffer(name, value);
}

void ScriptModel::constant(const std::string& name, const c10::IValue& value) {
    module_.register_attribute(name, value.type(), value);
}

void ScriptModel::child(const std::string& name, const ScriptModel& module) {
    module_.register_module(name, module.module_);
}

void ScriptModel::linear(const std::string& name, const at::Tensor& weight, const at::Tensor& bias,
                         bool quantised) {
    if (weight.dim() != 2 || (bias.defined() && bias.sizes() != weight.sizes().slice(0, 1)))
        fail("linear layer \"{}\": weight and bias do not fit", name);
    if (quantised) {
        ScriptModel layer("QuantizedLinear");
        layer.constant("_packed_params", pack(weight, bias));
        // 7 bits for the input (the last argument), as Python's quantised layers do: without VNNI
        // instructions the kernels' 16-bit sums would saturate otherwise.
        layer.define(
            "def forward(self, x: Tensor) -> Tensor:\n"
            "    return quantized.linear_dynamic(x, self._packed_params, True)\n");
        child(name, layer);
        return;
    }
    ScriptModel layer(bias.defined() ? "Linear" : "LinearWithoutBias");
    layer.tensor("weight", weight);
    if (bias.defined()) layer.tensor("bias", bias);
    layer.define(
        format("def forward(self, x: Tensor) -> Tensor:\n"
               "    return torch.linear(x, self.weight{})\n",
               bias.defined() ? ", self.bias" : ""));
    child(name, layer);
}

void ScriptModel::define(const std::string& source) {
    try {
        module_.define(source, std::make_shared<OperatorNames>());
    } catch (const std::exception& problem) {
        fail("methods of {}: {}", module_.type()->name()->qualifiedName(), plain_text(problem));
    }
}

}  // namespace alg
