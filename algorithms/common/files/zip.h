// SPDX-License-Identifier: Apache-2.0
// Zip archives as torch.save makes them: records stored without compression, each 64-byte aligned,
// zip64 where sizes need it. Read in place, written as a stream.
#pragma once

#include "common/files/file.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace alg {

std::uint32_t crc32_of(Bytes bytes, std::uint32_t before = 0);

class ZipReader {
public:
    struct Record {
        std::string name;
        Bytes data;
        std::uint32_t checksum = 0;
        bool compressed = false;
    };

    /// `bytes` must outlive the reader. `origin` names the file in messages. Throws Failure: not an
    /// archive, truncated, records that overlap or lie outside, a name twice.
    ZipReader(Bytes bytes, std::string origin);

    /// nullptr when there is none.
    const Record* find(const std::string& name) const;
    const std::vector<Record>& records() const { return records_; }
    /// The record's bytes after its checksum is verified; throws Failure otherwise.
    Bytes read(const Record& record) const;

private:
    struct Directory {
        std::uint64_t offset = 0, size = 0, count = 0;
    };
    Directory find_directory() const;
    Record read_entry(std::uint64_t& at, std::uint64_t end) const;
    Bytes data_of(const Record& record, std::uint64_t header, std::uint64_t size) const;

    Bytes bytes_;
    std::string origin_;
    std::vector<Record> records_;
    std::unordered_map<std::string, std::size_t> by_name_;
};

class ZipWriter {
public:
    explicit ZipWriter(OutputFile& out) : out_(out) {}
    /// Bytes go to the file as they are; nothing is kept but name, size and checksum.
    void add(const std::string& name, Bytes data);
    /// The central directory; nothing can be added afterwards.
    void finish();

private:
    struct Entry {
        std::string name;
        std::uint64_t offset = 0, size = 0;
        std::uint32_t checksum = 0;
    };
    OutputFile& out_;
    std::vector<Entry> entries_;
};

}  // namespace alg
