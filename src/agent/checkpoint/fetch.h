// SPDX-License-Identifier: Apache-2.0
// From storage into the folder: chooses a complete checkpoint, brings it beside the folder, proves
// every byte, and only then puts the files in their places. Private to checkpoint/.
#pragma once

#include "agent/checkpoint/place.h"
#include "agent/checkpoint/writer.h"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace ty::agent {

struct FetchAsk {
    const CheckpointOptions& options;
    const CheckpointPlace& place;
    const KnownFiles& known;  ///< files of the folder whose content is known
    const std::map<std::string, PlainFile>& plain;
    std::optional<Epoch> generation;  ///< of a refresh: within this attempt; else a restore
};

struct Fetched {
    CheckpointSync::Restored restored;
    Adopted adopted;
    std::int64_t attempts_before = 0;  ///< of other jobs in the prefix
};

/// See CheckpointSync::restore. Throws not_found, corrupt (resume), exhausted, and what storage
/// says; the folder is then as it was.
Fetched fetch_checkpoint(const FetchAsk& ask, Deadline by, const std::stop_token& stop);

/// A file that was proven and lies in the staging folder.
struct StagedFile {
    std::string path;      ///< where it belongs
    sys::fs::path staged;  ///< where it lies
};
/// Move files into the folder, making folders; whatever is in the way goes, links included.
void place_files(const sys::fs::path& folder, const std::vector<StagedFile>& files);
/// Remove files of the folder; links on the way are not followed.
void remove_files(const sys::fs::path& folder, const std::vector<std::string>& paths);

}  // namespace ty::agent
