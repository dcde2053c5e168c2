// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/workers/numa.h"

#include "base/error.h"
#include "base/format.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::agent;

namespace {

using Lists = std::vector<std::vector<int>>;

/// A made-up machine: CPUs 0-7 are the first threads of cores 0-7, 8-15 the second ones.
/// Nodes 0 (cores 0-2), 1 (core 3), 2 (cores 4-7); sockets: nodes 0 and 1, node 2. Cores 4-5 and
/// 6-7 share a cache each. GPUs 0 and 1 are at node 0, 2 and 3 at node 2.
class FakeMachine {
public:
    FakeMachine() {
        for (int cpu = 0; cpu < 16; ++cpu) {
            const int core = cpu % 8;
            const std::string folder = format("sys/devices/system/cpu/cpu{}", cpu);
            put(folder + "/topology/thread_siblings_list", format("{},{}", core, core + 8));
            put(folder + "/topology/physical_package_id", core < 4 ? "0" : "1");
            const int first = core / 2 * 2;
            cache(folder + "/cache/index0", "Data", 1, format("{},{}", core, core + 8));
            cache(folder + "/cache/index1", "Instruction", 9, format("{}", core));
            cache(folder + "/cache/index2", "Unified", 3,
                  format("{}-{},{}-{}", first, first + 1, first + 8, first + 9));
        }
        put("sys/devices/system/node/possible", "0-3");
        put("sys/devices/system/node/node0/cpulist", "0-2,8-10");
        put("sys/devices/system/node/node1/cpulist", "3,11");
        put("sys/devices/system/node/node2/cpulist", "4-7,12-15");
        const int nodes[] = {-1, 0, 2, 2};  // -1: not known, which counts as node 0
        for (int gpu = 0; gpu < 4; ++gpu) {
            const std::string address = format("0000:{}1:00.0", gpu);
            put(format("proc/driver/nvidia/gpus/{}/information", address),
                format("Model: \t\t Some GPU\nGPU UUID: \t GPU-{}0-aa\nBus Type: \t PCIe", gpu));
            put(format("sys/bus/pci/devices/{}/numa_node", address), format("{}", nodes[gpu]));
        }
        source.root = dir_.path();
        for (int cpu = 0; cpu < 16; ++cpu) source.allowed.insert(cpu);
    }
    Lists bind(const std::string& mode, int workers) const {
        return numa_cpus(mode, workers, source);
    }
    std::string refusal(const std::string& mode, int workers) const {
        try {
            numa_cpus(mode, workers, source);
        } catch (const Error& error) {
            return error.what();
        }
        return "accepted";
    }

    NumaSource source;

private:
    void put(const std::string& name, const std::string& text) {
        const auto file = dir_.path() / name;
        sys::fs::create_directories(file.parent_path());
        sys::write_file(file, text + "\n");
    }
    void cache(const std::string& folder, const char* type, int level, const std::string& cpus) {
        put(folder + "/type", type);
        put(folder + "/level", format("{}", level));
        put(folder + "/shared_cpu_list", cpus);
    }

    sys::TempDir dir_;
};

}  // namespace

TEST_CASE("numa: node binds a worker to the CPUs of its GPU's node") {
    const FakeMachine machine;
    CHECK(machine.bind("node", 3) ==
          Lists{{0, 1, 2, 8, 9, 10}, {0, 1, 2, 8, 9, 10}, {4, 5, 6, 7, 12, 13, 14, 15}});
}

TEST_CASE("numa: socket adds the other nodes of the socket") {
    const FakeMachine machine;
    const Lists bound = machine.bind("socket", 3);
    CHECK(bound[1] == std::vector<int>{0, 1, 2, 3, 8, 9, 10, 11});
    CHECK(bound[2] == std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15});
}

TEST_CASE("numa: exclusive divides whole cores; the first GPU gets what is left over") {
    const FakeMachine machine;
    CHECK(machine.bind("exclusive", 4) ==
          Lists{{0, 1, 8, 9}, {2, 10}, {4, 5, 12, 13}, {6, 7, 14, 15}});
}

TEST_CASE("numa: core-complex gives each GPU a cache of its own, the largest first") {
    FakeMachine machine;
    // Of the caches at node 2, the second has more CPUs that may be used.
    machine.source.allowed.erase(4);
    const Lists bound = machine.bind("core-complex", 4);
    CHECK(bound[0] == std::vector<int>{0, 1, 8, 9});
    CHECK(bound[1] == std::vector<int>{2, 10});  // what its cache shares with node 1 is not here
    CHECK(bound[2] == std::vector<int>{6, 7, 14, 15});
    CHECK(bound[3] == std::vector<int>{5, 12, 13});
}

TEST_CASE("numa: only CPUs that this process may use are bound to") {
    FakeMachine machine;
    machine.source.allowed = {2, 3, 4};
    CHECK(machine.bind("node", 1) == Lists{{2}});
    machine.source.allowed = {4};
    CHECK(machine.refusal("node", 1).find("no CPU of NUMA node 0") != std::string::npos);
    machine.source.allowed = {0, 8};
    CHECK(machine.refusal("exclusive", 1).find("1 usable cores for its 2 GPUs") !=
          std::string::npos);
}

TEST_CASE("numa: CUDA_VISIBLE_DEVICES chooses and orders the GPUs, by index or UUID") {
    FakeMachine machine;
    machine.source.visible_devices = "3,GPU-00";
    CHECK(machine.bind("node", 2) == Lists{{4, 5, 6, 7, 12, 13, 14, 15}, {0, 1, 2, 8, 9, 10}});
    // GPUs that nobody sees get no share.
    CHECK(machine.bind("exclusive", 1) == Lists{{4, 5, 6, 7, 12, 13, 14, 15}});
    machine.source.visible_devices = "";
    CHECK(machine.refusal("node", 1).find("local rank 0 has no GPU") != std::string::npos);
    machine.source.visible_devices = "2,9,0";
    CHECK(machine.refusal("node", 2).find("local rank 1 has no GPU") != std::string::npos);
}

TEST_CASE("numa: a machine without GPUs is refused with the remedy") {
    const sys::TempDir empty;
    const NumaSource source{.root = empty.path(), .allowed = {0, 1}, .visible_devices = {}};
    CHECK_THROWS_WITH(
        numa_cpus("node", 1, source),
        "--numa-binding: local rank 0 has no GPU to be near to (0 visible on this node); leave "
        "--numa-binding out or lower --nproc-per-node");
}

TEST_CASE("numa: this machine says which CPUs may be used") {
    CHECK_FALSE(this_machine().allowed.empty());
}
