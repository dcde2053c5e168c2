// SPDX-License-Identifier: Apache-2.0
// Request bodies before a face sees them: read whole and unpacked for JSON, query and CBOR
// services; watched over for S3's small documents.
#pragma once

#include "base/bytes.h"
#include "http/http.h"

#include <string>
#include <string_view>

namespace ty::api {

/// The body as clients compress it for PutMetricData: gzip by Content-Encoding, anything else as it
/// is. Throws invalid "InvalidContentEncoding" (broken stream), exhausted "EntityTooLarge" (beyond
/// `limit`).
std::string unpack_body(std::string body, std::string_view content_encoding, Bytes limit);

/// Hashes what passes and throws invalid "XAmzContentSHA256Mismatch" with the last byte when the
/// hash is not the signed one. For request documents; object uploads are checked by the object
/// store.
class HashedBody final : public http::BodyReader {
public:
    HashedBody(http::BodyReader& inner, std::string expected_hex);
    ~HashedBody() override;
    std::size_t read(std::span<std::byte> into) override;
    std::optional<std::uint64_t> length() const override;

private:
    void check();

    struct State;
    http::BodyReader& inner_;
    std::string expected_;
    std::unique_ptr<State> state_;
};

}  // namespace ty::api
