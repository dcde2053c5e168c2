// SPDX-License-Identifier: Apache-2.0
// One poll(2) round over a map of descriptors and named timers.
#include "sys/poller.h"

#include "base/error.h"
#include "sys/waiting.h"

#include <cerrno>
#include <optional>
#include <vector>

#include <poll.h>

namespace ty::sys {

void Poller::add(int fd, Callback on_readable) {
    callbacks_[fd] = std::move(on_readable);
}

void Poller::remove(int fd) {
    callbacks_.erase(fd);
}

void Poller::set_timer(const std::string& name, Deadline at, Callback fn) {
    timers_.insert_or_assign(name, Timer{at, std::move(fn)});
}

void Poller::cancel_timer(const std::string& name) {
    timers_.erase(name);
}

bool Poller::run_once(Deadline by, const std::stop_token& stop) {
    if (stop.stop_requested()) return false;
    for (const auto& [name, timer] : timers_) by = Deadline::earlier(by, timer.at);

    std::optional<WakeFd> wake;
    if (stop.stop_possible()) wake.emplace();
    const std::stop_callback on_stop(stop, [&wake] { wake->notify(); });
    std::vector<pollfd> fds;
    fds.reserve(callbacks_.size() + 1);
    if (wake) fds.push_back({wake->fd(), POLLIN, 0});
    for (const auto& [fd, callback] : callbacks_) fds.push_back({fd, POLLIN, 0});

    if (::poll(fds.data(), fds.size(), by.poll_timeout()) < 0) {
        if (errno == EINTR) return true;
        throw_errno("poll {} descriptors", fds.size());
    }
    if (stop.stop_requested()) return false;

    for (const pollfd& entry : fds) {
        if (entry.revents == 0) continue;
        const auto it = callbacks_.find(entry.fd);
        if (it == callbacks_.end()) continue;  // removed by an earlier callback of this round
        const Callback callback = it->second;  // it may remove itself
        callback();
    }
    std::vector<std::string> due;
    for (const auto& [name, timer] : timers_) {
        if (timer.at.passed()) due.push_back(name);
    }
    for (const std::string& name : due) {
        const auto it = timers_.find(name);
        if (it == timers_.end() || !it->second.at.passed()) continue;  // cancelled or set anew
        const Callback callback = std::move(it->second.fn);
        timers_.erase(it);
        callback();
    }
    return !stop.stop_requested();
}

}  // namespace ty::sys
