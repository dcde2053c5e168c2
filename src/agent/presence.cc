// SPDX-License-Identifier: Apache-2.0
#include "agent/presence.h"

#include "base/format.h"
#include "base/text.h"
#include "sys/sys.h"

#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

namespace ty::agent {

void write_pid_file(const sys::fs::path& folder) {
    sys::ProcessStat stat;
    (void)sys::read_process(::getpid(), stat);
    sys::write_file(folder / "agent.pid.new", format("{} {}\n", ::getpid(), stat.start_ticks));
    sys::fs::rename(folder / "agent.pid.new", folder / "agent.pid");
}

void keep_lock() {
    const char* text = std::getenv("TRAINYARD_LOCK_FD");
    const auto number = text != nullptr ? parse_int(text) : std::nullopt;
    if (number && *number > 2) (void)::fcntl(static_cast<int>(*number), F_SETFD, FD_CLOEXEC);
}

}  // namespace ty::agent
