// SPDX-License-Identifier: Apache-2.0
#include "objects/rows.h"

#include "objects/attributes.h"

namespace ty::objects {

std::optional<BucketRow> find_bucket(store::Tx& tx, const std::string& name) {
    auto row = tx.prepare("select id, region, created from bucket where name = ?1");
    row.bind(1, name);
    if (!row.step()) return std::nullopt;
    return BucketRow{row.integer(0), Bucket{name, row.text(1), row.instant(2)}};
}

std::int64_t bucket_id(store::Tx& tx, const std::string& name) {
    const auto found = find_bucket(tx, name);
    if (!found)
        throw_error(Code::not_found, "NoSuchBucket", "the bucket \"{}\" does not exist; create it",
                    name);
    return found->id;
}

std::optional<ObjectRow> find_object(store::Tx& tx, std::int64_t bucket, const std::string& key,
                                     Content content) {
    auto row = tx.prepare(content == Content::load
                              ? "select size, etag, modified, attributes, blob, data from object"
                                " where bucket = ?1 and key = ?2"
                              : "select size, etag, modified, attributes, blob from object"
                                " where bucket = ?1 and key = ?2");
    row.bind(1, bucket).bind(2, key);
    if (!row.step()) return std::nullopt;
    ObjectRow out;
    out.info.key = key;
    out.info.size = static_cast<std::uint64_t>(row.integer(0));
    out.info.etag = row.text(1);
    out.info.modified = row.instant(2);
    out.info.attributes = attributes_from_column(row.text(3));
    out.blob = row.text(4);
    if (content == Content::load) out.data = row.text(5);
    return out;
}

void check_condition(const Precondition& condition, const std::optional<ObjectRow>& current) {
    if (condition.if_none_match && current)
        throw_error(Code::conflict, "PreconditionFailed",
                    "the object exists already and If-None-Match: * was given");
    if (condition.if_match.empty()) return;
    if (!current)
        throw_error(Code::not_found, "NoSuchKey", "If-Match was given, but there is no object");
    if (condition.if_match != "*" && condition.if_match != current->info.etag)
        throw_error(Code::conflict, "PreconditionFailed", "the object's ETag is \"{}\", not \"{}\"",
                    current->info.etag, condition.if_match);
}

std::string replace_object(store::Tx& tx, std::int64_t bucket, const ObjectRow& row,
                           const Precondition& condition) {
    const auto current = find_object(tx, bucket, row.info.key, Content::skip);
    check_condition(condition, current);
    auto put = tx.prepare(
        "insert into object (bucket, key, size, etag, modified, attributes, blob, data)"
        " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        " on conflict (bucket, key) do update set size = excluded.size, etag = excluded.etag,"
        " modified = excluded.modified, attributes = excluded.attributes, blob = excluded.blob,"
        " data = excluded.data");
    put.bind(1, bucket)
        .bind(2, row.info.key)
        .bind(3, row.info.size)
        .bind(4, row.info.etag)
        .bind(5, row.info.modified)
        .bind(6, to_column(row.info.attributes));
    if (row.blob.empty())
        put.bind_null(7).bind_blob(8, row.data);
    else
        put.bind(7, row.blob).bind_null(8);
    put.run();
    if (!current || current->blob.empty() || current->blob == row.blob) return {};
    Blobs::doom(tx, current->blob);
    return current->blob;
}

void throw_no_such_key(const std::string& bucket, const std::string& key) {
    throw_error(Code::not_found, "NoSuchKey", "s3://{}/{} does not exist", bucket, key);
}

}  // namespace ty::objects
