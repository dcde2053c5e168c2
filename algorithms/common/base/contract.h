// SPDX-License-Identifier: Apache-2.0
// What a training container sees: /opt/ml and the environment. Outside a container every path can
// be given on the command line instead, so that each program also runs from a shell:
//   masked-lm --train DIR --valid DIR --model DIR [--checkpoints DIR] [--output DIR] [--name
//   value…]
#pragma once

#include "common/base/place.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace alg {

namespace fs = std::filesystem;

struct Contract {
    std::map<std::string, fs::path> channels;            ///< name -> folder
    std::map<std::string, std::string> hyperparameters;  ///< as given, text
    std::map<std::string, std::string> origin;           ///< of each: file or option it came from
    fs::path model = "/opt/ml/model";
    fs::path checkpoints = "/opt/ml/checkpoints";  ///< used when it exists or was named
    fs::path output = "/opt/ml/output";            ///< failure goes here
    fs::path data = "/opt/ml/output/data";
    bool has_checkpoints = false;
    Place place;

    /// Folder of a channel. Throws Failure naming the channels there are.
    const fs::path& channel(const std::string& name) const;
    bool has_channel(const std::string& name) const { return channels.contains(name); }
};

/// /opt/ml, or what TRAINYARD_OPT_ML names.
fs::path contract_root();

/// Reads hyperparameters.json, inputdataconfig.json, resourceconfig.json under `root` (/opt/ml; the
/// variable TRAINYARD_OPT_ML names another for tests), then the command line over them:
/// `--<hyperparameter> value` or `--<hyperparameter>=value` for the names in `hyperparameters`
/// (hyphens stand for underscores);
/// `--model`, `--checkpoints`, `--output` and `--<channel>` for the names in `channels`, `--channel
/// name=folder` for a channel whose name is taken (model);
/// `--config group=choice` and `key=value` are kept in hyperparameters["config_overrides"], unless
/// `config_folder` is given: then <config_folder>/config.yaml is composed with them (and with the
/// hyperparameter config_overrides of the file), and its values lie under those of
/// hyperparameters.json, which lie under the command line's.
/// Hyperparameters of the platform itself (sagemaker_*) are left out. Values that are JSON strings
/// (SDK v2 encodes "\"text\"") lose their quotes; null and None count as not given. Throws one
/// Failure with all problems of the command line, unknown options with the nearest.
Contract read_contract(int argc, const char* const* argv, const std::vector<std::string>& channels,
                       const std::vector<std::string>& hyperparameters,
                       const fs::path& config_folder = {});

/// Writes `message` to <output>/failure, at most 1,024 bytes, replacing what is there. Never
/// throws.
void write_failure(const fs::path& output, const std::string& message) noexcept;

/// The main() of every program: runs `body`, turns Failure and other exceptions into one line on
/// stderr and the failure file; returns the exit code (0, 1; 143 after SIGTERM was obeyed). Of
/// several processes of a host the first one's failure stays: the others fail because of it. A
/// launcher finds the failure in TORCHELASTIC_ERROR_FILE, too.
int run_program(int argc, const char* const* argv, int (*body)(int argc, const char* const* argv));

}  // namespace alg
