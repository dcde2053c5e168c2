// SPDX-License-Identifier: Apache-2.0
// "Checkpoint now": asks the workers, and sees a new complete checkpoint appear.
//
// Asking: the file TRAINYARD_CHECKPOINT_REQUEST names (in the worker's environment) appears with
// the generation and the deadline as JSON, and rank leaders that catch --checkpoint-signal get it.
// Evidence: a file renamed into or closed after writing in the checkpoint folder (any depth, new or
// changed since the question), whose name does not look temporary (leading dot, .tmp, .part,
// .incomplete), and a quiet moment after a plain close; or the request file gone, which a script
// does to say "saved". Used by the launcher's one thread.
#pragma once

#include "sys/sys.h"

#include <functional>
#include <memory>
#include <string>

namespace ty::agent {

class CheckpointWatch {
public:
    enum class Mode { automatic, polling };  ///< polling: as where inotify is not to be had

    /// `folder` may be empty (then only the request file counts) and need not exist yet.
    CheckpointWatch(sys::Poller& poller, sys::fs::path folder, sys::fs::path request_file,
                    Mode mode = Mode::automatic);
    ~CheckpointWatch();

    /// Write the request file and call `on_evidence` once with what was seen ("/ckpt/epoch_3.pt").
    /// `can_rename` evidence counts at once; a file closed after plain writing counts after `quiet`
    /// without further change. Both wait while another file that was made since the question is
    /// still being written. Before the call the request file is removed and the watch ends.
    void ask(std::int64_t generation, milliseconds deadline, const std::string& why,
             std::function<void(const std::string&)> on_evidence);
    void cancel();  ///< remove the request file, stop watching
    bool asking() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ty::agent
