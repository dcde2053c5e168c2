// SPDX-License-Identifier: Apache-2.0
// What a complete checkpoint consists of, and what it is called. A manifest is written after all
// the bytes it names are in storage, so that its being there is the commit. Foreign bytes when read
// back: everything in it is checked.
//
// One JSON object, stored as <prefix>/.trainyard/manifests/<id>.json:
//
//     {"format":1,
//      "id":"000002-000000000-000000007-algo-1",  the object's own name
//      "job":"bert-2026","job_id":"j-abc",        who wrote it
//      "attempt":1,"generation":0,"node":"algo-1",
//      "taken":"2026-01-31T12:00:00.000Z",        the folder's state at this moment
//      "step":1200,                               or null
//      "entries":[{"path":"checkpoint-1200/model.pt",   percent-encoded (RFC 3986), '/' kept
//                  "size":1048576,"sha256":"<64 hex digits>",
//                  "modified":1769860800000,                milliseconds since 1970
//                  "data":"000002-000000000-000000005-algo-1"},…],   sorted by path, unique
//      "removed":["old.pt",…],                    restored at the start of the epoch, since deleted
//      "sha256":"<64 hex digits>"}                of every byte before `,"sha256"`; always the last
//
// The bytes of an entry are the object <prefix>/.trainyard/data/<data>/<path>. An entry is the
// node's own when `data` is of the manifest's epoch and node; else it is what the node restored.
// Files that lay in a prefix without manifests are kept as the data of the id "000000-000000000-
// 000000000-plain". The first number of an id counts attempts within the prefix: it goes on where
// an earlier job with the same prefix had stopped, so ids order by age whoever wrote them;
// "attempt" counts in the job.
#pragma once

#include "base/time.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::agent {

/// Writers of different epochs never mix.
struct Epoch {
    std::int64_t attempt = 0;  ///< within the prefix
    std::int64_t generation = 0;
    auto operator<=>(const Epoch&) const = default;
};

struct CheckpointId {
    Epoch epoch;
    std::int64_t sequence = 0;
    std::string node;
    auto operator<=>(const CheckpointId&) const = default;

    /// "000002-000000000-000000007-algo-1": text orders as the values do.
    std::string str() const;
    /// nullopt when it is no id.
    static std::optional<CheckpointId> parse(std::string_view text);
};

struct ManifestEntry {
    std::string path;  ///< as the file system says it: any bytes but NUL
    std::uint64_t size = 0;
    std::string sha256;  ///< 64 hex digits
    CheckpointId data;   ///< the checkpoint that brought the bytes
    Instant modified;    ///< of the file, where it was written
};

struct Manifest {
    CheckpointId id;
    std::string job, job_id;
    int attempt = 1;
    Instant taken;
    std::optional<std::int64_t> step;
    std::vector<ManifestEntry> entries;  ///< sorted by path
    std::vector<std::string> removed;    ///< sorted

    bool owns(const ManifestEntry& entry) const {
        return entry.data.epoch == id.epoch && entry.data.node == id.node;
    }
    std::uint64_t bytes() const;
};

std::string to_json(const Manifest& manifest);
/// `name` is the id the object is called by. Throws corrupt saying what is wrong: torn, checksum,
/// another id, a path that is absolute, has "." or ".." or is inside .trainyard, paths twice or not
/// in order, a file below a file, numbers out of range, data newer than the manifest.
Manifest parse_manifest(std::string_view text, const CheckpointId& name);

/// True for a relative path that stays below its root and could have been written by us.
bool is_safe_path(std::string_view path);

/// Keys below the prefix: ".trainyard/manifests/<id>.json", ".trainyard/data/<id>/<path>", and the
/// name under which people see a file (the path itself unless S3 could not carry it).
std::string manifest_key(const CheckpointId& id);
std::string data_key(const CheckpointId& data, std::string_view path);
std::string visible_key(std::string_view path);

}  // namespace ty::agent
