// SPDX-License-Identifier: Apache-2.0
// A worker that only says that it lives: one record every two milliseconds to the file
// $CHAOS_TRACE, "monotonic-nanoseconds generation rank world pid". With $CHAOS_CHILD it keeps a
// child in a session of its own, which must never outlive it for long.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

int main() {
    const char* trace = std::getenv("CHAOS_TRACE");
    if (trace == nullptr) return 2;
    if (std::getenv("CHAOS_CHILD") != nullptr && fork() == 0) {
        setsid();
        while (true) pause();
    }
    const int fd = open(trace, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    const timespec rest = {0, 2'000'000};
    while (fd >= 0) {
        timespec now = {};
        clock_gettime(CLOCK_MONOTONIC, &now);
        char line[160];
        const int length =
            std::snprintf(line, sizeof line, "%lld %s %s %s %d\n",
                          static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec,
                          std::getenv("TRAINYARD_GENERATION"), std::getenv("RANK"),
                          std::getenv("WORLD_SIZE"), static_cast<int>(getpid()));
        if (write(fd, line, static_cast<std::size_t>(length)) != length) return 3;
        nanosleep(&rest, nullptr);
    }
    return 1;
}
