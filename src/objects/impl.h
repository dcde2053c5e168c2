// SPDX-License-Identifier: Apache-2.0
// What the parts of ObjectStore share. Private to objects.
#pragma once

#include "objects/blobs.h"
#include "objects/rows.h"

#include <memory>
#include <set>

namespace ty::objects {

/// The one file into which the parts of an upload are written side by side, each at its final
/// place, so that completing a large upload moves no data. Only an optimisation: parts that do not
/// fit the pattern get files of their own, and completion then copies.
struct Assembly {
    Assembly(Blobs::Created created, std::uint64_t part_size)
        : blob(std::move(created.blob)), file(std::move(created.file)), stride(part_size) {}
    Blobs::Fresh blob;  // unsettled until the first part is committed
    const sys::Fd file;
    const std::uint64_t stride;  // size of every part but the last
    std::set<int> taken;         // numbers whose place is being written or holds committed bytes
    int writers = 0;
};

using Assemblies = std::map<std::string, std::shared_ptr<Assembly>>;  // by upload

struct ObjectStore::Impl {
    Impl(const sys::fs::path& root, store::Db& d, Clock& c) : db(d), clock(c), blobs(root, d) {}

    /// Commits `row`, whose file (if any) is `fresh`, and removes what it replaces.
    ObjectInfo publish(const std::string& bucket, ObjectRow row, std::optional<Blobs::Fresh> fresh,
                       const Precondition& condition);

    // Own synchronisation.
    store::Db& db;
    Clock& clock;
    Blobs blobs;
    SystemIds ids;
    Sync<Assemblies> assemblies;
};

}  // namespace ty::objects
