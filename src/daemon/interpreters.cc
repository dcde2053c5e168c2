// SPDX-License-Identifier: Apache-2.0
#include "daemon/interpreters.h"

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

}  // namespace ty::daemon
