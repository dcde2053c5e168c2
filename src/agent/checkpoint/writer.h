// SPDX-License-Identifier: Apache-2.0
// One node's line of checkpoints: looks at the folder, stores what changed, writes the manifest,
// then keeps the visible names and the retention. One thread at a time. Private to checkpoint/.
#pragma once

#include "agent/checkpoint/checkpoint.h"
#include "agent/checkpoint/place.h"
#include "agent/checkpoint/scan.h"
#include "agent/checkpoint/send.h"
#include "agent/checkpoint/watch.h"
#include "base/sync.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ty::agent {

/// A file here and its bytes in storage.
struct KnownFile {
    FileMark mark;
    std::string sha256, sample;
    CheckpointId data;
    Instant modified;
};
using KnownFiles = std::map<std::string, KnownFile>;

/// A file that came from a prefix without manifests.
struct PlainFile {
    FileMark mark;
    std::string sha256, etag;
};

/// What restoring brought.
struct Adopted {
    KnownFiles files;
    std::map<std::string, PlainFile> plain;
    std::map<std::string, CheckpointId> visible;  ///< which data each visible name shows
};

class CheckpointWriter {
public:
    CheckpointWriter(const CheckpointOptions& options, const CheckpointPlace& place,
                     Sync<FolderWatch>& watch, Clock& clock);

    /// The folder is now what was restored; a new epoch begins.
    void adopt(Adopted adopted, Epoch epoch);
    Epoch epoch() const { return epoch_; }
    const KnownFiles& files() const { return committed_; }
    const std::map<std::string, PlainFile>& plain() const { return plain_; }
    bool has_committed() const { return newest_.has_value(); }

    enum class Mode {
        whole,   ///< all or nothing
        rather,  ///< leave out what is being written
    };
    enum class Outcome {
        nothing,    ///< all is in storage
        committed,  ///< and so is everything else
        partly,     ///< committed; something was left out
        not_whole,  ///< not committed: something is being written
    };
    Outcome commit(Mode mode, Deadline by, const std::stop_token& stop);

    /// Visible names, retention, garbage. May be interrupted and done again; throws what storage
    /// says.
    void tidy(Deadline by, const std::stop_token& stop);
    bool is_tidy() const { return tidy_; }

private:
    /// The folder compared with storage.
    struct Look {
        Instant taken;
        KnownFiles next;                 ///< what the manifest will say, jobs excluded
        std::vector<SendJob> jobs;       ///< what has to be stored first
        std::vector<std::string> plain;  ///< to be copied in storage
        std::uint64_t uploaded = 0;
        int unfinished = 0;
        bool moved = false;  ///< the folder changed during the look: it shows no one moment
        bool news = false;
    };
    Look look();
    std::vector<ScannedFile> scan();
    void look_at(Look& look, const ScannedFile& file);
    /// False: not now.
    bool may_take(SendJob& job, FolderWatch::State state, std::size_t& pinned);
    void keep_previous(Look& look, const std::string& path);
    void store(Look& look, const CheckpointId& id, Deadline by, const std::stop_token& stop);
    void copy_plain(Look& look, const CheckpointId& id, Deadline by, const std::stop_token& stop);
    Manifest manifest_of(const Look& look, const CheckpointId& id) const;
    std::optional<std::int64_t> step_of_tree(const Manifest& manifest) const;
    void report(const Manifest& manifest, const Look& look, Monotonic started);
    void warn_once(const std::string& path, const std::string& why);

    void show(aws::S3Client& client, Deadline by, const std::stop_token& stop);
    void retain(aws::S3Client& client, Deadline by, const std::stop_token& stop);
    void sweep(aws::S3Client& client, const std::vector<CheckpointId>& kept, Deadline by,
               const std::stop_token& stop);

    const CheckpointOptions& options_;
    const CheckpointPlace& place_;
    Sync<FolderWatch>& watch_;
    Clock& clock_;

    Epoch epoch_;
    std::int64_t sequence_ = 0;
    Monotonic epoch_started_;
    KnownFiles committed_;  ///< as the newest manifest or the restored state says
    KnownFiles uploaded_;   ///< in storage, in no manifest yet
    std::map<std::string, PlainFile> plain_;
    std::set<std::string> baseline_;  ///< what the epoch began with
    std::map<std::string, CheckpointId> visible_;
    std::set<std::string> overwritten_;  ///< changed in place while being read
    std::vector<std::string> garbage_;   ///< data nobody will refer to
    std::set<std::string> warned_;
    std::optional<CheckpointId> newest_;  ///< own, in this epoch
    struct Written {
        CheckpointId id;
        std::set<std::string> data;  ///< own objects it refers to
        std::size_t inherited = 0;   ///< how many others; only ever fewer within an epoch
    };
    std::deque<Written> written_;  ///< own manifests of this epoch that still stand
    std::size_t pinned_ = 0;
    bool tidy_ = true, sweep_ = true;
};

}  // namespace ty::agent
