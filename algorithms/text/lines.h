// SPDX-License-Identifier: Apache-2.0
// Lines of a text file, plain or gzip (told by content), UTF-8 with or without a byte order mark.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace alg {

/// One thread. Throws Failure naming the file: missing, unreadable, a truncated or damaged gzip
/// stream, UTF-16 (with the remedy).
class LineReader {
public:
    /// Longer lines are read past, but only their first `longest` bytes are kept (see cut()).
    explicit LineReader(const std::filesystem::path& file,
                        std::size_t longest = std::size_t{16} << 20);
    ~LineReader();
    LineReader(const LineReader&) = delete;
    LineReader& operator=(const LineReader&) = delete;

    /// The next line without its end (\n or \r\n); false after the last.
    bool next(std::string& line);
    std::int64_t number() const { return number_; }  ///< of the line next() returned, from 1
    bool cut() const { return cut_; }                ///< that line was longer than `longest`

private:
    bool fill();

    struct Stream;
    std::filesystem::path file_;
    std::unique_ptr<Stream> stream_;
    std::size_t longest_;
    std::int64_t number_ = 0;
    bool cut_ = false;
};

/// The whole file, unpacked; at most `longest` bytes, else Failure.
std::string read_text(const std::filesystem::path& file, std::size_t longest);

}  // namespace alg
