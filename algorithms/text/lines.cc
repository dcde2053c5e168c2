// SPDX-License-Identifier: Apache-2.0
// zlib's gz functions read plain files as they are, so one path serves both.
#include "text/lines.h"

#include "common/base/error.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace alg {

namespace {

constexpr unsigned kBuffer = 1U << 17;

struct Closer {
    void operator()(gzFile file) const { gzclose_r(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, Closer>;

GzHandle open(const std::filesystem::path& file) {
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
        fail("{}: is a folder, not a file", file.string());
    errno = 0;
    GzHandle handle(gzopen(file.c_str(), "rbe"));
    if (!handle) fail("{}: {}", file.string(), errno != 0 ? std::strerror(errno) : "out of memory");
    gzbuffer(handle.get(), kBuffer);
    return handle;
}

std::size_t read(gzFile handle, const std::filesystem::path& file, char* into, unsigned size) {
    const int got = gzread(handle, into, size);
    int code = Z_OK;
    const char* text = gzerror(handle, &code);
    if (got < 0 || code == Z_BUF_ERROR || code == Z_DATA_ERROR) {
        if (code == Z_ERRNO) fail("{}: {}", file.string(), std::strerror(errno));
        fail("{}: the gzip stream is truncated or damaged ({}); copy the file again", file.string(),
             code == Z_BUF_ERROR ? "unexpected end of file" : text);
    }
    return static_cast<std::size_t>(got);
}

/// Bytes to leave out at the start of a file.
std::size_t byte_order_mark(std::string_view start, const std::filesystem::path& file) {
    if (start.starts_with("\xEF\xBB\xBF")) return 3;
    if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF"))
        fail("{}: is UTF-16; convert it with: iconv -f UTF-16 -t UTF-8", file.string());
    return 0;
}

}  // namespace

struct LineReader::Stream {
    GzHandle handle;
    std::vector<char> buffer = std::vector<char>(kBuffer);
    std::size_t at = 0, end = 0;
    bool begun = false;
};

LineReader::LineReader(const std::filesystem::path& file, std::size_t longest)
    : file_(file), stream_(std::make_unique<Stream>()), longest_(longest) {
    stream_->handle = open(file);
}

LineReader::~LineReader() = default;

bool LineReader::fill() {
    Stream& s = *stream_;
    s.at = 0;
    s.end = read(s.handle.get(), file_, s.buffer.data(), kBuffer);
    if (!s.begun) {
        s.begun = true;
        s.at = byte_order_mark({s.buffer.data(), s.end}, file_);
    }
    return s.end > s.at;
}

bool LineReader::next(std::string& line) {
    Stream& s = *stream_;
    line.clear();
    cut_ = false;
    bool any = false;
    while (s.at < s.end || fill()) {
        any = true;
        const char* from = s.buffer.data() + s.at;
        const auto* found = static_cast<const char*>(std::memchr(from, '\n', s.end - s.at));
        const std::size_t size =
            found != nullptr ? static_cast<std::size_t>(found - from) : s.end - s.at;
        const std::size_t kept = std::min(size, longest_ - std::min(longest_, line.size()));
        line.append(from, kept);
        cut_ = cut_ || kept < size;
        s.at += size;
        if (found != nullptr) {
            ++s.at;
            break;
        }
    }
    if (!any) return false;
    ++number_;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return true;
}

std::string read_text(const std::filesystem::path& file, std::size_t longest) {
    const GzHandle handle = open(file);
    std::string text;
    std::vector<char> buffer(kBuffer);
    while (const std::size_t got = read(handle.get(), file, buffer.data(), kBuffer)) {
        text.append(buffer.data(), got);
        if (text.size() > longest)
            fail("{}: longer than {} bytes; split it or leave it out", file.string(), longest);
    }
    text.erase(0, byte_order_mark(text, file));
    return text;
}

}  // namespace alg
