// SPDX-License-Identifier: Apache-2.0
#include "common/base/error.h"
#include "text/lines.h"
#include "text/wordpiece.h"

#include <doctest/doctest.h>

#include <zlib.h>

#include <cstdio>
#include <filesystem>

#include <unistd.h>

using namespace alg;
namespace fs = std::filesystem;

namespace {

/// A folder that goes with the test.
struct Folder {
    fs::path path;
    Folder() {
        std::string name = (fs::temp_directory_path() / "text-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
    fs::path file(const std::string& name, const std::string& content) const {
        std::FILE* out = std::fopen((path / name).c_str(), "w");
        REQUIRE(std::fwrite(content.data(), 1, content.size(), out) == content.size());
        std::fclose(out);
        return path / name;
    }
    std::string packed(const std::string& content) const {
        const fs::path to = path / "packed";
        gzFile out = gzopen(to.c_str(), "wb");
        gzwrite(out, content.data(), static_cast<unsigned>(content.size()));
        gzclose(out);
        return read(to);
    }
    static std::string read(const fs::path& from) {
        std::string bytes(fs::file_size(from), ' ');
        std::FILE* in = std::fopen(from.c_str(), "r");
        REQUIRE(std::fread(bytes.data(), 1, bytes.size(), in) == bytes.size());
        std::fclose(in);
        return bytes;
    }
};

std::string problem(const fs::path& file) {
    try {
        Vocabulary::read(file);
        return "none";
    } catch (const Failure& failure) {
        return failure.what();
    }
}

}  // namespace

TEST_CASE("a BERT vocabulary has one token a line") {
    const Folder folder;
    const Vocabulary v =
        Vocabulary::read(folder.file("v", "\xEF\xBB\xBF[PAD]\n[UNK]\r\n\nthe\n##s"));
    CHECK(v.size() == 5);
    CHECK(v.id("[PAD]") == 0);
    CHECK(v.id("[UNK]") == 1);
    CHECK(v.id("##s") == 4);
    CHECK(v.id("") == -1);
    CHECK(v.id("th") == -1);
    CHECK(v.token(3) == "the");
    CHECK_THROWS_AS(v.token(5), Failure);
    CHECK_THROWS_AS(v.token(-1), Failure);
}

TEST_CASE("an ERNIE vocabulary has token, tab and id, in any order and with holes") {
    const Folder folder;
    const Vocabulary v =
        Vocabulary::read(folder.file("v", "[PAD]\t0\n[UNK]\t5\n[unused2]\t4\n\t\t3\nx\t1\n"));
    CHECK(v.size() == 6);
    CHECK(v.id("[UNK]") == 5);
    CHECK(v.id("\t") == 3);
    v.write(folder.path / "written");
    CHECK(Folder::read(folder.path / "written") == "[PAD]\nx\n[unused2_]\n\t\n[unused2]\n[UNK]\n");
}

TEST_CASE("a vocabulary that cannot be used is refused with file and line") {
    const Folder folder;
    CHECK(problem(folder.path / "none").ends_with("none: No such file or directory"));
    CHECK(problem(folder.path).ends_with("is a folder, not a file"));
    CHECK(problem(folder.file("a", "x\ny\n")).find("a: has no [UNK]") != std::string::npos);
    CHECK(problem(folder.file("b", "[UNK]\nx\nx\n")).find("\"x\" is there twice: ids 1 and 2") !=
          std::string::npos);
    CHECK(problem(folder.file("c", "[UNK]\t0\nx\t-1\n")).find("c:2: id -1 of \"x\"") !=
          std::string::npos);
    CHECK(problem(folder.file("d", "[UNK]\t0\nx\t0\n")).find("d:2: \"[UNK]\" and \"x\"") !=
          std::string::npos);
    CHECK(problem(folder.file("e", "[UNK]\t0\nx\n")).find("e:2: \"x\" is not token") !=
          std::string::npos);
    CHECK(problem(folder.file("f", "\xFF\xFEx")).find("UTF-16") != std::string::npos);
}

TEST_CASE("lines are read from plain and from packed files") {
    const Folder folder;
    const std::string text = "one\r\n\ntwo" + std::string(300'000, 'x') + "\nlast";
    for (const std::string& content : {text, folder.packed(text)}) {
        LineReader reader(folder.file("t", content), 100);
        std::string line;
        REQUIRE(reader.next(line));
        CHECK(line == "one");
        REQUIRE(reader.next(line));
        CHECK(line.empty());
        CHECK_FALSE(reader.cut());
        REQUIRE(reader.next(line));
        CHECK(line.size() == 100);
        CHECK(reader.cut());
        REQUIRE(reader.next(line));
        CHECK(line == "last");
        CHECK(reader.number() == 4);
        CHECK_FALSE(reader.next(line));
        CHECK(read_text(folder.path / "t", 1'000'000) == text);
        CHECK_THROWS_AS(read_text(folder.path / "t", 1000), Failure);
    }
}

TEST_CASE("a truncated packed file is refused") {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 104729) + "\n";
    std::string bytes = folder.packed(text);
    bytes.resize(bytes.size() / 2);
    LineReader reader(folder.file("t", bytes));
    std::string line;
    CHECK_THROWS_WITH_AS(while (reader.next(line)){}, doctest::Contains("truncated or damaged"),
                         Failure);
}
