// SPDX-License-Identifier: Apache-2.0
// A connected, non-blocking socket that carries frames, with bounded buffers. The owner polls.
#pragma once

#include "agent/launcher/link/frames.h"
#include "base/time.h"
#include "sys/sys.h"

namespace ty::agent {

class FrameSocket {
public:
    /// What a read or write found out about the connection.
    enum class State {
        open,
        ended,   ///< the other side's kernel closed it: its process has ended or let go
        broken,  ///< the network gave up; whether the other side lives is unknown
    };

    FrameSocket() : reader_(kHandshakeLimit) {}
    explicit FrameSocket(sys::Fd fd) : fd_(std::move(fd)), reader_(kHandshakeLimit) {}

    int fd() const { return fd_.get(); }
    bool is_open() const { return fd_.is_open(); }
    sys::Fd take_fd() { return std::move(fd_); }
    void set_limit(std::size_t limit) { reader_.set_limit(limit); }

    /// Read what is there, at most about `most` bytes.
    State receive(std::size_t most);
    /// As FrameReader::next().
    std::optional<std::string_view> next() { return reader_.next(); }

    void queue(std::string_view body) { append_frame(out_, body); }
    /// Write what the kernel takes.
    State flush(Monotonic now);
    std::size_t pending() const { return out_.size() - written_; }
    /// Since when something waits without any of it being taken.
    Monotonic stuck_since() const { return progress_; }

private:
    sys::Fd fd_;
    FrameReader reader_;
    std::string out_;
    std::size_t written_ = 0;
    bool idle_ = true;  ///< nothing waited before the last queue()
    Monotonic progress_;
};

/// Sets what every connection of ours wants: no delay, and the kernel's own notice of dead peers.
void tune_connection(int fd);

}  // namespace ty::agent
