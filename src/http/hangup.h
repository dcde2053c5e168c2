// SPDX-License-Identifier: Apache-2.0
// Notices clients that go away while a response is streamed to them. Private to http.
//
// A streaming handler waits for news, not on its socket; one thread per server polls the sockets of
// all streaming responses and requests the stop of those whose client hung up.
#pragma once

#include "base/sync.h"
#include "sys/sys.h"

#include <cstdint>
#include <map>
#include <stop_token>

namespace ty::http {

class HangupWatch {
public:
    HangupWatch() = default;
    HangupWatch(const HangupWatch&) = delete;
    HangupWatch& operator=(const HangupWatch&) = delete;
    ~HangupWatch() { thread_.stop_and_join(); }

    /// Watched as long as it lives, which must be shorter than the descriptor's life.
    class Entry {
    public:
        Entry(HangupWatch& watch, int fd, std::stop_source stop);
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        ~Entry();

    private:
        HangupWatch& watch_;
        std::uint64_t number_ = 0;
    };

private:
    struct Watched {
        int fd = -1;
        std::stop_source stop;
    };
    struct State {
        std::map<std::uint64_t, Watched>
            watched;  ///< by number: descriptors are reused, numbers not
        std::uint64_t next = 0;
        bool running = false;
    };
    void run(const std::stop_token& stop);

    Sync<State> state_;
    sys::WakeFd changed_;
    TaskGroup thread_;
};

}  // namespace ty::http
