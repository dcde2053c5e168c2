// SPDX-License-Identifier: Apache-2.0
// The job's checkpoint folder within a node's life: where it lies and what the program calls it,
// when it is restored, watched and flushed, and what is said about it.
#pragma once

#include "agent/checkpoint/checkpoint.h"
#include "agent/node_context.h"
#include "agent/runner.h"

#include <memory>
#include <string>

namespace ty::agent {

class CheckpointKeeper {
public:
    /// Binds the folder at plan.checkpoint->local_path for every later run. Throws invalid when
    /// nothing can be written at that place, or the storage's address makes no sense.
    CheckpointKeeper(const NodeContext& node, Runner& runner);

    /// What the program calls the folder.
    const std::string& program_path() const { return program_path_; }

    /// While Downloading. Throws what CheckpointSync::restore() throws.
    void restore();
    void start() { sync_->start(); }
    void brace() { sync_->brace(); }
    /// The program is gone: what it left goes to storage before anything else is done. A failure is
    /// said in the log; what was committed before stays.
    void finish();

    /// Of an elastic job's launcher, from the hook's thread.
    void settle(std::int64_t generation);
    void refresh(std::int64_t generation);

private:
    Deadline patience() const;
    void say_restored(const CheckpointSync::Restored& restored) const;

    const NodeContext& node_;
    std::string program_path_;
    std::unique_ptr<CheckpointSync> sync_;
};

}  // namespace ty::agent
