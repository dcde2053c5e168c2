// SPDX-License-Identifier: Apache-2.0
#include "agent/script/requirements.h"

#include "base/format.h"
#include "base/hash.h"
#include "base/text.h"

#include <algorithm>

#include <sys/stat.h>

namespace ty::agent {

namespace {

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/// Distribution names compare without case, with runs of "-_." as one "-".
std::string canonical(std::string_view name) {
    std::string out;
    for (const char c : to_lower(name)) {
        const bool separator = c == '-' || c == '_' || c == '.';
        if (separator && !out.empty() && out.back() == '-') continue;
        out += separator ? '-' : c;
    }
    return out;
}

std::optional<std::vector<long long>> release(std::string_view version) {
    if (const std::size_t local = version.find('+'); local != std::string_view::npos)
        version = version.substr(0, local);
    std::vector<long long> numbers;
    for (const std::string& part : split(version, '.')) {
        const auto number = parse_int(part);
        if (!number || *number < 0) return std::nullopt;
        numbers.push_back(*number);
    }
    while (!numbers.empty() && numbers.back() == 0) numbers.pop_back();
    return numbers;
}

/// One bound ("==1.2", ">=3") against a version; false also when it cannot be judged.
bool meets(std::string_view bound, std::string_view version) {
    const std::size_t end = bound.find_first_not_of("=<>!~");
    if (end == std::string_view::npos || end == 0) return false;
    const std::string_view sign = bound.substr(0, end);
    const auto order = compare_versions(version, trim(bound.substr(end)));
    if (!order) return false;
    if (sign == "==") return *order == 0;
    if (sign == ">=") return *order >= 0;
    if (sign == "<=") return *order <= 0;
    if (sign == ">") return *order > 0;
    if (sign == "<") return *order < 0;
    if (sign == "!=") return *order != 0;
    return false;  // "~=" and "===": pip knows
}

std::pair<std::string_view, std::string_view> split_requirement(std::string_view text) {
    std::size_t end = 0;
    while (end < text.size() && is_name_character(text[end])) ++end;
    return {text.substr(0, end), trim(text.substr(end))};
}

bool is_simple(std::string_view line) {
    const auto [name, bounds] = split_requirement(line);
    return !name.empty() && bounds.find_first_of("[;@ (#") == std::string_view::npos &&
           (bounds.empty() ||
            std::string_view("=<>!~").find(bounds.front()) != std::string_view::npos);
}

}  // namespace

std::optional<int> compare_versions(std::string_view a, std::string_view b) {
    const auto left = release(a);
    const auto right = release(b);
    if (!left || !right) return std::nullopt;
    if (*left == *right) return 0;
    return std::ranges::lexicographical_compare(*left, *right) ? -1 : 1;
}

Requirements parse_requirements(std::string_view text) {
    Requirements result;
    for (const std::string& raw : split(text, '\n')) {
        std::string_view line = trim(raw);
        if (const std::size_t comment = line.find(" #"); comment != std::string_view::npos)
            line = trim(line.substr(0, comment));
        if (line.empty() || line.starts_with('#')) continue;
        const bool path_like = line.starts_with('.') || line.starts_with('/') ||
                               line.find("file:") != std::string_view::npos ||
                               line.find(".whl") != std::string_view::npos ||
                               line.find(".tar.gz") != std::string_view::npos ||
                               line.ends_with('\\');
        if (line.starts_with('-') || path_like) {
            result.is_local = true;
            result.has_others = true;
        } else if (is_simple(line)) {
            result.simple.emplace_back(line);
        } else {
            result.has_others = true;
        }
    }
    return result;
}

std::optional<std::string> installed_version(const PythonHome& python, std::string_view name) {
    const std::string wanted = canonical(name);
    for (const std::string& folder : python.searched) {
        std::error_code failed;
        for (const auto& entry : sys::fs::directory_iterator(folder, failed)) {
            const std::string file = entry.path().filename().string();
            for (const std::string_view suffix : {".dist-info", ".egg-info"}) {
                if (!file.ends_with(suffix)) continue;
                const std::string_view stem =
                    std::string_view(file).substr(0, file.size() - suffix.size());
                const std::size_t dash = stem.find('-');
                if (dash == std::string_view::npos || canonical(stem.substr(0, dash)) != wanted)
                    continue;
                const std::string_view rest = stem.substr(dash + 1);
                return std::string(rest.substr(0, rest.find('-')));
            }
        }
    }
    return std::nullopt;
}

bool are_satisfied(const Requirements& requirements, const PythonHome& python) {
    if (requirements.has_others) return false;
    return std::ranges::all_of(requirements.simple, [&](const std::string& line) {
        const auto [name, bounds] = split_requirement(line);
        const std::optional<std::string> version = installed_version(python, name);
        if (!version) return false;
        if (bounds.empty()) return true;
        return std::ranges::all_of(split(bounds, ','), [&](const std::string& bound) {
            return meets(trim(bound), *version);
        });
    });
}

std::string layer_key(std::string_view text, const PythonHome& python,
                      const std::vector<std::string>& wheels) {
    std::string all = format("1\n{}\n{}\n{}\n", python.executable, python.base, python.version);
    for (const std::string& folder : python.searched) {
        struct stat info = {};
        if (::stat(folder.c_str(), &info) != 0) continue;
        all += format("{} {}.{}\n", folder, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    }
    for (const std::string& wheel : wheels) {
        struct stat info = {};
        (void)::stat(wheel.c_str(), &info);
        all += format("{} {}\n", sys::fs::path(wheel).filename().string(), info.st_size);
    }
    all += text;
    return sha256_hex(all).substr(0, 32);
}

std::vector<std::string> find_wheels(const sys::fs::path& source) {
    std::vector<std::string> wheels;
    std::error_code failed;
    sys::fs::recursive_directory_iterator it(source, failed);
    for (const sys::fs::recursive_directory_iterator end; !failed && it != end;
         it.increment(failed)) {
        if (it.depth() >= 2) it.disable_recursion_pending();
        if (it->path().extension() == ".whl" && it->is_regular_file(failed))
            wheels.push_back(it->path().string());
    }
    std::ranges::sort(wheels);
    return wheels;
}

}  // namespace ty::agent
