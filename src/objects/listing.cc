// SPDX-License-Identifier: Apache-2.0
// Listing by prefix and delimiter. A page costs what it returns: each common prefix is found at its
// first key, and the index is then asked for the first key behind all of that prefix.
#include "objects/impl.h"

namespace ty::objects {
namespace {

/// The smallest text greater than every text with this prefix; nullopt when there is none.
std::optional<std::string> after_all_with(std::string prefix) {
    while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
    if (prefix.empty()) return std::nullopt;
    prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
    return prefix;
}

/// `key` cut behind the first delimiter after the prefix; nullopt when there is none.
std::optional<std::string> common_prefix(const std::string& key, const ListQuery& query) {
    if (query.delimiter.empty()) return std::nullopt;
    const auto at = key.find(query.delimiter, query.prefix.size());
    if (at == std::string::npos) return std::nullopt;
    return key.substr(0, at + query.delimiter.size());
}

/// First key the page may hold; nullopt when nothing can follow.
std::optional<std::string> first_key(const ListQuery& query) {
    if (query.after.empty() || query.after < query.prefix) return query.prefix;
    // A page that ended with a common prefix goes on behind all of it.
    if (query.after.starts_with(query.prefix) && common_prefix(query.after, query) == query.after)
        return after_all_with(query.after);
    return query.after + '\0';
}

ObjectInfo row_to_info(const store::Stmt& row, const std::string& bucket, std::string key) {
    ObjectInfo info;
    info.bucket = bucket;
    info.key = std::move(key);
    info.size = static_cast<std::uint64_t>(row.integer(1));
    info.etag = row.text(2);
    info.modified = row.instant(3);
    return info;
}

}  // namespace

Listing ObjectStore::list(const std::string& bucket, const ListQuery& query) const {
    Listing out;
    impl_->db.read([&](store::Tx& tx) {
        const auto id = bucket_id(tx, bucket);
        std::optional<std::string> from = first_key(query);
        const auto end = after_all_with(query.prefix);
        auto rows = tx.prepare(
            "select key, size, etag, modified from object"
            " where bucket = ?1 and key >= ?2 and key < ?3 order by key");
        std::size_t left = query.limit;
        while (from && query.limit != 0) {
            rows.bind(1, id).bind(2, *from);
            // Every blob is greater than every text.
            if (end)
                rows.bind(3, *end);
            else
                rows.bind_blob(3, "");
            from.reset();
            while (rows.step()) {
                if (left == 0) {
                    out.truncated = true;
                    break;
                }
                --left;
                std::string key = rows.text(0);
                if (auto prefix = common_prefix(key, query)) {
                    out.next = *prefix;
                    from = after_all_with(*prefix);
                    out.common_prefixes.push_back(std::move(*prefix));
                    break;
                }
                out.next = key;
                out.objects.push_back(row_to_info(rows, bucket, std::move(key)));
            }
            rows.reset();
        }
    });
    if (!out.truncated) out.next.clear();
    return out;
}

}  // namespace ty::objects
