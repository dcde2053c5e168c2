// SPDX-License-Identifier: Apache-2.0
// One training state: model, optimiser, schedule, data position, counters. Saved atomically off the
// training path, the newest valid one resumed.
#pragma once

#include "common/files/tensors.h"
#include "common/training/module.h"
#include "common/training/optimizer.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace alg {

/// Where training stands besides tensors. Everything random is a function of seed and position.
struct Position {
    std::int64_t update = 0;  ///< attempted updates in all
    std::int64_t epoch = 0;
    std::int64_t update_in_epoch = 0;  ///< next one to do
    std::int64_t samples = 0;          ///< seen in all
    int world = 1, accumulate = 1;     ///< of the plan the position is counted in
    std::int64_t skipped = 0;
    std::uint64_t seed = 1;
    std::vector<double> loss_scale;
    std::map<std::string, double> numbers;     ///< best accuracy, meters
    std::map<std::string, std::string> texts;  ///< "program", fingerprint of data and configuration
};

struct StateOptions {
    fs::path folder;                 ///< files state-<update>.pt
    std::int64_t every_updates = 0;  ///< 0: only when asked
    double every_seconds = 0;
    int keep = 3;
    bool writer = true;  ///< rank 0; other ranks only read
};

/// Saving: copies are taken on a thread of its own while the next forward and backward run
/// (parameters only change in Optimizer::step()), so training waits only in before_step(), and only
/// when the copy is not complete by then. Files are {"model": {…}, "optimizer": {…}, "position":
/// {…}} for torch.load.
class StateKeeper {
public:
    StateKeeper(StateOptions options, std::vector<Parameter> model, Optimizer& optimizer);
    /// Waits for a save that is being written.
    ~StateKeeper();

    /// Loads the newest file that is whole and fits into model and optimiser (in place) and returns
    /// its position; torn or foreign files are named in a warning and passed over. nullopt: none. A
    /// state of another shape or program throws Failure with the remedy. Removes temporary files of
    /// killed writers.
    std::optional<Position> resume();

    /// After every update: starts a save when it is due or was asked for (SIGUSR1, or request()).
    /// While one is being written the next due save waits for its turn, training does not.
    void after_update(const Position& position);
    /// Blocks until parameters may change. Pass to Updater::finish().
    void before_step();
    /// Save now and wait until it is on disk. Throws Failure when it cannot be written (training
    /// must know at the end).
    void save_now(const Position& position);
    /// A save on the next after_update(), from any thread or a signal handler.
    static void request() noexcept;

    /// Seconds training has waited for saves, the longest single wait, saves written and failed (a
    /// full disk during training: counted and warned, training goes on, nothing half-written
    /// stays).
    struct Report {
        double waited = 0, longest = 0;
        std::int64_t written = 0, failed = 0;
    };
    Report report() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Handles SIGTERM (stop after this update, save, exit 143) and SIGUSR1 (save). Call once in
/// main().
void watch_signals();
bool stop_requested() noexcept;

}  // namespace alg
