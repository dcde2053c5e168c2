// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/gz_lines.h"

#include "common/base/error.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <zlib.h>

namespace alg {

namespace {

constexpr std::size_t kInput = std::size_t{64} << 10;
constexpr std::size_t kBlock = std::size_t{256} << 10;  // stays in the second-level cache

}  // namespace

struct GzLines::Stream {
    std::FILE* file = nullptr;
    z_stream inflate{};
    bool ready = false;
    bool in_member = true;  ///< false between members of a concatenated file
    std::array<unsigned char, kInput> input{};

    ~Stream() {
        if (ready) inflateEnd(&inflate);
        if (file != nullptr) std::fclose(file);
    }
    /// At least one byte of input, or false at the end of the file.
    bool fill() {
        if (inflate.avail_in > 0) return true;
        inflate.next_in = input.data();
        inflate.avail_in = static_cast<uInt>(std::fread(input.data(), 1, input.size(), file));
        return inflate.avail_in > 0;
    }
};

GzLines::GzLines(const std::filesystem::path& file, std::size_t longest_line)
    : stream_(std::make_unique<Stream>()), longest_line_(longest_line), text_(2 * kBlock) {
    stream_->file = std::fopen(file.c_str(), "rbe");
    if (stream_->file == nullptr) fail("{}: {}", file.string(), std::strerror(errno));
    if (!stream_->fill())
        fail("{}: the file is empty; a gzip file of samples is expected", file.string());
    if (stream_->input[0] != 0x1F || (stream_->inflate.avail_in > 1 && stream_->input[1] != 0x8B))
        fail("{}: not a gzip file; compress it with gzip", file.string());
    if (inflateInit2(&stream_->inflate, 15 + 16) != Z_OK) fail("zlib: no memory");
    stream_->ready = true;
}

GzLines::~GzLines() = default;

bool GzLines::more() {
    if (finished_) return false;
    if (begin_ > 0) {
        std::memmove(text_.data(), text_.data() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (text_.size() - end_ < kBlock) text_.resize(text_.size() * 2);
    z_stream& zlib = stream_->inflate;
    const std::size_t before = end_;
    while (end_ == before) {
        if (!stream_->fill()) {
            finished_ = true;
            if (stream_->in_member) damage_ = "the file is truncated";
            return false;
        }
        if (!stream_->in_member) {
            if (*zlib.next_in == 0) {  // zeros behind the last member are padding
                ++zlib.next_in;
                --zlib.avail_in;
                continue;
            }
            inflateReset(&zlib);
            stream_->in_member = true;
        }
        zlib.next_out = reinterpret_cast<Bytef*>(text_.data() + end_);
        zlib.avail_out = static_cast<uInt>(kBlock);
        const int status = inflate(&zlib, Z_NO_FLUSH);
        end_ += kBlock - zlib.avail_out;
        if (status == Z_STREAM_END) {
            stream_->in_member = false;
        } else if (status != Z_OK && status != Z_BUF_ERROR) {
            finished_ = true;
            damage_ = format("the compressed data are damaged ({})",
                             zlib.msg != nullptr ? zlib.msg : "unknown reason");
            return end_ > before;
        }
    }
    return true;
}

std::optional<std::string_view> GzLines::next() {
    std::size_t searched = begin_;
    while (true) {
        const char* from = text_.data() + searched;
        const void* newline = searched < end_ ? std::memchr(from, '\n', end_ - searched) : nullptr;
        if (newline != nullptr) {
            const std::size_t at =
                static_cast<std::size_t>(static_cast<const char*>(newline) - text_.data());
            std::string_view line(text_.data() + begin_, at - begin_);
            begin_ = at + 1;
            if (cut_) {  // the end of a line whose beginning was returned already
                cut_ = false;
                searched = begin_;
                continue;
            }
            ++number_;
            if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
            return line;
        }
        if (end_ - begin_ > longest_line_) {
            const std::string_view line(text_.data() + begin_, longest_line_);
            const bool first = !cut_;
            begin_ = end_;
            searched = begin_;
            cut_ = true;
            if (first) {
                ++number_;
                return line;
            }
            continue;
        }
        const std::size_t kept = end_ - begin_;
        if (!more()) break;
        searched = begin_ + kept;
    }
    if (begin_ == end_ || cut_ || !damage_.empty()) return std::nullopt;
    const std::string_view line(text_.data() + begin_, end_ - begin_);
    begin_ = end_;
    ++number_;
    return line;
}

}  // namespace alg
