// SPDX-License-Identifier: Apache-2.0
// Figures of this folder, by hand:
//   OMP_NUM_THREADS=2 training_bench adamw           our step, LibTorch's fused one, in alternation
//   trainyard-agent launch --nproc-per-node 2 --no-python training_bench overlap
// adamw_bench.py is the Python side of the first.
#include "common/base/error.h"
#include "common/base/random.h"
#include "common/training/updater.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

using namespace alg;

namespace {

template <typename Call>
double milliseconds(const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
}

double median(std::vector<double> numbers) {
    std::sort(numbers.begin(), numbers.end());
    return numbers[numbers.size() / 2];
}

int variable(const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value ? std::atoi(value) : otherwise;
}

/// 48 million parameters in the shapes of a small BERT.
std::vector<Parameter> many() {
    std::vector<Parameter> result;
    const auto add = [&result](torch::IntArrayRef shape) {
        result.push_back({std::to_string(result.size()),
                          normal(shape, 0.02, result.size()).requires_grad_(true),
                          shape.size() > 1});
        result.back().value.mutable_grad() = normal(shape, 1e-3, 1000 + result.size());
    };
    add({18000, 768});
    for (int layer = 0; layer < 5; ++layer) {
        for (int i = 0; i < 4; ++i) {
            add({768, 768});
            add({768});
        }
        add({3072, 768});
        add({3072});
        add({768, 3072});
        add({768});
    }
    return result;
}

void bench_adamw() {
    const std::vector<Parameter> parameters = many();
    std::int64_t count = 0;
    for (const Parameter& parameter : parameters) {
        count += parameter.value.numel();
    }
    const auto optimizer = make_adamw(parameters, {});
    std::vector<torch::Tensor> values, gradients, m, v, steps;
    for (const Parameter& parameter : parameters) {
        values.push_back(parameter.value);
        gradients.push_back(parameter.value.grad());
        m.push_back(at::zeros(parameter.value.sizes()));
        v.push_back(at::zeros(parameter.value.sizes()));
        steps.push_back(at::full({}, 1.0F));
    }
    const auto group = make_group({}, torch::kCPU, std::chrono::seconds(1));
    const GradientBuckets buckets(parameters, *group);
    std::vector<double> ours, theirs, norm;
    for (int round = 0; round < 12; ++round) {
        ours.push_back(milliseconds([&] { optimizer->step(1e-4, 0.5); }));
        const torch::NoGradGuard no_grad;
        theirs.push_back(milliseconds([&] {
            at::_fused_adamw_(values, gradients, m, v, {}, steps, 1e-4, 0.9, 0.999, 0.01, 1e-8,
                              false, false);
        }));
        norm.push_back(milliseconds([&] { buckets.norm(); }));
    }
    fmt::print(
        "{} parameters, {} threads, median ms: our step {:.1f}, at::_fused_adamw_ {:.1f}, "
        "norm {:.1f}\n",
        count, at::get_num_threads(), median(ours), median(theirs), median(norm));
}

/// The matrix products of a 4-layer encoder of width 256 and of its vocabulary head.
struct Encoder : Module {
    std::vector<torch::Tensor> square, up, down;
    torch::Tensor& words;
    Encoder() : words(parameter("words", normal({18000, 256}, 0.02, 1))) {
        for (int layer = 0; layer < 4; ++layer) {
            for (int i = 0; i < 4; ++i) {
                square.push_back(parameter(format("square.{}.{}", layer, i),
                                           normal({256, 256}, 0.02, key_of(2, layer, i))));
            }
            up.push_back(parameter(format("up.{}", layer), normal({1024, 256}, 0.02, 3)));
            down.push_back(parameter(format("down.{}", layer), normal({256, 1024}, 0.02, 4)));
        }
    }
    torch::Tensor loss(const torch::Tensor& ids, const torch::Tensor& chosen) const {
        torch::Tensor x = at::embedding(words, ids);
        for (std::size_t layer = 0; layer < up.size(); ++layer) {
            for (std::size_t i = 0; i < 4; ++i) {
                x = x + at::linear(x, square[4 * layer + i]);
            }
            x = x + at::linear(at::relu(at::linear(x, up[layer])), down[layer]);
        }
        const torch::Tensor logits = at::linear(x.index_select(0, chosen), words);
        return at::cross_entropy_loss(logits, ids.index_select(0, chosen), {}, at::Reduction::Sum);
    }
};

void bench_overlap() {
    Place place;
    place.rank = variable("RANK", 0);
    place.world = variable("WORLD_SIZE", 1);
    place.local_world = variable("LOCAL_WORLD_SIZE", place.world);
    if (const char* address = std::getenv("MASTER_ADDR")) {
        place.master_address = address;
    }
    place.master_port = variable("MASTER_PORT", 29500);
    const auto group = make_group(place, torch::kCPU, std::chrono::seconds(60));
    const Encoder encoder;
    const auto parameters = encoder.parameters();
    const auto optimizer = make_adamw(parameters, {});
    Updater updater(parameters, *optimizer, constant_rate(1e-4), *group, {.clip_norm = 1});
    Random random(key_of(5, place.rank));
    torch::Tensor ids = at::empty({1024}, at::kLong), chosen = at::arange(0, 1024, 7);
    for (std::int64_t i = 0; i < ids.numel(); ++i) {
        ids[i].fill_(static_cast<std::int64_t>(random.below(18000)));
    }
    const std::vector<std::vector<double>> counts{{static_cast<double>(chosen.numel())}};
    std::vector<double> with, without, alone;
    for (int round = 0; round < 14; ++round) {
        updater.buckets().set_overlap(round % 2 == 0);
        (round % 2 == 0 ? with : without).push_back(milliseconds([&] {
            updater.begin(counts);
            updater.backward({{encoder.loss(ids, chosen)}});
            updater.finish();
        }));
        alone.push_back(milliseconds([&] { encoder.loss(ids, chosen).backward(); }));
        group->barrier();
    }
    if (place.rank == 0) {
        fmt::print(
            "{} parameters, {} ranks of {} threads, median ms per update: overlapped {:.1f}, "
            "not {:.1f}; forward and backward alone {:.1f}\n",
            encoder.parameter_count(), place.world, at::get_num_threads(), median(with),
            median(without), median(alone));
    }
}

}  // namespace

int main(int argc, char** argv) {
    at::set_num_threads(variable("OMP_NUM_THREADS", 1));
    try {
        argc > 1 && std::string(argv[1]) == "overlap" ? bench_overlap() : bench_adamw();
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
    return 0;
}
