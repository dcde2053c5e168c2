// SPDX-License-Identifier: Apache-2.0
// What the program says about itself: a JSON object {"step", "total", "message"} in the file that
// TRAINYARD_PROGRESS_FILE names, replaced atomically. Looked at once a second; foreign bytes.
#pragma once

#include "plan/plan.h"
#include "sys/fd.h"

#include <optional>
#include <string>
#include <string_view>

namespace ty::agent {

/// nullopt for anything else; a message is cut at 1000 characters.
std::optional<plan::Progress> parse_progress(std::string_view text);

class ProgressFile {
public:
    explicit ProgressFile(sys::fs::path path) : path_(std::move(path)) {}
    /// What it says, when that differs from the last time.
    std::optional<plan::Progress> look();

private:
    const sys::fs::path path_;
    long long modified_ = 0;  ///< nanoseconds, with the inode's number: which file it was
    unsigned long long inode_ = 0;
    std::string last_;
};

}  // namespace ty::agent
