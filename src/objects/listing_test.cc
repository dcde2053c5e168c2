// SPDX-License-Identifier: Apache-2.0
#include "objects/testing.h"

#include <doctest/doctest.h>
#include <random>
#include <set>

using namespace ty;
using namespace ty::objects;

namespace {

void fill(Scratch& s, std::initializer_list<const char*> keys) {
    s.store.create_bucket("bucket", "us-east-1");
    for (const char* key : keys) s.store.put("bucket", key, {}, source_of(key));
}

std::string show(const Listing& listing) {
    std::string text;
    for (const auto& object : listing.objects) text += object.key + " ";
    for (const auto& prefix : listing.common_prefixes) text += "[" + prefix + "] ";
    return text + (listing.truncated ? "... " + listing.next : "");
}

/// What a listing must be, the slow way.
struct Expected {
    std::vector<std::string> keys, prefixes;
};
Expected expected(const std::set<std::string>& keys, const ListQuery& query) {
    Expected out;
    for (const std::string& key : keys) {
        if (!key.starts_with(query.prefix)) continue;
        const auto at = query.delimiter.empty() ? std::string::npos
                                                : key.find(query.delimiter, query.prefix.size());
        if (at == std::string::npos) {
            out.keys.push_back(key);
        } else {
            const std::string prefix = key.substr(0, at + query.delimiter.size());
            if (out.prefixes.empty() || out.prefixes.back() != prefix)
                out.prefixes.push_back(prefix);
        }
    }
    return out;
}

}  // namespace

TEST_CASE("keys are listed bytewise, below a prefix, folded at the delimiter") {
    Scratch s;
    fill(s, {"a", "a/1", "a/2", "a/b/3", "a0", "B", "b", "ü/x", "z"});
    CHECK(show(s.store.list("bucket", {})) == "B a a/1 a/2 a/b/3 a0 b z ü/x ");
    CHECK(show(s.store.list("bucket", {.prefix = "a"})) == "a a/1 a/2 a/b/3 a0 ");
    CHECK(show(s.store.list("bucket", {.delimiter = "/"})) == "B a a0 b z [a/] [ü/] ");
    CHECK(show(s.store.list("bucket", {.prefix = "a/", .delimiter = "/"})) == "a/1 a/2 [a/b/] ");
    CHECK(show(s.store.list("bucket", {.prefix = "nothing"})) == "");
    CHECK(show(s.store.list("bucket", {.limit = 0})) == "");
    CHECK(reason_of([&] { s.store.list("none", {}); }) == "NoSuchBucket");
}

TEST_CASE("pages go on behind the last key, or behind all of the last common prefix") {
    Scratch s;
    fill(s, {"a/1", "a/2", "b", "c/1", "d"});
    CHECK(show(s.store.list("bucket", {.delimiter = "/", .limit = 1})) == "[a/] ... a/");
    CHECK(show(s.store.list("bucket", {.delimiter = "/", .after = "a/", .limit = 2})) ==
          "b [c/] ... c/");
    CHECK(show(s.store.list("bucket", {.delimiter = "/", .after = "c/"})) == "d ");
    CHECK(show(s.store.list("bucket", {.after = "a/1", .limit = 4})) == "a/2 b c/1 d ");
    CHECK(show(s.store.list("bucket", {.prefix = "c", .after = "a"})) == "c/1 ");
    CHECK(show(s.store.list("bucket", {.prefix = "a", .after = "b"})) == "");
}

TEST_CASE("any walk in pages of any size gives exactly what one pass over all keys gives") {
    std::mt19937 random(7);
    Scratch s;
    s.store.create_bucket("bucket", "us-east-1");
    std::set<std::string> keys;
    while (keys.size() < 120) {
        std::string key;
        for (auto n = 1 + random() % 6; n > 0; --n) key += "ab/-\x7f"[random() % 5];
        if (keys.insert(key).second) s.store.put("bucket", key, {}, source_of(""));
    }
    for (const char* prefix : {"", "a", "a/", "b-", "//", "\x7f"})
        for (const char* delimiter : {"", "/", "ab", "\x7f"})
            for (const std::size_t limit : {1u, 2u, 7u, 1000u}) {
                ListQuery query{prefix, delimiter, "", limit};
                const Expected want = expected(keys, query);
                Expected got;
                for (bool more = true; more;) {
                    const Listing page = s.store.list("bucket", query);
                    CHECK(page.objects.size() + page.common_prefixes.size() <= limit);
                    for (const auto& object : page.objects) got.keys.push_back(object.key);
                    for (const auto& p : page.common_prefixes) got.prefixes.push_back(p);
                    more = page.truncated;
                    query.after = page.next;
                }
                CHECK(got.keys == want.keys);
                CHECK(got.prefixes == want.prefixes);
            }
}

TEST_CASE("the listing's query is answered from the index in order, without sorting") {
    Scratch s;
    s.db.read([](store::Tx& tx) {
        auto plan = tx.prepare(
            "explain query plan select key, size, etag, modified from object"
            " where bucket = ?1 and key >= ?2 and key < ?3 order by key");
        std::string text;
        while (plan.step()) text += plan.text(3) + "\n";
        CHECK(text ==
              "SEARCH object USING INDEX sqlite_autoindex_object_1"
              " (bucket=? AND key>? AND key<?)\n");
    });
}
