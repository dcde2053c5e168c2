// SPDX-License-Identifier: Apache-2.0
// The complete checkpoints of a job, found in object storage.
#pragma once

#include "api/control/control.h"
#include "api/control/manifest.h"

#include <string>
#include <vector>

namespace ty::api::control {

/// Where a job keeps them.
struct Shelf {
    std::string uri, bucket, prefix;  ///< prefix without a slash at the end; may be empty
    std::string key(std::string_view below) const;
};
/// Throws invalid: the job has no CheckpointConfig, or not in this storage.
Shelf shelf_of(const jobs::Job& job);
/// "s3://bucket/prefix" taken apart. Throws invalid.
Shelf shelf_at(const std::string& uri);

/// Newest first; torn ones too, with their problem. Objects are looked up, not read.
std::vector<StoredCheckpoint> find_checkpoints(const objects::ObjectStore& store,
                                               const Shelf& shelf);

}  // namespace ty::api::control
