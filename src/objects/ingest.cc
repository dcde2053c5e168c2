// SPDX-License-Identifier: Apache-2.0
#include "objects/ingest.h"

#include "base/text.h"
#include "objects/checksum.h"

#include <unistd.h>
#include <cerrno>

namespace ty::objects {
namespace {

constexpr std::size_t kBuffer = 256 * 1024;

/// All digests of one upload, fed together.
class Digests {
public:
    explicit Digests(const Expectation& expected) : md5_(HashKind::md5) {
        for (const auto& [name, value] : expected.checksums) {
            const auto kind = checksum_kind(name);
            if (!kind)
                throw_error(Code::invalid, "InvalidRequest", "unknown checksum algorithm \"{}\"",
                            name);
            if (*kind != HashKind::md5) others_.emplace_back(name, Hasher(*kind));
        }
        if (!expected.sha256_hex.empty()) payload_.emplace(HashKind::sha256);
    }

    void update(std::span<const std::byte> data) {
        md5_.update(data);
        for (auto& [name, hasher] : others_) hasher.update(data);
        if (payload_) payload_->update(data);
    }

    /// Compare with what was promised; fills the digests of `into`.
    void finish(const Expectation& expected, Ingested& into) {
        into.md5 = md5_.finish();
        for (auto& [name, hasher] : others_)
            into.checksums[name] = to_base64(as_bytes(hasher.finish()));
        std::map<std::string, std::string> wanted = expected.checksums;
        if (expected.trailing)
            for (auto& [name, value] : expected.trailing()) wanted[name] = value;
        for (const auto& [name, value] : wanted) {
            if (value.empty()) continue;
            const auto found = into.checksums.find(name);
            const std::string actual = name == "md5" ? to_base64(as_bytes(into.md5))
                                       : found != into.checksums.end() ? found->second
                                                                       : std::string();
            if (actual != value)
                throw_error(Code::corrupt, "BadDigest",
                            "the {} of the received {} bytes is {}, not {} as declared; send them "
                            "again",
                            name, into.size, actual, value);
        }
        if (payload_) check_payload(expected.sha256_hex);
    }

private:
    void check_payload(const std::string& wanted) {
        const std::string actual = to_hex(as_bytes(payload_->finish()));
        if (actual != to_lower(wanted))
            throw_error(Code::invalid, "XAmzContentSHA256Mismatch",
                        "the SHA-256 of the received bytes is {}, x-amz-content-sha256 says {}",
                        actual, wanted);
    }

    Hasher md5_;
    std::vector<std::pair<std::string, Hasher>> others_;
    std::optional<Hasher> payload_;
};

std::size_t fill(const Source& source, std::span<std::byte> into) {
    std::size_t have = 0;
    while (have < into.size()) {
        const std::size_t got = source(into.subspan(have));
        if (got == 0) break;
        have += got;
    }
    return have;
}

void check_size(const Expectation& expected, std::uint64_t size, bool at_end) {
    if (!expected.size) return;
    if (size > *expected.size || (at_end && size < *expected.size))
        throw_error(Code::invalid, "IncompleteBody", "{} bytes were declared, {} came{}",
                    *expected.size, size, at_end ? "" : " already");
}

void write_at(const sys::Fd& file, std::uint64_t offset, std::span<const std::byte> data) {
    while (!data.empty()) {
        const ssize_t n =
            ::pwrite(file.get(), data.data(), data.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_errno("write object data");
        data = data.subspan(static_cast<std::size_t>(n));
        offset += static_cast<std::uint64_t>(n);
    }
}

/// The rest of an upload whose first `got` bytes are in `room`, from `offset` of `file` on.
void stream(Ingested& out, Digests& digests, const sys::Fd& file, std::uint64_t offset,
            const Source& source, const Expectation& expected, std::span<std::byte> room,
            std::size_t got) {
    for (; got != 0; got = got < room.size() ? 0 : fill(source, room)) {
        out.size += got;
        check_size(expected, out.size, false);
        digests.update(room.first(got));
        write_at(file, offset, room.first(got));
        offset += got;
    }
    check_size(expected, out.size, true);
    digests.finish(expected, out);
}

}  // namespace

void rethrow_naming_full_disk(const Error& error) {
    if (error.os_error() == ENOSPC || error.os_error() == EDQUOT)
        throw_error(Code::exhausted, "DiskFull",
                    "no room left for the object ({}); free some space", error.message());
    throw;
}

Ingested ingest(Blobs& blobs, const Source& source, const Expectation& expected, Inline small) {
    Digests digests(expected);
    Ingested out;
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBuffer);
    const std::span<std::byte> room(buffer.get(), kBuffer);

    const std::size_t got = fill(source, room);
    if (small == Inline::allowed && got <= kInlineLimit) {
        out.size = got;
        digests.update(room.first(got));
        check_size(expected, out.size, true);
        digests.finish(expected, out);
        out.data.assign(reinterpret_cast<const char*>(buffer.get()), got);
        return out;
    }
    try {
        Blobs::Created created = blobs.create();
        stream(out, digests, created.file, 0, source, expected, room, got);
        blobs.sync(created.blob, created.file);
        out.blob.emplace(std::move(created.blob));
        return out;
    } catch (const Error& error) {
        rethrow_naming_full_disk(error);
        throw;
    }
}

Ingested ingest_at(const sys::Fd& file, std::uint64_t offset, const Source& source,
                   const Expectation& expected) {
    Digests digests(expected);
    Ingested out;
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kBuffer);
    const std::span<std::byte> room(buffer.get(), kBuffer);
    try {
        stream(out, digests, file, offset, source, expected, room, fill(source, room));
        sys::sync_data(file.get());
        return out;
    } catch (const Error& error) {
        rethrow_naming_full_disk(error);
        throw;
    }
}

}  // namespace ty::objects
