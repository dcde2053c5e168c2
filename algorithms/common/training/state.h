// SPDX-License-Identifier: Apache-2.0
// One training state: model, optimiser, schedule, data position, counters. Saved atomically off the
// training path, the newest valid one resumed.
#pragma once

#include "common/files/tensors.h"
#include "common/training/module.h"
#include "common/training/optimizer.h"
#include "common/training/signals.h"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace alg {

class Group;

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

    bool operator==(const Position&) const = default;
};

struct StateOptions {
    fs::path folder;                 ///< files state-<update>.pt
    std::int64_t every_updates = 0;  ///< 0: only when asked
    double every_seconds = 0;
    int keep = 3;        ///< newest files that stay
    bool writer = true;  ///< rank 0; other ranks only read
    /// Texts a file's position must have to be resumed, such as {"program", "masked-lm"}.
    std::map<std::string, std::string> must_match;
    /// The launcher's way of asking: the file appears; a save is made at once, it is removed when
    /// that is durable, and the launcher is given `leave_within` to end this process before another
    /// update is made. Empty: what TRAINYARD_CHECKPOINT_REQUEST names, if it is set.
    fs::path request_file;
    std::chrono::milliseconds leave_within{10'000};
};

/// Saving: copies are taken on a thread of its own while the next forward and backward run
/// (parameters only change in Optimizer::step()), so training waits only in before_step(), and only
/// when the copy is not complete by then. Files are {"model": {…}, "optimizer": {…}, "position":
/// {…}} for torch.load. All functions but request() are the training thread's.
class StateKeeper {
public:
    StateKeeper(StateOptions options, std::vector<Parameter> model, Optimizer& optimizer);
    /// Waits for a save that is being written.
    ~StateKeeper();
    StateKeeper(const StateKeeper&) = delete;
    StateKeeper& operator=(const StateKeeper&) = delete;

    /// Loads the newest file that is whole and fits into model and optimiser (in place) and returns
    /// its position; torn or foreign files are named in a warning and passed over. nullopt: none. A
    /// state of another shape or program throws Failure with the remedy. Removes temporary files of
    /// killed writers.
    std::optional<Position> resume();
    /// The same for all ranks of a group together, each calling it: the newest state that any of
    /// them has in its folder (shared or not) is what all get, over the network from the first rank
    /// that has it. Nothing is sent when nobody has one. Fails on all ranks when it fails on one.
    std::optional<Position> resume(Group& group);

    /// After every update: starts a save when it is due or was asked for (SIGUSR1, or request()).
    /// While one is being written the next due save waits for its turn, training does not.
    void after_update(const Position& position);
    /// Blocks until parameters may change. Pass to Updater::finish().
    void before_step();
    /// Save now and wait until it is on disk. Throws Failure when it cannot be written (training
    /// must know at the end).
    void save_now(const Position& position);
    /// A save is being copied or written.
    bool is_saving() const;
    /// A save on the next after_update(), from any thread or a signal handler.
    static void request() noexcept;

    /// Seconds training has waited for saves, the longest single wait, saves written and failed (a
    /// full disk during training: counted and warned, training goes on, nothing half-written
    /// stays).
    struct Report {
        double waited = 0, longest = 0;
        std::int64_t written = 0, failed = 0;
        std::int64_t newest = -1;  ///< update of the newest state known to be on disk
    };
    Report report() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace alg
