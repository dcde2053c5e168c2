// SPDX-License-Identifier: Apache-2.0
// One file of a checkpoint folder: what its name can prove, whether it changed, who still writes
// it.
#pragma once

#include "sys/sys.h"

#include <optional>

#include <sys/types.h>

namespace ty::agent {

/// What a path below the checkpoint folder can prove.
enum class Proof {
    nothing,   ///< temporary, a log, or a part of a checkpoint that another file completes
    complete,  ///< evidence once renamed into place, or closed and quiet
};
/// By the names alone, of every part of `path` (relative to the checkpoint folder): "a/.b/c.pt" is
/// temporary, as are *.tmp, *.part, *.incomplete, tmp-*. Logs: see is_log(). The *.distcp parts of
/// torch.distributed.checkpoint prove nothing, its ".metadata", written last, does.
Proof proof_of(const sys::fs::path& path);
/// *.log, *.csv, *.tsv, *.jsonl, *.out, *.err, *.lock, events.out.tfevents.*: written all the time.
bool is_log(std::string_view name);

/// What distinguishes a file's content now from its content before.
struct Stamp {
    ino_t inode = 0;
    off_t size = -1;
    long long changed = 0;
    nlink_t links = 0;
    bool is_regular = false;
    bool same_content(const Stamp& other) const {
        return inode == other.inode && size == other.size && changed == other.changed;
    }
};
/// Of the path itself, links not followed; nullopt when there is none.
std::optional<Stamp> stamp_of(const sys::fs::path& path);

/// Some process has it open for writing. False also where the file system or its owner does not let
/// us know.
bool is_open_for_writing(const sys::fs::path& path);

}  // namespace ty::agent
