// SPDX-License-Identifier: Apache-2.0
// Sections of APPNOTE.TXT (PKWARE) in comments. Sizes come from the central directory: LibTorch
// leaves those of the local headers empty (flag bit 3).
#include "common/base/error.h"
#include "common/files/zip.h"

#include <zlib.h>

#include <algorithm>

namespace alg {
namespace {

constexpr std::uint64_t kEnd = 22, kEntry = 46, kLocal = 30, kEnd64 = 56, kLocator64 = 20;
constexpr std::uint64_t kInExtra = 0xffffffff;

std::uint64_t number(Bytes bytes, std::uint64_t at, int width) {
    std::uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i)
        value = value << 8 | static_cast<std::uint64_t>(bytes[at + static_cast<std::uint64_t>(i)]);
    return value;
}

}  // namespace

std::uint32_t crc32_of(Bytes bytes, std::uint32_t before) {
    return static_cast<std::uint32_t>(
        ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

ZipReader::ZipReader(Bytes bytes, std::string origin) : bytes_(bytes), origin_(std::move(origin)) {
    const Directory directory = find_directory();
    if (directory.offset > bytes_.size() || directory.size > bytes_.size() - directory.offset ||
        directory.count > directory.size / kEntry)
        fail("{}: damaged archive: its directory lies outside of the file", origin_);
    std::uint64_t at = directory.offset, total = 0;
    const std::uint64_t end = directory.offset + directory.size;
    for (std::uint64_t i = 0; i < directory.count; ++i) {
        Record record = read_entry(at, end);
        // Without overlaps, checking every record costs no more than reading the file once.
        total += record.data.size();
        if (total > bytes_.size()) fail("{}: damaged archive: its records overlap", origin_);
        if (!by_name_.emplace(record.name, records_.size()).second)
            fail("{}: damaged archive: two records \"{}\"", origin_, record.name);
        records_.push_back(std::move(record));
    }
}

ZipReader::Directory ZipReader::find_directory() const {
    // 4.3.16: the last 22 bytes, unless a comment of at most 65535 bytes follows.
    if (bytes_.size() < kEnd) fail("{}: no archive: only {} bytes", origin_, bytes_.size());
    const std::uint64_t lowest =
        bytes_.size() - std::min<std::uint64_t>(bytes_.size(), kEnd + 0xffff);
    std::uint64_t at = bytes_.size() - kEnd;
    while (number(bytes_, at, 4) != 0x06054b50) {
        if (at == lowest)
            fail("{}: no archive, or cut off: the directory at its end is missing", origin_);
        --at;
    }
    Directory found{.offset = number(bytes_, at + 16, 4),
                    .size = number(bytes_, at + 12, 4),
                    .count = number(bytes_, at + 10, 2)};
    // 4.3.15: the locator of a zip64 directory lies before it.
    if (at < kLocator64 || number(bytes_, at - kLocator64, 4) != 0x07064b50) return found;
    const std::uint64_t end64 = number(bytes_, at - kLocator64 + 8, 8);
    if (bytes_.size() < kEnd64 || end64 > bytes_.size() - kEnd64 ||
        number(bytes_, end64, 4) != 0x06064b50)
        fail("{}: damaged archive: its zip64 directory is missing", origin_);
    return {.offset = number(bytes_, end64 + 48, 8),
            .size = number(bytes_, end64 + 40, 8),
            .count = number(bytes_, end64 + 32, 8)};
}

ZipReader::Record ZipReader::read_entry(std::uint64_t& at, std::uint64_t end) const {
    // 4.3.12: a header of the central directory.
    if (end - at < kEntry || number(bytes_, at, 4) != 0x02014b50)
        fail("{}: damaged archive: bad directory entry at byte {}", origin_, at);
    const std::uint64_t flags = number(bytes_, at + 8, 2), method = number(bytes_, at + 10, 2);
    const std::uint64_t name = number(bytes_, at + 28, 2), extra = number(bytes_, at + 30, 2);
    const std::uint64_t length = kEntry + name + extra + number(bytes_, at + 32, 2);
    if (length > end - at) fail("{}: damaged archive: bad directory entry at byte {}", origin_, at);
    std::uint64_t size = number(bytes_, at + 20, 4), whole = number(bytes_, at + 24, 4);
    std::uint64_t header = number(bytes_, at + 42, 4);
    // 4.5.3: what does not fit in 32 bits, in this order, in the extra field of id 1.
    const std::uint64_t extra_end = at + kEntry + name + extra;
    for (std::uint64_t field = at + kEntry + name; extra_end - field >= 4;) {
        const std::uint64_t id = number(bytes_, field, 2), bytes = number(bytes_, field + 2, 2);
        if (bytes > extra_end - field - 4) break;
        std::uint64_t next = field + 4;
        field = next + bytes;
        for (std::uint64_t* value : {&whole, &size, &header}) {
            if (id != 1 || *value != kInExtra || field - next < 8) continue;
            *value = number(bytes_, next, 8);
            next += 8;
        }
    }
    Record record{.name = std::string(as_text(bytes_.subspan(at + kEntry, name))),
                  .data = {},
                  .checksum = static_cast<std::uint32_t>(number(bytes_, at + 16, 4)),
                  .compressed = method != 0};
    if ((flags & 1) != 0) fail("{}: record \"{}\" is encrypted", origin_, record.name);
    if (!record.compressed && size != whole)
        fail("{}: damaged archive: record \"{}\" has two sizes", origin_, record.name);
    record.data = data_of(record, header, size);
    at += length;
    return record;
}

Bytes ZipReader::data_of(const Record& record, std::uint64_t header, std::uint64_t size) const {
    // 4.3.7: the local header repeats the name and has an extra field of its own.
    if (bytes_.size() < kLocal || header > bytes_.size() - kLocal ||
        number(bytes_, header, 4) != 0x04034b50)
        fail("{}: damaged archive: the header of record \"{}\" is missing", origin_, record.name);
    const std::uint64_t start =
        header + kLocal + number(bytes_, header + 26, 2) + number(bytes_, header + 28, 2);
    if (start > bytes_.size() || size > bytes_.size() - start)
        fail("{}: damaged archive: record \"{}\" ends beyond the file", origin_, record.name);
    return bytes_.subspan(start, size);
}

const ZipReader::Record* ZipReader::find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &records_[found->second];
}

Bytes ZipReader::read(const Record& record) const {
    if (record.compressed)
        fail("{}: record \"{}\" is compressed, which torch.save never does; save it again", origin_,
             record.name);
    if (crc32_of(record.data) != record.checksum)
        fail("{}: damaged: the checksum of record \"{}\" does not match", origin_, record.name);
    return record.data;
}

}  // namespace alg
