// SPDX-License-Identifier: Apache-2.0
// The /opt/ml tree twice: where it lies on the host and what the program calls it.
#pragma once

#include "sys/fd.h"

#include <string>

namespace ty::agent {

/// mkdir -p; throws what errno says.
void make_folders(const sys::fs::path& path);

/// Paths inside the job's folder, on the host.
struct HostPaths {
    sys::fs::path folder;
    sys::fs::path ml() const { return folder / "ml"; }
    sys::fs::path data(const std::string& channel) const { return ml() / "input/data" / channel; }
    sys::fs::path config() const { return ml() / "input/config"; }
    sys::fs::path model() const { return ml() / "model"; }
    sys::fs::path output() const { return ml() / "output"; }
    sys::fs::path output_data() const { return ml() / "output/data"; }
    sys::fs::path failure() const { return ml() / "output/failure"; }
    sys::fs::path code() const { return ml() / "code"; }
    /// Private ground of the job: /tmp, /root and the like.
    sys::fs::path scratch() const { return folder / "scratch"; }
    sys::fs::path start() const { return folder / "start.json"; }
    sys::fs::path events() const { return folder / "events"; }
    sys::fs::path log_spool() const { return folder / "log.spool"; }
};

/// The same tree as the program names it. `base` is /opt/ml, or the host path where no mount
/// namespace could be had.
struct ProgramPaths {
    std::string base = "/opt/ml";
    std::string data(const std::string& channel) const { return base + "/input/data/" + channel; }
    std::string input() const { return base + "/input"; }
    std::string config() const { return base + "/input/config"; }
    std::string model() const { return base + "/model"; }
    std::string output() const { return base + "/output"; }
    std::string output_data() const { return base + "/output/data"; }
    std::string intermediate() const { return base + "/output/intermediate"; }
    std::string code() const { return base + "/code"; }
};

}  // namespace ty::agent
