// SPDX-License-Identifier: Apache-2.0
#include "daemon/environments.h"

#include "base/text.h"

#include <algorithm>
#include <cstdlib>

namespace ty::daemon {

std::vector<std::string> candidate_interpreters(const Config& config) {
    std::vector<std::string> wanted = config.interpreters;
    if (const char* venv = std::getenv("VIRTUAL_ENV"))
        wanted.push_back(std::string(venv) + "/bin/python");
    if (const char* path = std::getenv("PATH"))
        for (const std::string& folder : split(path, ':'))
            if (folder.starts_with('/')) wanted.push_back(folder + "/python3");
    wanted.push_back("/usr/bin/python3");
    std::vector<std::string> out;
    for (std::string& candidate : wanted) {
        std::error_code ignored;
        if (sys::fs::is_directory(candidate, ignored)) candidate += "/bin/python";
        if (sys::fs::exists(candidate, ignored) && std::ranges::find(out, candidate) == out.end())
            out.push_back(candidate);
    }
    return out;
}

images::Catalogue open_catalogue(const Config& config) {
    std::vector<images::Definition> definitions = config.environments;
    for (images::Definition& definition : images::aws_framework_definitions())
        definitions.push_back(std::move(definition));
    sys::fs::path algorithms = config.algorithms;
    if (algorithms.empty())
        algorithms = sys::fs::read_symlink("/proc/self/exe").parent_path() / "algorithms";
    return {std::move(definitions), candidate_interpreters(config), std::move(algorithms)};
}

}  // namespace ty::daemon
