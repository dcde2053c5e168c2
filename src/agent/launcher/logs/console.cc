// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/logs/console.h"
#include "base/format.h"

#include <algorithm>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

namespace ty::agent {

namespace {

// A pipe that poll(2) calls writable takes this much without blocking (pipe(7): PIPE_BUF).
constexpr std::size_t kSafeWrite = 4096;

bool is_writable(int fd, int timeout) {
    pollfd wanted{.fd = fd, .events = POLLOUT, .revents = 0};
    return ::poll(&wanted, 1, timeout) > 0;
}

}  // namespace

Console::Console(int fd) : fd_(fd) {
    struct stat facts {};
    if (::fstat(fd, &facts) != 0) {
        closed_ = true;
        return;
    }
    // A dead reader must be an error code, not the end of the launcher.
    sys::ignore_sigpipe();
    if (S_ISREG(facts.st_mode) || S_ISBLK(facts.st_mode)) {
        kind_ = Kind::file;
    } else if (S_ISSOCK(facts.st_mode)) {
        kind_ = Kind::socket;
    } else {
        const std::string path = format("/proc/self/fd/{}", fd);
        own_ = sys::Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
        if (own_.is_open()) kind_ = Kind::opened;
    }
}

long Console::try_write(std::string_view text) const {
    switch (kind_) {
        case Kind::file:
            return ::write(fd_, text.data(), text.size());
        case Kind::opened:
            return ::write(own_.get(), text.data(), text.size());
        case Kind::socket:
            return ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        case Kind::shared:
            break;
    }
    if (!is_writable(fd_, 0)) {
        errno = EAGAIN;
        return -1;
    }
    return ::write(fd_, text.data(), std::min(text.size(), kSafeWrite));
}

void Console::put(std::string_view text) {
    if (closed_) return;
    pending_.assign(text);
    done_ = 0;
    push();
}

bool Console::push() {
    const std::size_t before = done_;
    while (!is_idle()) {
        const long count = try_write(std::string_view(pending_).substr(done_));
        if (count >= 0) {
            done_ += static_cast<std::size_t>(count);
        } else if (errno == EAGAIN) {
            return done_ > before;
        } else if (errno != EINTR) {
            // Closed (EPIPE), full (ENOSPC) or broken (EIO): the lines are in their files.
            closed_ = true;
            done_ = pending_.size();
        }
    }
    return done_ > before;
}

bool Console::wait(milliseconds patience) const {
    if (is_idle()) return true;
    return is_writable(own_.is_open() ? own_.get() : fd_, static_cast<int>(patience.count()));
}

}  // namespace ty::agent
