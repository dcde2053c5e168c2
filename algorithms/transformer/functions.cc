// SPDX-License-Identifier: Apache-2.0
// Fully connected layers, activations, dropout and normalisation as differentiable functions.
#include "transformer/functions.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace alg::own {

namespace {

constexpr std::int64_t kBlock = 64;       // rows that share one partial sum
constexpr std::int64_t kGrain = 1 << 15;  // elements worth a thread

struct Affine : torch::autograd::Function<Affine> {
    static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                            const std::optional<Variable>& bias) {
        context->save_for_backward({x, weight});
        context->saved_data["bias"] = bias.has_value();
        return times_transposed(x, weight, bias.value_or(Variable()));
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        const torch::Tensor grad = grads[0].contiguous();
        return {context->needs_input_grad(0) ? times(grad, saved[1]) : torch::Tensor(),
                transposed_times(grad, saved[0]),
                context->saved_data["bias"].toBool() ? column_sums(grad) : torch::Tensor()};
    }
};

torch::Tensor activated(const torch::Tensor& x, Activation activation) {
    torch::Tensor out = at::empty_like(x);
    const auto kernel =
        activation == Activation::relu ? vector_kernels().relu : vector_kernels().gelu;
    const auto* from = x.const_data_ptr<float>();
    auto* to = out.data_ptr<float>();
    at::parallel_for(0, x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        kernel(from + begin, to + begin, end - begin);
    });
    return out;
}

// Gradient before the activation, and its column sums.
std::pair<torch::Tensor, torch::Tensor> activation_backward(const torch::Tensor& x,
                                                            const torch::Tensor& grad,
                                                            Activation activation) {
    const std::int64_t rows = x.size(0);
    const std::int64_t columns = x.size(1);
    const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
    torch::Tensor dx = at::empty_like(x);
    torch::Tensor sums = at::zeros({blocks, columns}, x.options());
    const auto kernel = activation == Activation::relu ? vector_kernels().relu_backward
                                                       : vector_kernels().gelu_backward;
    const auto* x_at = x.const_data_ptr<float>();
    const auto* grad_at = grad.const_data_ptr<float>();
    auto* dx_at = dx.data_ptr<float>();
    auto* sums_at = sums.data_ptr<float>();
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
            const std::int64_t at = b * kBlock * columns;
            kernel(x_at + at, grad_at + at, dx_at + at, sums_at + b * columns, columns,
                   std::min(kBlock, rows - b * kBlock));
        }
    });
    return {dx, sums.sum(0)};
}

struct AffineActivation : torch::autograd::Function<AffineActivation> {
    static Variable forward(AutogradContext* context, const Variable& x, const Variable& weight,
                            const Variable& bias, std::int64_t activation) {
        const auto kind = static_cast<Activation>(activation);
        const torch::Tensor before = times_transposed(x, weight, bias);
        torch::Tensor out = activated(before, kind);
        // relu's gradient can be told from its result, which the next layer keeps anyway.
        context->save_for_backward({x, weight, kind == Activation::relu ? out : before});
        context->saved_data["activation"] = activation;
        return out;
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        const auto [grad, sums] =
            activation_backward(saved[2], grads[0].contiguous(),
                                static_cast<Activation>(context->saved_data["activation"].toInt()));
        return {context->needs_input_grad(0) ? times(grad, saved[1]) : torch::Tensor(),
                transposed_times(grad, saved[0]),
                sums,
                {}};
    }
};

struct BiasActivation : torch::autograd::Function<BiasActivation> {
    static Variable forward(AutogradContext* context, const Variable& x, const Variable& bias,
                            std::int64_t activation) {
        const torch::Tensor before = x + bias;
        context->save_for_backward({before});
        context->saved_data["activation"] = activation;
        return activated(before, static_cast<Activation>(activation));
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        auto [grad, sums] =
            activation_backward(saved[0], grads[0].contiguous(),
                                static_cast<Activation>(context->saved_data["activation"].toInt()));
        return {grad, sums, {}};
    }
};

torch::Tensor dropped(const torch::Tensor& x, const Keep& keep) {
    torch::Tensor out = at::empty_like(x);
    const auto* from = x.const_data_ptr<float>();
    auto* to = out.data_ptr<float>();
    at::parallel_for(0, x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        vector_kernels().dropout(from, to, keep, begin, end);
    });
    return out;
}

struct Dropout : torch::autograd::Function<Dropout> {
    static Variable forward(AutogradContext* context, const Variable& x,
                            const std::vector<std::int64_t>& keep) {
        context->saved_data["keep"] = keep;
        return dropped(x, restored(context->saved_data["keep"]));
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        return {dropped(grads[0].contiguous(), restored(context->saved_data["keep"])), {}};
    }
};

// What the backward pass of a normalisation needs.
struct Normalised {
    torch::Tensor out, normal, reciprocal;
};

// layer_norm(x + keep * y); y's memory becomes `normal` when `reuse`.
Normalised normalise(const torch::Tensor& x, const torch::Tensor& y, bool reuse, const Keep& keep,
                     const torch::Tensor& scale, const torch::Tensor& bias, double epsilon) {
    const std::int64_t columns = x.size(-1);
    const std::int64_t rows = columns == 0 ? 0 : x.numel() / columns;
    Normalised result{at::empty_like(x), reuse ? y : at::empty_like(x),
                      at::empty({rows}, x.options())};
    const NormForward work{columns,
                           x.const_data_ptr<float>(),
                           y.defined() ? y.const_data_ptr<float>() : nullptr,
                           scale.const_data_ptr<float>(),
                           bias.const_data_ptr<float>(),
                           static_cast<float>(epsilon),
                           keep,
                           result.out.data_ptr<float>(),
                           result.normal.data_ptr<float>(),
                           result.reciprocal.data_ptr<float>()};
    at::parallel_for(0, rows, kGrain / std::max<std::int64_t>(columns, 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                         vector_kernels().norm_forward(work, begin, end);
                     });
    return result;
}

// sums [3, columns]: gradients of scale and bias, and the column sums of dy.
struct NormGradients {
    torch::Tensor dx, dy, sums;
};

NormGradients normalise_backward(const torch::Tensor& grad, const torch::Tensor& normal,
                                 const torch::Tensor& reciprocal, const torch::Tensor& scale,
                                 const Keep& keep) {
    const std::int64_t columns = grad.size(-1);
    const std::int64_t rows = reciprocal.size(0);
    const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
    NormGradients result;
    result.dx = at::empty_like(grad);
    result.dy = keep.active() ? at::empty_like(grad) : result.dx;
    const torch::Tensor partial = at::zeros({blocks, 3, columns}, grad.options());
    const NormBackward work{columns,
                            grad.const_data_ptr<float>(),
                            normal.const_data_ptr<float>(),
                            reciprocal.const_data_ptr<float>(),
                            scale.const_data_ptr<float>(),
                            keep,
                            result.dx.data_ptr<float>(),
                            keep.active() ? result.dy.data_ptr<float>() : nullptr};
    auto* sums = partial.data_ptr<float>();
    at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
            vector_kernels().norm_backward(work, sums + b * 3 * columns, b * kBlock,
                                           std::min((b + 1) * kBlock, rows));
        }
    });
    result.sums = partial.sum(0);
    return result;
}

struct Norm : torch::autograd::Function<Norm> {
    static Variable forward(AutogradContext* context, const Variable& x,
                            const std::optional<Variable>& y, const Variable& scale,
                            const Variable& bias, const std::vector<std::int64_t>& keep,
                            double epsilon) {
        context->saved_data["keep"] = keep;
        context->saved_data["added"] = y.has_value();
        const Normalised result =
            normalise(x, y.value_or(Variable()), false, restored(context->saved_data["keep"]),
                      scale, bias, epsilon);
        context->save_for_backward({result.normal, result.reciprocal, scale});
        return result.out;
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        const bool added = context->saved_data["added"].toBool();
        const auto result =
            normalise_backward(grads[0].contiguous(), saved[0], saved[1], saved[2],
                               added ? restored(context->saved_data["keep"]) : Keep());
        return {result.dx, added ? result.dy : torch::Tensor(), result.sums[0], result.sums[1], {},
                {}};
    }
};

struct AffineNorm : torch::autograd::Function<AffineNorm> {
    static Variable forward(AutogradContext* context, const Variable& x, const Variable& inner,
                            const Variable& weight, const Variable& bias, const Variable& scale,
                            const Variable& norm_bias, const std::vector<std::int64_t>& keep,
                            double epsilon) {
        context->saved_data["keep"] = keep;
        const torch::Tensor y = times_transposed(inner, weight, bias);
        const Normalised result =
            normalise(x, y, true, restored(context->saved_data["keep"]), scale, norm_bias, epsilon);
        context->save_for_backward({inner, weight, result.normal, result.reciprocal, scale});
        return result.out;
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        const auto result = normalise_backward(grads[0].contiguous(), saved[2], saved[3], saved[4],
                                               restored(context->saved_data["keep"]));
        return {result.dx,
                times(result.dy, saved[1]),
                transposed_times(result.dy, saved[0]),
                result.sums[2],
                result.sums[0],
                result.sums[1],
                {},
                {}};
    }
};

}  // namespace

Keep restored(const c10::IValue& saved) {
    const auto values = saved.toIntVector();
    Keep keep;
    keep.key0 = static_cast<std::uint32_t>(values[0]);
    keep.key1 = static_cast<std::uint32_t>(values[1]);
    keep.threshold = static_cast<std::uint32_t>(values[2]);
    keep.scale = 65536.0F / static_cast<float>(65536 - keep.threshold);
    return keep;
}

torch::Tensor affine(const torch::Tensor& x, const torch::Tensor& weight,
                     const torch::Tensor& bias) {
    return Affine::apply(x, weight, optional(bias));
}

torch::Tensor affine_activation(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias, Activation activation) {
    return AffineActivation::apply(x, weight, bias, static_cast<std::int64_t>(activation));
}

torch::Tensor bias_activation(const torch::Tensor& x, const torch::Tensor& bias,
                              Activation activation) {
    return BiasActivation::apply(x, bias, static_cast<std::int64_t>(activation));
}

torch::Tensor dropout(const torch::Tensor& x, const DropoutMask& mask) {
    return mask.active() ? Dropout::apply(x.contiguous(), saved(mask)) : x;
}

torch::Tensor add_dropout_norm(const torch::Tensor& x, const torch::Tensor& y,
                               const DropoutMask& mask, const torch::Tensor& scale,
                               const torch::Tensor& bias, double epsilon) {
    return Norm::apply(x.contiguous(), y.defined() ? optional(y.contiguous()) : std::nullopt, scale,
                       bias, saved(mask), epsilon);
}

torch::Tensor affine_dropout_norm(const torch::Tensor& x, const torch::Tensor& inner,
                                  const NormedLayer& layer, const DropoutMask& mask) {
    return AffineNorm::apply(x.contiguous(), inner.contiguous(), layer.weight, layer.bias,
                             layer.norm_scale, layer.norm_bias, saved(mask), layer.epsilon);
}

}  // namespace alg::own
