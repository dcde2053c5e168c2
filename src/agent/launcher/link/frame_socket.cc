// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/link/frame_socket.h"

#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ty::agent {

namespace {

/// A reset or a closed pipe comes from the other side's kernel; all else is the network's opinion.
FrameSocket::State state_of(int number) {
    return number == ECONNRESET || number == EPIPE ? FrameSocket::State::ended
                                                   : FrameSocket::State::broken;
}

}  // namespace

FrameSocket::State FrameSocket::receive(std::size_t most) {
    char buffer[16384];
    std::size_t total = 0;
    while (total < most) {
        const ssize_t got = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (got == 0) return State::ended;
        if (got < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return State::open;
            return state_of(errno);
        }
        reader_.append(std::string_view(buffer, static_cast<std::size_t>(got)));
        total += static_cast<std::size_t>(got);
        if (static_cast<std::size_t>(got) < sizeof buffer) return State::open;  // most likely all
    }
    return State::open;
}

FrameSocket::State FrameSocket::flush(Monotonic now) {
    if (idle_) progress_ = now;
    idle_ = false;
    while (written_ < out_.size()) {
        const ssize_t sent = ::send(fd_.get(), out_.data() + written_, out_.size() - written_,
                                    MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) break;
            return state_of(errno);
        }
        progress_ = now;
        written_ += static_cast<std::size_t>(sent);
    }
    if (written_ == out_.size()) {
        written_ = 0;
        idle_ = true;
        // A thousand mostly silent connections must not each keep their largest message.
        if (out_.capacity() > kHandshakeLimit) std::string().swap(out_);
        out_.clear();
    } else if (written_ > out_.size() / 2) {
        out_.erase(0, written_);
        written_ = 0;
    }
    return State::open;
}

void tune_connection(int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace ty::agent
