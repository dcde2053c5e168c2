// SPDX-License-Identifier: Apache-2.0
// What a failed worker leaves behind: its error file, the typed cause, and torchrun's summary.
#pragma once

#include "base/time.h"
#include "rendezvous/rendezvous.h"
#include "sys/sys.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

/// TORCHELASTIC_ERROR_FILE as @record writes it: "message" is an object. Other tools write a text.
struct ErrorFile {
    std::string message;                 ///< "RuntimeError: boom"
    std::string traceback;               ///< extraInfo.py_callstack, may be empty
    bool plain = false;                  ///< "message" was a text
    std::optional<long long> timestamp;  ///< epoch seconds
    std::string raw;                     ///< the document as found
};
/// nullopt when absent, empty or not JSON. Reads at most 1 MiB.
std::optional<ErrorFile> read_error_file(const sys::fs::path& path);

/// One worker that ended other than well, as the summary shows it.
struct WorkerFailure {
    int local_rank = 0, rank = 0;
    long pid = 0;
    sys::Exit exit;
    Instant when;  ///< error file's timestamp, else when its end was seen
    sys::fs::path error_file_path;
    std::optional<ErrorFile> error_file;
};

/// The text torchrun 2.13 prints to stderr as ChildFailedError, byte for byte from the exception's
/// name on: bar, "<entrypoint> FAILED", failures, root cause. `failures` by time; the first is the
/// root cause. Ends with a line feed; empty without failures.
std::string failure_summary(const std::string& entrypoint, const std::string& host,
                            const std::vector<WorkerFailure>& failures);

/// The host name in torchrun's summary: with its domain where the resolver knows one. May wait for
/// the resolver; the plain name when there is none.
std::string full_host_name();

/// What classify() may look at besides the exit itself.
struct Circumstances {
    long long oom_kills_before = -1, oom_kills_after = -1;
    std::string stderr_tail;     ///< last lines, when they went to a file
    bool port_is_taken = false;  ///< somebody else listens on MASTER_PORT
    bool young = false;          ///< ended within seconds of its start
    std::string host;
};
rendezvous::Failure classify(const WorkerFailure& failure, const Circumstances& circumstances);

/// The launcher's own TORCHELASTIC_ERROR_FILE gets the root cause's document with
/// message.errorCode added, as torchrun does; a plain one is made when the worker left none.
void write_reply_file(const sys::fs::path& path, const WorkerFailure& root);

}  // namespace ty::agent
