// SPDX-License-Identifier: Apache-2.0
#include "common/base/config_groups.h"

#include "common/base/error.h"
#include "common/base/hyperparameters.h"
#include "common/base/json_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

namespace alg {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLongestFile = std::size_t{1} << 20;

bool plain_name(const std::string& name) {
    return !name.empty() && name.front() != '.' &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
           });
}

std::string place(const fs::path& path, const YAML::Node& node) {
    return format("{}:{}", path.string(), node.Mark().line + 1);
}

YAML::Node load(const fs::path& path) {
    const std::optional<std::string> text = read_small_file(path, kLongestFile);
    if (!text) fail("{}: there is no such file", path.string());
    YAML::Node node;
    try {
        node = YAML::Load(*text);
    } catch (const YAML::ParserException& error) {
        fail("{}:{}: is not valid YAML: {}", path.string(), error.mark.line + 1, error.msg);
    } catch (const YAML::Exception& error) {
        fail("{}: is not valid YAML: {}", path.string(), error.msg);
    }
    if (!node.IsNull() && !node.IsMap())
        fail("{}: names and values are expected, \"name: value\" in each line", place(path, node));
    return node;
}

/// Names of the folders (groups) or YAML files (choices) in a folder.
std::vector<std::string> entries(const fs::path& folder, bool folders) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (folders && entry.is_directory()) names.push_back(entry.path().filename().string());
        if (!folders && entry.path().extension() == ".yaml")
            names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

class Composer {
public:
    Composer(fs::path folder, const std::string& name)
        : folder_(std::move(folder)), main_(folder_ / (name + ".yaml")) {}

    Configuration compose(const std::vector<std::string>& overrides) {
        const YAML::Node root = load(main_);
        if (root.IsMap() && root["defaults"]) read_defaults(root["defaults"]);
        for (const std::string& text : overrides) sort_override(text);
        bool self = false;
        for (const auto& [group, choice] : order_) {
            if (group == "_self_") {
                take_own(root);
                self = true;
            } else {
                take_group(group, choice);
            }
        }
        if (!self) take_own(root);
        for (const std::string& text : assignments_) assign(text);
        return std::move(result_);
    }

private:
    void read_defaults(const YAML::Node& defaults) {
        const std::string expected = "\"- group: choice\" or \"- _self_\" is expected";
        if (!defaults.IsSequence()) fail("{}: defaults: {}", place(main_, defaults), expected);
        for (const YAML::Node& entry : defaults) {
            if (entry.IsScalar() && entry.Scalar() == "_self_") {
                order_.emplace_back("_self_", "");
                continue;
            }
            if (!entry.IsMap() || entry.size() != 1 || !entry.begin()->second.IsScalar())
                fail("{}: defaults: {}", place(main_, entry), expected);
            choose(entry.begin()->first.Scalar(), entry.begin()->second.Scalar(),
                   place(main_, entry));
        }
    }

    bool is_group(const std::string& name) const {
        std::error_code error;
        return plain_name(name) && fs::is_directory(folder_ / name, error);
    }

    void choose(const std::string& group, const std::string& choice, const std::string& where) {
        if (!is_group(group))
            fail("{}: there is no group \"{}\"; groups: {}", where, group,
                 listed(entries(folder_, true)));
        const std::vector<std::string> choices = entries(folder_ / group, false);
        if (std::find(choices.begin(), choices.end(), choice) == choices.end())
            fail("{}: group \"{}\" has no choice \"{}\"; choices: {}", where, group, choice,
                 listed(choices));
        for (auto& [known, chosen] : order_) {
            if (known != group) continue;
            chosen = choice;
            return;
        }
        order_.emplace_back(group, choice);
    }

    /// Choices decide which files are read, so they come before all assignments.
    void sort_override(const std::string& text) {
        const std::size_t sign = text.find('=');
        if (sign == 0 || sign == std::string::npos)
            fail("override \"{}\" is not group=choice or key=value", text);
        const std::string key = text.substr(0, sign);
        if (is_group(key))
            choose(key, text.substr(sign + 1), "override \"" + text + "\"");
        else
            assignments_.push_back(text);
    }

    void take_group(const std::string& group, const std::string& choice) {
        const fs::path path = folder_ / group / (choice + ".yaml");
        result_.chosen.push_back(group + "=" + choice);
        const YAML::Node node = load(path);
        if (node.IsMap()) take(node, path, group);
    }

    /// Values of the main file; a nested block belongs to the group it is named for.
    void take_own(const YAML::Node& root) {
        if (!root.IsMap()) return;
        YAML::Node plain(YAML::NodeType::Map);
        for (const auto& entry : root) {
            const std::string key = entry.first.Scalar();
            if (key == "defaults") continue;
            if (!entry.second.IsMap())
                plain[key] = entry.second;
            else if (is_group(key))
                take(entry.second, main_, key);
            else
                fail("{}: \"{}\" is neither a value nor one of the groups {}",
                     place(main_, entry.first), key, listed(entries(folder_, true)));
        }
        take(plain, main_, "");
    }

    void take(const YAML::Node& values, const fs::path& path, const std::string& group) {
        for (const auto& entry : values) {
            const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
            if (!plain_name(key)) fail("{}: this is no name of a value", place(path, entry.first));
            const YAML::Node& value = entry.second;
            if (!value.IsScalar() && !value.IsNull())
                fail("{}: \"{}\" is no single value", place(path, value), key);
            if (!group.empty()) {
                const auto [owner, fresh] = owner_.emplace(key, group);
                if (!fresh && owner->second != group)
                    fail(
                        "{}: \"{}\" belongs to group \"{}\" already; a name may be in one group "
                        "only",
                        place(path, entry.first), key, owner->second);
            }
            result_.values[key] = value.IsNull() ? "" : value.Scalar();
            result_.origin[key] = path.string();
        }
    }

    void assign(const std::string& text) {
        const std::size_t sign = text.find('=');
        std::string key = text.substr(0, sign);
        if (const std::size_t dot = key.find('.'); dot != std::string::npos) {
            const std::string group = key.substr(0, dot);
            key = key.substr(dot + 1);
            if (!is_group(group))
                fail("override \"{}\": there is no group \"{}\"; groups: {}", text, group,
                     listed(entries(folder_, true)));
            const auto owner = owner_.find(key);
            if (owner != owner_.end() && owner->second != group)
                fail("override \"{}\": \"{}\" belongs to group \"{}\"", text, key, owner->second);
        }
        if (!plain_name(key)) fail("override \"{}\": \"{}\" is no name of a value", text, key);
        result_.values[key] = text.substr(sign + 1);
        result_.origin[key] = text;
    }

    const fs::path folder_, main_;
    std::vector<std::pair<std::string, std::string>> order_;  ///< group, choice
    std::vector<std::string> assignments_;
    std::map<std::string, std::string> owner_;  ///< key -> group
    Configuration result_;
};

}  // namespace

Configuration compose(const fs::path& folder, const std::string& name,
                      const std::vector<std::string>& overrides) {
    return Composer(folder, name).compose(overrides);
}

std::string to_yaml(const std::map<std::string, std::string>& values) {
    YAML::Emitter out;
    out << YAML::BeginMap;
    for (const auto& [name, value] : values) out << YAML::Key << name << YAML::Value << value;
    out << YAML::EndMap;
    return std::string(out.c_str()) + "\n";
}

}  // namespace alg
