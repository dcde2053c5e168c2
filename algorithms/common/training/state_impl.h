// SPDX-License-Identifier: Apache-2.0
// What a StateKeeper consists of; for state.cc (saving) and state_resume.cc (resuming).
#pragma once

#include "common/training/state.h"
#include "common/training/state_copy.h"
#include "common/training/state_files.h"

#include <atomic>
#include <semaphore>
#include <set>
#include <stop_token>
#include <thread>

namespace alg {

struct StateKeeper::Impl {
    enum class Stage { unprepared, preparing, idle, copying, writing };

    Impl(StateOptions given, std::vector<Parameter> parameters, Optimizer& optimizer_);
    ~Impl();

    // Constant.
    StateOptions options;
    std::vector<Parameter> model;
    Optimizer& optimizer;

    StateCopy copy;  ///< synchronises itself

    // The training thread's.
    bool wanted = false;   ///< a save is due and has not begun
    bool copying = false;  ///< parameters may not change yet
    std::int64_t last_update = 0;
    std::chrono::steady_clock::time_point last_start;

    // Of the training thread, except while the stage is copying or writing: then of the writer.
    std::set<fs::path> damaged;
    std::optional<Position> saved;  ///< the last one on disk
    Position job;
    std::int64_t job_steps = 0;
    double waited = 0, longest = 0;

    // No mutex is shared with the writer: it would hold it while others have the processor, and
    // training would wait.
    std::atomic<int> status = 0;  ///< stage, and in the bits above it the number of the round
    std::atomic<std::int64_t> written = 0, failed = 0, newest = -1;
    std::stop_source stop;
    std::counting_semaphore<> to_copy{0}, to_write{0};

    std::jthread writer;
    std::vector<std::jthread> copiers;

    void run_copier();
    void run_writer();
    static constexpr int kRound = 8;
    Stage stage() const { return static_cast<Stage>(status.load() % kRound); }
    void set_stage(Stage next);  ///< of the same round
    void prepare();
    void write_job();
    void write(const Position& position, std::int64_t steps);
    void start_if_idle(const Position& position);
    void wait_until_idle();
    bool is_due(const Position& position) const;
    void answer_launcher(const Position& position);
    void save_now(const Position& position);
    void count_failure(const Position& position, const char* problem);

    /// Into model and optimiser. Throws Failure when it does not fit.
    void load(const State& state, const fs::path& file);
    std::optional<Position> resume();
};

}  // namespace alg
