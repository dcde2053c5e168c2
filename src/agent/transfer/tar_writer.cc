// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/tar_writer.h"

#include "base/error.h"
#include "base/result.h"

#include <array>
#include <cstring>

#include <fcntl.h>

namespace ty::agent {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kMaxOctalSize = 077777777777;
constexpr std::size_t kChunk = 1u << 20;

using Block = std::array<char, kBlock>;

void put(Block& block, std::size_t at, std::size_t width, std::string_view text) {
    std::memcpy(block.data() + at, text.data(), std::min(width, text.size()));
}

void put_octal(Block& block, std::size_t at, std::size_t width, std::uint64_t value) {
    put(block, at, width, format("{:0{}o}", value, width - 1));
}

/// Name and prefix fields of ustar; false when the path does not fit.
bool put_path(Block& block, const std::string& path) {
    if (path.size() <= 100) {
        put(block, 0, 100, path);
        return true;
    }
    const std::size_t slash = path.rfind('/', 155);
    if (slash == std::string::npos || slash == 0) return false;
    if (slash + 1 == path.size() || path.size() - slash - 1 > 100) return false;
    put(block, 0, 100, std::string_view(path).substr(slash + 1));
    put(block, 345, 155, std::string_view(path).substr(0, slash));
    return true;
}

Block make_block(const std::string& path, char type, unsigned mode, std::uint64_t size,
                 long long modified, std::string_view target) {
    Block block = {};
    if (!put_path(block, path)) put(block, 0, 100, path.substr(0, 100));
    put_octal(block, 100, 8, mode & 07777);
    put_octal(block, 108, 8, 0);
    put_octal(block, 116, 8, 0);
    put_octal(block, 124, 12, size <= kMaxOctalSize ? size : 0);
    put_octal(block, 136, 12,
              modified > 0 ? static_cast<std::uint64_t>(modified) & kMaxOctalSize : 0);
    put(block, 148, 8, "        ");
    block[156] = type;
    put(block, 157, 100, target.substr(0, 100));
    put(block, 257, 8, std::string_view("ustar\00000", 8));
    put(block, 265, 32, "root");
    put(block, 297, 32, "root");
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    put(block, 148, 8, format("{:06o}", sum) + std::string("\0 ", 2));
    return block;
}

/// "<length> <name>=<value>\n", the length counting itself.
std::string pax_record(std::string_view name, std::string_view value) {
    const std::size_t bare = name.size() + value.size() + 3;
    std::size_t length = bare + 1;
    while (std::to_string(length).size() + bare != length)
        length = std::to_string(length).size() + bare;
    return format("{} {}={}\n", length, name, value);
}

bool fits(const std::string& path) {
    Block scratch = {};
    return put_path(scratch, path);
}

}  // namespace

void TarWriter::header(const TreeEntry& entry) {
    const bool folder = entry.kind == TreeEntry::Kind::folder;
    const std::string path = folder ? entry.path + "/" : entry.path;
    const std::uint64_t size = entry.kind == TreeEntry::Kind::file ? entry.size : 0;
    std::string records;
    if (!fits(path)) records += pax_record("path", path);
    if (entry.target.size() > 100) records += pax_record("linkpath", entry.target);
    if (size > kMaxOctalSize) records += pax_record("size", std::to_string(size));
    if (!records.empty()) {
        const Block extra = make_block("PaxHeaders/" + path.substr(0, 80), 'x', 0644,
                                       records.size(), entry.modified, "");
        sink_({extra.data(), extra.size()});
        sink_(records);
        pad(records.size());
    }
    const char type = folder ? '5' : entry.kind == TreeEntry::Kind::link ? '2' : '0';
    const Block block = make_block(path, type, entry.mode, size, entry.modified, entry.target);
    sink_({block.data(), block.size()});
}

void TarWriter::pad(std::uint64_t size) {
    static constexpr Block kZeros = {};
    const std::size_t rest = size % kBlock;
    if (rest != 0) sink_({kZeros.data(), kBlock - rest});
}

void TarWriter::finish() {
    static constexpr Block kZeros = {};
    sink_({kZeros.data(), kZeros.size()});
    sink_({kZeros.data(), kZeros.size()});
}

void write_tar(const sys::fs::path& root, const std::vector<TreeEntry>& entries,
               const TarWriter::Sink& sink, const std::function<void(std::string)>& warn,
               const std::function<void(std::uint64_t)>& progress, TarEnd end) {
    const sys::Fd folder = sys::open_dir(root);
    TarWriter tar(sink);
    std::vector<std::byte> buffer(kChunk);
    for (const TreeEntry& entry : entries) {
        if (entry.kind != TreeEntry::Kind::file) {
            tar.header(entry);
            continue;
        }
        Result<sys::Fd> file = capture([&] { return open_in_tree(folder, entry.path); });
        if (!file.ok()) {
            warn(format("{} is left out: {}", entry.path, file.error().what()));
            continue;
        }
        const int fd = file.value().get();
        (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        tar.header(entry);
        std::uint64_t left = entry.size;
        while (left > 0) {
            const std::size_t want =
                static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
            std::size_t got = sys::read_some(fd, std::span(buffer).first(want));
            if (got == 0) {
                warn(format("{} became shorter while it was uploaded; the rest is zeros",
                            entry.path));
                std::fill(buffer.begin(), buffer.end(), std::byte{0});
                for (; left > 0; left -= got) {
                    got = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
                    tar.content({reinterpret_cast<const char*>(buffer.data()), got});
                }
                break;
            }
            tar.content({reinterpret_cast<const char*>(buffer.data()), got});
            progress(got);
            left -= got;
        }
        tar.pad(entry.size);
    }
    if (end == TarEnd::marked) tar.finish();
}

}  // namespace ty::agent
