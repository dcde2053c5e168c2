// SPDX-License-Identifier: Apache-2.0
// Error files of workers, and the cause told from what a worker left behind.
#include "agent/launcher/logs/failure.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

#include <csignal>

namespace ty::agent {

namespace {

constexpr Bytes kErrorFileLimit(1u << 20);
constexpr std::size_t kMessageLimit = 1000;  // code points; a rendezvous message has room for 4 KiB

/// int(x) of Python for what tools write: a number or digits as text.
std::optional<long long> epoch(const Json& value) {
    if (value.is_number_integer()) return value.get<long long>();
    if (value.is_number_float()) {
        const double number = value.get<double>();
        if (number > 0 && number < 1e12) return static_cast<long long>(number);
    }
    if (value.is_string()) return parse_int(trim(value.get<std::string>()));
    return std::nullopt;
}

std::string text_member(const Json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<ErrorFile> parse_error_file(std::string raw) {
    const Json document = parse_json(raw);
    if (!document.is_object() || !document.contains("message")) return std::nullopt;
    ErrorFile file;
    const Json& message = document["message"];
    if (message.is_string()) {
        file.plain = true;
        file.message = message.get<std::string>();
        if (document.contains("timestamp")) file.timestamp = epoch(document["timestamp"]);
    } else if (message.is_object()) {
        file.message = text_member(message, "message");
        if (const auto extra = message.find("extraInfo");
            extra != message.end() && extra->is_object()) {
            file.traceback = text_member(*extra, "py_callstack");
            if (extra->contains("timestamp")) file.timestamp = epoch((*extra)["timestamp"]);
        }
    } else {
        return std::nullopt;
    }
    file.raw = std::move(raw);
    return file;
}

bool contains_any(const std::string& text, std::span<const std::string_view> needles) {
    return std::any_of(needles.begin(), needles.end(),
                       [&text](std::string_view needle) { return text.find(needle) != text.npos; });
}

constexpr auto kDiskFull = std::to_array<std::string_view>(
    {"No space left on device", "ENOSPC", "Disk quota exceeded", "EDQUOT"});
constexpr auto kPortTaken = std::to_array<std::string_view>(
    {"EADDRINUSE", "Address already in use", "address already in use"});
// What a healthy rank reports when another one has died: gloo, NCCL, the stores, MPI.
constexpr auto kEcho = std::to_array<std::string_view>(
    {"Connection reset by peer", "Connection closed by peer", "Connection closed", "Broken pipe",
     "Connection refused", "Socket closed", "ncclRemoteError", "NCCL communicator was aborted",
     "remote process exited or there was a network error", "DistBackendError",
     "failed to recv, got 0 bytes", "Broken connection", "peer is gone", "DistNetworkError",
     "terminated by a peer", "Caught collective operation timeout"});

/// The last line that says something.
std::string last_line(const std::string& text) {
    const auto lines = split(text, '\n');
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        if (!trim(*line).empty()) return std::string(trim(*line));
    }
    return "";
}

/// The traceback's last lines are the exception; frames above may quote any text of the program.
std::string evidence_of(const WorkerFailure& failure, const Circumstances& circumstances) {
    std::string text = failure.error_file ? failure.error_file->message : "";
    return text + "\n" + circumstances.stderr_tail;
}

std::string message_of(const WorkerFailure& failure, const Circumstances& circumstances) {
    std::string text;
    if (failure.error_file) text = failure.error_file->message;
    if (text.empty()) text = last_line(circumstances.stderr_tail);
    return std::string(truncate_utf8(to_valid_utf8(text), kMessageLimit));
}

}  // namespace

std::optional<ErrorFile> read_error_file(const sys::fs::path& path) {
    std::error_code ignored;
    if (path.empty() || !sys::fs::is_regular_file(path, ignored)) return std::nullopt;
    try {
        std::string raw = sys::read_file(path, kErrorFileLimit);
        if (trim(raw).empty()) return std::nullopt;
        return parse_error_file(std::move(raw));
    } catch (const Error& error) {
        // A worker may die while it writes: the exit itself then has to do.
        log::warning("the worker's error file cannot be used",
                     {{"file", path.string()}, {"why", error.what()}});
        return std::nullopt;
    }
}

rendezvous::Failure classify(const WorkerFailure& failure, const Circumstances& circumstances) {
    using rendezvous::FailureKind;
    rendezvous::Failure out;
    out.kind = failure.exit.signal != 0 ? FailureKind::signal : FailureKind::exit_code;
    out.rank = failure.rank;
    out.local_rank = failure.local_rank;
    out.host = circumstances.host;
    out.pid = failure.pid;
    out.exit_code = failure.exit.code;
    out.signal = failure.exit.signal;
    out.message = message_of(failure, circumstances);

    const std::string evidence = evidence_of(failure, circumstances);
    const bool oom_killed = failure.exit.signal == SIGKILL && circumstances.oom_kills_before >= 0 &&
                            circumstances.oom_kills_after > circumstances.oom_kills_before;
    const bool port_trouble = circumstances.young && failure.exit.signal == 0 &&
                              (circumstances.port_is_taken || contains_any(evidence, kPortTaken));
    if (oom_killed) {
        out.kind = FailureKind::out_of_memory;
    } else if (port_trouble) {
        out.kind = FailureKind::port_in_use;
    } else if (contains_any(evidence, kDiskFull)) {
        out.kind = FailureKind::disk_full;
    } else {
        out.secondary = contains_any(evidence, kEcho);
    }
    return out;
}

}  // namespace ty::agent
