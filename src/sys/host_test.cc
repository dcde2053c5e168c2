// SPDX-License-Identifier: Apache-2.0
#include "sys/host.h"

#include "sys/fd.h"

#include <doctest/doctest.h>

#include <unistd.h>

using namespace ty;
using namespace ty::sys;

namespace {

void put(const TempDir& root, const std::string& path, const std::string& content) {
    fs::create_directories((root.path() / path).parent_path());
    write_file(root.path() / path, content);
}

TempDir machine() {
    TempDir root;
    put(root, "proc/cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n\nprocessor : 2\nprocessor : 3\n");
    put(root, "proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\n");
    put(root, "proc/sys/kernel/hostname", "box\n");
    return root;
}

}  // namespace

TEST_CASE("this machine has processors, memory and a name") {
    const HostFacts facts = read_host();
    CHECK(facts.cpus >= 1);
    CHECK(facts.memory.count() > (1u << 20));
    CHECK_FALSE(facts.host_name.empty());
    CHECK_FALSE(facts.network_interface.empty());
    CHECK(resident_memory(::getpid()).count() > 0);
}

TEST_CASE("facts are read from the files of the given root") {
    const TempDir root = machine();
    put(root, "proc/net/route",
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "wlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\n"
        "eth1\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\n"
        "eth2\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n");
    put(root, "dev/nvidia0", "");
    put(root, "dev/nvidia1", "");
    put(root, "dev/nvidiactl", "");
    const HostFacts facts = read_host(root.path());
    CHECK(facts.cpus == 4);
    CHECK(facts.memory == Bytes(16u << 20));
    CHECK(facts.gpus == 2);
    CHECK(facts.network_interface == "eth1");
    CHECK(facts.host_name == "box");
    fs::create_directories(root.path() / "proc/driver/nvidia/gpus/0000:01:00.0");
    CHECK(read_host(root.path()).gpus == 1);
}

TEST_CASE("the cpu quota of the group or a parent bounds the processors, rounded up") {
    const TempDir root = machine();
    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(read_host(root.path()).cpus == 4);
    put(root, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    CHECK(read_host(root.path()).cpus == 2);
    put(root, "sys/fs/cgroup/a/b/cpu.max", "10000 100000\n");
    CHECK(read_host(root.path()).cpus == 1);
}

TEST_CASE("the cpu quota of the first cgroup version counts too, also inside a container") {
    const TempDir root = machine();
    put(root, "proc/self/cgroup", "5:cpu,cpuacct:/docker/12ab\n0::/\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK(read_host(root.path()).cpus == 3);
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    CHECK(read_host(root.path()).cpus == 4);
}

TEST_CASE("a process with an odd name is identified by parent and start time") {
    const TempDir root;
    put(root, "proc/17/stat",
        "17 (a) b (x)) S 4 17 17 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 50 1844 1 1\n");
    ProcessStat stat;
    REQUIRE(read_process(17, stat, root.path()));
    CHECK(stat.parent == 4);
    CHECK(stat.state == 'S');
    CHECK(stat.start_ticks == 98765);
    CHECK_FALSE(read_process(18, stat, root.path()));
    CHECK(resident_memory(18, root.path()) == Bytes(0));
    REQUIRE(read_process(::getpid(), stat));
    CHECK(stat.parent == ::getppid());
}
