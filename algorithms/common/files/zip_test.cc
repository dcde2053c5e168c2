// SPDX-License-Identifier: Apache-2.0
#include "common/files/zip.h"
#include "common/base/error.h"
#include "common/files/atomic_file.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>

using namespace alg;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path;
    Folder() {
        std::string name = (fs::temp_directory_path() / "zip_test.XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
};

std::string archive(const std::vector<std::pair<std::string, std::string>>& records) {
    const Folder folder;
    {
        OutputFile out(folder.path / "a");
        ZipWriter zip(out);
        for (const auto& [name, content] : records) zip.add(name, as_bytes(content));
        zip.finish();
        out.close();
    }
    const MappedFile file(folder.path / "a");
    return std::string(as_text(file.bytes()));
}

/// What reading every record says; empty when all is well.
std::string problem(std::string_view content) {
    try {
        const ZipReader zip(as_bytes(content), "a.pt");
        for (const ZipReader::Record& record : zip.records()) zip.read(record);
    } catch (const Failure& failure) {
        return failure.what();
    }
    return {};
}

}  // namespace

TEST_CASE("records come back as they were, aligned, also large and empty ones") {
    const std::string large(3'000'000, 'x');
    const std::string content =
        archive({{"a/data.pkl", "pickle"}, {"a/empty", ""}, {"a/data/0", large}});
    const ZipReader zip(as_bytes(content), "a.pt");
    REQUIRE(zip.records().size() == 3);
    CHECK(zip.records()[0].name == "a/data.pkl");
    CHECK(as_text(zip.read(*zip.find("a/data.pkl"))) == "pickle");
    CHECK(as_text(zip.read(*zip.find("a/data/0"))) == large);
    CHECK(zip.read(*zip.find("a/empty")).empty());
    CHECK(zip.find("a/data/1") == nullptr);
    for (const ZipReader::Record& record : zip.records())
        CHECK((as_text(record.data).data() - content.data()) % 64 == 0);
}

TEST_CASE("a flipped bit in a record is found") {
    std::string content = archive({{"a/data.pkl", "pickle"}, {"a/data/0", "0123456789"}});
    content[content.find("456")] ^= 4;
    CHECK(problem(content) == "a.pt: damaged: the checksum of record \"a/data/0\" does not match");
}

TEST_CASE("an archive that is cut off anywhere is refused") {
    const std::string content = archive({{"a/data.pkl", "pickle"}, {"a/data/0", "0123456789"}});
    CHECK(problem(content).empty());
    for (std::size_t length = 0; length < content.size(); ++length)
        CHECK_FALSE(problem(std::string_view(content).substr(0, length)).empty());
}

TEST_CASE("a changed byte anywhere is refused or changes nothing that is read") {
    const std::string content = archive({{"a/data.pkl", "pickle"}, {"a/data/0", "0123456789"}});
    for (std::size_t at = 0; at < content.size(); ++at) {
        std::string changed = content;
        changed[at] = static_cast<char>(~changed[at]);
        CHECK_NOTHROW(problem(changed));
    }
}

TEST_CASE("the same name twice is refused") {
    CHECK(problem(archive({{"a/x", "1"}, {"a/x", "2"}})).find("two records") != std::string::npos);
}

TEST_CASE("records that overlap are refused") {
    std::string content =
        archive({{"a/x", std::string(2000, '1')}, {"a/y", std::string(2000, '2')}, {"a/z", ""}});
    // Both entries of the directory point to the first record's header.
    std::size_t entry = content.find("PK\x01\x02");
    for (int i = 0; i < 3; ++i, entry = content.find("PK\x01\x02", entry + 1)) {
        content.replace(entry + 16, 12, content.substr(content.find("PK\x01\x02") + 16, 12));
        content.replace(entry + 42, 4, content.substr(content.find("PK\x01\x02") + 42, 4));
    }
    CHECK(problem(content).find("overlap") != std::string::npos);
}

TEST_CASE("more than 65535 records need, and get, a zip64 directory") {
    std::vector<std::pair<std::string, std::string>> records;
    for (int i = 0; i < 66'000; ++i) records.emplace_back("a/" + std::to_string(i), "");
    const std::string content = archive(records);
    const ZipReader zip(as_bytes(content), "a.pt");
    CHECK(zip.records().size() == 66'000);
}
