// SPDX-License-Identifier: Apache-2.0
// Which checkpoint comes back: pure, so that every torn, corrupt and half-deleted storage can be
// tried in a test. Private to checkpoint/.
#pragma once

#include "agent/checkpoint/manifest.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ty::agent {

struct ChooseFrom {
    std::vector<CheckpointId> ids;  ///< any order
    /// The manifest, or null when it is torn, corrupt or gone; remembered by the caller.
    std::function<const Manifest*(const CheckpointId&)> load;
    /// True when the entry's object is there, of its size, and not known to be corrupt.
    std::function<bool(const ManifestEntry&)> there;
    std::optional<Epoch> before;         ///< only epochs older than this
    std::optional<CheckpointId> resume;  ///< this one, with what other nodes had by then
};

struct Chosen {
    CheckpointId id;  ///< the newest manifest it is made of
    std::map<std::string, ManifestEntry> files;
    int skipped = 0;  ///< newer manifests that were not valid
};

/// The newest epoch that is valid: of every node the newest valid manifest; a node's own entries,
/// and what was inherited and no node removed. nullopt: none is valid; `skipped` then says of how
/// many.
std::optional<Chosen> choose_checkpoint(const ChooseFrom& from, int& skipped);

/// Manifests that `self`'s retention may delete, self being committed and the newest of its node:
/// own ones beyond the newest `keep` of the epoch; whole older epochs once newer ones hold `keep`
/// checkpoints, when `older_too`. Nothing when an epoch newer than self's exists.
std::vector<CheckpointId> surplus_manifests(const std::vector<CheckpointId>& ids,
                                            const CheckpointId& self, int keep, bool older_too);

}  // namespace ty::agent
