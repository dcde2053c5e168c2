// SPDX-License-Identifier: Apache-2.0
// Writes in the layout of LibTorch's own writer, so that its reader and mmap=True accept the file.
#include "common/base/error.h"
#include "common/files/zip.h"

#include <algorithm>

namespace alg {
namespace {

constexpr std::uint64_t kAlignment = 64, kLocal = 30, kPiece = 1 << 20;
constexpr std::uint64_t kNo32 = 0xffffffff;

void put(std::string& out, std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}
std::uint64_t fit32(std::uint64_t value) {
    return std::min(value, kNo32);
}

/// Signature to flags: version 4.5 knows zip64; names are UTF-8 (bit 11); method 0; no time.
void put_common(std::string& out, std::uint32_t checksum, std::uint64_t size) {
    put(out, 1 << 11, 2);
    put(out, 0, 2);
    put(out, 0, 2);
    put(out, (1 << 5) | 1, 2);  // 1980-01-01, the first there is: equal content, equal bytes
    put(out, checksum, 4);
    put(out, fit32(size), 4);
    put(out, fit32(size), 4);
}

}  // namespace

void ZipWriter::add(const std::string& name, Bytes data) {
    if (name.size() > 0xffff) fail("a record name of {} bytes is too long", name.size());
    Entry entry{.name = name, .offset = out_.size(), .size = data.size(), .checksum = 0};
    std::string header, extra;
    put(header, 0x04034b50, 4);
    put(header, 45, 2);
    put_common(header, 0, data.size());
    if (data.size() >= kNo32) {
        put(extra, 1, 2);
        put(extra, 16, 2);
        put(extra, data.size(), 8);
        put(extra, data.size(), 8);
    }
    // LibTorch's field "FB" fills up to the alignment.
    const std::uint64_t start = entry.offset + kLocal + name.size() + extra.size() + 4;
    const std::uint64_t padding = (kAlignment - start % kAlignment) % kAlignment;
    put(extra, 'F' | 'B' << 8, 2);
    put(extra, padding, 2);
    extra.append(padding, 'Z');
    put(header, name.size(), 2);
    put(header, extra.size(), 2);
    out_.write(header + name + extra);
    // Checksum and write piece by piece while it is in the cache; the header learns it afterwards.
    for (std::uint64_t at = 0; at < data.size(); at += kPiece) {
        const Bytes piece = data.subspan(at, std::min<std::uint64_t>(kPiece, data.size() - at));
        entry.checksum = crc32_of(piece, entry.checksum);
        out_.write(piece);
    }
    std::string checksum;
    put(checksum, entry.checksum, 4);
    out_.patch(entry.offset + 14, as_bytes(checksum));
    entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
    const std::uint64_t start = out_.size();
    for (const Entry& entry : entries_) {
        std::string header, extra;
        if (entry.size >= kNo32) {
            put(extra, entry.size, 8);
            put(extra, entry.size, 8);
        }
        if (entry.offset >= kNo32) put(extra, entry.offset, 8);
        put(header, 0x02014b50, 4);
        put(header, 45, 2);
        put(header, 45, 2);
        put_common(header, entry.checksum, entry.size);
        put(header, entry.name.size(), 2);
        put(header, extra.empty() ? 0 : extra.size() + 4, 2);
        put(header, 0, 2);  // comment
        put(header, 0, 2);  // disk
        put(header, 0, 2);  // attributes
        put(header, 0, 4);
        put(header, fit32(entry.offset), 4);
        header += entry.name;
        if (!extra.empty()) {
            put(header, 1, 2);
            put(header, extra.size(), 2);
        }
        out_.write(header + extra);
    }
    const std::uint64_t end = out_.size(), count = entries_.size();
    std::string tail;
    if (end >= kNo32 || count >= 0xffff) {
        put(tail, 0x06064b50, 4);
        put(tail, 44, 8);  // what follows
        put(tail, 45, 2);
        put(tail, 45, 2);
        put(tail, 0, 4);
        put(tail, 0, 4);
        put(tail, count, 8);
        put(tail, count, 8);
        put(tail, end - start, 8);
        put(tail, start, 8);
        put(tail, 0x07064b50, 4);
        put(tail, 0, 4);
        put(tail, end, 8);
        put(tail, 1, 4);
    }
    put(tail, 0x06054b50, 4);
    put(tail, 0, 2);
    put(tail, 0, 2);
    put(tail, std::min<std::uint64_t>(count, 0xffff), 2);
    put(tail, std::min<std::uint64_t>(count, 0xffff), 2);
    put(tail, fit32(end - start), 4);
    put(tail, fit32(start), 4);
    put(tail, 0, 2);
    out_.write(tail);
}

}  // namespace alg
