// SPDX-License-Identifier: Apache-2.0
// The Python of the job: the environment of the host with a private layer on top, into which the
// program may install, and the cached layer of its requirements between them.
#pragma once

#include "agent/runner.h"
#include "agent/script/python_layer.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

class JobPython {
public:
    /// Looks at plan.environment.python; usable() is false for a bare host environment.
    JobPython(const plan::NodePlan& plan, const HostPaths& host, Runner& runner);

    bool usable() const { return home_.has_value(); }
    const PythonHome& home() const { return *home_; }
    /// Put a filled layer under the job's own.
    void add_packages(const std::string& layer);
    /// Write the job's layer and show it to the program; call once, after add_packages().
    void finish();

    /// A folder of this name is where the interpreter looks for packages; false when that is not
    /// known. After the installation.
    bool has_package(const std::string& name) const;

    /// Interpreter as the program names it; "python3" on PATH for a bare environment.
    std::string interpreter() const;
    /// Folders for the front of PATH.
    std::vector<std::string> bin() const;
    /// site-packages of the layers, for interpreters that do not start through them.
    std::vector<std::string> packages() const;

private:
    const plan::NodePlan& plan_;
    Runner& runner_;
    std::optional<PythonHome> home_;
    sys::fs::path folder_;
    std::string seen_as_;
    std::vector<std::string> layers_;
};

}  // namespace ty::agent
