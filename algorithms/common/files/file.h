// SPDX-License-Identifier: Apache-2.0
// Files of this module as objects: one being written from front to back, one mapped for reading.
// Every error is a Failure that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace alg {

using Bytes = std::span<const std::byte>;

inline std::string_view as_text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// "no space left on device": the system's words, in our style.
std::string error_text(int number);

/// The first bytes, at most `most`.
std::string read_start(const std::filesystem::path& path, std::size_t most);

class OutputFile {
public:
    /// Creates or empties the file.
    explicit OutputFile(std::filesystem::path path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    /// Appends. Large pieces go straight to the kernel, small ones are gathered.
    void write(Bytes bytes);
    void write(std::string_view text) { write(as_bytes(text)); }
    /// Replaces bytes already written.
    void patch(std::uint64_t offset, Bytes bytes);
    std::uint64_t size() const { return size_; }
    /// Everything to the kernel; errors of a destructor would be lost. Does not sync.
    void close();

private:
    void flush();
    void to_kernel(Bytes bytes, std::uint64_t offset);

    std::filesystem::path path_;
    int fd_ = -1;
    std::uint64_t size_ = 0, written_ = 0;
    std::string pending_;
};

/// The bytes of a file, mapped privately: pages come from the page cache as they are touched, and
/// somebody who writes into them gets a copy of the page; the file is never changed. Whoever
/// replaces such a file must rename a new one over it; truncating it in place would kill readers.
/// Files of network and user-space file systems are read whole instead: there a page that cannot be
/// fetched any more would be a signal, not an error.
class MappedFile {
public:
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    Bytes bytes() const { return {data_, size_}; }
    /// For owners of tensors, whose interface is not const.
    std::byte* writable(Bytes part) const { return data_ + (part.data() - data_); }

private:
    int map(int fd);
    int read_whole(int fd);  ///< both: 0 or errno

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace alg
