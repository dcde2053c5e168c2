// SPDX-License-Identifier: Apache-2.0
// Archives are written by hand, header by header: also those that no tar would write.
#include "common/files/unpack.h"
#include "common/base/error.h"

#include <doctest/doctest.h>

#include <zlib.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>

using namespace alg;
namespace fs = std::filesystem;

namespace {

std::string entry(const std::string& name, const std::string& content, char type = '0') {
    std::string header(512, '\0');
    std::memcpy(header.data(), name.data(), std::min<std::size_t>(name.size(), 100));
    std::snprintf(&header[124], 12, "%011zo", content.size());
    header[156] = type;
    std::memcpy(&header[257], "ustar\00000", 8);
    std::memset(&header[148], ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(&header[148], 8, "%06o", sum);
    header += content;
    header.resize((header.size() + 511) / 512 * 512);
    return header;
}

struct Unpacked {
    TemporaryFolder folder;
    fs::path archive, to;
    Unpacked() : archive(folder.path() / "model.tar.gz"), to(folder.path() / "to") {
        fs::create_directory(to);
    }
    std::string run(const std::string& tar, double keep = 1) {
        gzFile out = gzopen(archive.c_str(), "wb");
        gzwrite(out, tar.data(), static_cast<unsigned>(tar.size()));
        gzclose(out);
        fs::resize_file(archive, static_cast<std::uintmax_t>(
                                     static_cast<double>(fs::file_size(archive)) * keep));
        try {
            unpack_model(archive, to);
            return "fine";
        } catch (const Failure& failure) {
            return failure.what();
        }
    }
    std::set<std::string> names() const {
        std::set<std::string> result;
        for (const auto& found : fs::recursive_directory_iterator(to))
            result.insert(found.path().filename().string());
        return result;
    }
};

const std::string kEnd(1024, '\0');

}  // namespace

TEST_CASE("a model's files are unpacked, others are passed over") {
    Unpacked u;
    CHECK(u.run(entry("./", "", '5') + entry("./config.json", "{}") +
                entry("model.safetensors", std::string(100'000, 'x')) + entry("model.ts", "big") +
                entry("../../vocab.txt", "[UNK]\n") + kEnd) == "fine");
    CHECK(u.names() == std::set<std::string>{"config.json", "model.safetensors", "vocab.txt"});
    CHECK(fs::file_size(u.to / "model.safetensors") == 100'000);
}

TEST_CASE("names in the archive choose no place, links are not made") {
    Unpacked u;
    CHECK(u.run(entry("/etc/config.json", "{}") + entry("vocab.txt", "/etc/passwd", '2') + kEnd) ==
          "fine");
    CHECK(u.names() == std::set<std::string>{"config.json"});
}

TEST_CASE("long names of GNU and POSIX are understood") {
    Unpacked u;
    const std::string folder(150, 'd');
    CHECK(u.run(entry("././@LongLink", folder + "/config.json", 'L') +
                entry(folder.substr(0, 100), "{}") +
                entry("PaxHeaders/x", "22 path=very/vocab.txt\n12 mtime=123\n", 'x') +
                entry("short", "[UNK]\n") + kEnd) == "fine");
    CHECK(u.names().contains("config.json"));
}

TEST_CASE("what is no archive of a model is refused") {
    Unpacked u;
    CHECK(u.run(entry("vocab.txt", "x") + kEnd).find("holds no config.json") != std::string::npos);
    fs::remove(u.to / "vocab.txt");
    CHECK(u.run(entry("a/config.json", "{}") + entry("b/config.json", "{}") + kEnd)
              .find("holds config.json twice") != std::string::npos);
    fs::remove(u.to / "config.json");
    std::string noise;
    for (int i = 0; i < 40'000; ++i) noise += static_cast<char>(i * 7919 >> 3);
    CHECK(u.run(entry("config.json", noise) + kEnd, 0.5).find("no whole .tar.gz") !=
          std::string::npos);
    fs::remove(u.to / "config.json");
    CHECK(u.run(std::string(2048, 'z')).find("checksum") != std::string::npos);
    CHECK(u.run(entry("config.json", "{}").substr(0, 300)).find("cut off") != std::string::npos);
    fs::path gone;
    {
        TemporaryFolder folder;
        gone = folder.path();
        CHECK(fs::exists(gone));
    }
    CHECK_FALSE(fs::exists(gone));
}
