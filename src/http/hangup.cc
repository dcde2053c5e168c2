// SPDX-License-Identifier: Apache-2.0
#include "http/hangup.h"

#include "base/error.h"

#include <cerrno>
#include <vector>

#include <poll.h>

namespace ty::http {

HangupWatch::Entry::Entry(HangupWatch& watch, int fd, std::stop_source stop) : watch_(watch) {
    const bool start = watch.state_.with([&](State& state) {
        number_ = state.next++;
        state.watched.emplace(number_, Watched{fd, std::move(stop)});
        return !std::exchange(state.running, true);
    });
    if (start)
        watch.thread_.start("http-hangups", [&watch](std::stop_token token) { watch.run(token); });
    watch.changed_.notify();
}

HangupWatch::Entry::~Entry() {
    watch_.state_.with([this](State& state) { state.watched.erase(number_); });
    // A poll under way keeps the socket open in the kernel, whoever closes its descriptor.
    watch_.changed_.notify();
}

void HangupWatch::run(const std::stop_token& stop) {
    const std::stop_callback on_stop(stop, [this] { changed_.notify(); });
    std::vector<pollfd> fds;
    std::vector<std::uint64_t> numbers;
    while (!stop.stop_requested()) {
        fds.assign(1, {changed_.fd(), POLLIN, 0});
        numbers.assign(1, 0);
        state_.with([&](State& state) {
            for (const auto& [number, watched] : state.watched) {
                fds.push_back({watched.fd, POLLRDHUP, 0});
                numbers.push_back(number);
            }
        });
        if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR)
            throw_errno("poll for hang-ups");
        if (fds[0].revents != 0) changed_.drain();
        std::vector<std::stop_source> gone;  // callbacks run outside the lock
        state_.with([&](State& state) {
            for (std::size_t i = 1; i < fds.size(); ++i) {
                const auto it =
                    fds[i].revents != 0 ? state.watched.find(numbers[i]) : state.watched.end();
                if (it == state.watched.end()) continue;
                gone.push_back(std::move(it->second.stop));
                state.watched.erase(it);
            }
        });
        for (std::stop_source& source : gone) source.request_stop();
    }
}

}  // namespace ty::http
