// SPDX-License-Identifier: Apache-2.0
// The launcher's own stdout or stderr as a place for workers' lines: never blocks the launcher,
// which has leases to keep, and outlives its reader.
//
// Private to the launcher's logs; one thread.
#pragma once

#include "sys/sys.h"

#include <string>
#include <string_view>

namespace ty::agent {

class Console {
public:
    /// `fd` stays the caller's and open.
    explicit Console(int fd);

    /// Everything that was put is written (or nobody reads it any more): put() may be called.
    bool is_idle() const { return pending_.size() == done_; }
    /// Write what goes without waiting; the rest stays for push(). Only when idle.
    void put(std::string_view text);
    /// Go on; true when something was written.
    bool push();
    /// Wait until push() would get on; false after `patience`.
    bool wait(milliseconds patience) const;
    /// The reader is gone: put() drops everything.
    bool is_closed() const { return closed_; }

private:
    enum class Kind {
        file,    ///< never makes us wait
        opened,  ///< a pipe or terminal, opened again so that O_NONBLOCK is ours alone
        socket,  ///< MSG_DONTWAIT
        shared,  ///< could not be opened again: small writes after poll
    };
    long try_write(std::string_view text) const;

    int fd_;
    Kind kind_ = Kind::shared;
    sys::Fd own_;
    std::string pending_;
    std::size_t done_ = 0;
    bool closed_ = false;
};

}  // namespace ty::agent
