// SPDX-License-Identifier: Apache-2.0
// Two processes at most: the outer one unshares and waits; its child is PID 1 of the new PID
// namespace, builds the root, starts the program and reaps. Whoever of them dies takes everything
// along: PID 1 by the kernel's rule, the outer by PDEATHSIG, the agent by PDEATHSIG and by the end
// of the control socket.
#include "agent/sandbox/box.h"

#include "agent/sandbox/box_plan.h"
#include "agent/sandbox/mounts.h"
#include "agent/sandbox/namespaces.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/sys.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent {

namespace {

constexpr seconds kReapLimit{10};

void report(const BoxReport& report) {
    const std::string text = to_text(report);
    // The agent may be gone; then nobody is left to tell.
    (void)::send(kBoxControlFd, text.data(), text.size(), MSG_NOSIGNAL);
}

void report_failure(const Error& error) {
    report({.kind = BoxReport::Kind::failed, .text = error.what()});
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
    result.push_back(nullptr);
    return result;
}

std::string path_of(const std::vector<std::string>& env) {
    for (const std::string& entry : env) {
        if (entry.starts_with("PATH=")) return entry.substr(5);
    }
    return "/usr/bin:/bin";
}

/// argv[0] as a path; errno of the best candidate when there is none.
std::string find_program(const BoxPlan& plan, int& problem) {
    const std::string& name = plan.argv.front();
    problem = ENOENT;
    if (name.find('/') != std::string::npos) {
        if (::access(name.c_str(), X_OK) == 0) return name;
        problem = errno;
        return {};
    }
    for (const std::string& folder : split(path_of(plan.env), ':')) {
        if (folder.empty()) continue;
        std::string candidate = folder + "/" + name;
        if (::access(candidate.c_str(), X_OK) == 0) return candidate;
        if (errno == EACCES) problem = EACCES;
    }
    return {};
}

/// Child side: never returns. `failure` carries errno to the init; it closes when exec succeeds.
[[noreturn]] void execute(const BoxPlan& plan, const std::string& program, int failure, Rung rung) {
    const auto fail = [&](int number) {
        (void)!::write(failure, &number, sizeof number);
        ::_exit(127);
    };
    if (rung == Rung::process && ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail(errno);
    ::setsid();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)::setrlimit(RLIMIT_NOFILE, &files);
    }
    std::vector<char*> argv = pointers(plan.argv);
    const std::vector<char*> env = pointers(plan.env);
    ::execve(program.c_str(), argv.data(), env.data());
    if (errno == ENOEXEC) {
        // A script without a "#!" line: what a shell would do.
        argv.insert(argv.begin(), const_cast<char*>("/bin/sh"));
        argv[1] = const_cast<char*>(program.c_str());
        ::execve("/bin/sh", argv.data(), env.data());
    }
    fail(errno);
    ::_exit(127);
}

class Init {
public:
    explicit Init(const BoxPlan& plan) : plan_(plan) {}

    int run() {
        sys::SignalFd children({SIGCHLD});
        if (!start()) {
            kill_all();
            return 1;
        }
        for (;;) {
            if (const std::optional<BoxReport> end = reap()) {
                // The program is over: what it left running must not outlive it, and must not print
                // after its last line.
                kill_all();
                report(*end);
                return 0;
            }
            std::array<pollfd, 2> fds = {pollfd{kBoxControlFd, POLLIN, 0},
                                         pollfd{children.fd(), POLLIN, 0}};
            (void)::poll(fds.data(), fds.size(), -1);
            if (fds[1].revents != 0) children.next();
            if (fds[0].revents != 0 && !obey()) {
                kill_all();
                return 1;
            }
        }
    }

private:
    bool start() {
        if (::chdir(plan_.cwd.c_str()) != 0) throw_errno("enter the working folder {}", plan_.cwd);
        int problem = 0;
        const std::string program = find_program(plan_, problem);
        if (program.empty()) {
            report({.kind = BoxReport::Kind::failed,
                    .missing = problem,
                    .text = format("run {}: {}", plan_.argv.front(),
                                   errno_error(problem, "exec").what())});
            return false;
        }
        sys::Pipe failure = sys::make_pipe();
        program_ = ::fork();
        if (program_ < 0) throw_errno("start the program");
        if (program_ == 0) execute(plan_, program, failure.write.get(), plan_.rung);
        failure.write.close();
        int number = 0;
        if (sys::read_some(failure.read.get(), std::as_writable_bytes(std::span(&number, 1))) ==
            0) {
            report({.kind = BoxReport::Kind::started});
            return true;
        }
        report({.kind = BoxReport::Kind::failed,
                .missing = number,
                .text = format("run {}: {}", program, errno_error(number, "exec").what())});
        return false;
    }

    /// A signal to deliver, as docker does: to the main program. False: the agent is gone.
    bool obey() {
        unsigned char number = 0;
        const ssize_t got = ::recv(kBoxControlFd, &number, 1, MSG_DONTWAIT);
        if (got == 1) {
            if (program_ > 0) (void)::kill(program_, number);
            return true;
        }
        return got < 0 && (errno == EAGAIN || errno == EINTR);
    }

    /// Collect every ended child; the report once the program is among them.
    std::optional<BoxReport> reap() {
        std::optional<BoxReport> end;
        int status = 0;
        for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
            if (pid != program_) continue;
            end = BoxReport{.kind = BoxReport::Kind::ended};
            if (WIFSIGNALED(status)) {
                end->signal = WTERMSIG(status);
            } else {
                end->code = WEXITSTATUS(status);
            }
            program_ = -1;
        }
        return end;
    }

    /// Everything that descends from us. In a PID namespace one call does; elsewhere orphans come
    /// to us (subreaper) and are killed round by round.
    void kill_all() {
        const Deadline by = Deadline::in(kReapLimit);
        while (!by.passed()) {
            if (plan_.rung == Rung::namespaces) {
                (void)::kill(-1, SIGKILL);
            } else {
                for (const pid_t child : own_children()) (void)::kill(child, SIGKILL);
            }
            bool more = false;
            for (pid_t pid; (pid = ::waitpid(-1, nullptr, WNOHANG)) >= 0;) {
                if (pid == 0) {
                    more = true;
                    break;
                }
            }
            if (!more) return;
            const timespec moment = {0, 1'000'000};
            sigset_t child;
            sigemptyset(&child);
            sigaddset(&child, SIGCHLD);
            (void)::sigtimedwait(&child, nullptr, &moment);
        }
    }

    static std::vector<pid_t> own_children() {
        std::vector<pid_t> children;
        const Result<std::string> text = capture(
            [] { return sys::read_file(format("/proc/self/task/{}/children", ::getpid())); });
        if (!text.ok()) return children;
        for (const std::string& word : split(Result<std::string>(text).value(), ' ')) {
            if (const auto pid = parse_int(trim(word)))
                children.push_back(static_cast<pid_t>(*pid));
        }
        return children;
    }

    const BoxPlan& plan_;
    pid_t program_ = -1;
};

/// Whatever goes wrong in the box is one report to the agent.
template <typename Fn>
int reported(Fn&& fn) {
    try {
        return fn();
    } catch (const Error& error) {
        report_failure(error);
    } catch (const std::exception& error) {
        report({.kind = BoxReport::Kind::failed, .text = error.what()});
    }
    return 1;
}

[[noreturn]] void init_main(const BoxPlan& plan, Privilege privilege) {
    leave(reported([&] {
        die_with_parent();
        if (::sethostname(plan.host.data(), plan.host.size()) != 0)
            throw_errno("set the host name {}", plan.host);
        build_root(plan, privilege);
        drop_rights();
        return Init(plan).run();
    }));
}

int run_in_namespaces(const BoxPlan& plan) {
    const Privilege privilege = enter_namespaces(plan.joins_user ? kBoxUserFd : -1,
                                                 plan.joins_network ? kBoxNetworkFd : -1);
    if (plan.joins_user) ::close(kBoxUserFd);
    if (plan.joins_network) ::close(kBoxNetworkFd);
    die_with_parent();  // again: gaining capabilities in a user namespace may reset it
    const pid_t init = ::fork();
    if (init < 0) throw_errno("start the init of the box");
    if (init == 0) init_main(plan, privilege);
    // Only init speaks from here on; when it ends without a word the agent sees the socket close.
    ::close(kBoxControlFd);
    int status = 0;
    while (::waitpid(init, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

BoxPlan read_plan() {
    std::string text;
    std::array<std::byte, 65536> buffer;
    while (const std::size_t got = sys::read_some(kBoxPlanFd, buffer)) {
        text.append(reinterpret_cast<const char*>(buffer.data()), got);
    }
    ::close(kBoxPlanFd);
    return box_plan_from_json(text);
}

}  // namespace

int box_main() {
    if (::fcntl(kBoxControlFd, F_SETFD, FD_CLOEXEC) != 0) return 2;
    return reported([] {
        const BoxPlan plan = read_plan();
        ::umask(022);
        join_cgroup(plan.cgroup);
        if (plan.rung == Rung::namespaces) {
            die_with_parent();
            return run_in_namespaces(plan);
        }
        // Not by PDEATHSIG here: killed like that we could not take the program's children along.
        // The end of the control socket tells as well.
        if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) throw_errno("become a subreaper");
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw_errno("set no_new_privs");
        return Init(plan).run();
    });
}

void leave(int status) {
    ::syscall(SYS_exit_group, status);
    ::_exit(status);
}

int box_probe_main() {
    try {
        die_with_parent();
        const Privilege privilege = enter_namespaces();
        const pid_t init = ::fork();
        if (init < 0) throw_errno("start the init of the box");
        if (init == 0) {
            const Result<std::monostate> built = capture([&] {
                BoxPlan plan;
                plan.root = "/tmp";
                plan.shared_memory = Bytes(1u << 20);
                if (::sethostname("algo-1", 6) != 0) throw_errno("set the host name");
                build_root(plan, privilege);
                drop_rights();
            });
            if (!built.ok()) sys::write_all(2, built.error().what());
            leave(built.ok() ? 0 : 1);
        }
        int status = 0;
        while (::waitpid(init, &status, 0) < 0 && errno == EINTR) {
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    } catch (const Error& error) {
        sys::write_all(2, error.what());
        return 1;
    }
}

}  // namespace ty::agent
