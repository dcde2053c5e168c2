// SPDX-License-Identifier: Apache-2.0
// What a StateKeeper consists of; for state.cc (saving) and state_resume.cc (resuming).
#pragma once

#include "common/training/state.h"
#include "common/training/state_copy.h"
#include "common/training/state_files.h"

#include <condition_variable>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

namespace alg {

struct StateKeeper::Impl {
    enum class Stage { idle, copying, writing };

    Impl(StateOptions given, std::vector<Parameter> parameters, Optimizer& optimizer_);

    // Constant.
    StateOptions options;
    std::vector<Parameter> model;
    Optimizer& optimizer;
    bool prepare = false;  ///< memory for copies right from the start

    StateCopy copy;  ///< synchronises itself

    // The training thread's.
    bool wanted = false;   ///< a save is due and has not begun
    bool copying = false;  ///< parameters may not change yet
    std::int64_t last_update = 0;
    std::chrono::steady_clock::time_point last_start;

    // Of whoever writes: the training thread while idle, else the writer.
    std::set<fs::path> damaged;

    // Under the mutex.
    mutable std::mutex mutex;
    std::condition_variable_any changed;
    Stage stage = Stage::idle;
    Position job;
    std::int64_t job_steps = 0;
    std::optional<Position> saved;  ///< the last one on disk
    Report report;

    // Last, so that they are joined first: the copier, then the writer, which still writes what was
    // copied.
    std::jthread writer, copier;

    void run_copier(const std::stop_token& stop);
    void run_writer(const std::stop_token& stop);
    void write(const Position& position, std::int64_t steps);
    void start(const Position& position);
    bool is_idle();
    void wait_until_idle();
    bool is_due(const Position& position) const;
    void answer_launcher(const Position& position);
    void save_now(const Position& position);

    /// Into model and optimiser. Throws Failure when it does not fit.
    void load(const State& state, const fs::path& file);
    std::optional<Position> resume();
};

}  // namespace alg
