// SPDX-License-Identifier: Apache-2.0
#include "common/files/atomic_file.h"
#include "common/base/error.h"
#include "common/files/file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace alg;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path;
    Folder() {
        std::string name = (fs::temp_directory_path() / "atomic_test.XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
    std::size_t files() const {
        return static_cast<std::size_t>(
            std::distance(fs::directory_iterator(path), fs::directory_iterator()));
    }
};

std::string content(const fs::path& path) {
    const MappedFile file(path);
    return std::string(as_text(file.bytes()));
}

std::string problem(const std::function<void()>& body) {
    try {
        body();
    } catch (const Failure& failure) {
        return failure.what();
    }
    return {};
}

/// No file of this process grows beyond `bytes` while it lives: a full disk without a disk.
struct FileSizeLimit {
    rlimit before{};
    explicit FileSizeLimit(rlim_t bytes) {
        REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{.rlim_cur = bytes, .rlim_max = before.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    }
    ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before); }
};

}  // namespace

TEST_CASE("a text is written whole, in folders that did not exist, over what was there") {
    const Folder folder;
    const fs::path file = folder.path / "a" / "b" / "c.txt";
    write_text_atomically(file, "one");
    write_text_atomically(file, "");
    CHECK(content(file).empty());
    const std::string large(1'000'000, 'y');
    write_text_atomically(file, large);
    CHECK(content(file) == large);
}

TEST_CASE("a writer that fails leaves the old file and nothing else") {
    const Folder folder;
    const fs::path file = folder.path / "a.txt";
    write_text_atomically(file, "old");
    const std::string said = problem([&] {
        write_atomically(file, [](const fs::path& path) {
            OutputFile out(path);
            out.write("half");
            out.close();
            throw std::runtime_error("the writer gave up");
        });
    });
    CHECK(said == file.string() + ": the writer gave up");
    CHECK(content(file) == "old");
    CHECK(folder.files() == 1);
}

TEST_CASE("a writer that writes nothing is a failure") {
    const Folder folder;
    CHECK_FALSE(
        problem([&] { write_atomically(folder.path / "a", [](const fs::path&) {}); }).empty());
    CHECK(folder.files() == 0);
}

TEST_CASE("a file that may not grow is a failure that names it and leaves nothing") {
    const Folder folder;
    const fs::path file = folder.path / "a.bin";
    std::string said;
    {
        const FileSizeLimit limit(300'000);
        said = problem([&] { write_text_atomically(file, std::string(2'000'000, 'z')); });
    }
    CHECK(said == file.string() + ": cannot write it: file too large");
    CHECK(folder.files() == 0);
}

TEST_CASE("a full disk is a failure that names the file and leaves the old one") {
    const Folder folder;
    if (::mount("none", folder.path.c_str(), "tmpfs", 0, "size=1m") != 0) {
        MESSAGE("skipped: no right to mount a small file system");
        return;
    }
    const fs::path file = folder.path / "a.bin";
    write_text_atomically(file, "old");
    const std::string said =
        problem([&] { write_text_atomically(file, std::string(2'000'000, 'z')); });
    CHECK(said == file.string() + ": cannot write it: no space left on device");
    CHECK(content(file) == "old");
    CHECK(folder.files() == 1);
    CHECK(::umount(folder.path.c_str()) == 0);
}

TEST_CASE("a folder in place of the file, and a file in place of a folder, are named") {
    const Folder folder;
    fs::create_directory(folder.path / "taken");
    CHECK_FALSE(problem([&] { write_text_atomically(folder.path / "taken", "x"); }).empty());
    CHECK(folder.files() == 1);
    write_text_atomically(folder.path / "file", "x");
    CHECK(problem([&] {
              write_text_atomically(folder.path / "file" / "below", "x");
          }).find("not a directory") != std::string::npos);
}

TEST_CASE("only temporary files of killed writers are removed") {
    const Folder folder;
    write_text_atomically(folder.path / "state-5.pt", "x");
    write_text_atomically(folder.path / ".state-6.pt.0123456789abcdef.tmp", "x");
    write_text_atomically(folder.path / ".hidden.tmp", "x");
    write_text_atomically(folder.path / "a.0123456789abcdef.tmp", "x");
    CHECK(remove_temporaries(folder.path) == 1);
    CHECK(folder.files() == 3);
    CHECK(remove_temporaries(folder.path / "missing") == 0);
}

TEST_CASE("patches reach bytes that were written and bytes that wait") {
    const Folder folder;
    {
        OutputFile out(folder.path / "a");
        out.write(std::string(600'000, 'a'));
        out.write("tail");
        out.patch(1, as_bytes("B"));
        out.patch(600'000, as_bytes("T"));
        CHECK_THROWS_AS(out.patch(600'003, as_bytes("xx")), Failure);
        out.close();
    }
    const std::string read = content(folder.path / "a");
    CHECK(read.size() == 600'004);
    CHECK(read.substr(0, 3) == "aBa");
    CHECK(read.substr(600'000) == "Tail");
}
