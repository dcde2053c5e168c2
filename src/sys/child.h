// SPDX-License-Identifier: Apache-2.0
// Child processes: posix_spawn in, pidfd out (D3). Passive: the owner polls pidfd() and asks.
#pragma once

#include "base/time.h"
#include "sys/fd.h"

#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace ty::sys {

struct Command {
    std::vector<std::string> argv;                      ///< argv[0] is searched in PATH
    std::optional<std::vector<std::string>> env;        ///< "NAME=value"; nullopt inherits
    std::string cwd;                                    ///< empty: inherit
    int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;  ///< -1: stdin /dev/null, others inherit
    std::vector<std::pair<int, int>> keep;              ///< {our fd, number in the child}
    enum class Session { same, own } session = Session::same;  ///< own: setsid
};

/// How a process ended.
struct Exit {
    int code = 0;    ///< exit code, when signal == 0
    int signal = 0;  ///< terminating signal
    bool ok() const { return code == 0 && signal == 0; }
    /// Shell convention: 128 + signal, or the code.
    int shell_code() const { return signal != 0 ? 128 + signal : code; }
};

/// "exit code 3", "SIGKILL (signal 9)".
std::string describe(const Exit& exit);
std::string signal_name(int signal);

/// Owned child: the destructor kills (SIGKILL) and reaps it.
class Child {
public:
    /// Throws not_found/denied at once when the program cannot be executed.
    static Child spawn(const Command& command);
    Child(Child&&) noexcept;
    Child& operator=(Child&&) noexcept;
    ~Child();

    pid_t pid() const { return pid_; }
    /// Readable when the process has ended.
    int pidfd() const { return pidfd_.get(); }
    void signal(int number);
    /// Reap if ended.
    std::optional<Exit> try_wait();
    /// nullopt on deadline or stop.
    std::optional<Exit> wait(Deadline by, const std::stop_token& stop = {});
    /// Give up ownership: the process goes on, nobody kills it.
    pid_t detach();

private:
    Child(pid_t pid, Fd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
    pid_t pid_ = -1;
    Fd pidfd_;
};

/// Run to the end, collecting stdout and stderr together (bounded); for probes and doctor.
struct Output {
    Exit exit;
    std::string text;
};
Output run(const Command& command, Deadline by);

}  // namespace ty::sys
