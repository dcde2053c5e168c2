// SPDX-License-Identifier: Apache-2.0
// posix_spawn with everything decided: descriptors, session, folder, signals. What is not listed in
// the Command does not reach the child.
#include "sys/child.h"

#include "base/error.h"
#include "sys/waiting.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::sys {

namespace {

constexpr int kHighestKept = 255;

class SpawnActions {
public:
    SpawnActions() { check(posix_spawn_file_actions_init(&actions_)); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }

    static void check(int failed) {
        if (failed != 0) throw errno_error(failed, "prepare a child process");
    }
    /// `from` is duplicated above every target first, so that targets may be permuted freely.
    void place(int from, int target) {
        Fd copy(::fcntl(from, F_DUPFD_CLOEXEC, kHighestKept + 1));
        if (!copy.is_open()) throw_errno("duplicate descriptor {} for a child process", from);
        check(posix_spawn_file_actions_adddup2(&actions_, copy.get(), target));
        copies_.push_back(std::move(copy));
        placed_.push_back(target);
    }
    void null_input() {
        check(posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0));
        placed_.push_back(0);
    }
    void change_dir(const std::string& path) {
        check(posix_spawn_file_actions_addchdir_np(&actions_, path.c_str()));
    }
    /// Close all numbers from 3 on that were not placed.
    void close_others() {
        const int highest = placed_.empty() ? 2 : std::max(2, *std::ranges::max_element(placed_));
        for (int fd = 3; fd < highest; ++fd) {
            if (std::ranges::find(placed_, fd) != placed_.end()) continue;
            check(posix_spawn_file_actions_addclose(&actions_, fd));
        }
        check(posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1));
    }
    const posix_spawn_file_actions_t* get() const { return &actions_; }

private:
    posix_spawn_file_actions_t actions_ = {};
    std::vector<Fd> copies_;
    std::vector<int> placed_;
};

class SpawnAttributes {
public:
    explicit SpawnAttributes(bool new_session) {
        SpawnActions::check(posix_spawnattr_init(&attributes_));
        sigset_t every;
        sigset_t none;
        sigfillset(&every);
        sigemptyset(&none);
        posix_spawnattr_setsigdefault(&attributes_, &every);
        posix_spawnattr_setsigmask(&attributes_, &none);
        int flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
        if (new_session) flags |= POSIX_SPAWN_SETSID;
        posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
    }
    SpawnAttributes(const SpawnAttributes&) = delete;
    SpawnAttributes& operator=(const SpawnAttributes&) = delete;
    ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
    const posix_spawnattr_t* get() const { return &attributes_; }

private:
    posix_spawnattr_t attributes_ = {};
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    result.reserve(strings.size() + 1);
    for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

/// A launcher may have left SIGCHLD ignored; then the kernel reaps children behind our back and
/// their exit codes are lost.
void keep_exit_codes() {
    struct sigaction action = {};
    if (::sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
        action.sa_handler = SIG_DFL;
        ::sigaction(SIGCHLD, &action, nullptr);
    }
}

Exit exit_of(const siginfo_t& info) {
    Exit exit;
    if (info.si_code == CLD_EXITED) {
        exit.code = info.si_status;
    } else {
        exit.signal = info.si_status;
    }
    return exit;
}

int pidfd_send_signal(int pidfd, int number) {
    return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

constexpr auto kPidfd = static_cast<idtype_t>(3);  // P_PIDFD

}  // namespace

std::string signal_name(int signal) {
    if (const char* name = ::sigabbrev_np(signal)) return std::string("SIG") + name;
    return format("signal {}", signal);
}

std::string describe(const Exit& exit) {
    if (exit.signal == 0) return format("exit code {}", exit.code);
    const std::string name = signal_name(exit.signal);
    return name.starts_with("SIG") ? format("{} (signal {})", name, exit.signal) : name;
}

Child Child::spawn(const Command& command) {
    TY_ASSERT(!command.argv.empty());
    keep_exit_codes();
    SpawnActions actions;
    if (command.stdin_fd >= 0) {
        actions.place(command.stdin_fd, 0);
    } else {
        actions.null_input();
    }
    if (command.stdout_fd >= 0) actions.place(command.stdout_fd, 1);
    if (command.stderr_fd >= 0) actions.place(command.stderr_fd, 2);
    for (const auto& [ours, number] : command.keep) {
        TY_ASSERT(number > 2 && number <= kHighestKept);
        actions.place(ours, number);
    }
    if (!command.cwd.empty()) actions.change_dir(command.cwd);
    actions.close_others();
    const SpawnAttributes attributes(command.session == Command::Session::own);

    const std::vector<char*> argv = pointers(command.argv);
    std::vector<char*> env;
    if (command.env) env = pointers(*command.env);
    pid_t pid = -1;
    const int failed = ::posix_spawnp(&pid, argv[0], actions.get(), attributes.get(), argv.data(),
                                      command.env ? env.data() : environ);
    if (failed != 0) {
        if (!command.cwd.empty() && ::access(command.cwd.c_str(), X_OK) != 0) {
            throw errno_error(errno,
                              format("run \"{}\" in folder {}", command.argv[0], command.cwd));
        }
        throw errno_error(failed, format("run \"{}\"", command.argv[0]));
    }
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.is_open()) {
        const int number = errno;
        ::kill(pid, SIGKILL);
        while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
        throw errno_error(number, format("watch process {} (\"{}\")", pid, command.argv[0]));
    }
    ::fcntl(pidfd.get(), F_SETFD, FD_CLOEXEC);
    return Child(pid, std::move(pidfd));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

Child& Child::operator=(Child&& other) noexcept {
    if (this != &other) {
        Child old(std::move(*this));  // killed and reaped here
        pid_ = std::exchange(other.pid_, -1);
        pidfd_ = std::move(other.pidfd_);
    }
    return *this;
}

Child::~Child() {
    if (!pidfd_.is_open()) return;
    pidfd_send_signal(pidfd_.get(), SIGKILL);
    siginfo_t info = {};
    while (::waitid(kPidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED) < 0 &&
           errno == EINTR) {
        continue;
    }
}

void Child::signal(int number) {
    if (!pidfd_.is_open()) return;
    if (pidfd_send_signal(pidfd_.get(), number) != 0 && errno != ESRCH) {
        throw_errno("send {} to process {}", signal_name(number), pid_);
    }
}

std::optional<Exit> Child::try_wait() {
    if (!pidfd_.is_open()) return std::nullopt;
    siginfo_t info = {};
    while (::waitid(kPidfd, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) < 0) {
        if (errno != EINTR) throw_errno("wait for process {}", pid_);
    }
    if (info.si_pid == 0) return std::nullopt;
    pidfd_.close();
    return exit_of(info);
}

std::optional<Exit> Child::wait(Deadline by, const std::stop_token& stop) {
    if (!pidfd_.is_open()) return std::nullopt;
    if (sys::wait(pidfd_.get(), Readiness::readable, by, stop) != Waited::ready)
        return std::nullopt;
    return try_wait();
}

pid_t Child::detach() {
    pidfd_.close();
    return pid_;
}

Output run(const Command& command, Deadline by) {
    constexpr std::size_t kLimit = 1u << 20;
    Pipe pipe = make_pipe();
    Command piped = command;
    piped.stdout_fd = pipe.write.get();
    piped.stderr_fd = pipe.write.get();
    Child child = Child::spawn(piped);
    pipe.write.close();
    ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);

    Output output;
    bool ended = false;
    while (true) {
        // After the end of the child only what is in the pipe already is taken: a grandchild may
        // hold it open for ever.
        pollfd fds[2] = {{pipe.read.get(), POLLIN, 0}, {ended ? -1 : child.pidfd(), POLLIN, 0}};
        const int ready = ::poll(fds, 2, ended ? 0 : by.poll_timeout());
        if (ready < 0 && errno != EINTR) throw_errno("poll the output of \"{}\"", command.argv[0]);
        if (ready > 0 && fds[1].revents != 0) ended = true;
        if (ready > 0 && fds[0].revents != 0) {
            char buffer[16384];
            const ssize_t got = ::read(pipe.read.get(), buffer, sizeof buffer);
            if (got == 0) break;
            if (got > 0) {
                const std::size_t room = kLimit - output.text.size();
                output.text.append(buffer, std::min(room, static_cast<std::size_t>(got)));
            }
        } else if (ended && ready >= 0) {
            break;
        }
        if (!ended && by.passed()) break;
    }
    const std::optional<Exit> exit = child.wait(by);
    if (!exit) {
        if (command.session == Command::Session::own) ::kill(-child.pid(), SIGKILL);
        throw_error(Code::timed_out, "", "\"{}\" did not end in time", command.argv[0]);
    }
    output.exit = *exit;
    return output;
}

}  // namespace ty::sys
