// SPDX-License-Identifier: Apache-2.0
// Measures what saving costs training: state_pause FOLDER MILLIONS MILLISECONDS UPDATES EVERY
// trains a made-up model of so many million parameters with AdamW; each update computes for about
// so many milliseconds on all threads (matrix products) and every EVERY-th is saved.
#include "common/base/log.h"
#include "common/training/optimizer.h"
#include "common/training/state.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

using namespace alg;

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

struct Layers : Module {
    explicit Layers(std::int64_t count) {
        constexpr std::int64_t kWidth = 768;
        const std::int64_t each = kWidth * kWidth * 4;
        for (std::int64_t i = 0; count > 0; ++i, count -= each) {
            at::Tensor weight = at::full({std::min(each, count)}, 0.01, at::kFloat);
            parameter(format("layer.{}.weight", i), weight).mutable_grad() = weight.clone();
        }
    }
};

/// So many matrix products as take the given time alone.
int calibrate(const at::Tensor& a, double seconds) {
    at::mm(a, a);
    double best = 1;
    for (int i = 0; i < 20; ++i) {
        const double start = now();
        at::mm(a, a);
        best = std::min(best, now() - start);
    }
    return std::max(1, static_cast<int>(seconds / best));
}

struct Times {
    std::vector<double> quiet, saving;  ///< whole updates: without, and with a save under way
    double begin = 0;                   ///< longest after_update()
};

Times train(StateKeeper& keeper, Optimizer& optimizer, double seconds, int updates) {
    const at::Tensor a = at::full({768, 768}, 0.001, at::kFloat);
    const int products = calibrate(a, seconds);
    Times times;
    Position position;
    keeper.save_now(position);  // the memory for copies is there from now on
    for (int i = 0; i < updates; ++i) {
        const bool quiet = !keeper.is_saving();
        const double start = now();
        for (int k = 0; k < products; ++k) at::mm(a, a);
        keeper.before_step();
        optimizer.step(1e-4, 1);
        ++position.update;
        const double end = now();
        keeper.after_update(position);
        times.begin = std::max(times.begin, now() - end);
        (quiet ? times.quiet : times.saving).push_back(now() - start);
    }
    return times;
}

double middle(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        say("usage: state_pause FOLDER MILLIONS MILLISECONDS UPDATES EVERY");
        return 2;
    }
    const c10::NoGradGuard no_grad;
    Layers model(std::atoll(argv[2]) * 1'000'000);
    const auto optimizer = make_adamw(model.parameters(), {});
    StateKeeper keeper({.folder = argv[1], .every_updates = std::atoll(argv[5]), .keep = 1},
                       model.parameters(), *optimizer);
    const Times times = train(keeper, *optimizer, std::atof(argv[3]) / 1000, std::atoi(argv[4]));
    while (keeper.is_saving()) std::this_thread::yield();
    const auto report = keeper.report();
    say("{} M parameters, {} threads, {} saves: longest wait {:.1f} ms, all waits {:.1f} ms, "
        "longest "
        "after_update {:.2f} ms; update {:.0f} ms (slowest {:.0f}), with a save under way {:.0f} "
        "ms "
        "(slowest {:.0f})",
        argv[2], at::get_num_threads(), report.written, report.longest * 1000, report.waited * 1000,
        times.begin * 1000, middle(times.quiet) * 1000,
        times.quiet.empty() ? 0 : 1000 * *std::max_element(times.quiet.begin(), times.quiet.end()),
        middle(times.saving) * 1000,
        times.saving.empty() ? 0
                             : 1000 * *std::max_element(times.saving.begin(), times.saving.end()));
    return 0;
}
