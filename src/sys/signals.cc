// SPDX-License-Identifier: Apache-2.0
// signalfd and the one disposition every process of ours changes.
#include "sys/signals.h"

#include "base/error.h"

#include <cerrno>
#include <csignal>

#include <sys/signalfd.h>
#include <unistd.h>

namespace ty::sys {

SignalFd::SignalFd(std::span<const int> signals) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : signals) sigaddset(&set, signal);
    if (const int failed = pthread_sigmask(SIG_BLOCK, &set, nullptr); failed != 0) {
        throw errno_error(failed, "block signals");
    }
    fd_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_.is_open()) throw_errno("create a signalfd");
}

int SignalFd::next() {
    signalfd_siginfo info = {};
    while (true) {
        const ssize_t got = ::read(fd_.get(), &info, sizeof info);
        if (got == static_cast<ssize_t>(sizeof info)) return static_cast<int>(info.ssi_signo);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno != EAGAIN) throw_errno("read a signalfd");
        return 0;
    }
}

void ignore_sigpipe() {
    struct sigaction action = {};
    action.sa_handler = SIG_IGN;
    if (::sigaction(SIGPIPE, &action, nullptr) != 0) throw_errno("ignore SIGPIPE");
}

}  // namespace ty::sys
