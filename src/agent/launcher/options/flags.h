// SPDX-License-Identifier: Apache-2.0
// The flags of `trainyard run` as a table, and the splitting of a command line by the rules of
// Python's argparse, which torchrun's users rely on: abbreviations, -r3, --flag=value, and
// everything from the first plain word on belongs to the script.
//
// Private to the launcher's options; pure functions.
#pragma once

#include "agent/launcher/options/options.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

enum class Topic { nodes, rendezvous, workers, logs, recovery, leaving, observing };

/// Whose flag it is: abbreviations prefer torchrun's, so that ours cannot make one ambiguous.
enum class Origin { torchrun, ours };
/// Whether PET_<NAME> gives the default.
enum class FromEnv { yes, no };

struct Flag {
    std::string_view name;  ///< "nproc-per-node"
    char letter = 0;        ///< 'm', 'r', 't' or 0
    std::string_view meta;  ///< name of its value; empty: a switch
    Topic topic = Topic::nodes;
    Origin origin = Origin::torchrun;
    FromEnv env = FromEnv::yes;
    std::string_view help;
};

std::span<const Flag> launch_flags();

/// A value and where it came from, for messages and --explain: "--nnodes" or "PET_NNODES".
struct GivenValue {
    std::string text;
    std::string where;
};

struct SplitLine {
    std::map<std::string, GivenValue, std::less<>> values;  ///< by flag name; switches: "1" or "0"
    std::vector<std::string> rest;                          ///< the script and its arguments
    bool help = false;
};

/// Throws invalid with the text after "error: ".
SplitLine split_line(const std::vector<std::string>& words, EnvLookup env);

/// The whole of --help, and the line that goes before an error.
std::string launch_help();
std::string_view launch_usage();

}  // namespace ty::agent
