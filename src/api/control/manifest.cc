// SPDX-License-Identifier: Apache-2.0
#include "api/control/manifest.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ty::api::control {

namespace {

constexpr std::string_view kSealStart = ",\"sha256\":\"";
constexpr std::string_view kSealEnd = "\"}";
constexpr std::size_t kDigits = 64;

/// Exactly `count` digits and a '-' from the front.
bool take_number(std::string_view& text, std::size_t count, std::int64_t& value) {
    if (text.size() <= count || text[count] != '-') return false;
    value = 0;
    for (const char c : text.substr(0, count)) {
        if (c < '0' || c > '9') return false;
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(count + 1);
    return true;
}

[[noreturn]] void refuse(std::string_view why) {
    throw_error(Code::corrupt, "", "{}", why);
}

/// The text without its checksum, which is its last member and covers all before it.
std::string unseal(std::string_view text) {
    const std::size_t seal = kSealStart.size() + kDigits + kSealEnd.size();
    if (text.size() <= seal) refuse("the manifest is torn");
    const std::string_view body = text.substr(0, text.size() - seal);
    const std::string_view end = text.substr(body.size());
    if (!end.starts_with(kSealStart) || !end.ends_with(kSealEnd)) refuse("the manifest is torn");
    if (end.substr(kSealStart.size(), kDigits) != sha256_hex(body))
        refuse("the manifest's checksum is wrong");
    return std::string(body) + '}';
}

std::string path_of(const std::string& encoded) {
    auto path = percent_decode(encoded);
    const bool plain = path && !path->empty() && path->find('\0') == path->npos &&
                       *path != ".trainyard" && !path->starts_with(".trainyard/") &&
                       std::ranges::all_of(split(*path, '/'), [](const std::string& part) {
                           return !part.empty() && part != "." && part != "..";
                       });
    if (!plain) refuse(format("the path \"{}\" is not allowed", to_valid_utf8(encoded)));
    return std::move(*path);
}

void fill(StoredCheckpoint& out, const Json& json) {
    if (json.at("format") != 1)
        refuse("the manifest's format is unknown; a newer release wrote it");
    if (json.at("id") != out.id) refuse("the manifest is another one's");
    out.job = json.at("job").get<std::string>();
    out.attempt = json.at("attempt").get<int>();
    const auto taken = parse_iso8601(json.at("taken").get_ref<const std::string&>());
    if (!taken) refuse("taken is no time");
    out.taken = *taken;
    if (const Json& step = json.at("step"); !step.is_null()) out.step = step.get<std::int64_t>();
    for (const Json& entry : json.at("entries")) {
        const auto& encoded = entry.at("path").get_ref<const std::string&>();
        const auto& data = entry.at("data").get_ref<const std::string&>();
        const auto source = CheckpointName::parse(data);
        if (!source) refuse("an entry's data is no checkpoint id");
        out.files.push_back({.path = path_of(encoded),
                             .key = format(".trainyard/data/{}/{}", data, encoded),
                             .size = entry.at("size").get<std::uint64_t>(),
                             .own = source->same_epoch(out.name) && source->node == out.name.node});
    }
    for (const Json& path : json.at("removed"))
        out.removed.push_back(path_of(path.get_ref<const std::string&>()));
}

}  // namespace

std::optional<CheckpointName> CheckpointName::parse(std::string_view text) {
    CheckpointName name;
    if (!take_number(text, 6, name.attempt) || !take_number(text, 9, name.generation) ||
        !take_number(text, 9, name.sequence))
        return std::nullopt;
    const bool plain = std::ranges::all_of(text, [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-' || c == '~' || c == '_';
    });
    if (text.empty() || text.size() > 64 || !plain) return std::nullopt;
    name.node = text;
    return name;
}

std::uint64_t StoredCheckpoint::size() const {
    std::uint64_t total = 0;
    for (const StoredFile& file : files) total += file.size;
    return total;
}

StoredCheckpoint read_manifest(const std::string& id, std::string_view text) {
    StoredCheckpoint out;
    out.id = id;
    try {
        const auto name = CheckpointName::parse(id);
        if (!name) refuse("its name is no checkpoint id");
        out.name = *name;
        fill(out, parse_json(unseal(text)));
    } catch (const Error& error) {
        out.problem = error.message();
    } catch (const nlohmann::json::exception&) {
        out.problem = "the manifest lacks something, or has it in another form";
    }
    return out;
}

std::string visible_key(const std::string& path) {
    const bool fits = is_valid_utf8(path) && std::ranges::none_of(path, [](char c) {
                          return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
                      });
    return fits ? path : percent_encode(path, Slash::keep);
}

}  // namespace ty::api::control
