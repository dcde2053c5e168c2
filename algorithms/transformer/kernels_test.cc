// SPDX-License-Identifier: Apache-2.0
// Every kernel against compositions of ATen's operations, forward and backward.
#include "transformer/compositions.h"
#include "transformer/functions.h"

#include "common/base/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <functional>

using namespace alg;

namespace {

// Standard normal numbers, the same everywhere.
torch::Tensor numbers(at::IntArrayRef shape, std::uint64_t key) {
    return alg::normal(shape, 1.0, key);
}

torch::Tensor leaf(const torch::Tensor& value) {
    return value.detach().clone().set_requires_grad(true);
}

double difference(const torch::Tensor& a, const torch::Tensor& b) {
    REQUIRE(a.sizes() == b.sizes());
    if (a.numel() == 0) {
        return 0;
    }
    const double scale = std::max(1e-6, b.abs().max().item<double>());
    return (a - b).abs().max().item<double>() / scale;
}

using Function = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

// Values and gradients of all inputs, for a random direction of the result.
void same(const std::vector<torch::Tensor>& inputs, const Function& ours, const Function& theirs,
          double tolerance = 1e-5) {
    std::vector<torch::Tensor> a;
    std::vector<torch::Tensor> b;
    for (const auto& input : inputs) {
        a.push_back(leaf(input));
        b.push_back(leaf(input));
    }
    const torch::Tensor x = ours(a);
    const torch::Tensor y = theirs(b);
    CHECK(difference(x.detach(), y.detach()) < tolerance);
    const torch::Tensor direction = numbers(x.sizes(), 99);
    x.backward(direction);
    y.backward(direction);
    for (std::size_t i = 0; i < a.size(); ++i) {
        CAPTURE(i);
        CHECK(difference(a[i].grad(), b[i].grad()) < tolerance);
    }
}

Pass training(std::uint64_t key = 7) {
    Pass pass;
    pass.training = true;
    pass.key = key;
    return pass;
}

Packed lengths(std::initializer_list<std::int32_t> of) {
    return packed(std::vector<std::int32_t>(of));
}

}  // namespace

TEST_CASE("a fully connected layer is at::linear") {
    for (const auto& [m, k, n] :
         {std::array<std::int64_t, 3>{5, 7, 3}, std::array<std::int64_t, 3>{1030, 32, 48},
          std::array<std::int64_t, 3>{1, 4, 4}}) {
        same(
            {numbers({m, k}, 1), numbers({n, k}, 2), numbers({n}, 3)},
            [](const auto& t) { return affine(t[0], t[1], t[2]); },
            [](const auto& t) { return at::linear(t[0], t[1], t[2]); });
        same(
            {numbers({m, k}, 1), numbers({n, k}, 2)},
            [](const auto& t) { return affine(t[0], t[1]); },
            [](const auto& t) { return at::linear(t[0], t[1]); });
    }
}

TEST_CASE("activations are those of ATen") {
    for (const Activation kind : {Activation::relu, Activation::gelu}) {
        for (const std::int64_t columns : {1, 5, 64, 131}) {
            const auto theirs = [&](const auto& t) {
                return composition::bias_activation(at::linear(t[0], t[1]), t[2], kind);
            };
            same(
                {numbers({67, 12}, 1) * 3, numbers({columns, 12}, 2), numbers({columns}, 3)},
                [&](const auto& t) { return affine_activation(t[0], t[1], t[2], kind); }, theirs);
            same(
                {numbers({67, 12}, 1) * 3, numbers({columns, 12}, 2), numbers({columns}, 3)},
                [&](const auto& t) { return bias_activation(at::linear(t[0], t[1]), t[2], kind); },
                theirs);
        }
    }
}

TEST_CASE("dropout's kernels and compositions keep the same elements") {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{1}, {3, 7}, {33, 1000}}) {
        for (const double p : {0.0, 0.1, 0.9}) {
            same(
                {numbers(shape, 1)},
                [&](const auto& t) {
                    Pass pass = training();
                    return dropout(t[0], p, pass);
                },
                [&](const auto& t) {
                    Pass pass = training();
                    return composition::dropout(t[0], DropoutMask::of(p, pass));
                });
        }
    }
}

TEST_CASE("add, dropout and norm in one pass are the three one after the other") {
    for (const std::int64_t columns : {7, 96, 257, 768, 1030}) {
        for (const double p : {0.0, 0.3}) {
            const std::vector<torch::Tensor> inputs = {
                numbers({70, columns}, 1), numbers({70, columns}, 2), numbers({columns}, 3),
                numbers({columns}, 4)};
            same(
                inputs,
                [&](const auto& t) {
                    Pass pass = training();
                    return add_dropout_norm(t[0], t[1], p, t[2], t[3], 1e-5, pass);
                },
                [&](const auto& t) {
                    Pass pass = training();
                    return composition::add_dropout_norm(t[0], t[1], DropoutMask::of(p, pass), t[2],
                                                         t[3], 1e-5);
                });
        }
        same(
            {numbers({3, columns}, 1), numbers({columns}, 3), numbers({columns}, 4)},
            [&](const auto& t) {
                Pass pass;
                return add_dropout_norm(t[0], {}, 0, t[1], t[2], 1e-5, pass);
            },
            [&](const auto& t) { return at::layer_norm(t[0], {columns}, t[1], t[2], 1e-5); });
    }
}

TEST_CASE("attention is that of padded matrices for every mask, size and dropout") {
    struct Case {
        std::vector<std::int32_t> lengths;
        std::int64_t heads, size;
    };
    for (const Case& c : {Case{{1}, 1, 4}, Case{{5, 1, 3}, 2, 3}, Case{{50, 97, 0, 2}, 3, 32},
                          Case{{129, 48, 49}, 2, 64}, Case{{20, 33}, 1, 80}, Case{{}, 2, 8}}) {
        const Packed shape = packed(c.lengths);
        CAPTURE(shape.longest);
        const torch::Tensor qkv = numbers({shape.tokens(), 3 * c.heads * c.size}, 5);
        const std::int64_t longest = shape.longest;
        Mask per_sequence{Mask::Kind::dense,
                          numbers({shape.sequences(), longest, longest}, 8).gt(0.3)};
        Mask one{Mask::Kind::dense, numbers({longest, longest}, 9).gt(-0.5)};
        if (longest > 1) {
            one.dense.select(0, 1).fill_(false);  // a query that sees nothing
            per_sequence.dense.select(1, 0).fill_(false);
        }
        for (const Mask& mask : {Mask{}, Mask{Mask::Kind::causal, {}}, per_sequence, one}) {
            for (const double p : {0.0, 0.2}) {
                same(
                    {qkv},
                    [&](const auto& t) {
                        Pass pass = training();
                        return attention(t[0], shape, c.heads, p, mask, pass);
                    },
                    [&](const auto& t) {
                        Pass pass = training();
                        return composition::attention(t[0], shape, c.heads, mask,
                                                      DropoutMask::of(p, pass));
                    });
            }
        }
    }
}

TEST_CASE("a query that sees nothing yields zeros") {
    const Packed shape = lengths({4});
    const Mask mask{Mask::Kind::dense, at::zeros({4, 4}, at::kBool)};
    Pass pass;
    const torch::Tensor qkv = leaf(numbers({4, 12}, 1));
    const torch::Tensor out = attention(qkv, shape, 2, 0, mask, pass);
    out.sum().backward();
    CHECK(out.abs().sum().item<double>() == 0);
    CHECK(qkv.grad().abs().sum().item<double>() == 0);
    CHECK_THROWS_AS(attention(qkv, lengths({2, 2}), 2, 0, mask, pass), Failure);
}

TEST_CASE("cross entropy is ATen's, with labels left out and class weights") {
    for (const std::int64_t classes : {1, 2, 33, 1000}) {
        torch::Tensor labels = at::arange(37, at::kLong).remainder(classes);
        labels.narrow(0, 5, 3).fill_(-1);
        const torch::Tensor weights = numbers({classes}, 4).abs() + 0.1;
        for (const torch::Tensor& w : {torch::Tensor(), weights}) {
            std::int64_t ours = 0;
            std::int64_t theirs = 0;
            same(
                {numbers({37, classes}, 1) * 4},
                [&](const auto& t) {
                    const auto r = cross_entropy_sum(t[0], labels, w);
                    ours = r.correct;
                    return r.sum;
                },
                [&](const auto& t) {
                    const auto r = composition::cross_entropy_sum(t[0], labels, w);
                    theirs = r.correct;
                    return r.sum;
                });
            CHECK(ours >= theirs);  // in the one class of label -1, ATen's finds nothing either
        }
        same(
            {numbers({37, 16}, 1), numbers({classes, 16}, 2), numbers({classes}, 3)},
            [&](const auto& t) { return affine_cross_entropy(t[0], t[1], t[2], labels).sum; },
            [&](const auto& t) {
                return composition::cross_entropy_sum(at::linear(t[0], t[1], t[2]), labels, {}).sum;
            });
    }
    CHECK_THROWS_AS(cross_entropy_sum(at::zeros({1, 3}), at::full({1}, 3, at::kLong)), Failure);
    CHECK(cross_entropy_sum(at::zeros({0, 3}), at::zeros({0}, at::kLong)).sum.item<double>() == 0);
}

TEST_CASE("dropout drops p of the elements, in no pattern, whatever the number of threads") {
    const double p = 0.1;
    const std::int64_t n = 1 << 20;
    const auto kept = [&](std::uint64_t key) {
        Pass pass = training(key);
        return dropout(at::ones({n}), p, pass);
    };
    const torch::Tensor a = kept(1);
    CHECK(a.mean().item<double>() == doctest::Approx(1).epsilon(0.002));
    const torch::Tensor zeros = a.eq(0).to(at::kDouble);
    CHECK(zeros.mean().item<double>() == doctest::Approx(p).epsilon(0.02));
    for (const std::int64_t shift : {1, 2, 15, 16, 17, 31, 32, 64, 256, 768, 1024}) {
        const double both = (zeros.narrow(0, 0, n - shift) * zeros.narrow(0, shift, n - shift))
                                .mean()
                                .item<double>();
        CAPTURE(shift);
        CHECK(both == doctest::Approx(p * p).epsilon(0.06));
    }
    const torch::Tensor other = kept(2).eq(0).to(at::kDouble);
    CHECK((zeros * other).mean().item<double>() == doctest::Approx(p * p).epsilon(0.06));
    const int threads = at::get_num_threads();
    at::set_num_threads(1);
    const torch::Tensor alone = kept(1);
    at::set_num_threads(3);
    const torch::Tensor three = kept(1);
    at::set_num_threads(threads);
    CHECK(at::equal(a, alone));
    CHECK(at::equal(a, three));
    Pass pass = training();
    CHECK_THROWS_AS(dropout(a, 1.0, pass), Failure);
}

TEST_CASE("every instruction set gives the same results within rounding") {
    const Packed shape = lengths({70, 3, 33});
    const torch::Tensor x = numbers({106, 96}, 1) * 2;
    const torch::Tensor logsum = at::empty({106, 2});
    std::vector<torch::Tensor> results;
    for (const char* name : {"plain", "avx2", "avx512"}) {
        const VectorKernels* k = vector_kernels(name);
        if (k == nullptr) {
            continue;
        }
        CHECK(std::string(k->name) == name);
        const torch::Tensor all = at::zeros({4, 106, 96});
        k->gelu(x.const_data_ptr<float>(), all[0].data_ptr<float>(), x.numel());
        Keep keep;
        keep.threshold = 9000;
        k->dropout(x.const_data_ptr<float>(), all[1].data_ptr<float>(), keep, 0, x.numel());
        Attention a{};
        a.qkv = x.const_data_ptr<float>();
        a.offsets = shape.offsets.const_data_ptr<std::int64_t>();
        a.heads = 2;
        a.size = 16;
        a.longest = 70;
        a.factor = 0.25F;
        a.keep = keep;
        a.out = all[2].data_ptr<float>();
        a.logsum = logsum.data_ptr<float>();
        const AttentionBackward b{a, a.qkv, all[3].data_ptr<float>()};
        const torch::Tensor scratch = at::empty({k->attention_scratch(a, true)});
        for (std::int64_t i = 0; i < 6; ++i) {
            k->attention(a, scratch.data_ptr<float>(), i / 2, i % 2);
            k->attention_backward(b, scratch.data_ptr<float>(), i / 2, i % 2);
        }
        results.push_back(all);
    }
    for (const torch::Tensor& r : results) {
        CHECK(difference(r, results.front()) < 1e-5);
        CHECK(at::equal(r[1], results.front()[1]));
    }
}
