// SPDX-License-Identifier: Apache-2.0
// deps: ty_telemetry
// Metric definitions over log lines: the tap's inner loop on blocks as the store hands them out.
// The peer is metric_rate.py, same lines, same definitions. Prints one line of JSON.
#include "telemetry/telemetry.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace ty;
using namespace ty::telemetry;

namespace {

/// As in metric_rate.py.
std::string line(std::uint64_t n) {
    const std::uint64_t x = n * 2654435761u % 4294967296u;
    const std::uint64_t kind = n % 20;
    const std::string stamp =
        fmt::format("2026-01-31 12:{:02d}:{:02d},{:03d}", n / 60 % 60, n % 60, x % 1000);
    if (kind == 0)
        return fmt::format(
            "{} INFO trainer.py:217 epoch {} step {} Train Loss: 0.{:04d} eta 0:12:{:02d}", stamp,
            n / 1000, n, x % 10000, x % 60);
    if (kind == 7)
        return fmt::format("[valid] {} epoch {} loss: 1.{:03d}, acc: 0.{:03d} on 5000 samples",
                           stamp, n / 1000, x % 1000, x % 997);
    if (kind == 13)
        return fmt::format(
            "{} current learning_rate:{}e-05, ppl: {}.5, step: {}, speed: 3.{} steps/s", stamp,
            1 + x % 9, x % 50, n, x % 10);
    if (kind % 3 == 0)
        return fmt::format(
            "{} INFO data.py:88 reader: file part-{:05d}.gz, {} lines, queue {} of 32 full", stamp,
            x % 4096, x % 9973, x % 32);
    if (kind % 3 == 1)
        return fmt::format(
            "algo-1:{}:{} [0] NCCL INFO Channel {:02d} : 0[0] -> 1[1] via P2P/direct pointer",
            x % 30000, n, x % 16);
    return fmt::format("  {}%|####      | {}/100000 [00:{:02d}<01:{:02d}, {}.31it/s]", x % 100, n,
                       x % 60, n % 60, x % 90);
}

struct Block {
    std::string text;
    LogBlock view;
};

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 400'000;
    std::vector<std::unique_ptr<Block>> blocks;
    for (std::uint64_t n = 0; n < count; ++n) {
        if (blocks.empty() || blocks.back()->text.size() >= 65536 ||
            blocks.back()->view.lines.size() >= 1024) {
            blocks.push_back(std::make_unique<Block>());
            blocks.back()->view.first = n;
        }
        Block& block = *blocks.back();
        const std::string text = line(n);
        block.view.lines.push_back({.time = {},
                                    .offset = std::uint32_t(block.text.size()),
                                    .length = std::uint32_t(text.size())});
        block.text += text + "\n";
    }
    for (auto& block : blocks) block->view.text = block->text;
    const std::vector<MetricDefinition> definitions = {
        {"train_loss", R"(Train Loss: ([0-9\.]+))"},
        {"loss", R"(loss: ([0-9.]+), acc: ([0-9.]+))"},
        {"acc", R"(acc: ([0-9.]+))"},
        {"rate", R"(current learning_rate:([0-9\.]+e?-?[0-9]*))"},
        {"throughput", R"(throughput=([0-9.]+) samples/sec)"}};
    const LineMatcher matcher(definitions);
    double best = 0;
    std::uint64_t points = 0;
    double total = 0;
    for (int round = 0; round < 5; ++round) {
        points = 0;
        const Monotonic start = SystemClock().monotonic();
        for (const auto& block : blocks)
            matcher.match_block(block->view, [&](std::size_t, std::size_t, double value) {
                ++points;
                total += value;
            });
        const std::chrono::duration<double> took = SystemClock().monotonic() - start;
        best = std::max(best, double(count) / took.count());
    }
    std::printf(
        "{\"bench\":\"metric_rate\",\"lines\":%llu,\"points\":%llu,\"lines_per_second\":%.0f,"
        "\"sum\":%.6g}\n",
        static_cast<unsigned long long>(count), static_cast<unsigned long long>(points), best,
        total);
    return 0;
}
