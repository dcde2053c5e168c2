// SPDX-License-Identifier: Apache-2.0
#include "agent/channels/file/prefix.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>
#include <climits>
#include <unordered_map>

namespace ty::agent {

namespace {

constexpr std::size_t kMaxPath = 3500;  // leaves room for the folder in front of it

[[noreturn]] void refuse(const std::string& key, std::string_view why) {
    std::string shown = to_valid_utf8(key.substr(0, 200));
    std::ranges::replace_if(
        shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
    throw_error(Code::invalid, "BadKey",
                "object \"{}\" cannot become a file: {}; rename it or narrow the S3Uri", shown,
                why);
}

/// Relative name of a key without empty and "." parts; empty for the prefix's own marker.
std::string relative_path(const std::string& key, const std::string& prefix) {
    std::string_view rest = std::string_view(key).substr(prefix.size());
    if (rest.empty() && !key.ends_with('/')) {
        rest = key;
        rest.remove_prefix(key.rfind('/') == std::string::npos ? 0 : key.rfind('/') + 1);
    }
    if (rest.find('\0') != std::string_view::npos) refuse(key, "its name contains a zero byte");
    std::vector<std::string> parts;
    for (std::string& part : split(rest, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..") refuse(key, "its name contains \"..\"");
        if (part.size() > NAME_MAX)
            refuse(key, format("a part of its name is longer than {} bytes", NAME_MAX));
        parts.push_back(std::move(part));
    }
    std::string path = join(parts, "/");
    if (path.size() > kMaxPath) refuse(key, format("its name is longer than {} bytes", kMaxPath));
    return path;
}

/// Remembers what every path is, to find collisions.
class Names {
public:
    void add_file(const std::string& path, const std::string& key) {
        add_parents(path, key);
        const auto [found, is_new] = known_.try_emplace(path, Name{true, key});
        if (is_new) return;
        refuse(key,
               found->second.is_file
                   ? format("object \"{}\" becomes the same file \"{}\"", found->second.key, path)
                   : format("object \"{}\" makes a folder of \"{}\"", found->second.key, path));
    }
    void add_folder(const std::string& path, const std::string& key) {
        add_parents(path + "/", key);
    }

private:
    struct Name {
        bool is_file = false;
        std::string key;
    };
    void add_parents(const std::string& path, const std::string& key) {
        for (std::size_t slash = path.find('/'); slash != std::string::npos;
             slash = path.find('/', slash + 1)) {
            const auto [found, is_new] =
                known_.try_emplace(path.substr(0, slash), Name{false, key});
            if (!is_new && found->second.is_file) {
                refuse(key, format("object \"{}\" is a file where it needs the folder \"{}\"",
                                   found->second.key, path.substr(0, slash)));
            }
        }
    }
    std::unordered_map<std::string, Name> known_;
};

}  // namespace

ChannelTree plan_channel(const std::string& prefix,
                         const std::vector<aws::S3Client::Object>& objects) {
    ChannelTree tree;
    Names names;
    for (const aws::S3Client::Object& object : objects) {
        if (!object.key.starts_with(prefix)) continue;
        std::string path = relative_path(object.key, prefix);
        if (path.empty()) continue;
        if (object.key.ends_with('/')) {
            if (object.size > 0)
                refuse(object.key, "it ends with \"/\" like a folder but has content");
            names.add_folder(path, object.key);
            tree.folders.push_back(std::move(path));
        } else {
            names.add_file(path, object.key);
            tree.files.push_back({std::move(path), object});
        }
    }
    return tree;
}

}  // namespace ty::agent
