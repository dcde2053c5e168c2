// SPDX-License-Identifier: Apache-2.0
// The command line of a program, split into what the contract knows. Private to common/base.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace alg {

struct CommandLine {
    std::optional<std::filesystem::path> model, checkpoints, output;
    std::map<std::string, std::filesystem::path> channels;
    std::map<std::string, std::string> hyperparameters;
    std::vector<std::string> overrides;  ///< group=choice, group.key=value
};

/// Throws one Failure with all problems.
CommandLine read_command_line(int argc, const char* const* argv,
                              const std::vector<std::string>& channels,
                              const std::vector<std::string>& hyperparameters);

}  // namespace alg
