// SPDX-License-Identifier: Apache-2.0
// inotify(7) as an owned descriptor and values. Private to the launcher's watchers.
#pragma once

#include "sys/sys.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ty::agent {

class Inotify {
public:
    struct Event {
        int watch = -1;
        std::uint32_t mask = 0;
        std::string name;  ///< inside the watched folder; empty for the folder itself
    };

    /// is_open() is false where the kernel has none to give (its per-user limit): poll then.
    Inotify();
    bool is_open() const { return fd_.is_open(); }
    int fd() const { return fd_.get(); }
    /// The watch's number, the same one for a folder added twice; -1 with errno when it cannot be.
    int add(const sys::fs::path& folder, std::uint32_t mask);
    /// Everything that is there now; never blocks.
    std::vector<Event> read();

private:
    sys::Fd fd_;
};

}  // namespace ty::agent
