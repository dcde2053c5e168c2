// SPDX-License-Identifier: Apache-2.0
// Removes run folders in the background: renamed away at once, deleted when there is time. A job
// may leave a million files, or folders it made read-only.
#pragma once

#include "base/sync.h"
#include "engine/local/leftovers.h"

#include <deque>
#include <filesystem>

namespace ty::engine {

/// Delete the tree; folders that refuse are made writable and tried again. False when something
/// stays (mount points, other owners).
bool remove_tree(const std::filesystem::path& path);

class Trash {
public:
    /// What an earlier daemon did not get to delete goes first.
    explicit Trash(std::filesystem::path dir);
    ~Trash();
    /// After this the folder is not at its place any more. `leftovers` are killed before deleting.
    void take(const std::filesystem::path& folder, std::vector<Leftovers> leftovers);

private:
    struct Work {
        std::filesystem::path path;
        std::vector<Leftovers> leftovers;
    };
    void run(const std::stop_token& stop);

    const std::filesystem::path dir_;
    Sync<std::deque<Work>> work_;
    TaskGroup tasks_;
};

}  // namespace ty::engine
