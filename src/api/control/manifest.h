// SPDX-License-Identifier: Apache-2.0
// The manifests of complete checkpoints, as agents write them below a CheckpointConfig's prefix;
// the format is the one of agent/checkpoint/manifest.h. Bytes in a bucket are foreign: whatever
// they are, reading them says what is wrong and goes on.
#pragma once

#include "api/api.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ty::api::control {

/// "<attempt>-<generation>-<sequence>-<node>": orders by age.
struct CheckpointName {
    std::int64_t attempt = 0, generation = 0, sequence = 0;
    std::string node;
    auto operator<=>(const CheckpointName&) const = default;

    bool same_epoch(const CheckpointName& other) const {
        return attempt == other.attempt && generation == other.generation;
    }
    static std::optional<CheckpointName> parse(std::string_view text);
};

struct StoredFile {
    std::string path;  ///< relative to the checkpoint folder
    std::string key;   ///< of its bytes, below the prefix
    std::uint64_t size = 0;
    bool own = false;  ///< written by the manifest's node in its epoch
};

struct StoredCheckpoint {
    std::string id;
    CheckpointName name;
    std::string job;
    int attempt = 0;  ///< of that job
    Instant taken;
    std::optional<std::int64_t> step;
    std::vector<StoredFile> files;
    std::vector<std::string> removed;
    std::string problem;  ///< why it cannot be restored; empty: it can

    std::uint64_t size() const;
};

/// Never throws for what the text is: see `problem`.
StoredCheckpoint read_manifest(const std::string& id, std::string_view text);
/// The key under which a file is visible to people, below the prefix.
std::string visible_key(const std::string& path);

}  // namespace ty::api::control
