// SPDX-License-Identifier: Apache-2.0
// Readings of /proc, the comparison of readings over time, and a look at what is stuck.
#include "agent/launcher/workers/progress.h"

#include "agent/launcher/workers/process_tree.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <cstdlib>

#include <unistd.h>

namespace ty::agent {

namespace {

using sys::fs::path;

std::string read_quietly(const path& file) {
    Result<std::string> text = capture([&] { return sys::read_file(file); });
    return text.ok() ? std::move(text).value() : std::string();
}

/// rchar + wchar of /proc/<pid>/io: what went through read(2), write(2) and their kin.
long long io_bytes(const path& process) {
    long long sum = 0;
    for (const std::string& line : split(read_quietly(process / "io"), '\n')) {
        if (line.starts_with("rchar: ") || line.starts_with("wchar: "))
            sum += parse_int(trim(std::string_view(line).substr(7))).value_or(0);
    }
    return sum;
}

/// The tool's path if PATH has it.
std::string find_tool(const std::string& name) {
    const char* search = std::getenv("PATH");
    for (const std::string& folder : split(search != nullptr ? search : "/usr/bin:/bin", ':')) {
        const path candidate = path(folder) / name;
        if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate.string();
    }
    return {};
}

/// "thread 4711 (python): S, futex_wait_queue, system call 202; do_futex < do_syscall_64".
std::string describe_thread(const path& task) {
    const std::string stat = read_quietly(task / "stat");
    const std::size_t open = stat.find('(');
    const std::size_t close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 2 >= stat.size())
        return {};
    std::string line = format(
        "thread {} ({}): {}", task.filename().string(),
        to_valid_utf8(std::string_view(stat).substr(open + 1, close - open - 1)), stat[close + 2]);
    const std::string wchan(trim(read_quietly(task / "wchan")));
    if (!wchan.empty() && wchan != "0") line += ", in " + wchan;
    const std::string call = split(trim(read_quietly(task / "syscall")), ' ').front();
    if (call == "running") {
        line += ", running";
    } else if (!call.empty() && call != "-1") {
        line += ", system call " + call;
    }
    // Root only, so usually empty: "[<0>] futex_wait_queue+0x5f/0x90".
    std::string kernel;
    for (const std::string& frame : split(read_quietly(task / "stack"), '\n')) {
        const std::size_t name = frame.find("] ");
        if (name == std::string::npos) continue;
        kernel +=
            (kernel.empty() ? "; " : " < ") + frame.substr(name + 2, frame.find('+') - name - 2);
    }
    return line + kernel + "\n";
}

/// What an installed debugger sees; empty when there is none or it may not look.
std::string debugger_view(pid_t pid, Deadline by) {
    const std::string number = std::to_string(pid);
    const std::string py_spy = find_tool("py-spy");
    std::vector<std::vector<std::string>> commands;
    if (!py_spy.empty()) commands.push_back({py_spy, "dump", "--pid", number});
    const std::string gdb = find_tool("gdb");
    if (!gdb.empty()) {
        commands.push_back({gdb, "-nx", "-batch", "-ex", "set pagination off", "-ex",
                            "thread apply all backtrace 30", "-p", number});
    }
    for (const std::vector<std::string>& argv : commands) {
        if (by.passed()) return {};
        const Result<sys::Output> output = capture(
            [&] { return sys::run({.argv = argv, .session = sys::Command::Session::own}, by); });
        if (!output.ok()) continue;
        const sys::Output seen = Result<sys::Output>(output).value();
        if (seen.exit.ok() && !seen.text.empty()) return to_valid_utf8(seen.text);
    }
    return {};
}

}  // namespace

Activity read_activity(pid_t pid, const path& root) {
    Activity sum;
    std::vector<pid_t> family = descendants_below(pid, root);
    family.insert(family.begin(), pid);
    for (const pid_t member : family) {
        const auto line = read_process_line(member, root);
        if (!line) continue;
        sum.cpu_ticks += line->ticks;
        sum.io_bytes += io_bytes(root / "proc" / std::to_string(member));
        if (member == pid) sum.state = line->state;
    }
    return sum;
}

void ProgressWatch::begin(Monotonic) {
    seen_.clear();
}

void ProgressWatch::observe(int local_rank, const Activity& activity, Monotonic now) {
    const auto [it, first] =
        seen_.try_emplace(local_rank, Seen{activity, now, now, activity.cpu_ticks});
    if (first) return;
    Seen& seen = it->second;
    bool progress = activity.io_bytes != seen.last.io_bytes || activity.output != seen.last.output;
    // Helper threads that only keep time use a little processor for ever; 1 % of a core is work.
    const auto span = std::chrono::duration_cast<milliseconds>(now - seen.window);
    if (span >= std::min(milliseconds(1000), timeout_ / 4)) {
        const long long used = (activity.cpu_ticks - seen.window_ticks) * 10;  // ms
        if (used < 0 || used * 100 > span.count()) progress = true;
        seen.window = now;
        seen.window_ticks = activity.cpu_ticks;
    }
    seen.last = activity;
    if (progress) seen.since = now;
}

std::vector<int> ProgressWatch::stuck(Monotonic now) const {
    std::vector<std::pair<Monotonic, int>> found;
    for (const auto& [rank, seen] : seen_) {
        if (timeout_.count() > 0 && now - seen.since >= timeout_)
            found.emplace_back(seen.since, rank);
    }
    std::sort(found.begin(), found.end());
    std::vector<int> result;
    for (const auto& [since, rank] : found) result.push_back(rank);
    return result;
}

std::string describe_stuck(pid_t pid, Deadline by) {
    constexpr int kMostThreads = 64;
    std::string text;
    std::error_code error;
    int count = 0;
    for (const auto& entry : sys::fs::directory_iterator(format("/proc/{}/task", pid), error)) {
        if (by.passed()) break;
        if (++count <= kMostThreads) text += describe_thread(entry.path());
    }
    if (count == 0) return format("process {} is gone\n", pid);
    if (count > kMostThreads) text += format("and {} more threads\n", count - kMostThreads);
    return text + debugger_view(pid, by);
}

}  // namespace ty::agent
