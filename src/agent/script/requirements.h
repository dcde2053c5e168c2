// SPDX-License-Identifier: Apache-2.0
// requirements.txt: whether anything has to be installed, and which cached layer holds it. Reading
// and judging only; pip itself runs in a box (toolkit.cc).
#pragma once

#include "agent/script/python_layer.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

struct Requirements {
    std::vector<std::string> simple;  ///< "numpy>=1.20": name and version bounds only
    bool has_others = false;          ///< URLs, markers, extras: pip has to judge
    bool is_local = false;            ///< -r, -c, -e, paths: depends on more than this text
};
Requirements parse_requirements(std::string_view text);

/// Installed version of a distribution, looked up as pip does (dist-info folders).
std::optional<std::string> installed_version(const PythonHome& python, std::string_view name);

/// True when it is certain that pip would install nothing. In doubt false.
bool are_satisfied(const Requirements& requirements, const PythonHome& python);

/// Name of the cached layer: text, interpreter, the state of its packages, and the wheels at hand.
std::string layer_key(std::string_view text, const PythonHome& python,
                      const std::vector<std::string>& wheels);

/// Wheel files in the source folder and its sub-folders (two levels), sorted: for --find-links.
std::vector<std::string> find_wheels(const sys::fs::path& source);

/// -1, 0, 1 by release number; nullopt when either is not a plain release ("1.2.3").
std::optional<int> compare_versions(std::string_view a, std::string_view b);

}  // namespace ty::agent
