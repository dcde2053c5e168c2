// SPDX-License-Identifier: Apache-2.0
// poll(2) with a deadline and a stop token; the token wakes the poll through an eventfd.
#include "sys/waiting.h"

#include "base/error.h"

#include <cerrno>
#include <cstdint>
#include <optional>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace ty::sys {

namespace {

short events_of(Readiness readiness) {
    switch (readiness) {
        case Readiness::readable:
            return POLLIN;
        case Readiness::writable:
            return POLLOUT;
        case Readiness::either:
            return POLLIN | POLLOUT;
    }
    return POLLIN;
}

/// poll until something is ready or the deadline passes; EINTR retried. False on deadline.
bool poll_until(pollfd* fds, nfds_t count, Deadline by) {
    while (true) {
        const int ready = ::poll(fds, count, by.poll_timeout());
        if (ready > 0) return true;
        if (ready == 0) {
            if (by.passed()) return false;
            continue;  // poll's timeout is capped below a very late deadline
        }
        if (errno != EINTR) throw_errno("poll");
        if (by.passed()) return false;
    }
}

}  // namespace

Waited wait(int fd, Readiness readiness, Deadline by, const std::stop_token& stop) {
    if (stop.stop_requested()) return Waited::stopped;
    pollfd fds[2] = {{fd, events_of(readiness), 0}, {-1, POLLIN, 0}};
    if (!stop.stop_possible()) {
        return poll_until(fds, 1, by) ? Waited::ready : Waited::timed_out;
    }
    if (::poll(fds, 1, 0) > 0) return Waited::ready;
    WakeFd wake;
    const std::stop_callback on_stop(stop, [&wake] { wake.notify(); });
    fds[1].fd = wake.fd();
    if (!poll_until(fds, 2, by)) return Waited::timed_out;
    return fds[1].revents != 0 ? Waited::stopped : Waited::ready;
}

bool pause(Deadline by, const std::stop_token& stop) {
    if (stop.stop_requested()) return false;
    if (!stop.stop_possible()) {
        poll_until(nullptr, 0, by);
        return true;
    }
    WakeFd wake;
    const std::stop_callback on_stop(stop, [&wake] { wake.notify(); });
    pollfd fds[1] = {{wake.fd(), POLLIN, 0}};
    return !poll_until(fds, 1, by);
}

WakeFd::WakeFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.is_open()) throw_errno("create an eventfd");
}

void WakeFd::notify() {
    const std::uint64_t one = 1;
    // The only possible failure is a full counter, and then the descriptor is readable already.
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void WakeFd::drain() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace ty::sys
