// SPDX-License-Identifier: Apache-2.0
// The daemon's configuration: one TOML file, every key optional and documented in
// docs/reference/configuration.md. Unknown keys are errors that name the nearest known one.
#pragma once

#include "api/api.h"
#include "images/images.h"
#include "sys/sys.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ty::daemon {

/// What to do with CONNECT requests for hosts that are not AWS's.
enum class OtherHosts { tunnel, refuse };

struct Config {
    sys::fs::path home;
    std::string listen = "127.0.0.1";
    std::optional<std::uint16_t> port;  ///< unset: the last one, 4545, or a free one
    std::string account = "000000000000";
    std::string region = "us-east-1";
    std::string role = "TrainyardExecutionRole";
    std::size_t max_running_jobs = 0;  ///< 0: by the number of cores
    seconds stop_grace{120};
    std::vector<std::string> interpreters;  ///< tried before those found at start
    sys::fs::path algorithms;               ///< of the built-in programs; empty: beside the daemon
    std::map<std::string, std::string> instance_map;
    OtherHosts other_hosts = OtherHosts::tunnel;
    std::vector<images::Definition> environments;
    api::Settings::Google google;              ///< for gs:// checkpoints
    std::map<std::string, api::Price> prices;  ///< by instance type, of one hour
    std::string currency = "USD";
};

/// Reads `path` over the defaults; a missing file is the defaults unless `required`. Throws invalid
/// with every problem and its line.
Config read_config(const sys::fs::path& home, const sys::fs::path& path, bool required);
/// As read_config, from text.
Config parse_config(const sys::fs::path& home, std::string_view text, const std::string& name);

}  // namespace ty::daemon
