// SPDX-License-Identifier: Apache-2.0
// tar as POSIX and GNU write it, read front to back through zlib.
#include "common/files/unpack.h"

#include "common/base/error.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <stdlib.h>

namespace alg {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kLongestName = 1 << 16;

bool is_wanted(const std::string& name) {
    constexpr std::array kNames = {
        "config.json",       "vocab.txt", "tokenizer_config.json", "tokenizer.json",
        "model.safetensors", "ernie.pt",  "pytorch_model.bin",     "checkpoint.pt"};
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

class Tar {
public:
    explicit Tar(const fs::path& file) : file_(file), gz_(gzopen(file.c_str(), "rbe"), &gzclose_r) {
        if (!gz_) fail("{}: {}", file.string(), std::strerror(errno));
        gzbuffer(gz_.get(), 1U << 17);
    }

    struct Entry {
        std::string name;
        char type = '0';
        std::uint64_t size = 0;
    };
    /// False at the archive's end.
    bool next(Entry& entry) {
        std::string long_name;
        while (true) {
            std::array<char, kBlock> header{};
            if (!block(header)) return false;
            check(header);
            entry = {text(header, 0, 100), header[156], number(header, 124, 12)};
            if (const std::string prefix = text(header, 345, 155);
                !prefix.empty() && std::memcmp(&header[257], "ustar", 5) == 0 && header[263] == '0')
                entry.name = prefix + "/" + entry.name;
            if (entry.type == 'L') {
                long_name = content(entry.size);
                long_name.resize(std::strlen(long_name.c_str()));
            } else if (entry.type == 'x') {
                if (std::string path = pax_path(content(entry.size)); !path.empty())
                    long_name = std::move(path);
            } else if (entry.type == 'g') {
                skip(entry.size);
            } else {
                if (!long_name.empty()) entry.name = long_name;
                return true;
            }
        }
    }
    template <typename Use>
    void read(std::uint64_t size, const Use& use) {
        std::array<char, 1U << 16> buffer{};
        for (std::uint64_t left = size; left > 0;) {
            const auto part =
                static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer.size()));
            bytes(buffer.data(), part);
            use(std::string_view(buffer.data(), part));
            left -= part;
        }
        const std::size_t rest = (kBlock - size % kBlock) % kBlock;
        bytes(buffer.data(), rest);
    }
    void skip(std::uint64_t size) {
        read(size, [](std::string_view) {});
    }

private:
    [[noreturn]] void damaged(const char* how) const {
        fail("{}: is no whole .tar.gz ({}); upload it again", file_.string(), how);
    }
    std::size_t some(char* into, std::size_t size) {
        const int got = gzread(gz_.get(), into, static_cast<unsigned>(size));
        int code = Z_OK;
        gzerror(gz_.get(), &code);
        if (got < 0 || code == Z_BUF_ERROR || code == Z_DATA_ERROR) damaged("damaged or cut off");
        return static_cast<std::size_t>(got);
    }
    void bytes(char* into, std::size_t size) {
        if (some(into, size) != size) damaged("cut off");
    }
    bool block(std::array<char, kBlock>& header) {
        const std::size_t got = some(header.data(), kBlock);
        if (got == 0) return false;
        if (got != kBlock) damaged("cut off");
        return !std::all_of(header.begin(), header.end(), [](char c) { return c == 0; });
    }
    std::uint64_t number(const std::array<char, kBlock>& header, std::size_t at,
                         std::size_t size) const {
        std::uint64_t value = 0;
        if (static_cast<unsigned char>(header[at]) == 0x80) {  // GNU: big-endian binary
            for (std::size_t i = size - 8; i < size; ++i)
                value = value << 8 | static_cast<unsigned char>(header[at + i]);
        } else {
            std::size_t i = at;
            while (i < at + size && header[i] == ' ') ++i;
            for (; i < at + size && header[i] >= '0' && header[i] <= '7'; ++i)
                value = value << 3 | static_cast<std::uint64_t>(header[i] - '0');
        }
        if (value > std::uint64_t{1} << 40) damaged("a size beyond reason");
        return value;
    }
    void check(const std::array<char, kBlock>& header) const {
        std::uint64_t sum = 8 * ' ';
        for (std::size_t i = 0; i < kBlock; ++i)
            if (i < 148 || i >= 156) sum += static_cast<unsigned char>(header[i]);
        if (sum != number(header, 148, 8)) damaged("a header's checksum is wrong");
    }
    static std::string text(const std::array<char, kBlock>& header, std::size_t at,
                            std::size_t size) {
        return {&header[at], ::strnlen(&header[at], size)};
    }
    std::string content(std::uint64_t size) {
        if (size > kLongestName) damaged("a name beyond reason");
        std::string result;
        read(size, [&](std::string_view part) { result += part; });
        return result;
    }
    /// Records "<length> <key>=<value>\n".
    static std::string pax_path(const std::string& records) {
        std::string path;
        for (std::size_t at = 0; at < records.size();) {
            const std::size_t space = records.find(' ', at);
            const std::uint64_t length = std::strtoull(records.c_str() + at, nullptr, 10);
            if (space == std::string::npos || length <= space - at + 1 ||
                length > records.size() - at)
                break;
            const std::string record = records.substr(space + 1, at + length - space - 2);
            if (record.starts_with("path=")) path = record.substr(5);
            at += length;
        }
        return path;
    }

    fs::path file_;
    std::unique_ptr<gzFile_s, int (*)(gzFile)> gz_;
};

}  // namespace

TemporaryFolder::TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "trainyard-model-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
        fail("{}: no folder can be made there: {}", name, std::strerror(errno));
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
}

void unpack_model(const fs::path& archive, const fs::path& folder) {
    Tar tar(archive);
    std::set<std::string> seen;
    for (Tar::Entry entry; tar.next(entry);) {
        const std::string name = fs::path(entry.name).filename().string();
        const bool regular = entry.type == '0' || entry.type == '\0' || entry.type == '7';
        if (!regular || !is_wanted(name)) {
            tar.skip(entry.size);
            continue;
        }
        if (!seen.insert(name).second)
            fail("{}: holds {} twice; a model's files lie in one folder", archive.string(), name);
        const fs::path to = folder / name;
        const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(to.c_str(), "wxe"),
                                                                  &std::fclose);
        bool whole = out != nullptr;
        tar.read(entry.size, [&](std::string_view part) {
            whole = whole && std::fwrite(part.data(), 1, part.size(), out.get()) == part.size();
        });
        if (!whole || std::fflush(out.get()) != 0)
            fail("{}: {} cannot be unpacked to {}: {}", archive.string(), name, folder.string(),
                 std::strerror(errno));
    }
    if (!seen.contains("config.json"))
        fail(
            "{}: holds no config.json; it must be the result of masked-lm or text-classification, "
            "or a Hugging Face BERT folder",
            archive.string());
}

}  // namespace alg
