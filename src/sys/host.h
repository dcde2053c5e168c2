// SPDX-License-Identifier: Apache-2.0
// What this machine has, read from /proc and /sys under a given root so that tests can fake one.
#pragma once

#include "base/bytes.h"

#include <filesystem>
#include <string>
#include <vector>

namespace ty::sys {

struct HostFacts {
    int cpus = 1;                   ///< usable by this process (affinity and quota)
    Bytes memory;                   ///< MemTotal
    int gpus = 0;                   ///< /proc/driver/nvidia/gpus, else /dev/nvidia[0-9]*
    std::string network_interface;  ///< of the default route, else "lo"
    std::string host_name;
};
HostFacts read_host(const std::filesystem::path& root = "/");

/// Resident set of a process; zero when it is gone.
Bytes resident_memory(int pid, const std::filesystem::path& root = "/");

/// Fields of /proc/<pid>/stat that identify and meter a process.
struct ProcessStat {
    long long start_ticks = 0;  ///< distinguishes reuses of one pid
    int parent = 0;
    char state = '?';
};
bool read_process(int pid, ProcessStat& out, const std::filesystem::path& root = "/");

}  // namespace ty::sys
