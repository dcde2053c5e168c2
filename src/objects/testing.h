// SPDX-License-Identifier: Apache-2.0
// Shared by this folder's tests: a store in a scratch folder, sources and readers.
#pragma once

#include "base/hash.h"
#include "base/text.h"
#include "objects/objects.h"

#include <algorithm>
#include <cstring>

namespace ty::objects {

struct Scratch {
    explicit Scratch(store::DbOptions::Durability durability = store::DbOptions::Durability::normal)
        : db(dir.path() / "state.db", {.durability = durability}),
          store(dir.path() / "objects", db, clock) {}
    sys::TempDir dir{"objects-test"};
    SystemClock clock;
    store::Db db;
    ObjectStore store;

    /// How many files lie in the blob folder.
    std::size_t files() const { return count_files(dir.path() / "objects" / "blobs"); }
    static std::size_t count_files(const sys::fs::path& root) {
        std::size_t n = 0;
        for (const auto& entry : sys::fs::recursive_directory_iterator(root))
            n += entry.is_regular_file() ? 1 : 0;
        return n;
    }
};

/// The text, `step` bytes at a time.
inline Source source_of(std::string text, std::size_t step = 1 << 20) {
    return [text = std::move(text), step, at = std::size_t(0)](std::span<std::byte> into) mutable {
        const std::size_t n = std::min({step, into.size(), text.size() - at});
        std::memcpy(into.data(), text.data() + at, n);
        at += n;
        return n;
    };
}

inline std::string read_all(const sys::Fd& file) {
    std::string text;
    std::string buffer(1 << 16, '\0');
    while (const std::size_t n = sys::read_some(
               file.get(), std::as_writable_bytes(std::span(buffer.data(), buffer.size()))))
        text.append(buffer, 0, n);
    return text;
}

inline std::string content(const ObjectStore& store, const std::string& bucket,
                           const std::string& key) {
    return read_all(store.open(bucket, key).file);
}

inline std::string digest(HashKind kind, std::string_view text) {
    Hasher hasher(kind);
    hasher.update(text);
    return hasher.finish();
}
inline std::string base64_digest(HashKind kind, std::string_view text) {
    return to_base64(as_bytes(digest(kind, text)));
}
inline std::string md5_hex(std::string_view text) {
    return to_hex(as_bytes(digest(HashKind::md5, text)));
}

/// The reason of the Error that fn throws; "no error" when it does not.
template <typename Fn>
std::string reason_of(Fn&& fn) {
    try {
        fn();
    } catch (const Error& error) {
        return error.reason();
    }
    return "no error";
}

/// Different bytes at every place, different for every seed.
inline std::string pattern(std::size_t size, std::uint64_t seed) {
    std::string text(size, '\0');
    std::uint64_t x = seed * 0x9E3779B97F4A7C15u + 1;
    for (char& c : text) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        c = static_cast<char>(x);
    }
    return text;
}

}  // namespace ty::objects
