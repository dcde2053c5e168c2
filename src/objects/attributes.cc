// SPDX-License-Identifier: Apache-2.0
#include "objects/attributes.h"

#include "base/json.h"

#include <nlohmann/json.hpp>

namespace ty::objects {
namespace {

Json to_json(const TextMap& map) {
    Json json = Json::object();
    for (const auto& [name, value] : map) json[name] = value;
    return json;
}

TextMap map_of(const Json& json, const char* name) {
    TextMap map;
    const auto found = json.find(name);
    if (found == json.end()) return map;
    for (const auto& [key, value] : found->items()) map.emplace(key, value.get<std::string>());
    return map;
}

std::string text_of(const Json& json, const char* name) {
    const auto found = json.find(name);
    return found == json.end() ? std::string() : found->get<std::string>();
}

/// Ten thousand parts of nearly always one size: [[size, count], ...].
Json runs_of(const std::vector<std::uint64_t>& sizes) {
    Json runs = Json::array();
    for (std::size_t i = 0, end = 0; i < sizes.size(); i = end) {
        while (end < sizes.size() && sizes[end] == sizes[i]) ++end;
        runs.push_back({sizes[i], end - i});
    }
    return runs;
}

std::vector<std::uint64_t> sizes_of(const Json& json) {
    std::vector<std::uint64_t> sizes;
    const auto found = json.find("parts");
    if (found == json.end()) return sizes;
    for (const Json& run : *found)
        sizes.insert(sizes.end(), run.at(1).get<std::size_t>(), run.at(0).get<std::uint64_t>());
    return sizes;
}

/// The column is ours: what does not parse is damage, not a user's mistake.
template <typename Fn>
auto reading_column(Fn&& fn) {
    try {
        return fn();
    } catch (const nlohmann::json::exception& error) {
        throw_error(Code::corrupt, "", "object attributes in the index: {}", error.what());
    }
}

}  // namespace

std::string to_column(const Attributes& attributes) {
    Json json = Json::object();
    json["type"] = attributes.content_type;
    const auto add = [&json](const char* name, const TextMap& map) {
        if (!map.empty()) json[name] = to_json(map);
    };
    add("headers", attributes.headers);
    add("metadata", attributes.metadata);
    add("checksums", attributes.checksums);
    add("tags", attributes.tags);
    if (!attributes.part_sizes.empty()) json["parts"] = runs_of(attributes.part_sizes);
    if (!attributes.checksum_type.empty()) json["checksum_type"] = attributes.checksum_type;
    return dump_json(json);
}

Attributes attributes_from_column(const std::string& text) {
    return reading_column([&] {
        const Json json = parse_json(text);
        Attributes attributes;
        attributes.content_type = text_of(json, "type");
        attributes.headers = map_of(json, "headers");
        attributes.metadata = map_of(json, "metadata");
        attributes.checksums = map_of(json, "checksums");
        attributes.tags = map_of(json, "tags");
        attributes.checksum_type = text_of(json, "checksum_type");
        attributes.part_sizes = sizes_of(json);
        return attributes;
    });
}

std::string to_column(const TextMap& map) {
    return dump_json(to_json(map));
}

TextMap map_from_column(const std::string& text) {
    return reading_column([&] {
        TextMap map;
        const Json json = parse_json(text);
        for (const auto& [key, value] : json.items()) map.emplace(key, value.get<std::string>());
        return map;
    });
}

}  // namespace ty::objects
