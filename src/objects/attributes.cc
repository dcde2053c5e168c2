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
