// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/workers/numa.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>

#include <sched.h>

namespace ty::agent {

namespace {

using Cpus = std::set<int>;
using sys::fs::path;

constexpr long long kMostCpus = 65536;

/// "0-2,4" of a file in /sys.
Cpus read_list(const path& file) {
    Cpus result;
    const std::string text = sys::read_file(file);
    for (const std::string& part : split(trim(text), ',')) {
        if (trim(part).empty()) continue;
        const std::size_t dash = part.find('-');
        const auto low = parse_int(trim(part.substr(0, dash)));
        const auto high = dash == part.npos ? low : parse_int(trim(part.substr(dash + 1)));
        if (!low || !high || *low < 0 || *high >= kMostCpus)
            throw_error(Code::corrupt, "", "{}: \"{}\" is not a list of numbers", file.string(),
                        trim(text));
        for (long long cpu = *low; cpu <= *high; ++cpu) result.insert(static_cast<int>(cpu));
    }
    return result;
}

int read_number(const path& file) {
    const std::string text = sys::read_file(file);
    const auto value = parse_int(trim(text));
    if (!value || *value < -1 || *value > std::numeric_limits<int>::max())
        throw_error(Code::corrupt, "", "{}: \"{}\" is not a number", file.string(), trim(text));
    return static_cast<int>(*value);
}

std::vector<path> entries(const path& folder) {
    std::vector<path> found;
    std::error_code failed;
    for (auto it = sys::fs::directory_iterator(folder, failed);
         !failed && it != sys::fs::directory_iterator(); it.increment(failed))
        found.push_back(it->path());
    std::sort(found.begin(), found.end());
    return found;
}

/// "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"; empty when the driver does not say.
std::string uuid_of(const path& gpu) {
    if (!sys::fs::exists(gpu / "information")) return "";
    for (const std::string& line : split(sys::read_file(gpu / "information"), '\n')) {
        constexpr std::string_view kKey = "GPU UUID:";
        if (line.starts_with(kKey))
            return std::string(trim(std::string_view(line).substr(kKey.size())));
    }
    return "";
}

class Machine {
public:
    explicit Machine(const NumaSource& source)
        : root_(source.root), cpu_(root_ / "sys/devices/system/cpu"), allowed_(source.allowed) {
        find_gpus(source.visible_devices);
    }

    int node_of(int gpu) const {
        if (static_cast<std::size_t>(gpu) >= gpus_.size()) {
            throw_error(Code::invalid, "",
                        "--numa-binding: local rank {} has no GPU to be near to ({} visible on "
                        "this node); leave --numa-binding out or lower --nproc-per-node",
                        gpu, gpus_.size());
        }
        const std::string& address = gpus_[static_cast<std::size_t>(gpu)];
        // -1 on machines with a single node.
        return std::max(0, read_number(root_ / "sys/bus/pci/devices" / address / "numa_node"));
    }
    /// The GPUs of a node, by index.
    std::vector<int> gpus_of(int node) const {
        std::vector<int> found;
        for (int gpu = 0; gpu < static_cast<int>(gpus_.size()); ++gpu)
            if (node_of(gpu) == node) found.push_back(gpu);
        return found;
    }
    /// The CPUs of a node that we may use.
    Cpus cpus_of(int node) const {
        const Cpus all = read_list(root_ / format("sys/devices/system/node/node{}/cpulist", node));
        Cpus usable;
        std::set_intersection(all.begin(), all.end(), allowed_.begin(), allowed_.end(),
                              std::inserter(usable, usable.end()));
        return usable;
    }
    Cpus cpus_of_socket(int node) const {
        const Cpus own = cpus_of(node);
        if (own.empty()) return own;
        const int socket = socket_of(*own.begin());
        Cpus result;
        for (const int other : read_list(root_ / "sys/devices/system/node/possible")) {
            if (!sys::fs::exists(root_ / format("sys/devices/system/node/node{}/cpulist", other)))
                continue;  // possible, not plugged in
            const Cpus cpus = cpus_of(other);
            if (!cpus.empty() && socket_of(*cpus.begin()) == socket)
                result.insert(cpus.begin(), cpus.end());
        }
        return result;
    }
    /// Hardware threads of one core, by its lowest CPU.
    int core_of(int cpu) const {
        return lowest(read_list(cpu_ / format("cpu{}/topology/thread_siblings_list", cpu)), cpu);
    }
    /// CPUs that share the largest cache, by the lowest of them.
    int complex_of(int cpu) const {
        int level = -1;
        Cpus mates;
        for (const path& cache : entries(cpu_ / format("cpu{}/cache", cpu))) {
            if (!sys::fs::exists(cache / "type")) continue;
            const std::string type = sys::read_file(cache / "type");
            if (trim(type) != "Unified" && trim(type) != "Data") continue;
            const int this_level = read_number(cache / "level");
            if (this_level <= level) continue;
            level = this_level;
            mates = read_list(cache / "shared_cpu_list");
        }
        return lowest(mates, cpu);
    }

private:
    static int lowest(const Cpus& cpus, int otherwise) {
        return cpus.empty() ? otherwise : *cpus.begin();
    }
    int socket_of(int cpu) const {
        return read_number(cpu_ / format("cpu{}/topology/physical_package_id", cpu));
    }

    /// As CUDA counts them: CUDA_VISIBLE_DEVICES names them by index or UUID.
    void find_gpus(const std::optional<std::string>& visible) {
        const std::vector<path> present = entries(root_ / "proc/driver/nvidia/gpus");
        if (!visible) {
            for (const path& gpu : present) gpus_.push_back(gpu.filename().string());
            return;
        }
        for (const std::string& entry : split(*visible, ',')) {
            const std::string_view name = trim(entry);
            const auto index = parse_int(name);
            auto found = present.end();
            if (index) {
                if (*index >= 0 && *index < static_cast<long long>(present.size()))
                    found = present.begin() + *index;
            } else if (name.starts_with("GPU-")) {
                found = std::find_if(present.begin(), present.end(), [&](const path& gpu) {
                    return uuid_of(gpu).starts_with(name);
                });
            }
            if (found == present.end()) return;  // CUDA, too, stops at the first one unknown
            gpus_.push_back(found->filename().string());
        }
    }

    path root_, cpu_;
    Cpus allowed_;
    std::vector<std::string> gpus_;  ///< PCI addresses
};

using Group = std::pair<int, Cpus>;  ///< its lowest CPU, its usable CPUs

template <typename KeyOf>
std::vector<Group> group(const Cpus& cpus, KeyOf&& key_of) {
    std::map<int, Cpus> groups;
    for (const int cpu : cpus) groups[key_of(cpu)].insert(cpu);
    return {groups.begin(), groups.end()};
}

/// Which of its node's GPUs this one is.
std::size_t place_of(const std::vector<int>& gpus, int gpu) {
    return static_cast<std::size_t>(std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin());
}

/// Whole cores, divided evenly; the first GPUs get one more where there is a rest.
Cpus exclusive_cpus(const Machine& machine, int gpu, int node) {
    const std::vector<int> gpus = machine.gpus_of(node);
    const std::vector<Group> cores =
        group(machine.cpus_of(node), [&](int cpu) { return machine.core_of(cpu); });
    const std::size_t place = place_of(gpus, gpu);
    const std::size_t each = cores.size() / gpus.size(), rest = cores.size() % gpus.size();
    if (each == 0) {
        throw_error(Code::invalid, "",
                    "--numa-binding exclusive: NUMA node {} has {} usable cores for its {} GPUs; "
                    "use --numa-binding node",
                    node, cores.size(), gpus.size());
    }
    const std::size_t begin = place * each + std::min(place, rest);
    const std::size_t end = begin + each + (place < rest ? 1 : 0);
    Cpus result;
    for (std::size_t i = begin; i < end; ++i)
        result.insert(cores[i].second.begin(), cores[i].second.end());
    return result;
}

/// The largest complexes first; GPUs beyond their number start again with the first.
Cpus complex_cpus(const Machine& machine, int gpu, int node) {
    std::vector<Group> complexes =
        group(machine.cpus_of(node), [&](int cpu) { return machine.complex_of(cpu); });
    if (complexes.empty()) return {};
    std::stable_sort(complexes.begin(), complexes.end(), [](const Group& a, const Group& b) {
        return a.second.size() > b.second.size();
    });
    return complexes[place_of(machine.gpus_of(node), gpu) % complexes.size()].second;
}

}  // namespace

NumaSource this_machine() {
    NumaSource source;
    // Large enough for any kernel: one that has more CPUs than the mask refuses the call.
    constexpr std::size_t kBytes = kMostCpus / 8;
    std::vector<unsigned long> mask(kBytes / sizeof(unsigned long));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (::sched_getaffinity(0, kBytes, set) != 0) throw_errno("sched_getaffinity");
    for (int cpu = 0; cpu < kMostCpus; ++cpu)
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), kBytes, set)) source.allowed.insert(cpu);
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) source.visible_devices = visible;
    return source;
}

std::vector<std::vector<int>> numa_cpus(const std::string& mode, int workers,
                                        const NumaSource& source) {
    const Machine machine(source);
    std::vector<std::vector<int>> result;
    for (int gpu = 0; gpu < workers; ++gpu) {
        const int node = machine.node_of(gpu);
        const Cpus cpus = mode == "socket"         ? machine.cpus_of_socket(node)
                          : mode == "exclusive"    ? exclusive_cpus(machine, gpu, node)
                          : mode == "core-complex" ? complex_cpus(machine, gpu, node)
                                                   : machine.cpus_of(node);
        if (cpus.empty()) {
            throw_error(Code::invalid, "",
                        "--numa-binding {}: this process may use no CPU of NUMA node {}, where the "
                        "GPU of local rank {} is; leave --numa-binding out or allow more CPUs",
                        mode, node, gpu);
        }
        result.emplace_back(cpus.begin(), cpus.end());
    }
    return result;
}

}  // namespace ty::agent
