// SPDX-License-Identifier: Apache-2.0
#include "sys/fd.h"

#include "base/error.h"
#include "base/random.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::sys;

TEST_CASE("move-assigning a descriptor closes the old one") {
    Pipe first = make_pipe();
    Pipe second = make_pipe();
    const int old = first.read.get();
    first.read = std::move(second.read);
    CHECK(::fcntl(old, F_GETFD) == -1);
    CHECK((::fcntl(first.read.get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_FALSE(second.read.is_open());  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("a file written atomically replaces the old content and leaves nothing beside it") {
    const TempDir dir;
    const fs::path path = dir.path() / "state";
    write_file_atomically(path, "one", 0600);
    write_file_atomically(path, "two", 0640);
    CHECK(read_file(path) == "two");
    struct stat info = {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0640);
    CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("an atomic write that fails keeps the old content and removes its temporary file") {
    const TempDir dir;
    fs::create_directories(dir.path() / "taken" / "x");
    CHECK_THROWS_AS(write_file_atomically(dir.path() / "taken", "data"), Error);
    CHECK(fs::is_directory(dir.path() / "taken"));
    CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("reading a whole file refuses what is over the limit, missing, or a folder") {
    const TempDir dir;
    write_file(dir.path() / "f", std::string(5000, 'x'));
    CHECK(read_file(dir.path() / "f", Bytes(5000)).size() == 5000);
    const auto code_of = [](auto&& fn) {
        try {
            fn();
        } catch (const Error& error) {
            return error.code();
        }
        return Code::internal;
    };
    CHECK(code_of([&] { read_file(dir.path() / "f", Bytes(4999)); }) == Code::exhausted);
    CHECK(code_of([&] { read_file(dir.path() / "missing"); }) == Code::not_found);
    CHECK(code_of([&] { read_file(dir.path()); }) == Code::invalid);
}

TEST_CASE("files of /proc, which report no size, are read whole") {
    CHECK(read_file("/proc/self/status").find("Name:") != std::string::npos);
    CHECK(read_file("/proc/meminfo").size() > 100);
}

TEST_CASE("a temporary folder disappears with its content") {
    fs::path path;
    {
        const TempDir dir("sys-test");
        path = dir.path();
        fs::create_directories(path / "a/b");
        write_file(path / "a/b/c", "x");
    }
    CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a lock has one holder, asking about it does not take it, and it goes with its holder") {
    const TempDir dir;
    const fs::path path = dir.path() / "lock";
    CHECK_FALSE(is_locked(path));
    {
        const FileLock held = FileLock::try_acquire(path);
        REQUIRE(held.is_held());
        CHECK(is_locked(path));
        CHECK(is_locked(path));
        CHECK_FALSE(FileLock::try_acquire(path).is_held());
        CHECK(is_locked(path));
    }
    CHECK_FALSE(is_locked(path));
    CHECK(FileLock::try_acquire(path).is_held());
}
