// SPDX-License-Identifier: Apache-2.0
// A Python environment of the host, and thin virtual environments on top of it. A layer sees all
// that the environment has and adds packages of its own; making one runs no Python, only a dozen
// files.
#pragma once

#include "sys/fd.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

struct PythonHome {
    std::string executable;     ///< as asked for
    std::string base;           ///< the interpreter itself, behind every virtual environment
    std::string version;        ///< "3.11"
    bool base_packages = true;  ///< packages of the base interpreter are visible
    std::vector<std::string> site_packages;  ///< of the virtual environment, if it is one
    std::vector<std::string> searched;  ///< every folder packages are found in, most specific first
    std::vector<std::string> prefixes;  ///< folders the program must be able to read
};

/// From the files around the interpreter, without running it. nullopt when they do not look like a
/// Python that can be layered on (a wrapper script, a missing file).
std::optional<PythonHome> inspect_python(const std::string& python);

struct LayerPlan {
    sys::fs::path folder;  ///< where it is written, on the host
    std::string seen_as;   ///< its path for the program
    std::vector<std::string>
        extra_packages;  ///< further site-packages folders in front of the environment's
};
/// Folder with bin/python, bin/pip, launchers and an empty site-packages. Idempotent.
void write_layer(const PythonHome& python, const LayerPlan& layer);

/// "<layer>/lib/python3.11/site-packages".
std::string layer_packages(const std::string& layer, const PythonHome& python);

}  // namespace ty::agent
