// SPDX-License-Identifier: Apache-2.0
// The training instance types of AWS's model, in its order, with what an instance of each brings.
// Trainium chips are counted as accelerators too: like GPUs they are never replaced silently.
#include "base/error.h"
#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <thread>

namespace ty::engine {

namespace {

/// One row as it can be written in a constant table.
struct Row {
    std::string_view name;
    int cpus;
    int gpus;
};

constexpr Row kRows[] = {
    {"local", 0, 0},  // this machine; cpus are counted at first use
    {"ml.m4.xlarge", 4, 0},
    {"ml.m4.2xlarge", 8, 0},
    {"ml.m4.4xlarge", 16, 0},
    {"ml.m4.10xlarge", 40, 0},
    {"ml.m4.16xlarge", 64, 0},
    {"ml.g4dn.xlarge", 4, 1},
    {"ml.g4dn.2xlarge", 8, 1},
    {"ml.g4dn.4xlarge", 16, 1},
    {"ml.g4dn.8xlarge", 32, 1},
    {"ml.g4dn.12xlarge", 48, 4},
    {"ml.g4dn.16xlarge", 64, 1},
    {"ml.m5.large", 2, 0},
    {"ml.m5.xlarge", 4, 0},
    {"ml.m5.2xlarge", 8, 0},
    {"ml.m5.4xlarge", 16, 0},
    {"ml.m5.12xlarge", 48, 0},
    {"ml.m5.24xlarge", 96, 0},
    {"ml.c4.xlarge", 4, 0},
    {"ml.c4.2xlarge", 8, 0},
    {"ml.c4.4xlarge", 16, 0},
    {"ml.c4.8xlarge", 36, 0},
    {"ml.p2.xlarge", 4, 1},
    {"ml.p2.8xlarge", 32, 8},
    {"ml.p2.16xlarge", 64, 16},
    {"ml.p3.2xlarge", 8, 1},
    {"ml.p3.8xlarge", 32, 4},
    {"ml.p3.16xlarge", 64, 8},
    {"ml.p3dn.24xlarge", 96, 8},
    {"ml.p4d.24xlarge", 96, 8},
    {"ml.p4de.24xlarge", 96, 8},
    {"ml.p5.48xlarge", 192, 8},
    {"ml.p5e.48xlarge", 192, 8},
    {"ml.p5en.48xlarge", 192, 8},
    {"ml.c5.xlarge", 4, 0},
    {"ml.c5.2xlarge", 8, 0},
    {"ml.c5.4xlarge", 16, 0},
    {"ml.c5.9xlarge", 36, 0},
    {"ml.c5.18xlarge", 72, 0},
    {"ml.c5n.xlarge", 4, 0},
    {"ml.c5n.2xlarge", 8, 0},
    {"ml.c5n.4xlarge", 16, 0},
    {"ml.c5n.9xlarge", 36, 0},
    {"ml.c5n.18xlarge", 72, 0},
    {"ml.g5.xlarge", 4, 1},
    {"ml.g5.2xlarge", 8, 1},
    {"ml.g5.4xlarge", 16, 1},
    {"ml.g5.8xlarge", 32, 1},
    {"ml.g5.16xlarge", 64, 1},
    {"ml.g5.12xlarge", 48, 4},
    {"ml.g5.24xlarge", 96, 4},
    {"ml.g5.48xlarge", 192, 8},
    {"ml.g6.xlarge", 4, 1},
    {"ml.g6.2xlarge", 8, 1},
    {"ml.g6.4xlarge", 16, 1},
    {"ml.g6.8xlarge", 32, 1},
    {"ml.g6.16xlarge", 64, 1},
    {"ml.g6.12xlarge", 48, 4},
    {"ml.g6.24xlarge", 96, 4},
    {"ml.g6.48xlarge", 192, 8},
    {"ml.g6e.xlarge", 4, 1},
    {"ml.g6e.2xlarge", 8, 1},
    {"ml.g6e.4xlarge", 16, 1},
    {"ml.g6e.8xlarge", 32, 1},
    {"ml.g6e.16xlarge", 64, 1},
    {"ml.g6e.12xlarge", 48, 4},
    {"ml.g6e.24xlarge", 96, 4},
    {"ml.g6e.48xlarge", 192, 8},
    {"ml.trn1.2xlarge", 8, 1},
    {"ml.trn1.32xlarge", 128, 16},
    {"ml.trn1n.32xlarge", 128, 16},
    {"ml.trn2.48xlarge", 192, 16},
    {"ml.m6i.large", 2, 0},
    {"ml.m6i.xlarge", 4, 0},
    {"ml.m6i.2xlarge", 8, 0},
    {"ml.m6i.4xlarge", 16, 0},
    {"ml.m6i.8xlarge", 32, 0},
    {"ml.m6i.12xlarge", 48, 0},
    {"ml.m6i.16xlarge", 64, 0},
    {"ml.m6i.24xlarge", 96, 0},
    {"ml.m6i.32xlarge", 128, 0},
    {"ml.c6i.xlarge", 4, 0},
    {"ml.c6i.2xlarge", 8, 0},
    {"ml.c6i.8xlarge", 32, 0},
    {"ml.c6i.4xlarge", 16, 0},
    {"ml.c6i.12xlarge", 48, 0},
    {"ml.c6i.16xlarge", 64, 0},
    {"ml.c6i.24xlarge", 96, 0},
    {"ml.c6i.32xlarge", 128, 0},
    {"ml.r5d.large", 2, 0},
    {"ml.r5d.xlarge", 4, 0},
    {"ml.r5d.2xlarge", 8, 0},
    {"ml.r5d.4xlarge", 16, 0},
    {"ml.r5d.8xlarge", 32, 0},
    {"ml.r5d.12xlarge", 48, 0},
    {"ml.r5d.16xlarge", 64, 0},
    {"ml.r5d.24xlarge", 96, 0},
    {"ml.t3.medium", 2, 0},
    {"ml.t3.large", 2, 0},
    {"ml.t3.xlarge", 4, 0},
    {"ml.t3.2xlarge", 8, 0},
    {"ml.r5.large", 2, 0},
    {"ml.r5.xlarge", 4, 0},
    {"ml.r5.2xlarge", 8, 0},
    {"ml.r5.4xlarge", 16, 0},
    {"ml.r5.8xlarge", 32, 0},
    {"ml.r5.12xlarge", 48, 0},
    {"ml.r5.16xlarge", 64, 0},
    {"ml.r5.24xlarge", 96, 0},
    {"ml.p6-b200.48xlarge", 192, 8},
    {"ml.m7i.large", 2, 0},
    {"ml.m7i.xlarge", 4, 0},
    {"ml.m7i.2xlarge", 8, 0},
    {"ml.m7i.4xlarge", 16, 0},
    {"ml.m7i.8xlarge", 32, 0},
    {"ml.m7i.12xlarge", 48, 0},
    {"ml.m7i.16xlarge", 64, 0},
    {"ml.m7i.24xlarge", 96, 0},
    {"ml.m7i.48xlarge", 192, 0},
    {"ml.c7i.large", 2, 0},
    {"ml.c7i.xlarge", 4, 0},
    {"ml.c7i.2xlarge", 8, 0},
    {"ml.c7i.4xlarge", 16, 0},
    {"ml.c7i.8xlarge", 32, 0},
    {"ml.c7i.12xlarge", 48, 0},
    {"ml.c7i.16xlarge", 64, 0},
    {"ml.c7i.24xlarge", 96, 0},
    {"ml.c7i.48xlarge", 192, 0},
    {"ml.r7i.large", 2, 0},
    {"ml.r7i.xlarge", 4, 0},
    {"ml.r7i.2xlarge", 8, 0},
    {"ml.r7i.4xlarge", 16, 0},
    {"ml.r7i.8xlarge", 32, 0},
    {"ml.r7i.12xlarge", 48, 0},
    {"ml.r7i.16xlarge", 64, 0},
    {"ml.r7i.24xlarge", 96, 0},
    {"ml.r7i.48xlarge", 192, 0},
    {"ml.p6e-gb200.36xlarge", 144, 4},
    {"ml.p5.4xlarge", 16, 1},
    {"ml.p6-b300.48xlarge", 192, 8},
    {"ml.g7e.2xlarge", 8, 1},
    {"ml.g7e.4xlarge", 16, 1},
    {"ml.g7e.8xlarge", 32, 1},
    {"ml.g7e.12xlarge", 48, 2},
    {"ml.g7e.24xlarge", 96, 4},
    {"ml.g7e.48xlarge", 192, 8},
};

std::vector<InstanceType> make_table() {
    std::vector<InstanceType> table;
    table.reserve(std::size(kRows));
    for (const Row& row : kRows) {
        InstanceType type{std::string(row.name), row.cpus, row.gpus};
        if (type.cpus == 0)
            type.cpus = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
        table.push_back(std::move(type));
    }
    return table;
}

const std::vector<InstanceType>& table() {
    static const std::vector<InstanceType> types = make_table();
    return types;
}

}  // namespace

const InstanceType* find_instance_type(std::string_view name) {
    const auto found = std::ranges::find(table(), name, &InstanceType::name);
    return found == table().end() ? nullptr : &*found;
}

std::vector<std::string> instance_type_names() {
    std::vector<std::string> names;
    names.reserve(table().size());
    for (const InstanceType& type : table()) names.push_back(type.name);
    return names;
}

}  // namespace ty::engine
