// SPDX-License-Identifier: Apache-2.0
// Who writes in the checkpoint folder, told by the kernel (inotify): when it was last touched, and
// which files are open for writing. Where inotify is missing everything is unknown and the caller
// scans. One thread at a time. Private to checkpoint/.
#pragma once

#include "sys/fd.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

struct inotify_event;

namespace ty::agent {

class FolderWatch {
public:
    enum class Use { kernel, nothing };
    FolderWatch(sys::fs::path root, Use use);
    /// Watch from now on; the folder is there.
    void begin();

    bool works() const { return notify_.is_open(); }
    /// Readable when there is something to drain; -1 where nothing works.
    int fd() const { return notify_.get(); }

    struct Seen {
        bool touched = false;  ///< anything was written, made, moved or deleted
        bool closed = false;   ///< something became complete, or went
    };
    /// Take in all that has happened. Does not block.
    void drain();
    /// drain(), and what was seen since the last call.
    Seen take_seen();
    /// Grows with everything that is seen.
    std::uint64_t touches() const { return touches_; }

    enum class State {
        unknown,  ///< nothing was seen of it; ask whether somebody has it open
        closed,   ///< seen closed, or moved here
        writing,  ///< open for writing
        torn,     ///< was open for writing when its writer was killed
    };
    State state(const std::string& path) const;
    bool anything_open() const { return !writing_.empty(); }
    /// What is open for writing now is torn, and so is what is written until trust().
    void brace();
    /// A new writer starts: what it closes is whole again.
    void trust() { braced_ = false; }
    /// Forget what was seen closed; the caller has taken it in.
    void forget_closed() { closed_.clear(); }

private:
    using Place = std::pair<int, std::string>;  // watch of the folder, name in it
    void watch_all();
    void watch_below(const sys::Fd& folder, const std::string& path, int depth);
    void give_up();
    void take(const inotify_event& event, std::string_view name);
    void take_move(std::uint32_t cookie, bool away, const Place& place);
    void drop(const Place& place);

    const sys::fs::path root_;
    const Use use_;
    sys::Fd notify_;
    Seen seen_;
    std::uint64_t touches_ = 0;
    std::map<int, std::string> folders_;
    std::map<std::string, int> watches_;
    std::set<Place> created_;  // made, not yet seen opened: a hard link stays so
    std::set<Place> writing_, closed_, torn_;
    std::map<std::uint32_t, State> moving_;
    bool stale_ = false;   // folders came or went
    bool braced_ = false;  // the writer is being killed
};

/// True when nobody has the open file open for writing, as far as the kernel can tell. For files
/// whose history is unknown: takes and drops a read lease.
bool nobody_writes(int fd);

}  // namespace ty::agent
