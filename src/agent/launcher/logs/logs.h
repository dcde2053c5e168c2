// SPDX-License-Identifier: Apache-2.0
// Where workers' standard streams go: torchrun's folders, redirects, tee, filters and prefixes.
//
// A redirected or teed stream is a plain file that the worker writes itself: nothing is lost when a
// worker or the launcher is killed, and a slow console never holds up training. Tee reads the file
// behind the writer (drain()). Used by the launcher's one thread.
#pragma once

#include "agent/launcher/options/options.h"
#include "sys/sys.h"

#include <memory>
#include <string>
#include <vector>

namespace ty::agent {

class LaunchLogs {
public:
    /// Folder layout: <log_dir>/<rdzv_id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,
    /// error.json}; made when first needed. Throws when it cannot be written.
    explicit LaunchLogs(const LaunchOptions& options);
    ~LaunchLogs();

    /// Open the streams of one generation. `attempt` is the folder's number; folders are never
    /// deleted or reused. `first_rank`, `host` feed prefix templates.
    void begin(int attempt, int first_rank, const std::string& host);

    /// Descriptor for the worker's stream, or -1: inherit ours.
    int stdout_fd(int local_rank) const;
    int stderr_fd(int local_rank) const;
    /// "" when the log folder is /dev/null.
    sys::fs::path error_file(int local_rank) const;
    /// "" when stderr is not in a file.
    sys::fs::path stderr_path(int local_rank) const;
    /// <log_dir>/<rdzv_id>_<random>, made if need be; empty when the log folder is /dev/null.
    sys::fs::path run_folder() const;

    /// Copy what teed files have gained to the console; call every few milliseconds while workers
    /// run (tick() of the launcher) and with `last` once they are gone: then partial lines go too.
    /// Returns true when something was copied.
    /// Never blocks on a slow console for longer than a moment; what is left comes with later
    /// calls.
    bool drain(bool last);
    /// Before the last words of the launcher: everything out, for as long as the console takes it.
    void flush();
    bool has_tee() const;
    /// Bytes written so far by a worker where that can be seen (files); -1 otherwise. Progress.
    long long bytes_written(int local_rank) const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace ty::agent
