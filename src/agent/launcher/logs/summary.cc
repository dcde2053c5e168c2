// SPDX-License-Identifier: Apache-2.0
// What the user and the orchestrator read about a failed job: torchrun's summary, whose lines are
// matched by scripts and log scrapers, and the reply file.
#include "agent/launcher/logs/failure.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <csignal>
#include <ctime>

namespace ty::agent {

namespace {

constexpr std::size_t kWidestBar = 60;
constexpr std::string_view kNotAvailable = "<N/A>";

/// torchrun prints local time, without an offset.
std::string local_time(Instant instant) {
    const std::time_t seconds = static_cast<std::time_t>(to_epoch_millis(instant) / 1000);
    std::tm parts{};
    ::localtime_r(&seconds, &parts);
    return format("{:04}-{:02}-{:02}_{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

/// Python's negative code for a signal.
int python_code(const sys::Exit& exit) {
    return exit.signal != 0 ? -exit.signal : exit.code;
}

/// Python's names: real-time signals have one only at the ends of their range.
std::string python_signal_name(int number) {
    if (number == SIGRTMIN) return "SIGRTMIN";
    if (number == SIGRTMAX) return "SIGRTMAX";
    const char* name = ::sigabbrev_np(number);
    return name != nullptr ? format("SIG{}", name) : std::string(kNotAvailable);
}

std::string traceback_text(const WorkerFailure& failure) {
    if (failure.error_file && failure.error_file->plain && !failure.error_file->message.empty()) {
        return failure.error_file->message;
    }
    if (failure.error_file && !failure.error_file->plain) {
        const ErrorFile& file = *failure.error_file;
        const std::string text = !file.traceback.empty() ? file.traceback
                                 : !file.message.empty() ? file.message
                                                         : std::string(kNotAvailable);
        return replace_all(text, "\n", "\n  ");
    }
    if (failure.exit.signal != 0) {
        return format("Signal {} ({}) received by PID {}", failure.exit.signal,
                      python_signal_name(failure.exit.signal), failure.pid);
    }
    return "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html";
}

std::string paragraph(std::size_t index, const WorkerFailure& failure, const std::string& host) {
    std::string signal;
    if (failure.exit.signal != 0) {
        const std::string name = python_signal_name(failure.exit.signal);
        if (name != kNotAvailable) signal = format(" ({})", name);
    }
    const std::string file =
        failure.error_file ? failure.error_file_path.string() : std::string(kNotAvailable);
    return format(
        "[{}]:\n"
        "  time      : {}\n"
        "  host      : {}\n"
        "  rank      : {} (local_rank: {})\n"
        "  exitcode  : {} (pid: {}) {}\n"
        "  error_file: {}\n"
        "  traceback : {}",
        index, local_time(failure.when), host, failure.rank, failure.local_rank,
        python_code(failure.exit), failure.pid, signal, file, traceback_text(failure));
}

std::size_t widest_line(const std::string& text) {
    std::size_t width = 0;
    for (const std::string& line : split(text, '\n')) {
        width = std::max(width, count_code_points(line));
    }
    return width;
}

}  // namespace

std::string failure_summary(const std::string& entrypoint, const std::string& host,
                            const std::vector<WorkerFailure>& failures) {
    if (failures.empty()) return "";
    const std::string title = entrypoint + " FAILED";
    std::size_t width = count_code_points(title);
    std::string root, others;
    for (std::size_t i = 0; i < failures.size(); ++i) {
        const std::string text = paragraph(i, failures[i], host);
        width = std::max(width, widest_line(text));
        if (i == 0) {
            root = text;
        } else {
            others += (others.empty() ? "" : "\n") + text;
        }
    }
    if (others.empty()) others = "  <NO_OTHER_FAILURES>";
    width = std::min(width, kWidestBar);
    const std::string bar(width, '='), section(width, '-');
    // The blank after the colon is torchrun's.
    return format(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "{}\n{}\n{}\nFailures:\n{}\n{}\nRoot Cause (first observed failure):\n{}\n{}\n",
        bar, title, section, others, section, root, bar);
}

std::string full_host_name() {
    char own[256] = {};
    if (::gethostname(own, sizeof own - 1) != 0) return "localhost";
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(own, nullptr, &hints, &found) != 0) return own;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);
    const void* address =
        found->ai_family == AF_INET6
            ? static_cast<const void*>(
                  &reinterpret_cast<const sockaddr_in6*>(found->ai_addr)->sin6_addr)
            : &reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr;
    const socklen_t size = found->ai_family == AF_INET6 ? sizeof(in6_addr) : sizeof(in_addr);
    hostent entry{};
    hostent* result = nullptr;
    std::vector<char> buffer(8192);
    int why = 0;
    if (::gethostbyaddr_r(address, size, found->ai_family, &entry, buffer.data(), buffer.size(),
                          &result, &why) != 0 ||
        result == nullptr) {
        return own;
    }
    // Python's getfqdn(): the first of name and aliases that has a domain, else the name.
    const std::string name = result->h_name;
    if (name.find('.') != name.npos) return name;
    for (char** alias = result->h_aliases; alias != nullptr && *alias != nullptr; ++alias) {
        if (std::string_view(*alias).find('.') != std::string_view::npos) return *alias;
    }
    return name;
}

void write_reply_file(const sys::fs::path& path, const WorkerFailure& root) {
    Json document;
    if (root.error_file) {
        document = parse_json(root.error_file->raw);
        const int code = python_code(root.exit);
        if (document["message"].is_object() && code != 0) document["message"]["errorCode"] = code;
    } else {
        document["message"]["message"] = traceback_text(root);
        document["message"]["extraInfo"]["timestamp"] =
            format("{}", to_epoch_millis(root.when) / 1000);
        document["message"]["errorCode"] = python_code(root.exit);
    }
    // In place: Kubernetes mounts its termination log as a file that cannot be renamed over.
    sys::write_file(path, dump_json(document));
}

}  // namespace ty::agent
