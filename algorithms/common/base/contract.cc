// SPDX-License-Identifier: Apache-2.0
#include "common/base/contract.h"

#include "common/base/command_line.h"
#include "common/base/config_groups.h"
#include "common/base/error.h"
#include "common/base/json_file.h"

#include <algorithm>
#include <cstdlib>

namespace alg {

namespace {

constexpr std::size_t kLongestValue = std::size_t{64} << 10;
constexpr const char* kOverrides = "config_overrides";

bool of_platform(const std::string& name, const std::vector<std::string>& known) {
    if (name.starts_with("sagemaker_") || name == "_tuning_objective_metric") return true;
    // How many processes to start is the launcher's business.
    return name == "processes_per_host" &&
           std::find(known.begin(), known.end(), name) == known.end();
}

/// The value behind its encoding by the SDK; nullopt when it stands for None.
std::optional<std::string> decoded(const std::string& text) {
    if (text == "null" || text == "None") return std::nullopt;
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
        const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
        if (value.is_string()) return value.get<std::string>();
    }
    return text;
}

void read_hyperparameters(Contract& contract, const fs::path& path,
                          const std::vector<std::string>& known) {
    const std::optional<nlohmann::json> object = read_json_object(path);
    if (!object) return;
    std::string problems;
    for (const auto& [name, value] : object->items()) {
        if (of_platform(name, known)) continue;
        std::string text;
        if (value.is_string()) {
            text = value.get<std::string>();
        } else if (value.is_number() || value.is_boolean() || value.is_null()) {
            text = value.dump();  // written by hand; the service only writes texts
        } else {
            problems += format("; hyperparameter \"{}\" is {}, not a text", name, kind_of(value));
            continue;
        }
        if (text.size() > kLongestValue) {
            problems += format("; hyperparameter \"{}\" has {} bytes, more than the {} allowed",
                               name, text.size(), kLongestValue);
            continue;
        }
        if (std::optional<std::string> plain = decoded(text)) {
            contract.hyperparameters[name] = std::move(*plain);
            contract.origin[name] = path.string();
        }
    }
    if (!problems.empty()) fail("{}: {}", path.string(), problems.substr(2));
}

void read_channels(Contract& contract, const fs::path& root,
                   const std::vector<std::string>& known) {
    const fs::path path = root / "input/config/inputdataconfig.json";
    const std::optional<nlohmann::json> object = read_json_object(path);
    if (!object) return;
    for (const auto& [name, value] : object->items()) {
        // Names come from a file: they must stay below input/data.
        if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos)
            fail("{}: \"{}\" cannot be a channel's name", path.string(), name);
        if (!value.is_object())
            fail("{}: channel \"{}\" is {}, not an object", path.string(), name, kind_of(value));
        const auto mode = value.find("TrainingInputMode");
        if (mode != value.end() && mode->is_string() && *mode == "Pipe" &&
            std::find(known.begin(), known.end(), name) != known.end())
            fail(
                "channel \"{}\" is in Pipe mode, which this program cannot read more than once; "
                "use File or FastFile",
                name);
        contract.channels[name] = root / "input/data" / name;
    }
}

std::vector<std::string> words(const std::string& text) {
    const char* const blank = " \t\r\n";
    std::vector<std::string> result;
    for (std::size_t at = text.find_first_not_of(blank); at != std::string::npos;) {
        const std::size_t end = std::min(text.find_first_of(blank, at), text.size());
        result.push_back(text.substr(at, end - at));
        at = text.find_first_not_of(blank, end);
    }
    return result;
}

/// Values of the configuration groups under those of the file; `line` are overrides of the command
/// line, whose plain values lie over the file.
void add_configuration(Contract& contract, const fs::path& folder,
                       const std::vector<std::string>& line) {
    std::vector<std::string> overrides;
    if (const auto given = contract.hyperparameters.find(kOverrides);
        given != contract.hyperparameters.end()) {
        overrides = words(given->second);
        contract.hyperparameters.erase(given);
        contract.origin.erase(kOverrides);
    }
    overrides.insert(overrides.end(), line.begin(), line.end());
    const Configuration composed = compose(folder, "config", overrides);
    for (const auto& [name, value] : composed.values) {
        const std::string& origin = composed.origin.at(name);
        const bool from_line = std::find(line.begin(), line.end(), origin) != line.end();
        if (!from_line && contract.hyperparameters.contains(name)) continue;
        contract.hyperparameters[name] = value;
        contract.origin[name] = origin;
    }
}

}  // namespace

fs::path contract_root() {
    const char* other = std::getenv("TRAINYARD_OPT_ML");
    return other != nullptr && *other != '\0' ? other : "/opt/ml";
}

const fs::path& Contract::channel(const std::string& name) const {
    const auto found = channels.find(name);
    if (found == channels.end()) {
        std::string present;
        for (const auto& [other, folder] : channels) present += " \"" + other + "\"";
        fail("channel \"{}\" is missing; channels given:{}", name,
             present.empty() ? " none" : present);
    }
    std::error_code error;
    if (!fs::is_directory(found->second, error))
        fail("channel \"{}\": {} is not a folder", name, found->second.string());
    return found->second;
}

Contract read_contract(int argc, const char* const* argv, const std::vector<std::string>& channels,
                       const std::vector<std::string>& hyperparameters,
                       const fs::path& config_folder) {
    Contract contract;
    const fs::path root = contract_root();
    contract.model = root / "model";
    contract.checkpoints = root / "checkpoints";
    contract.output = root / "output";
    read_hyperparameters(contract, root / "input/config/hyperparameters.json", hyperparameters);
    read_channels(contract, root, channels);
    contract.place = read_place(root / "input/config");

    const CommandLine line = read_command_line(argc, argv, channels, hyperparameters);
    if (line.model) contract.model = *line.model;
    if (line.checkpoints) contract.checkpoints = *line.checkpoints;
    if (line.output) contract.output = *line.output;
    contract.data = contract.output / "data";
    for (const auto& [name, folder] : line.channels) contract.channels[name] = folder;
    std::error_code error;
    contract.has_checkpoints = line.checkpoints || fs::is_directory(contract.checkpoints, error);
    if (!line.model && !fs::is_directory(root, error))
        fail("where should the model go? there is no {}; use --model FOLDER", root.string());

    if (!config_folder.empty()) {
        add_configuration(contract, config_folder, line.overrides);
    } else if (!line.overrides.empty()) {
        std::string& kept = contract.hyperparameters[kOverrides];
        for (const std::string& text : line.overrides) kept += (kept.empty() ? "" : " ") + text;
        contract.origin[kOverrides] = "command line";
    }
    for (const auto& [name, value] : line.hyperparameters) {
        contract.hyperparameters[name] = value;
        contract.origin[name] = "command line";
    }
    return contract;
}

}  // namespace alg
