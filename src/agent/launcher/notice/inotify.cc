// SPDX-License-Identifier: Apache-2.0
// Reading inotify's packed records into values.
#include "agent/launcher/notice/inotify.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/inotify.h>
#include <unistd.h>

namespace ty::agent {

Inotify::Inotify() : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

int Inotify::add(const sys::fs::path& folder, std::uint32_t mask) {
    if (!is_open()) {
        errno = EBADF;
        return -1;
    }
    return ::inotify_add_watch(fd_.get(), folder.c_str(), mask);
}

std::vector<Inotify::Event> Inotify::read() {
    std::vector<Event> events;
    std::array<char, 16384> buffer;
    while (is_open()) {
        const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            inotify_event raw = {};
            std::memcpy(&raw, buffer.data() + at, sizeof raw);
            const char* name = buffer.data() + at + sizeof raw;
            events.push_back({raw.wd, raw.mask, std::string(name, ::strnlen(name, raw.len))});
            at += sizeof raw + raw.len;
        }
    }
    return events;
}

}  // namespace ty::agent
