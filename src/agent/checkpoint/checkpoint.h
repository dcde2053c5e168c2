// SPDX-License-Identifier: Apache-2.0
// The checkpoint folder of one node, kept in step with object storage: restored before the program
// starts, uploaded while it runs. Only complete checkpoints come back: bytes first, manifest last.
//
//     CheckpointSync sync({…}, clock);
//     sync.restore(by, stop);                 while Downloading
//     sync.start();                           program starts
//       elastic: sync.refresh(generation, by, stop);   before the workers of each generation
//                sync.settle(generation, by, stop);    when they are gone
//     sync.brace();                           right before the program is killed
//     sync.flush(by, stop);                   when it is gone
//
// Works on threads of its own at low priority; locks nothing of the program's and reads its files
// in place. All functions may be called from any thread, one at a time.
#pragma once

#include "agent/transfer/download.h"
#include "base/time.h"
#include "plan/plan.h"
#include "sys/fd.h"

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

namespace ty::agent {

struct CheckpointOptions {
    plan::Checkpoint checkpoint;
    sys::fs::path folder;   ///< LocalPath on the host; made when missing
    sys::fs::path staging;  ///< ours alone, in the same file system, not where the program sees it;
                            ///< empty: `folder` + ".staging"
    std::string job;        ///< name
    std::string job_id;     ///< tells jobs of one name apart; empty: the name
    std::string node;       ///< "algo-1", "algo-2~3"
    int attempt = 1;        ///< of the job
    bool elastic = false;   ///< refresh() names generations
    bool alone = true;      ///< no other node writes in this attempt
    std::string region = "us-east-1";
    MakeClient make_client;                ///< the job's own storage
    std::function<void(std::string)> say;  ///< a line for the job's log; any thread
    std::function<void(const plan::CheckpointCommitted&)> on_commit;  ///< our thread, or flush's
    std::function<void(const plan::CheckpointRestored&)> on_restore;  ///< caller's thread
    milliseconds quiet{200};         ///< nothing changed for so long: the folder is whole
    milliseconds patience{5'000};    ///< then what is still being written is left out
    milliseconds scan_every{1'000};  ///< where the kernel cannot tell of changes
    bool watch = true;               ///< false: as if inotify were missing
};

class CheckpointSync {
public:
    /// Throws invalid or unsupported naming S3Uri or endpoint (https, gs:// without endpoint).
    CheckpointSync(CheckpointOptions options, Clock& clock);
    /// Stops without a last checkpoint: flush() first.
    ~CheckpointSync();
    CheckpointSync(const CheckpointSync&) = delete;
    CheckpointSync& operator=(const CheckpointSync&) = delete;

    struct Restored {
        bool found = false;       ///< false: nothing in storage, the folder is as it was
        std::string id;           ///< empty: files without a manifest (plain copy of the prefix)
        std::uint64_t bytes = 0;  ///< of all files
        std::uint64_t downloaded = 0;  ///< of those that were not here already
        int files = 0;
        int skipped = 0;  ///< newer checkpoints that were torn or corrupt
    };
    /// Bring the newest complete checkpoint (or checkpoint.resume) here. Blocks. Throws not_found
    /// or corrupt when resume is not there or not valid, exhausted (disk full), denied,
    /// unavailable, timed_out, cancelled; the folder then holds no half files.
    Restored restore(Deadline by, const std::stop_token& stop);

    /// Watch and upload from now on. After restore().
    void start();

    /// The program is about to be killed: what is open for writing now is torn, and is not taken
    /// until it is written again. Does not block.
    void brace();

    /// Commit what is whole now, without waiting for quiet. Returns when it is in storage, or there
    /// was nothing new. Throws timed_out, unavailable, denied, cancelled. Also without start().
    void flush(Deadline by, const std::stop_token& stop);

    /// The workers of a generation are gone: flush, and take nothing more until refresh().
    void settle(std::int64_t generation, Deadline by, const std::stop_token& stop);
    /// A generation is about to start: the folder becomes the newest complete checkpoint of all
    /// nodes before it; files already here are not fetched again. Then watches on.
    Restored refresh(std::int64_t generation, Deadline by, const std::stop_token& stop);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ty::agent
