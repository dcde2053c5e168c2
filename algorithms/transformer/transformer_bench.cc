// SPDX-License-Identifier: Apache-2.0
// Milliseconds of one training step's forward and backward pass for the shapes that matter:
// transformer_bench [shape…]. Processor time with one thread: OMP_NUM_THREADS=1.
#include "common/base/random.h"
#include "transformer/encoder.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

using namespace alg;

namespace {

struct Shape {
    const char* name;
    std::int64_t layers, hidden, heads, vocabulary;
    std::int32_t sequences, shortest, longest;
    std::int64_t masked;  // rows of the vocabulary head; 0: classification
    Activation activation;
};

constexpr Shape kShapes[] = {
    {"ernie-4x256", 4, 256, 4, 18000, 32, 1, 255, 600, Activation::relu},
    {"bert-2x128", 2, 128, 2, 20000, 64, 128, 128, 0, Activation::gelu},
    {"bert-2x128-short", 2, 128, 2, 20000, 64, 6, 22, 0, Activation::gelu},
    {"bert-12x768", 12, 768, 12, 20000, 8, 128, 128, 0, Activation::gelu},
};

double milliseconds(const Shape& shape, int repeats) {
    EncoderConfig config;
    config.layers = shape.layers;
    config.hidden = shape.hidden;
    config.heads = shape.heads;
    config.intermediate = 4 * shape.hidden;
    config.vocabulary = shape.vocabulary;
    config.activation = shape.activation;
    const Encoder encoder(config, 1);
    const Pooler pooler(config.hidden, 0.02, 2);
    const MaskedLmHead lm(config, encoder.word_embedding(), 3);
    const LinearHead head(config.hidden, 2, 0.02, 4);
    std::vector<std::int32_t> lengths;
    for (std::int32_t i = 0; i < shape.sequences; ++i) {
        lengths.push_back(shape.shortest +
                          (shape.longest - shape.shortest) * i / std::max(1, shape.sequences - 1));
    }
    EncoderInput input;
    input.shape = packed(lengths);
    const std::int64_t tokens = input.shape.tokens();
    input.tokens = at::arange(tokens).mul(7919).remainder(config.vocabulary);
    input.types = at::zeros({tokens}, at::kLong);
    input.positions = at::arange(tokens).remainder(config.positions);
    std::vector<double> times;
    for (int i = 0; i < repeats + 2; ++i) {
        Pass pass{true, key_of(5, i)};
        const std::clock_t start = std::clock();
        const torch::Tensor encoded = encoder.forward(input, pass);
        const torch::Tensor pooled = pooler.forward(encoded, input.shape);
        torch::Tensor loss =
            cross_entropy_sum(head.forward(pooled), at::zeros({shape.sequences}, at::kLong)).sum;
        if (shape.masked > 0) {
            const torch::Tensor places = at::arange(shape.masked).mul(tokens / shape.masked);
            loss =
                loss +
                lm.loss(encoded.index_select(0, places), input.tokens.index_select(0, places)).sum;
        }
        loss.backward();
        const double took = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        for (const Module* module :
             std::initializer_list<const Module*>{&encoder, &pooler, &lm, &head}) {
            for (const Parameter& p : module->parameters()) {
                torch::Tensor value = p.value;
                if (value.grad().defined()) {
                    value.mutable_grad().zero_();
                }
            }
        }
        if (i >= 2) {
            times.push_back(took);
        }
    }
    std::sort(times.begin(), times.end());
    std::printf("%-18s %6lld tokens  median %8.2f ms  best %8.2f ms of processor time\n",
                shape.name, static_cast<long long>(tokens), times[times.size() / 2], times.front());
    return times.front();
}

}  // namespace

int main(int argc, char** argv) {
    if (std::getenv("KEEP_MEMORY") != nullptr) {
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
    }
    for (const Shape& shape : kShapes) {
        const bool wanted = argc < 2 || std::any_of(argv + 1, argv + argc, [&](const char* name) {
                                return std::strcmp(name, shape.name) == 0;
                            });
        if (wanted) {
            milliseconds(shape, shape.layers > 4 ? 3 : 7);
        }
    }
    return 0;
}
