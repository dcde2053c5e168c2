// SPDX-License-Identifier: Apache-2.0
// For tests only: a TCPStore on a free port of loopback, which is printed; ends when stdin is
// closed.
#include "agent/launcher/store/tcp_store.h"
#include "base/format.h"
#include "sys/sys.h"

#include <array>
#include <cstddef>

#include <unistd.h>

int main() {
    const ty::agent::TcpStore store("127.0.0.1", 0);
    ty::sys::write_all(STDOUT_FILENO, ty::format("{}\n", store.port()));
    std::array<std::byte, 16> ignored;
    while (ty::sys::read_some(STDIN_FILENO, ignored) > 0) continue;
    return 0;
}
