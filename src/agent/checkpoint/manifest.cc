// SPDX-License-Identifier: Apache-2.0
// Written by appending text (a manifest may have a hundred thousand entries), read through the
// JSON parser with every value checked.
#include "agent/checkpoint/manifest.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace ty::agent {

namespace {

constexpr std::string_view kSealStart = ",\"sha256\":\"";
constexpr std::string_view kSealEnd = "\"}";
constexpr std::size_t kDigits = 64;
constexpr std::uint64_t kLargestFile = 1ull << 53;      // what JSON readers elsewhere can count to
constexpr std::uint64_t kLatest = 253'402'300'799'999;  // the last of the year 9999
constexpr std::uint64_t kLargestTotal = 1ull << 60;

std::string in_quotes(std::string_view text) {
    return dump_json(Json(std::string(text)));
}

[[noreturn]] void refuse(const CheckpointId& name, std::string_view why) {
    throw_error(Code::corrupt, "BadManifest", "checkpoint {}: {}", name.str(), why);
}

/// Reads members by name and type; says which is wrong.
class Reader {
public:
    explicit Reader(const CheckpointId& name) : name_(name) {}

    const Json& member(const Json& object, const char* key) const {
        if (!object.is_object()) refuse(name_, format("{} is looked for in no object", key));
        const auto found = object.find(key);
        if (found == object.end()) refuse(name_, format("{} is missing", key));
        return *found;
    }
    std::string text(const Json& object, const char* key) const {
        const Json& value = member(object, key);
        if (!value.is_string()) refuse(name_, format("{} is no text", key));
        return value.get<std::string>();
    }
    std::int64_t number(const Json& object, const char* key, std::uint64_t most) const {
        const Json& value = member(object, key);
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
            refuse(name_, format("{} is no number from 0 to {}", key, most));
        return value.get<std::int64_t>();
    }
    const Json& array(const Json& object, const char* key) const {
        const Json& value = member(object, key);
        if (!value.is_array()) refuse(name_, format("{} is no list", key));
        return value;
    }
    std::string path(const std::string& encoded) const {
        auto decoded = percent_decode(encoded);
        if (!decoded || percent_encode(*decoded, Slash::keep) != encoded)
            refuse(name_, format("path \"{}\" is not encoded as it should be",
                                 to_valid_utf8(truncate_utf8(encoded, 200))));
        if (!is_safe_path(*decoded))
            refuse(name_, format("path \"{}\" is not allowed",
                                 to_valid_utf8(truncate_utf8(encoded, 200))));
        return *std::move(decoded);
    }

private:
    const CheckpointId& name_;
};

ManifestEntry read_entry(const Reader& reader, const Json& json, const CheckpointId& name) {
    ManifestEntry entry;
    entry.path = reader.path(reader.text(json, "path"));
    entry.size = static_cast<std::uint64_t>(reader.number(json, "size", kLargestFile));
    entry.sha256 = reader.text(json, "sha256");
    const auto digest = from_hex(entry.sha256);
    if (!digest || digest->size() * 2 != kDigits || to_lower(entry.sha256) != entry.sha256)
        refuse(name, "an entry's sha256 is no digest");
    entry.modified = from_epoch_millis(reader.number(json, "modified", kLatest));
    const auto data = CheckpointId::parse(reader.text(json, "data"));
    if (!data) refuse(name, "an entry's data is no checkpoint id");
    entry.data = *data;
    if (entry.data.epoch > name.epoch ||
        (entry.data.epoch == name.epoch && entry.data.node == name.node &&
         entry.data.sequence > name.sequence))
        refuse(name, "an entry's data is newer than the checkpoint");
    return entry;
}

/// Sorted, unique, and no file below another file.
void check_paths(const std::vector<ManifestEntry>& entries, const CheckpointId& name) {
    std::uint64_t total = 0;
    std::set<std::string_view> open;  // files that could be folders of what follows
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::string_view path = entries[i].path;
        if (i > 0 && !(entries[i - 1].path < path)) refuse(name, "paths are not in order");
        for (std::size_t slash = path.find('/'); slash != path.npos;
             slash = path.find('/', slash + 1)) {
            if (open.contains(path.substr(0, slash))) refuse(name, "a file lies below a file");
        }
        open.insert(path);
        if ((total += entries[i].size) > kLargestTotal) refuse(name, "sizes are beyond reason");
    }
}

/// The text without its seal, closed again.
std::string unseal(std::string_view text, const CheckpointId& name) {
    const std::size_t seal = kSealStart.size() + kDigits + kSealEnd.size();
    if (text.size() < seal + 1) refuse(name, "the manifest is torn");
    const std::string_view body = text.substr(0, text.size() - seal);
    const std::string_view end = text.substr(body.size());
    if (!end.starts_with(kSealStart) || !end.ends_with(kSealEnd))
        refuse(name, "the manifest is torn");
    if (end.substr(kSealStart.size(), kDigits) != sha256_hex(body))
        refuse(name, "the manifest's checksum is wrong");
    return std::string(body) + '}';
}

}  // namespace

std::uint64_t Manifest::bytes() const {
    std::uint64_t total = 0;
    for (const ManifestEntry& entry : entries) total += entry.size;
    return total;
}

std::string to_json(const Manifest& m) {
    std::string out = format(
        "{{\"format\":1,\"id\":{},\"job\":{},\"job_id\":{},\"attempt\":{},\"generation\":{},"
        "\"node\":{},\"taken\":{},\"step\":{},\"entries\":[",
        in_quotes(m.id.str()), in_quotes(m.job), in_quotes(m.job_id), m.attempt,
        m.id.epoch.generation, in_quotes(m.id.node), in_quotes(format_iso8601(m.taken)),
        m.step ? std::to_string(*m.step) : "null");
    for (std::size_t i = 0; i < m.entries.size(); ++i) {
        const ManifestEntry& entry = m.entries[i];
        out += format(
            "{}{{\"path\":\"{}\",\"size\":{},\"sha256\":\"{}\",\"modified\":{},\"data\":\"{}\"}}",
            i > 0 ? "," : "", percent_encode(entry.path, Slash::keep), entry.size, entry.sha256,
            std::max(0ll, to_epoch_millis(entry.modified)), entry.data.str());
    }
    out += "],\"removed\":[";
    for (std::size_t i = 0; i < m.removed.size(); ++i)
        out += format("{}\"{}\"", i > 0 ? "," : "", percent_encode(m.removed[i], Slash::keep));
    out += ']';
    const std::string digest = sha256_hex(out);
    out += kSealStart;
    out += digest;
    out += kSealEnd;
    return out;
}

Manifest parse_manifest(std::string_view text, const CheckpointId& name) {
    Result<Json> parsed = capture([&] { return parse_json(unseal(text, name)); });
    if (!parsed.ok()) {
        if (parsed.error().code() == Code::corrupt) throw parsed.error();
        refuse(name, parsed.error().message());
    }
    const Json json = std::move(parsed).value();
    const Reader reader(name);
    if (reader.number(json, "format", 1u << 20) != 1)
        refuse(name, "the manifest's format is unknown; a newer release wrote it");
    Manifest m;
    m.id = name;
    if (reader.text(json, "id") != name.str()) refuse(name, "the manifest is another one's");
    if (reader.text(json, "node") != name.node ||
        reader.number(json, "generation", 999'999'999) != name.epoch.generation)
        refuse(name, "node and generation are not those of the id");
    m.job = reader.text(json, "job");
    m.job_id = reader.text(json, "job_id");
    m.attempt = static_cast<int>(reader.number(json, "attempt", 999'999));
    const auto taken = parse_iso8601(reader.text(json, "taken"));
    if (!taken) refuse(name, "taken is no time");
    m.taken = *taken;
    const Json& step = reader.member(json, "step");
    if (step.is_number_integer() &&
        (!step.is_number_unsigned() || step.get<std::uint64_t>() < (1ull << 63)))
        m.step = step.get<std::int64_t>();
    else if (!step.is_null())
        refuse(name, "step is no whole number");
    for (const Json& entry : reader.array(json, "entries"))
        m.entries.push_back(read_entry(reader, entry, name));
    check_paths(m.entries, name);
    for (const Json& path : reader.array(json, "removed")) {
        if (!path.is_string()) refuse(name, "removed holds something that is no path");
        m.removed.push_back(reader.path(path.get<std::string>()));
        if (m.removed.size() > 1 && !(m.removed[m.removed.size() - 2] < m.removed.back()))
            refuse(name, "removed is not in order");
    }
    return m;
}

}  // namespace ty::agent
