// SPDX-License-Identifier: Apache-2.0
#include "objects/checksum.h"

#include "objects/testing.h"

#include <doctest/doctest.h>

using namespace ty;
using namespace ty::objects;

TEST_CASE("the CRC of a whole follows from those of its pieces") {
    for (const HashKind kind : {HashKind::crc32, HashKind::crc32c, HashKind::crc64nvme}) {
        for (const std::size_t unit : {1u, 7u, 256u, 5000u}) {
            std::string whole;
            std::vector<Piece> pieces;
            for (std::size_t i = 0; i < 9; ++i) {
                // Empty pieces too.
                const std::string text = pattern(unit * i % 11000, i + unit);
                pieces.push_back({digest(kind, text), text.size()});
                whole += text;
            }
            CHECK(to_hex(as_bytes(combine_crcs(kind, pieces))) ==
                  to_hex(as_bytes(digest(kind, whole))));
        }
    }
}

TEST_CASE("a composite is the hash of the raw checksums and their number") {
    const std::string a = "hello", b = "world";
    for (const HashKind kind : {HashKind::crc32, HashKind::sha256}) {
        const Piece pieces[] = {{digest(kind, a), 5}, {digest(kind, b), 5}};
        CHECK(composite(kind, pieces) ==
              base64_digest(kind, digest(kind, a) + digest(kind, b)) + "-2");
    }
}

TEST_CASE("checksums have the names of S3's headers") {
    CHECK(checksum_kind("crc64nvme") == HashKind::crc64nvme);
    CHECK(checksum_kind("CRC32") == std::nullopt);
    CHECK(checksum_kind("") == std::nullopt);
}
