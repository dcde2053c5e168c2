// SPDX-License-Identifier: Apache-2.0
// A process's place among all that train together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace alg {

/// Torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT)
/// where they are set; else one process per host of resourceconfig.json; else alone.
struct Place {
    int rank = 0, world = 1, local_rank = 0, local_world = 1;
    std::string master_address = "127.0.0.1";
    int master_port = 29500;
    std::string current_host = "algo-1";
    std::vector<std::string> hosts = {"algo-1"};
    std::string interface;  ///< network_interface_name of resourceconfig.json; empty: unknown
};

/// `config`: the folder of resourceconfig.json, which may be absent. Throws Failure for a file or
/// for variables that contradict themselves.
Place read_place(const std::filesystem::path& config);

}  // namespace alg
