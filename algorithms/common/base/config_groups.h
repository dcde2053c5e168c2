// SPDX-License-Identifier: Apache-2.0
// Configuration groups in the manner of Hydra: a folder with `config.yaml` (whose `defaults` list
// names one file per group), a folder per group with a YAML file per choice, and overrides
// `group=choice`, `key=value`, `group.key=value`. The result is flat text: hyperparameters.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace alg {

struct Configuration {
    std::map<std::string, std::string>
        values;  ///< "learning_rate" -> "1e-4"; nested keys of a group lose the group's name
    std::map<std::string, std::string> origin;  ///< the file or override each came from
    std::vector<std::string> chosen;            ///< "model=tiny"
};

/// Composes the files of the defaults list of `folder`/`name`.yaml in their order, that file's own
/// values (where `_self_` stands in the list; else last, as in Hydra) and the overrides, later ones
/// over earlier ones. Throws Failure naming file and line: bad YAML, unknown group or choice (with
/// the choices there are), a value that is no scalar, the same key in two groups.
Configuration compose(const std::filesystem::path& folder, const std::string& name,
                      const std::vector<std::string>& overrides);

/// The YAML of everything in force, sorted, as it is stored with the model.
std::string to_yaml(const std::map<std::string, std::string>& values);

}  // namespace alg
