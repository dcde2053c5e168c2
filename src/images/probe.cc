// SPDX-License-Identifier: Apache-2.0
// Asks an interpreter what it is and has. Package metadata is read, packages are not imported: a
// probe costs tens of milliseconds, importing torch would cost seconds.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "images/images.h"
#include "sys/sys.h"

#include <nlohmann/json.hpp>

namespace ty::images {

namespace {

constexpr std::string_view kQuestion = R"py(
import importlib.machinery, json, os, platform, sys
names = {"torch": "torch", "tensorflow": "tensorflow", "sklearn": "scikit-learn", "xgboost": "xgboost",
         "transformers": "transformers", "mxnet": "mxnet", "chainer": "chainer", "torch_neuronx": "torch-neuronx",
         "numpy": "numpy", "pip": "pip"}
from importlib import metadata
found = {}
for module, package in names.items():
    if importlib.machinery.PathFinder.find_spec(module) is None:
        continue
    version = ""
    for candidate in (package, package + "-cpu", package + "-gpu"):
        try:
            version = metadata.version(candidate)
            break
        except metadata.PackageNotFoundError:
            pass
    found[module] = version
print(json.dumps({"python": sys.executable, "version": platform.python_version(),
                  "prefix": os.path.realpath(sys.prefix), "base_prefix": os.path.realpath(sys.base_prefix),
                  "path": [os.path.realpath(p) for p in sys.path if os.path.isdir(p)], "modules": found}))
)py";

}  // namespace

std::optional<Probe> probe_python(const std::string& python) {
    try {
        const sys::Output output =
            sys::run({.argv = {python, "-c", std::string(kQuestion)}}, Deadline::in(seconds(20)));
        if (!output.exit.ok()) return std::nullopt;
        const auto line = output.text.rfind("{\"python\"");
        if (line == std::string::npos) return std::nullopt;
        const Json answer = parse_json(trim(std::string_view(output.text).substr(line)));
        Probe probe{.python = answer.at("python").get<std::string>(),
                    .version = answer.at("version").get<std::string>(),
                    .prefix = answer.at("prefix").get<std::string>(),
                    .base_prefix = answer.at("base_prefix").get<std::string>()};
        probe.path = answer.at("path").get<std::vector<std::string>>();
        for (const auto& [name, version] : answer.at("modules").items())
            probe.modules.emplace_back(name, version.get<std::string>());
        return probe;
    } catch (const nlohmann::json::exception& error) {
        log::warning("interpreter gave no usable answer",
                     {{"python", python}, {"error", error.what()}});
    } catch (const Error& error) {
        log::debug("interpreter does not run", {{"python", python}, {"error", error.what()}});
    }
    return std::nullopt;
}

}  // namespace ty::images
