// SPDX-License-Identifier: Apache-2.0
// Attention of packed sequences as a differentiable function on the vector kernels.
#include "transformer/functions.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <cmath>

namespace alg::own {

namespace {

// What a context keeps besides tensors.
struct Description {
    std::int64_t heads, longest;
    bool causal;
    std::vector<std::int64_t> keep;
};

Attention describe(const torch::Tensor& qkv, const torch::Tensor& offsets,
                   const torch::Tensor& dense, AutogradContext* context) {
    const auto& data = context->saved_data;
    Attention a{};
    a.qkv = qkv.const_data_ptr<float>();
    a.offsets = offsets.const_data_ptr<std::int64_t>();
    a.heads = data.at("heads").toInt();
    a.size = qkv.size(1) / 3 / a.heads;
    a.longest = data.at("longest").toInt();
    a.factor = 1.0F / std::sqrt(static_cast<float>(a.size));
    a.causal = data.at("causal").toBool();
    if (dense.defined()) {
        a.dense = dense.const_data_ptr<bool>();
        a.dense_sequence = dense.dim() == 3 ? a.longest * a.longest : 0;
    }
    a.keep = restored(data.at("keep"));
    return a;
}

// Heads of sequences are handed out one by one: results do not depend on who takes which.
template <typename Work>
void for_each_head(const Attention& a, std::int64_t sequences, bool backward, const Work& work) {
    const std::int64_t items = sequences * a.heads;
    const std::int64_t threads = std::min<std::int64_t>(at::get_num_threads(), items);
    std::atomic<std::int64_t> next = 0;
    at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) {
        const torch::Tensor scratch =
            at::empty({vector_kernels().attention_scratch(a, backward)}, at::kFloat);
        auto* const memory = scratch.data_ptr<float>();
        for (std::int64_t i = next++; i < items; i = next++) {
            work(memory, i / a.heads, i % a.heads);
        }
    });
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
    static Variable forward(AutogradContext* context, const Variable& qkv,
                            const torch::Tensor& offsets, const std::optional<Variable>& seen,
                            const Description& description) {
        const torch::Tensor dense = seen.value_or(torch::Tensor());
        context->saved_data["heads"] = description.heads;
        context->saved_data["longest"] = description.longest;
        context->saved_data["causal"] = description.causal;
        context->saved_data["keep"] = description.keep;
        Attention a = describe(qkv, offsets, dense, context);
        torch::Tensor out = at::empty({qkv.size(0), qkv.size(1) / 3}, qkv.options());
        const torch::Tensor logsum = at::empty({qkv.size(0), a.heads}, qkv.options());
        a.out = out.data_ptr<float>();
        a.logsum = logsum.data_ptr<float>();
        for_each_head(a, offsets.size(0) - 1, false,
                      [&](float* memory, std::int64_t sequence, std::int64_t head) {
                          vector_kernels().attention(a, memory, sequence, head);
                      });
        context->save_for_backward({qkv, offsets, dense, out, logsum});
        return out;
    }
    static tensor_list backward(AutogradContext* context, tensor_list grads) {
        const auto saved = context->get_saved_variables();
        const torch::Tensor grad = grads[0].contiguous();
        const torch::Tensor dqkv = at::empty_like(saved[0]);
        AttentionBackward b{describe(saved[0], saved[1], saved[2], context),
                            grad.const_data_ptr<float>(), dqkv.data_ptr<float>()};
        b.forward.out = saved[3].data_ptr<float>();
        b.forward.logsum = saved[4].data_ptr<float>();
        for_each_head(b.forward, saved[1].size(0) - 1, true,
                      [&](float* memory, std::int64_t sequence, std::int64_t head) {
                          vector_kernels().attention_backward(b, memory, sequence, head);
                      });
        return {dqkv, {}, {}, {}};
    }
};

}  // namespace

torch::Tensor attention(const torch::Tensor& qkv, const Packed& shape, std::int64_t heads,
                        const Mask& mask, const DropoutMask& dropout) {
    torch::Tensor dense;
    if (mask.kind == Mask::Kind::dense) {
        dense = mask.dense.to(at::kBool).contiguous();
    }
    return AttentionFunction::apply(
        qkv.contiguous(), shape.offsets, optional(dense),
        Description{heads, shape.longest, mask.kind == Mask::Kind::causal, saved(dropout)});
}

}  // namespace alg::own
