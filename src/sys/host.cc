// SPDX-License-Identifier: Apache-2.0
// /proc and /sys readers. Every path is below a root argument, so that tests read a tree of their
// own.
#include "sys/host.h"

#include "base/error.h"
#include "base/text.h"
#include "sys/fd.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <sched.h>
#include <unistd.h>

namespace ty::sys {

namespace {

/// Content of a small file; empty when it cannot be read.
std::string slurp(const fs::path& path) {
    try {
        return read_file(path, Bytes(4u << 20));
    } catch (const Error&) {
        return {};
    }
}

std::vector<std::string> words(std::string_view line) {
    std::vector<std::string> result;
    while (true) {
        const auto first = line.find_first_not_of(" \t\n");
        if (first == std::string_view::npos) return result;
        line.remove_prefix(first);
        const auto end = std::min(line.find_first_of(" \t\n"), line.size());
        result.emplace_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

int affinity_count() {
    // A fixed cpu_set_t fails with EINVAL on machines with more than 1024 processors.
    for (int size = 1024; size <= (1 << 18); size *= 4) {
        cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(size));
        if (set == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(size));
        const bool known = ::sched_getaffinity(0, bytes, set) == 0;
        const int count = known ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (known) return std::max(1, count);
    }
    return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

int listed_processors(const fs::path& root) {
    int count = 0;
    for (const std::string& line : split(slurp(root / "proc/cpuinfo"), '\n')) {
        if (line.starts_with("processor")) ++count;
    }
    return std::max(1, count);
}

std::optional<double> quota_v2(const fs::path& dir) {
    const std::vector<std::string> fields = words(slurp(dir / "cpu.max"));
    if (fields.size() != 2) return std::nullopt;
    const auto quota = parse_double(fields[0]);  // "max": none
    const auto period = parse_double(fields[1]);
    if (!quota || !period || *period <= 0) return std::nullopt;
    return *quota / *period;
}

std::optional<double> quota_v1(const fs::path& dir) {
    const auto quota = parse_double(trim(slurp(dir / "cpu.cfs_quota_us")));
    const auto period = parse_double(trim(slurp(dir / "cpu.cfs_period_us")));
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return *quota / *period;
}

/// The smallest quota of a group and its parents. In a container the group's path may be the host's
/// and not exist here; then the mount's root is our group.
template <typename Read>
std::optional<double> smallest_quota(const fs::path& mount, std::string_view group, Read read) {
    std::optional<double> smallest;
    fs::path path = fs::path(group).relative_path().lexically_normal();
    while (true) {
        if (const auto quota = read(mount / path); quota && (!smallest || *quota < *smallest)) {
            smallest = quota;
        }
        if (path.empty() || path == "." || *path.begin() == "..") return smallest;
        path = path.parent_path();
    }
}

std::optional<double> cpu_quota(const fs::path& root) {
    const fs::path mount = root / "sys/fs/cgroup";
    std::optional<double> smallest;
    for (const std::string& line : split(slurp(root / "proc/self/cgroup"), '\n')) {
        // "0::/user.slice" (v2) or "4:cpu,cpuacct:/docker/1f2e" (v1).
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string names = line.substr(first + 1, second - first - 1);
        const std::string group = line.substr(second + 1);
        std::optional<double> quota;
        if (names.empty()) {
            quota = smallest_quota(mount, group, quota_v2);
        } else {
            const std::vector<std::string> list = split(names, ',');
            if (std::ranges::find(list, "cpu") == list.end()) continue;
            quota = smallest_quota(mount / names, group, quota_v1);
            if (!quota) quota = smallest_quota(mount / "cpu", group, quota_v1);
        }
        if (quota && (!smallest || *quota < *smallest)) smallest = quota;
    }
    return smallest;
}

int count_gpus(const fs::path& root) {
    std::error_code failed;
    int count = 0;
    for (auto it = fs::directory_iterator(root / "proc/driver/nvidia/gpus", failed);
         !failed && it != fs::directory_iterator(); it.increment(failed)) {
        ++count;
    }
    if (count > 0) return count;
    for (auto it = fs::directory_iterator(root / "dev", failed);
         !failed && it != fs::directory_iterator(); it.increment(failed)) {
        const std::string name = it->path().filename().string();
        if (!name.starts_with("nvidia") || name.size() == 6) continue;
        if (std::ranges::all_of(name.substr(6), [](char c) { return c >= '0' && c <= '9'; }))
            ++count;
    }
    return count;
}

std::string default_route_interface(const fs::path& root) {
    std::string best = "lo";
    long long best_metric = -1;
    for (const std::string& line : split(slurp(root / "proc/net/route"), '\n')) {
        // Iface Destination Gateway Flags RefCnt Use Metric Mask ...
        const std::vector<std::string> fields = words(line);
        if (fields.size() < 8 || fields[1] != "00000000" || fields[7] != "00000000") continue;
        const long long metric = parse_int(fields[6]).value_or(0);
        if (best_metric >= 0 && metric >= best_metric) continue;
        best = fields[0];
        best_metric = metric;
    }
    return best;
}

}  // namespace

HostFacts read_host(const fs::path& root) {
    HostFacts facts;
    facts.cpus = root == "/" ? affinity_count() : listed_processors(root);
    if (const auto quota = cpu_quota(root)) {
        facts.cpus = std::clamp(static_cast<int>(std::ceil(std::min(*quota, 1e6))), 1, facts.cpus);
    }
    for (const std::string& line : split(slurp(root / "proc/meminfo"), '\n')) {
        const std::vector<std::string> fields = words(line);
        if (fields.size() < 2 || fields[0] != "MemTotal:") continue;
        facts.memory = Bytes(static_cast<std::uint64_t>(parse_int(fields[1]).value_or(0)) << 10);
    }
    facts.gpus = count_gpus(root);
    facts.network_interface = default_route_interface(root);
    facts.host_name = trim(slurp(root / "proc/sys/kernel/hostname"));
    if (facts.host_name.empty()) facts.host_name = "localhost";
    return facts;
}

Bytes resident_memory(int pid, const fs::path& root) {
    const std::vector<std::string> fields =
        words(slurp(root / "proc" / std::to_string(pid) / "statm"));
    if (fields.size() < 2) return Bytes(0);
    const auto pages = static_cast<std::uint64_t>(std::max(0LL, parse_int(fields[1]).value_or(0)));
    return Bytes(pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

bool read_process(int pid, ProcessStat& out, const fs::path& root) {
    const std::string text = slurp(root / "proc" / std::to_string(pid) / "stat");
    const auto name_end = text.rfind(')');  // the name may itself contain spaces and brackets
    if (name_end == std::string::npos) return false;
    const std::vector<std::string> fields = words(std::string_view(text).substr(name_end + 1));
    if (fields.size() < 20 || fields[0].size() != 1) return false;
    const auto parent = parse_int(fields[1]);
    const auto start = parse_int(fields[19]);
    if (!parent || !start) return false;
    out = ProcessStat{
        .start_ticks = *start, .parent = static_cast<int>(*parent), .state = fields[0][0]};
    return true;
}

}  // namespace ty::sys
