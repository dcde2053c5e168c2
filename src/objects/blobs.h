// SPDX-License-Identifier: Apache-2.0
// The files of objects: blobs/<first two letters>/<name>, written once, never changed. Private to
// objects.
//
// No file is ever unaccounted for: its name is written into doomed_blob (durably, in batches)
// before the file exists, and leaves that table in the very transaction that makes a row point to
// it. A file whose row goes is doomed again in that transaction and unlinked after it. So after a
// crash the debris is exactly what doomed_blob names, and no folder has to be searched. Any thread.
#pragma once

#include "base/random.h"
#include "base/sync.h"
#include "store/store.h"
#include "sys/sys.h"

#include <optional>
#include <string>
#include <vector>

namespace ty::objects {

class Blobs {
public:
    /// A file that is removed again unless settled.
    class Fresh {
    public:
        Fresh(Blobs& blobs, std::string name) : blobs_(&blobs), name_(std::move(name)) {}
        Fresh(Fresh&& other) noexcept
            : blobs_(std::exchange(other.blobs_, nullptr)), name_(std::move(other.name_)) {}
        Fresh& operator=(Fresh&& other) noexcept {
            std::swap(blobs_, other.blobs_);
            std::swap(name_, other.name_);
            return *this;
        }
        ~Fresh();
        const std::string& name() const { return name_; }
        /// The adopting transaction has committed: the file stays.
        void settle() { blobs_ = nullptr; }

    private:
        Blobs* blobs_;
        std::string name_;
    };

    Blobs(sys::fs::path root, store::Db& db);

    struct Created {
        Fresh blob;
        sys::Fd file;  ///< read and write
    };
    Created create();
    /// Another name for the same content; nullopt when `existing` is gone. Durable on return.
    std::optional<Fresh> link(const std::string& existing);
    /// Content and folder entry onto the disk.
    void sync(const Fresh& blob, const sys::Fd& file) const;
    /// Drop what lies beyond `size`: bytes nobody was told of. Durable on return.
    void cut(const std::string& name, std::uint64_t size) const;
    /// Not open when the file is gone.
    sys::Fd open(const std::string& name) const;

    // Inside the transaction that points a row to, or away from, a file.
    static void adopt(store::Tx& tx, const Fresh& blob);
    static void doom(store::Tx& tx, const std::string& name);
    /// After the dooming transaction.
    void remove(const std::string& name) noexcept;

private:
    sys::fs::path path_of(const std::string& name) const;
    void sweep();
    std::string reserve();

    // Immutable.
    const sys::fs::path root_;
    store::Db& db_;

    // Own synchronisation.
    SystemIds ids_;
    struct Names {
        std::vector<std::string> reserved;  ///< in doomed_blob, free to use
        std::vector<std::string> removed;   ///< in doomed_blob, file unlinked: rows to forget
    };
    Sync<Names> names_;
};

}  // namespace ty::objects
