// SPDX-License-Identifier: Apache-2.0
// requirements.txt and setup.py: pip, run in a box before the program. What a text installs is kept
// in the cache under the agent's lock and shared read-only by later jobs.
#pragma once

#include "agent/script/environment.h"
#include "agent/script/launch.h"
#include "agent/script/requirements.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

class Installer {
public:
    Installer(const LaunchContext& context, JobPython& python)
        : context_(context), python_(python) {}

    /// Decide what to do about the text; with a cached layer, put it under the job's own. Before
    /// JobPython::finish().
    void prepare(const std::string& text);

    struct Result {
        std::optional<std::string> failure;  ///< complete FailureReason
        bool interrupted = false;
    };
    /// Run pip where that is needed. After JobPython::finish(). `variables`: of the program.
    Result install(const Variables& variables, bool package);

private:
    Result fill_layer();
    Result run_pip(std::vector<std::string> arguments, const std::string& interpreter,
                   std::vector<BoxBind> binds);
    Variables pip_variables(std::vector<BoxBind>& binds) const;

    const LaunchContext& context_;
    JobPython& python_;
    bool needed_ = false;
    std::string layer_;  ///< cached layer; empty: into the job's own
    std::vector<std::string> wheels_;
};

}  // namespace ty::agent
