// SPDX-License-Identifier: Apache-2.0
#include "agent/script/python_layer.h"

#include "agent/contract/layout.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <array>

#include <sys/stat.h>
#include <unistd.h>

namespace ty::agent {

namespace {

using sys::fs::path;

/// Launchers of the environment that start interpreters: they must start the layer's.
constexpr std::array<const char*, 3> kLaunchers = {"torchrun", "accelerate", "deepspeed"};

bool is_file(const path& file) {
    std::error_code failed;
    return sys::fs::is_regular_file(file, failed);
}

/// Value of a "name = value" line.
std::optional<std::string> setting(const std::string& text, std::string_view name) {
    for (const std::string& line : split(text, '\n')) {
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos) continue;
        if (to_lower(trim(std::string_view(line).substr(0, equals))) == name) {
            return std::string(trim(std::string_view(line).substr(equals + 1)));
        }
    }
    return std::nullopt;
}

/// "3.11" from "3.11.2", "3.11.2.final.0", "python3.11".
std::optional<std::string> short_version(std::string_view text) {
    if (text.starts_with("python")) text.remove_prefix(6);
    const std::vector<std::string> parts = split(text, '.');
    if (parts.size() < 2 || !parse_int(parts[0]) || !parse_int(parts[1])) return std::nullopt;
    return parts[0] + "." + parts[1];
}

std::optional<path> real_path(const path& file) {
    std::error_code failed;
    path real = sys::fs::canonical(file, failed);
    if (failed) return std::nullopt;
    return real;
}

/// Version of a bare interpreter: its own name, else the library folder beside it.
std::optional<std::string> version_of(const path& base) {
    if (auto version = short_version(base.filename().string())) return version;
    std::error_code failed;
    for (const auto& entry :
         sys::fs::directory_iterator(base.parent_path().parent_path() / "lib", failed)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("python3.") || !is_file(entry.path() / "os.py")) continue;
        if (auto version = short_version(name)) return version;
    }
    return std::nullopt;
}

std::optional<path> find_base(const path& home, const std::string& version) {
    for (const std::string& name :
         {"python" + version, std::string("python3"), std::string("python")}) {
        if (auto real = real_path(home / name); real && is_file(*real)) return real;
    }
    return std::nullopt;
}

void add_base_packages(PythonHome& python) {
    const path prefix = path(python.base).parent_path().parent_path();
    const std::string lib = "lib/python" + python.version;
    for (const path& folder : {prefix / lib / "site-packages",
                               path("/usr/local/lib/python" + python.version) / "dist-packages",
                               prefix / "lib/python3/dist-packages"}) {
        std::error_code failed;
        if (sys::fs::is_directory(folder, failed)) python.searched.push_back(folder.string());
    }
}

/// A file that is made once; running text files need not be written durably.
void write_program(const path& file, const std::string& text) {
    sys::write_file(file, text, 0755);
}

void make_link(const std::string& target, const path& at) {
    if (::symlink(target.c_str(), at.c_str()) != 0 && errno != EEXIST)
        throw_errno("create link {}", at.string());
}

std::string launcher(const std::string& interpreter, const std::string& what) {
    return "#!/bin/sh\nexec \"" + interpreter + "\" " + what + " \"$@\"\n";
}

}  // namespace

std::optional<PythonHome> inspect_python(const std::string& python) {
    const path executable(python);
    if (!executable.is_absolute() || !is_file(executable)) return std::nullopt;
    PythonHome result;
    result.executable = python;
    const path prefix = executable.parent_path().parent_path();
    const Result<std::string> config =
        capture([&] { return sys::read_file(prefix / "pyvenv.cfg", Bytes(64u << 10)); });
    if (!config.ok()) {
        const auto base = real_path(executable);
        if (!base) return std::nullopt;
        const auto version = version_of(*base);
        if (!version) return std::nullopt;
        result.base = base->string();
        result.version = *version;
        add_base_packages(result);
        result.prefixes = {prefix.string(), base->parent_path().parent_path().string()};
        return result;
    }
    const std::string text = Result<std::string>(config).value();
    const auto home = setting(text, "home");
    auto version = setting(text, "version");
    if (!version) version = setting(text, "version_info");
    const auto short_text = version ? short_version(*version) : std::nullopt;
    if (!home || !short_text) return std::nullopt;
    const auto base = find_base(*home, *short_text);
    if (!base) return std::nullopt;
    result.base = base->string();
    result.version = *short_text;
    result.base_packages = equals_ignoring_case(
        setting(text, "include-system-site-packages").value_or("false"), "true");
    const path packages = prefix / ("lib/python" + result.version) / "site-packages";
    result.site_packages.push_back(packages.string());
    result.searched.push_back(packages.string());
    if (result.base_packages) add_base_packages(result);
    result.prefixes = {prefix.string(), base->parent_path().parent_path().string()};
    return result;
}

std::string layer_packages(const std::string& layer, const PythonHome& python) {
    return layer + "/lib/python" + python.version + "/site-packages";
}

void write_layer(const PythonHome& python, const LayerPlan& layer) {
    const path bin = layer.folder / "bin";
    const path packages = layer_packages(layer.folder.string(), python);
    make_folders(bin);
    make_folders(packages);
    make_link(python.base, bin / "python");
    make_link("python", bin / "python3");
    make_link("python", bin / ("python" + python.version));
    sys::write_file(layer.folder / "pyvenv.cfg",
                    format("home = {}\ninclude-system-site-packages = {}\nversion = {}\n",
                           path(python.base).parent_path().string(),
                           python.base_packages ? "true" : "false", python.version));
    std::string inherited;
    std::vector<std::string> folders = layer.extra_packages;
    folders.insert(folders.end(), python.site_packages.begin(), python.site_packages.end());
    for (const std::string& folder : folders) {
        inherited += "import site; site.addsitedir('" +
                     replace_all(replace_all(folder, "\\", "\\\\"), "'", "\\'") + "')\n";
    }
    if (!inherited.empty()) sys::write_file(packages / "inherited.pth", inherited);
    const std::string interpreter = layer.seen_as + "/bin/python";
    for (const char* name : {"pip", "pip3"})
        write_program(bin / name, launcher(interpreter, "-m pip"));
    const path environment_bin = path(python.executable).parent_path();
    for (const char* name : kLaunchers) {
        if (is_file(environment_bin / name)) {
            write_program(bin / name,
                          launcher(interpreter, "\"" + (environment_bin / name).string() + "\""));
        }
    }
}

}  // namespace ty::agent
