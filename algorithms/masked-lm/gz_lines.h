// SPDX-License-Identifier: Apache-2.0
// Lines of a gzip file, straight from zlib's output: no copy but of the piece a block cuts in two.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alg {

class GzLines {
public:
    /// Lines longer than `longest_line` bytes are cut there: no sample is that long.
    explicit GzLines(const std::filesystem::path& file,
                     std::size_t longest_line = std::size_t{1} << 22);
    ~GzLines();
    GzLines(const GzLines&) = delete;
    GzLines& operator=(const GzLines&) = delete;

    /// The next line without its end; valid until the next call. Nothing at the end of the file, or
    /// where it is damaged. A last line without its newline in a damaged file is not returned.
    /// The constructor throws Failure for a file that cannot be opened or is no gzip file.
    std::optional<std::string_view> next();
    std::int64_t number() const { return number_; }  ///< of the line next() returned last, from 1
    /// Why reading ended early ("the file is truncated"); empty when it did not.
    const std::string& damage() const { return damage_; }

private:
    bool more();  ///< inflates a further block behind what is left; false at the end
    struct Stream;
    std::unique_ptr<Stream> stream_;
    const std::size_t longest_line_;
    std::vector<char> text_;
    std::size_t begin_ = 0, end_ = 0;
    bool finished_ = false;
    bool cut_ = false;  ///< the rest of an over-long line is to be passed over
    std::int64_t number_ = 0;
    std::string damage_;
};

}  // namespace alg
