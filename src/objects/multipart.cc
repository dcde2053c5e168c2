// SPDX-License-Identifier: Apache-2.0
// Uploads in parts. Each acknowledged part is durable: its bytes are synced, then its row
// committed.
//
// Parts of equal size (all clients but odd ones) are written side by side into one file, at the
// places they will have in the object; completion then only writes one row, whatever the size.
// Otherwise completion copies the parts together inside the kernel. A place once committed is never
// written again: a part sent twice gets a file of its own.
#include "base/text.h"
#include "objects/attributes.h"
#include "objects/checksum.h"
#include "objects/impl.h"
#include "objects/ingest.h"
#include "objects/names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>

namespace ty::objects {
namespace {

constexpr int kMostParts = 10000;
constexpr std::uint64_t kSmallestPart = 5ull << 20;   // but for the last
constexpr std::uint64_t kLargestObject = 5ull << 40;  // S3's own limit
constexpr std::size_t kMostAssemblies = 64;           // each holds a descriptor

struct PartRow {
    Part part;
    std::string blob;
    std::uint64_t offset = 0;
};

struct UploadRow {
    UploadInfo info;
    std::int64_t bucket = 0;
    std::string assembly;
};

std::optional<UploadRow> find_row(store::Tx& tx, const std::string& upload) {
    auto row = tx.prepare(
        "select u.key, u.started, u.attributes, u.bucket, b.name, u.assembly from upload u"
        " join bucket b on b.id = u.bucket where u.id = ?1");
    row.bind(1, upload);
    if (!row.step()) return std::nullopt;
    UploadRow out;
    out.info = {upload, row.text(4), row.text(0), row.instant(1),
                attributes_from_column(row.text(2))};
    out.bucket = row.integer(3);
    out.assembly = row.text(5);
    return out;
}

UploadRow existing(store::Tx& tx, const std::string& upload) {
    auto row = find_row(tx, upload);
    if (!row)
        throw_error(Code::not_found, "NoSuchUpload",
                    "the upload \"{}\" does not exist: it was completed, aborted or never started",
                    to_valid_utf8(truncate_utf8(upload, 100)));
    return std::move(*row);
}

std::vector<PartRow> part_rows(store::Tx& tx, const std::string& upload) {
    auto rows = tx.prepare(
        "select number, size, etag, modified, checksums, blob, offset from upload_part"
        " where upload = ?1 order by number");
    rows.bind(1, upload);
    std::vector<PartRow> out;
    while (rows.step())
        out.push_back({Part{static_cast<int>(rows.integer(0)), rows.text(2),
                            static_cast<std::uint64_t>(rows.integer(1)), rows.instant(3),
                            map_from_column(rows.text(4))},
                       rows.text(5), static_cast<std::uint64_t>(rows.integer(6))});
    return out;
}

/// Deletes the upload and its parts; dooms and returns their files, all but `kept`.
std::vector<std::string> erase_upload(store::Tx& tx, const UploadRow& upload,
                                      const std::string& kept) {
    std::set<std::string> blobs{upload.assembly};
    for (const PartRow& row : part_rows(tx, upload.info.id)) blobs.insert(row.blob);
    blobs.erase(kept);
    blobs.erase("");
    for (const std::string& blob : blobs) Blobs::doom(tx, blob);
    tx.prepare("delete from upload where id = ?1").bind(1, upload.info.id).run();
    return {blobs.begin(), blobs.end()};
}

/// Writes the part's row; returns the doomed file of the version it replaces, empty when there was
/// none or the upload's common file holds it.
std::string replace_part(store::Tx& tx, const UploadRow& upload, const PartRow& row) {
    const std::string& id = upload.info.id;
    std::string old;
    {
        auto find = tx.prepare("select blob from upload_part where upload = ?1 and number = ?2");
        find.bind(1, id).bind(2, row.part.number);
        if (find.step()) old = find.text(0);
    }
    tx.prepare(
          "insert or replace into upload_part"
          " (upload, number, size, etag, modified, checksums, blob, offset)"
          " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
        .bind(1, id)
        .bind(2, row.part.number)
        .bind(3, row.part.size)
        .bind(4, row.part.etag)
        .bind(5, row.part.modified)
        .bind(6, to_column(row.part.checksums))
        .bind(7, row.blob)
        .bind(8, row.offset)
        .run();
    // Each file but the common one holds a single part.
    if (old.empty() || old == row.blob || old == upload.assembly) return {};
    Blobs::doom(tx, old);
    return old;
}

/// The first part at its place makes the common file the upload's own.
void own_assembly(store::Tx& tx, UploadRow& upload, const std::string& blob) {
    if (upload.assembly == blob) return;
    if (!upload.assembly.empty())
        throw_error(Code::conflict, "OperationAborted",
                    "the upload \"{}\" changed meanwhile; send the part again", upload.info.id);
    tx.prepare("update upload set assembly = ?2 where id = ?1")
        .bind(1, upload.info.id)
        .bind(2, blob)
        .run();
    upload.assembly = blob;
}

/// The stored parts the client named, in its order. Throws InvalidPart, InvalidPartOrder,
/// EntityTooSmall, invalid "MalformedXML" for an empty list.
std::vector<PartRow> chosen(const std::vector<PartRow>& stored, const std::vector<Part>& named) {
    if (named.empty())
        throw_error(Code::invalid, "MalformedXML", "an upload is completed with at least one part");
    std::vector<PartRow> out;
    for (const Part& part : named) {
        if (!out.empty() && part.number <= out.back().part.number)
            throw_error(Code::invalid, "InvalidPartOrder",
                        "part {} is listed after part {}; list them in ascending order",
                        part.number, out.back().part.number);
        const auto found = std::ranges::find(stored, part.number,
                                             [](const PartRow& row) { return row.part.number; });
        const bool same =
            found != stored.end() && found->part.etag == part.etag &&
            std::ranges::all_of(part.checksums, [&](const auto& sum) {
                const auto kept = found->part.checksums.find(sum.first);
                return kept == found->part.checksums.end() || kept->second == sum.second;
            });
        if (!same)
            throw_error(Code::invalid, "InvalidPart",
                        "part {} was not uploaded, or with another ETag or checksum than \"{}\"",
                        part.number, part.etag);
        out.push_back(*found);
    }
    for (std::size_t i = 0; i + 1 < out.size(); ++i)
        if (out[i].part.size < kSmallestPart)
            throw_error(Code::invalid, "EntityTooSmall",
                        "part {} has {} bytes; all parts but the last need at least {}",
                        out[i].part.number, out[i].part.size, kSmallestPart);
    return out;
}

std::string multipart_etag(const std::vector<PartRow>& parts) {
    Hasher md5(HashKind::md5);
    for (const PartRow& row : parts) md5.update(*from_hex(row.part.etag));
    return fmt::format("{}-{}", to_hex(as_bytes(md5.finish())), parts.size());
}

/// The finished object's checksum, when all parts have the one the upload was started with.
void set_checksum(Attributes& attributes, const std::vector<PartRow>& parts) {
    const std::string name =
        attributes.checksums.empty() ? std::string() : attributes.checksums.begin()->first;
    const auto kind = checksum_kind(name);
    attributes.checksums.clear();
    std::vector<Piece> pieces;
    for (const PartRow& row : parts) {
        const auto found = row.part.checksums.find(name);
        if (found == row.part.checksums.end()) break;
        pieces.push_back({from_base64(found->second).value_or(""), row.part.size});
    }
    if (!kind || pieces.size() != parts.size()) {
        attributes.checksum_type.clear();
        return;
    }
    const bool whole = *kind == HashKind::crc64nvme ||
                       (is_crc(*kind) && attributes.checksum_type == "FULL_OBJECT");
    attributes.checksum_type = whole ? "FULL_OBJECT" : "COMPOSITE";
    attributes.checksums[name] =
        whole ? to_base64(as_bytes(combine_crcs(*kind, pieces))) : composite(*kind, pieces);
}

void check_expected(const Attributes& attributes,
                    const std::map<std::string, std::string>& expected) {
    for (const auto& [name, value] : expected) {
        const auto found = attributes.checksums.find(name);
        if (found != attributes.checksums.end() && found->second != value)
            throw_error(Code::corrupt, "BadDigest",
                        "the object's {} is {}, not {} as declared; upload it again", name,
                        found->second, value);
    }
}

/// A part sent again while the upload is being completed may have taken the chosen one's file away.
void check_unchanged(const std::vector<PartRow>& used, const std::vector<PartRow>& now) {
    for (const PartRow& row : used) {
        const auto found =
            std::ranges::find(now, row.part.number, [](const PartRow& r) { return r.part.number; });
        if (found == now.end() || found->blob != row.blob || found->part.etag != row.part.etag)
            throw_error(Code::conflict, "OperationAborted",
                        "part {} was sent again while the upload was being completed; try again",
                        row.part.number);
    }
}

/// True when the parts lie in one file in order, from its start, and nothing else of the upload
/// does.
bool are_in_place(const std::vector<PartRow>& parts, const std::vector<PartRow>& stored) {
    std::uint64_t end = 0;
    for (const PartRow& row : parts) {
        if (row.blob != parts.front().blob || row.offset != end) return false;
        end += row.part.size;
    }
    const auto there = std::ranges::count(stored, parts.front().blob, &PartRow::blob);
    return there == static_cast<std::ptrdiff_t>(parts.size());
}

void copy_range(const sys::Fd& from, std::uint64_t offset, std::uint64_t size, const sys::Fd& to) {
    auto at = static_cast<off_t>(offset);
    while (size != 0) {
        // Shares the blocks where the file system can; copies inside the kernel elsewhere.
        const ssize_t n = ::copy_file_range(from.get(), &at, to.get(), nullptr, size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_errno("put the parts together");
        if (n == 0) throw_error(Code::corrupt, "", "a part's file is shorter than its row says");
        size -= static_cast<std::uint64_t>(n);
    }
}

Blobs::Fresh put_together(Blobs& blobs, const std::vector<PartRow>& parts) {
    try {
        Blobs::Created whole = blobs.create();
        for (const PartRow& row : parts) {
            const sys::Fd file = blobs.open(row.blob);
            if (!file.is_open())
                throw_error(Code::not_found, "NoSuchUpload",
                            "the upload was completed or aborted meanwhile");
            copy_range(file, row.offset, row.part.size, whole.file);
        }
        blobs.sync(whole.blob, whole.file);
        return std::move(whole.blob);
    } catch (const Error& error) {
        rethrow_naming_full_disk(error);
        throw;
    }
}

/// A part's right to write at its place, given back on destruction.
class Place {
public:
    Place() = default;
    Place(ObjectStore::Impl& impl, std::string upload, std::shared_ptr<Assembly> assembly,
          int number)
        : impl_(&impl),
          upload_(std::move(upload)),
          assembly_(std::move(assembly)),
          number_(number) {}
    Place(Place&& other) noexcept = default;
    ~Place() {
        if (!assembly_) return;
        impl_->assemblies.with([&](Assemblies& all) {
            --assembly_->writers;
            if (!kept_) assembly_->taken.erase(number_);
            // Nothing came of it, perhaps because the upload is gone.
            const auto it = all.find(upload_);
            if (assembly_->taken.empty() && it != all.end() && it->second == assembly_)
                all.erase(it);
        });
    }
    explicit operator bool() const { return assembly_ != nullptr; }
    Assembly& assembly() { return *assembly_; }
    std::uint64_t offset() const {
        return static_cast<std::uint64_t>(number_ - 1) * assembly_->stride;
    }
    /// The row is committed: nobody may write here again.
    void keep() {
        kept_ = true;
        impl_->assemblies.with([&](Assemblies&) { assembly_->blob.settle(); });
    }

private:
    ObjectStore::Impl* impl_ = nullptr;
    std::string upload_;
    std::shared_ptr<Assembly> assembly_;
    int number_ = 0;
    bool kept_ = false;
};

/// No place when the part does not fit the pattern, was there before, or the upload's common file
/// is no longer known (after a restart).
Place take_place(ObjectStore::Impl& impl, const UploadRow& row, int number, std::uint64_t size) {
    const std::string& upload = row.info.id;
    const auto take = [&](std::shared_ptr<Assembly> assembly) -> Place {
        const std::uint64_t end = static_cast<std::uint64_t>(number) * assembly->stride;
        if (size > assembly->stride || end > kLargestObject) return {};
        if (!assembly->taken.insert(number).second) return {};
        ++assembly->writers;
        return Place(impl, upload, std::move(assembly), number);
    };
    bool found = false;
    Place place = impl.assemblies.with([&](Assemblies& all) -> Place {
        const auto it = all.find(upload);
        found = it != all.end();
        return found ? take(it->second) : Place();
    });
    if (found || size < kSmallestPart || !row.assembly.empty()) return place;
    const auto fresh = std::make_shared<Assembly>(impl.blobs.create(), size);
    impl.blobs.sync(fresh->blob, fresh->file);  // the parts sync their bytes only
    std::shared_ptr<Assembly> evicted;          // outlives the lock
    return impl.assemblies.with([&](Assemblies& all) -> Place {
        if (all.size() >= kMostAssemblies && !all.contains(upload)) {
            const auto idle = std::ranges::find_if(
                all, [](const auto& entry) { return entry.second->writers == 0; });
            if (idle == all.end()) return {};
            evicted = std::move(idle->second);
            all.erase(idle);
        }
        return take(all.try_emplace(upload, fresh).first->second);
    });
}

}  // namespace

std::string ObjectStore::start_upload(const std::string& bucket, const std::string& key,
                                      Attributes attributes) {
    check_key(key);
    const std::string id = impl_->ids.token(40);
    impl_->db.write([&](store::Tx& tx) {
        tx.prepare(
              "insert into upload (id, bucket, key, started, attributes)"
              " values (?1, ?2, ?3, ?4, ?5)")
            .bind(1, id)
            .bind(2, bucket_id(tx, bucket))
            .bind(3, key)
            .bind(4, impl_->clock.now())
            .bind(5, to_column(attributes))
            .run();
    });
    return id;
}

Part ObjectStore::put_part(const std::string& upload, int number, const Source& source,
                           const Expectation& expected) {
    if (number < 1 || number > kMostParts)
        throw_error(Code::invalid, "InvalidArgument",
                    "part number {} is out of range; it must be between 1 and {}", number,
                    kMostParts);
    UploadRow before;
    impl_->db.read([&](store::Tx& tx) { before = existing(tx, upload); });
    Place place = expected.size ? take_place(*impl_, before, number, *expected.size) : Place();
    Ingested in = place ? ingest_at(place.assembly().file, place.offset(), source, expected)
                        : ingest(impl_->blobs, source, expected, Inline::never);

    PartRow row;
    row.part = {number, to_hex(as_bytes(in.md5)), in.size, impl_->clock.now(), in.checksums};
    const Blobs::Fresh& fresh = place ? place.assembly().blob : *in.blob;
    row.blob = fresh.name();
    row.offset = place ? place.offset() : 0;
    std::string replaced;
    impl_->db.write([&](store::Tx& tx) {
        UploadRow now = existing(tx, upload);
        Blobs::adopt(tx, fresh);
        if (place) own_assembly(tx, now, row.blob);
        replaced = replace_part(tx, now, row);
    });
    if (place)
        place.keep();
    else
        in.blob->settle();
    if (!replaced.empty()) impl_->blobs.remove(replaced);
    return row.part;
}

ObjectInfo ObjectStore::complete_upload(const std::string& upload, const std::vector<Part>& parts,
                                        const Precondition& condition,
                                        const std::map<std::string, std::string>& expected) {
    UploadRow before;
    std::vector<PartRow> stored;
    impl_->db.read([&](store::Tx& tx) {
        before = existing(tx, upload);
        stored = part_rows(tx, upload);
    });
    const std::vector<PartRow> used = chosen(stored, parts);

    ObjectRow row;
    row.info.bucket = before.info.bucket;
    row.info.key = before.info.key;
    row.info.etag = multipart_etag(used);
    row.info.attributes = before.info.attributes;
    set_checksum(row.info.attributes, used);
    check_expected(row.info.attributes, expected);
    for (const PartRow& part : used) {
        row.info.size += part.part.size;
        row.info.attributes.part_sizes.push_back(part.part.size);
    }

    // From here on no further part finds a place in the common file; one still being written does.
    std::shared_ptr<Assembly> assembly;
    const bool quiet = impl_->assemblies.with([&](Assemblies& all) {
        const auto it = all.find(upload);
        if (it == all.end()) return true;
        assembly = std::move(it->second);
        all.erase(it);
        return assembly->writers == 0;
    });
    std::optional<Blobs::Fresh> fresh;
    if (quiet && are_in_place(used, stored)) {
        row.blob = used.front().blob;
        impl_->blobs.cut(row.blob, row.info.size);
    } else {
        fresh = put_together(impl_->blobs, used);
        row.blob = fresh->name();
    }
    row.info.modified = impl_->clock.now();

    std::vector<std::string> removed;
    impl_->db.write([&](store::Tx& tx) {
        const UploadRow now = existing(tx, upload);
        check_unchanged(used, part_rows(tx, upload));
        std::string replaced = replace_object(tx, before.bucket, row, condition);
        removed = erase_upload(tx, now, row.blob);
        if (!replaced.empty()) removed.push_back(std::move(replaced));
        if (fresh) Blobs::adopt(tx, *fresh);
    });
    if (fresh) fresh->settle();
    for (const std::string& blob : removed) impl_->blobs.remove(blob);
    return std::move(row.info);
}

void ObjectStore::abort_upload(const std::string& upload) {
    std::vector<std::string> removed;
    impl_->db.write([&](store::Tx& tx) { removed = erase_upload(tx, existing(tx, upload), ""); });
    std::shared_ptr<Assembly> assembly;  // outlives the lock
    impl_->assemblies.with([&](Assemblies& all) {
        if (const auto it = all.find(upload); it != all.end()) {
            assembly = std::move(it->second);
            all.erase(it);
        }
    });
    for (const std::string& blob : removed) impl_->blobs.remove(blob);
}

std::optional<UploadInfo> ObjectStore::find_upload(const std::string& upload) const {
    std::optional<UploadInfo> info;
    impl_->db.read([&](store::Tx& tx) {
        if (auto row = find_row(tx, upload)) info = std::move(row->info);
    });
    return info;
}

std::vector<Part> ObjectStore::list_parts(const std::string& upload) const {
    std::vector<Part> parts;
    impl_->db.read([&](store::Tx& tx) {
        existing(tx, upload);
        for (PartRow& row : part_rows(tx, upload)) parts.push_back(std::move(row.part));
    });
    return parts;
}

std::vector<UploadInfo> ObjectStore::list_uploads(const std::string& bucket,
                                                  const std::string& prefix) const {
    std::vector<UploadInfo> uploads;
    impl_->db.read([&](store::Tx& tx) {
        auto rows = tx.prepare(
            "select id, key, started from upload where bucket = ?1 and key >= ?2"
            " order by key, started, id");
        rows.bind(1, bucket_id(tx, bucket)).bind(2, prefix);
        while (rows.step()) {
            std::string key = rows.text(1);
            if (!key.starts_with(prefix)) break;
            uploads.push_back({rows.text(0), bucket, std::move(key), rows.instant(2), {}});
        }
    });
    return uploads;
}

}  // namespace ty::objects
