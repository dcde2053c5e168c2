// SPDX-License-Identifier: Apache-2.0
// The guard: a process that does nothing but forward signals, reap, and clean up after the
// launcher.
//
// It allocates next to nothing and starts no thread, so that it costs one fork and few pages, and
// so that what can kill the launcher (memory, a bug) does not find it too.
#include "agent/launcher/workers/guard.h"

#include "agent/launcher/workers/process_tree.h"
#include "agent/launcher/workers/worker_cgroup.h"
#include "agent/launcher/workers/workers.h"
#include "base/error.h"
#include "sys/sys.h"

#include <cerrno>
#include <csignal>

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ty::agent {

namespace {

/// How long the guard looks for what the launcher left.
constexpr milliseconds kCleanUp(1000);

bool is_ignored(int number) {
    struct sigaction action = {};
    return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// What the guard waits for: its child's end and everything it forwards. Faults of its own and job
/// control keep their meaning; nohup's choice about SIGHUP is respected.
sigset_t watched_signals() {
    sigset_t set;
    sigfillset(&set);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTSTP,
                             SIGTTIN, SIGTTOU, SIGPIPE, SIGURG, SIGKILL, SIGSTOP})
        sigdelset(&set, number);
    if (is_ignored(SIGHUP)) sigdelset(&set, SIGHUP);
    return set;
}

/// A launcher's own caller may have left SIGCHLD ignored; then ends would not be reported to us.
void keep_exit_codes() {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, nullptr);
}

void be_subreaper() {
    // Old kernels and some sandboxes refuse; then daemonised grandchildren are only found by
    // cgroup.
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

class Guard {
public:
    Guard(pid_t launcher, const sigset_t& watched, bool same_group)
        : launcher_(launcher),
          same_group_(same_group),
          signals_(::signalfd(-1, &watched, SFD_CLOEXEC)) {}

    sys::Exit watch() {
        while (!reap()) {
            signalfd_siginfo info = {};
            const ssize_t got = ::read(signals_.get(), &info, sizeof info);
            if (got != static_cast<ssize_t>(sizeof info)) {
                if (got < 0 && errno == EINTR) continue;
                return wait_plainly();
            }
            forward(info);
        }
        return exit_;
    }

private:
    /// Everything that has ended, adopted processes too. True when the launcher was among them.
    bool reap() {
        bool over = false;
        while (true) {
            siginfo_t info = {};
            const int failed = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG);
            if (failed != 0 && errno == EINTR) continue;
            if (failed != 0 || info.si_pid == 0) return over;
            if (info.si_pid != launcher_) continue;
            note(info);
            over = true;
        }
    }
    /// No signalfd: signals stay pending, but the end is seen.
    sys::Exit wait_plainly() {
        siginfo_t info = {};
        while (::waitid(P_PID, static_cast<id_t>(launcher_), &info, WEXITED) != 0 && errno == EINTR)
            continue;
        note(info);
        return exit_;
    }
    void note(const siginfo_t& info) {
        exit_ = info.si_code == CLD_EXITED ? sys::Exit{.code = info.si_status}
                                           : sys::Exit{.signal = info.si_status};
    }
    void forward(const signalfd_siginfo& info) const {
        const int number = static_cast<int>(info.ssi_signo);
        if (number == SIGCHLD || number == guard_died_signal()) return;
        // The terminal has sent it to the whole foreground group: the launcher has it already.
        if (same_group_ && info.ssi_code == SI_KERNEL) return;
        ::kill(launcher_, number);
    }

    pid_t launcher_;
    bool same_group_;
    sys::Fd signals_;
    sys::Exit exit_;
};

/// In the child, before it becomes the launcher.
void tie_to_guard(pid_t guard, bool same_group, const sigset_t& before) {
    ::prctl(PR_SET_PDEATHSIG, guard_died_signal());
    if (::getppid() != guard) ::_exit(1);  // it died before the line above; nothing is running yet
    if (!same_group) ::setpgid(0, 0);
    be_subreaper();
    sigset_t mask = before;
    sigaddset(&mask, guard_died_signal());
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void say(const std::string& line) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

int guard_died_signal() {
    return SIGRTMIN + 5;
}

int run_guarded(const std::function<int()>& body) {
    keep_exit_codes();
    be_subreaper();
    const bool same_group = ::isatty(STDIN_FILENO) == 1;
    const pid_t guard = ::getpid();
    // "monitor & exec trainyard run …": what was there before us is none of our business.
    const std::vector<pid_t> earlier = own_children();
    // Blocked before the fork, so that no signal is lost between it and the signalfd.
    const sigset_t watched = watched_signals();
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &watched, &before);
    const pid_t launcher = ::fork();
    if (launcher < 0) {
        const int error = errno;
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        throw errno_error(error, "start the launcher process");
    }
    if (launcher == 0) {
        tie_to_guard(guard, same_group, before);
        return body();
    }

    const sys::Exit exit = Guard(launcher, watched, same_group).watch();
    const std::vector<pid_t> left = kill_descendants(kCleanUp, {earlier.begin(), earlier.end()});
    remove_leftover_groups();
    for (const pid_t pid : left)
        say(format("process {} does not end (uninterruptible sleep?); it is left behind\n", pid));
    if (exit.signal == 0) return exit.code;
    say(format("the launcher process {} was killed by {}; its workers were stopped\n", launcher,
               sys::signal_name(exit.signal)));
    return 1;
}

}  // namespace ty::agent
