// SPDX-License-Identifier: Apache-2.0
#include "api/s3/payload.h"

#include "base/hash.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace ty::api::s3 {
namespace {

struct Algorithm {
    std::string_view name, element;
    HashKind kind;
    std::size_t bytes;
};
constexpr std::array kAlgorithms{
    Algorithm{"crc32", "ChecksumCRC32", HashKind::crc32, 4},
    Algorithm{"crc32c", "ChecksumCRC32C", HashKind::crc32c, 4},
    Algorithm{"crc64nvme", "ChecksumCRC64NVME", HashKind::crc64nvme, 8},
    Algorithm{"sha1", "ChecksumSHA1", HashKind::sha1, 20},
    Algorithm{"sha256", "ChecksumSHA256", HashKind::sha256, 32},
};
constexpr std::string_view kPrefix = "x-amz-checksum-";
constexpr std::uint64_t kLargestUpload = 5ull << 30;

const Algorithm* find_algorithm(std::string_view name) {
    const auto found = std::ranges::find(kAlgorithms, name, &Algorithm::name);
    return found != kAlgorithms.end() ? &*found : nullptr;
}

void check_value(std::string_view header, std::string_view value, std::size_t bytes) {
    const auto raw = from_base64(value);
    if (!raw || raw->size() != bytes)
        throw_error(Code::invalid, "InvalidRequest", "Value for {} header is invalid: \"{}\"",
                    header, to_valid_utf8(truncate_utf8(value, 100)));
}

/// x-amz-content-sha256 as far as it is a hash of the body and not a word.
std::string payload_hash(const aws::Verified& verified) {
    const std::string& hash = verified.payload_hash;
    return hash.size() == 64 && from_hex(hash) ? hash : std::string();
}

}  // namespace

std::optional<std::string> checksum_of_header(std::string_view header) {
    const std::string lower = to_lower(header);
    if (!lower.starts_with(kPrefix)) return std::nullopt;
    const std::string name = lower.substr(kPrefix.size());
    return find_algorithm(name) != nullptr ? std::optional(name) : std::nullopt;
}

std::string checksum_of_algorithm(std::string_view algorithm) {
    std::string name = to_lower(algorithm);
    if (find_algorithm(name) == nullptr)
        throw_error(Code::invalid, "InvalidRequest",
                    "Checksum algorithm \"{}\" is not supported; use CRC32, CRC32C, CRC64NVME, "
                    "SHA1 or SHA256",
                    to_valid_utf8(truncate_utf8(algorithm, 40)));
    return name;
}

std::string checksum_header(std::string_view name) {
    return std::string(kPrefix) + std::string(name);
}

std::string checksum_element(std::string_view name) {
    const Algorithm* algorithm = find_algorithm(name);
    TY_ASSERT(algorithm != nullptr);
    return std::string(algorithm->element);
}

void add_checksum_headers(http::Headers& headers,
                          const std::map<std::string, std::string>& checksums) {
    for (const auto& [name, value] : checksums) headers.add(checksum_header(name), value);
}

void add_checksum_elements(aws::XmlWriter& xml,
                           const std::map<std::string, std::string>& checksums) {
    for (const auto& [name, value] : checksums) xml.element(checksum_element(name), value);
}

std::map<std::string, std::string> checksum_headers(const S3Call& call) {
    std::map<std::string, std::string> out;
    for (const auto& [header, value] : call.call.request.headers)
        if (const auto name = checksum_of_header(header)) out[*name] = trim(value);
    if (out.size() > 1)
        throw_error(Code::invalid, "InvalidRequest",
                    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not "
                    "allowed.");
    return out;
}

Upload::Upload(S3Call& call, ChecksumOf checksum)
    : reader_(std::make_shared<aws::PayloadReader>(call.call.request, call.call.verified)) {
    expected_.size = reader_->length();
    if (!expected_.size && !call.call.request.headers.contains("transfer-encoding"))
        expected_.size = 0;
    if (expected_.size && *expected_.size > kLargestUpload)
        throw_error(Code::exhausted, "EntityTooLarge",
                    "Your proposed upload of {} bytes exceeds the maximum allowed object size of "
                    "{}; upload it in parts",
                    *expected_.size, kLargestUpload);
    expected_.sha256_hex = payload_hash(call.call.verified);
    std::map<std::string, std::string> sent;
    if (checksum == ChecksumOf::body) sent = checksum_headers(call);
    for (const auto& [name, value] : sent) {
        check_value(checksum_header(name), value, find_algorithm(name)->bytes);
        expected_.checksums[name] = value;
    }
    if (const std::string md5 = call.header("content-md5"); !md5.empty()) {
        const auto raw = from_base64(md5);
        if (!raw || raw->size() != 16)
            throw_error(Code::invalid, "InvalidDigest",
                        "The Content-MD5 you specified is not valid");
        expected_.checksums["md5"] = md5;
    }
    std::vector<std::string> announced;
    for (const std::string& header : split(call.header("x-amz-trailer"), ','))
        if (const auto name = checksum_of_header(trim(header))) announced.push_back(*name);
    for (const std::string& name : announced) expected_.checksums.try_emplace(name, "");
    protected_ = !expected_.checksums.empty();
    // Asked to compute one although none was sent.
    if (const std::string wanted = call.header("x-amz-sdk-checksum-algorithm"); !wanted.empty())
        expected_.checksums.try_emplace(checksum_of_algorithm(wanted), "");
    if (announced.empty()) return;
    expected_.trailing = [reader = reader_, announced] {
        std::map<std::string, std::string> out;
        for (const std::string& name : announced) {
            const auto found = reader->trailers().find(checksum_header(name));
            if (found == reader->trailers().end())
                throw_error(Code::invalid, "MalformedTrailerError",
                            "the trailer {} was announced and did not come", checksum_header(name));
            check_value(found->first, found->second, find_algorithm(name)->bytes);
            out[name] = found->second;
        }
        return out;
    };
}

objects::Expectation Upload::expectation() const {
    return expected_;
}

objects::Source Upload::source() {
    return [reader = reader_](std::span<std::byte> into) { return reader->read(into); };
}

void verify(std::string_view text, const objects::Expectation& expected) {
    if (!expected.sha256_hex.empty() && sha256_hex(text) != to_lower(expected.sha256_hex))
        throw_error(Code::invalid, "XAmzContentSHA256Mismatch",
                    "The provided 'x-amz-content-sha256' header does not match what was computed.");
    auto wanted = expected.checksums;
    if (expected.trailing)
        for (auto& [name, value] : expected.trailing()) wanted[name] = value;
    for (const auto& [name, value] : wanted) {
        if (value.empty()) continue;
        const Algorithm* algorithm = find_algorithm(name);
        Hasher hasher(algorithm != nullptr ? algorithm->kind : HashKind::md5);
        hasher.update(text);
        const std::string actual = to_base64(as_bytes(hasher.finish()));
        if (actual != value)
            throw_error(Code::corrupt, "BadDigest",
                        "the {} of the request document is {}, not {} as declared", name, actual,
                        value);
    }
}

}  // namespace ty::api::s3
