// SPDX-License-Identifier: Apache-2.0
// Buckets and whole objects. Uploads in parts are in multipart.cc, listing in listing.cc.
#include "base/text.h"
#include "objects/attributes.h"
#include "objects/checksum.h"
#include "objects/impl.h"
#include "objects/ingest.h"
#include "objects/names.h"

#include <sys/mman.h>
#include <unistd.h>

namespace ty::objects {
namespace {

/// A file vanishes between our look at the index and opening it only when its key was replaced or
/// deleted just then; so many times in a row means that the blob folder was damaged.
constexpr int kOpenAttempts = 50;

sys::Fd memory_file(const std::string& data) {
    sys::Fd file(::memfd_create("object", MFD_CLOEXEC));
    if (!file.is_open()) throw_errno("create a file in memory");
    sys::write_all(file.get(), data);
    if (::lseek(file.get(), 0, SEEK_SET) != 0) throw_errno("rewind a file in memory");
    return file;
}

[[noreturn]] void throw_lost(const ObjectRow& row) {
    throw_error(Code::corrupt, "", "the data of s3://{}/{} (file {}) is missing", row.info.bucket,
                row.info.key, row.blob);
}

}  // namespace

ObjectStore::ObjectStore(const sys::fs::path& root, store::Db& db, Clock& clock)
    : impl_(std::make_unique<Impl>(root, db, clock)) {}

ObjectStore::~ObjectStore() = default;

// ---- buckets ------------------------------------------------------------------------------------

void ObjectStore::create_bucket(const std::string& name, const std::string& region) {
    check_bucket_name(name);
    impl_->db.write([&](store::Tx& tx) {
        if (objects::find_bucket(tx, name))
            throw_error(Code::conflict, "BucketAlreadyOwnedByYou",
                        "the bucket \"{}\" exists already and is yours", name);
        tx.prepare("insert into bucket (name, region, created) values (?1, ?2, ?3)")
            .bind(1, name)
            .bind(2, region)
            .bind(3, impl_->clock.now())
            .run();
    });
}

void ObjectStore::delete_bucket(const std::string& name) {
    std::vector<std::string> removed;
    impl_->db.write([&](store::Tx& tx) {
        removed.clear();
        const auto id = bucket_id(tx, name);
        {
            auto any = tx.prepare("select 1 from object where bucket = ?1 limit 1");
            any.bind(1, id);
            if (any.step())
                throw_error(Code::conflict, "BucketNotEmpty",
                            "the bucket \"{}\" still has objects; delete them first", name);
        }
        {
            auto parts = tx.prepare(
                "select p.blob from upload_part p join upload u on u.id = p.upload"
                " where u.bucket = ?1"
                " union select assembly from upload where bucket = ?1 and assembly is not null");
            parts.bind(1, id);
            while (parts.step()) removed.push_back(parts.text(0));
        }
        for (const std::string& blob : removed) Blobs::doom(tx, blob);
        tx.prepare("delete from upload where bucket = ?1").bind(1, id).run();
        tx.prepare("delete from bucket where id = ?1").bind(1, id).run();
    });
    for (const std::string& blob : removed) impl_->blobs.remove(blob);
}

std::optional<Bucket> ObjectStore::find_bucket(const std::string& name) const {
    std::optional<Bucket> found;
    impl_->db.read([&](store::Tx& tx) {
        if (auto row = objects::find_bucket(tx, name)) found = std::move(row->bucket);
    });
    return found;
}

std::vector<Bucket> ObjectStore::list_buckets() const {
    std::vector<Bucket> buckets;
    impl_->db.read([&](store::Tx& tx) {
        auto rows = tx.prepare("select name, region, created from bucket order by name");
        while (rows.step()) buckets.push_back({rows.text(0), rows.text(1), rows.instant(2)});
    });
    return buckets;
}

// ---- objects ------------------------------------------------------------------------------------

ObjectInfo ObjectStore::Impl::publish(const std::string& bucket, ObjectRow row,
                                      std::optional<Blobs::Fresh> fresh,
                                      const Precondition& condition) {
    row.info.bucket = bucket;
    row.info.modified = clock.now();
    if (fresh) row.blob = fresh->name();
    std::string replaced;
    db.write([&](store::Tx& tx) {
        replaced = replace_object(tx, bucket_id(tx, bucket), row, condition);
        if (fresh) Blobs::adopt(tx, *fresh);
    });
    if (fresh) fresh->settle();
    if (!replaced.empty()) blobs.remove(replaced);
    return std::move(row.info);
}

ObjectInfo ObjectStore::put(const std::string& bucket, const std::string& key,
                            Attributes attributes, const Source& source,
                            const Expectation& expected, const Precondition& condition) {
    check_key(key);
    // Refuse what is known to fail before a byte is asked for; publish() checks again.
    impl_->db.read([&](store::Tx& tx) {
        const auto id = bucket_id(tx, bucket);
        if (condition.if_none_match || !condition.if_match.empty())
            check_condition(condition, find_object(tx, id, key, Content::skip));
    });
    Ingested in = ingest(impl_->blobs, source, expected, Inline::allowed);
    ObjectRow row;
    row.info.key = key;
    row.info.size = in.size;
    row.info.etag = to_hex(as_bytes(in.md5));
    row.info.attributes = std::move(attributes);
    row.info.attributes.checksums = std::move(in.checksums);
    row.info.attributes.part_sizes.clear();
    row.info.attributes.checksum_type = row.info.attributes.checksums.empty() ? "" : "FULL_OBJECT";
    row.data = std::move(in.data);
    return impl_->publish(bucket, std::move(row), std::move(in.blob), condition);
}

ObjectInfo ObjectStore::copy(const std::string& from_bucket, const std::string& from_key,
                             const std::string& bucket, const std::string& key,
                             const std::optional<Attributes>& replace) {
    check_key(key);
    for (int attempt = 0;; ++attempt) {
        ObjectRow row;
        impl_->db.read([&](store::Tx& tx) {
            bucket_id(tx, bucket);
            auto found = find_object(tx, bucket_id(tx, from_bucket), from_key, Content::load);
            if (!found) throw_no_such_key(from_bucket, from_key);
            row = std::move(*found);
        });
        // Files never change, so a second name for the same one is a copy.
        std::optional<Blobs::Fresh> fresh;
        if (!row.blob.empty()) {
            fresh = impl_->blobs.link(row.blob);
            if (!fresh && attempt < kOpenAttempts) continue;
            if (!fresh) throw_lost(row);
        }
        row.info.key = key;
        if (replace) {
            Attributes kept = std::exchange(row.info.attributes, *replace);
            row.info.attributes.checksums = std::move(kept.checksums);
            row.info.attributes.checksum_type = std::move(kept.checksum_type);
            row.info.attributes.part_sizes = std::move(kept.part_sizes);
        }
        return impl_->publish(bucket, std::move(row), std::move(fresh), {});
    }
}

std::optional<ObjectInfo> ObjectStore::find(const std::string& bucket,
                                            const std::string& key) const {
    std::optional<ObjectInfo> info;
    impl_->db.read([&](store::Tx& tx) {
        auto row = find_object(tx, bucket_id(tx, bucket), key, Content::skip);
        if (row) info = std::move(row->info);
    });
    if (info) info->bucket = bucket;
    return info;
}

OpenObject ObjectStore::open(const std::string& bucket, const std::string& key) const {
    for (int attempt = 0;; ++attempt) {
        ObjectRow row;
        impl_->db.read([&](store::Tx& tx) {
            auto found = find_object(tx, bucket_id(tx, bucket), key, Content::load);
            if (!found) throw_no_such_key(bucket, key);
            row = std::move(*found);
        });
        row.info.bucket = bucket;
        sys::Fd file = row.blob.empty() ? memory_file(row.data) : impl_->blobs.open(row.blob);
        if (file.is_open()) return {std::move(row.info), std::move(file)};
        if (attempt == kOpenAttempts) throw_lost(row);
    }
}

void ObjectStore::remove(const std::string& bucket, const std::string& key) {
    remove(bucket, std::span(&key, 1));
}

void ObjectStore::remove(const std::string& bucket, std::span<const std::string> keys) {
    std::vector<std::string> removed;
    impl_->db.write([&](store::Tx& tx) {
        removed.clear();
        const auto id = bucket_id(tx, bucket);
        auto erase = tx.prepare("delete from object where bucket = ?1 and key = ?2 returning blob");
        for (const std::string& key : keys) {
            erase.bind(1, id).bind(2, key);
            while (erase.step())
                if (!erase.is_null(0)) removed.push_back(erase.text(0));
            erase.reset();
        }
        for (const std::string& blob : removed) Blobs::doom(tx, blob);
    });
    for (const std::string& blob : removed) impl_->blobs.remove(blob);
}

void ObjectStore::set_tags(const std::string& bucket, const std::string& key,
                           std::map<std::string, std::string> tags) {
    impl_->db.write([&](store::Tx& tx) {
        const auto id = bucket_id(tx, bucket);
        auto row = find_object(tx, id, key, Content::skip);
        if (!row) throw_no_such_key(bucket, key);
        row->info.attributes.tags = tags;
        tx.prepare("update object set attributes = ?3 where bucket = ?1 and key = ?2")
            .bind(1, id)
            .bind(2, key)
            .bind(3, to_column(row->info.attributes))
            .run();
    });
}

}  // namespace ty::objects
