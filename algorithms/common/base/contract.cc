// SPDX-License-Identifier: Apache-2.0
#include "common/base/contract.h"

#include "common/base/command_line.h"
#include "common/base/config_groups.h"
#include "common/base/error.h"
#include "common/base/json_file.h"
#include "common/base/log.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <sstream>

#include <unistd.h>

namespace alg {

namespace {

constexpr std::size_t kLongestValue = std::size_t{64} << 10;
constexpr std::size_t kLongestFailure = 1024;
constexpr const char* kOverrides = "config_overrides";

fs::path root_folder() {
    const char* other = std::getenv("TRAINYARD_OPT_ML");
    return other != nullptr && *other != '\0' ? other : "/opt/ml";
}

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
    std::vector<std::string> result;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) result.push_back(word);
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

/// Never in the middle of a UTF-8 character.
std::string shortened(std::string text, std::size_t limit) {
    if (text.size() <= limit) return text;
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
    text.resize(limit);
    return text;
}

/// Where the failure file goes; empty: nowhere (a run from a shell that named no folder).
fs::path failure_folder(int argc, const char* const* argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        if (option == "--output" && i + 1 < argc) return argv[i + 1];
        if (option.starts_with("--output=")) return option.substr(std::strlen("--output="));
    }
    const fs::path folder = root_folder() / "output";
    std::error_code ignored;
    return fs::is_directory(folder, ignored) ? folder : fs::path();
}

void report(int argc, const char* const* argv, fs::file_time_type started,
            const std::string& message) {
    std::string line = message;
    std::replace(line.begin(), line.end(), '\n', ' ');
    const std::string program = argc > 0 ? fs::path(argv[0]).filename().string() : "program";
    line = format("{}: {}\n", program, line);
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nobody left to tell
    const fs::path folder = failure_folder(argc, argv);
    if (folder.empty()) return;
    std::error_code absent;
    const auto written = fs::last_write_time(folder / "failure", absent);
    const char* processes = std::getenv("LOCAL_WORLD_SIZE");
    const bool several = processes != nullptr && std::strcmp(processes, "1") != 0;
    if (several && !absent && written >= started) return;
    write_failure(folder, message);
}

}  // namespace

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
    const fs::path root = root_folder();
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

void write_failure(const fs::path& output, const std::string& message) noexcept {
    try {
        fs::create_directories(output);
        const std::string text = shortened(message, kLongestFailure);
        // Renamed into place: the agent may read at any time.
        const fs::path temporary = output / format(".failure.{}", ::getpid());
        std::FILE* file = std::fopen(temporary.c_str(), "we");
        if (file == nullptr) return;
        const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
        if (std::fclose(file) == 0 && whole)
            fs::rename(temporary, output / "failure");
        else
            fs::remove(temporary);
    } catch (...) {  // the reason is on stderr already
    }
}

int run_program(int argc, const char* const* argv, int (*body)(int argc, const char* const* argv)) {
    std::signal(SIGPIPE, SIG_IGN);  // a reader of stdout that goes away must not end the training
    const fs::file_time_type started = fs::file_time_type::clock::now();
    try {
        return body(argc, argv);
    } catch (const Failure& failure) {
        report(argc, argv, started, failure.what());
    } catch (const std::bad_alloc&) {
        report(argc, argv, started, "out of memory; use smaller batches or a larger instance");
    } catch (const std::exception& error) {
        // LibTorch appends a backtrace to the first line.
        const std::string text = error.what();
        report(argc, argv, started, "internal error: " + text.substr(0, text.find('\n')));
    } catch (...) {
        report(argc, argv, started, "internal error of an unknown kind");
    }
    return 1;
}

}  // namespace alg
