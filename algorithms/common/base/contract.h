// SPDX-License-Identifier: Apache-2.0
// What a training container sees: /opt/ml and the environment. Outside a container every path can
// be given on the command line instead, so that each program also runs from a shell:
//   masked-lm --train DIR --valid DIR --model DIR [--checkpoints DIR] [--output DIR] [--name
//   value…]
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace alg {

namespace fs = std::filesystem;

/// The process's place among all that train together. Torchrun's variables (RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT) where they are set; else one process per
/// host of resourceconfig.json; else alone.
struct Place {
    int rank = 0, world = 1, local_rank = 0, local_world = 1;
    std::string master_address = "127.0.0.1";
    int master_port = 29500;
    std::string current_host = "algo-1";
    std::vector<std::string> hosts = {"algo-1"};
    std::string interface;  ///< network_interface_name of resourceconfig.json; empty: unknown
};

struct Contract {
    std::map<std::string, fs::path> channels;            ///< name -> folder
    std::map<std::string, std::string> hyperparameters;  ///< as given, text
    fs::path model = "/opt/ml/model";
    fs::path checkpoints = "/opt/ml/checkpoints";  ///< used when it exists or was named
    fs::path output = "/opt/ml/output";            ///< failure goes here
    fs::path data = "/opt/ml/output/data";
    bool has_checkpoints = false;
    Place place;

    /// Folder of a channel. Throws Failure naming the channels there are.
    const fs::path& channel(const std::string& name) const;
};

/// Reads hyperparameters.json, inputdataconfig.json, resourceconfig.json under `root` (/opt/ml; the
/// variable TRAINYARD_OPT_ML names another for tests), then the command line over them:
/// `--<hyperparameter> value` or `--<hyperparameter>=value` for the names in `hyperparameters`;
/// `--model`, `--checkpoints`, `--output` and `--<channel>` for the names in `channels`;
/// `--config group=choice` and `key=value` are kept in hyperparameters["config_overrides"].
/// Hyperparameters of the platform itself (sagemaker_*) are left out. Values that are JSON strings
/// (SDK v2 encodes "\"text\"") lose their quotes. Throws Failure for unknown options with the
/// nearest.
Contract read_contract(int argc, const char* const* argv, const std::vector<std::string>& channels,
                       const std::vector<std::string>& hyperparameters);

/// Writes `message` to <output>/failure, at most 1,024 bytes, replacing what is there. Never
/// throws.
void write_failure(const fs::path& output, const std::string& message) noexcept;

/// The main() of every program: runs `body`, turns Failure and other exceptions into one line on
/// stderr and the failure file; returns the exit code (0, 1; 143 after SIGTERM was obeyed).
int run_program(int argc, const char* const* argv, int (*body)(int argc, const char* const* argv));

}  // namespace alg
