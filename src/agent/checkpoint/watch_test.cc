// SPDX-License-Identifier: Apache-2.0
// What the kernel tells of a folder, and what the bytes of a torn file tell.
#include "agent/checkpoint/watch.h"
#include "agent/checkpoint/scan.h"
#include "agent/checkpoint/whole.h"
#include "base/time.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;
using State = FolderWatch::State;

namespace {

struct Watched {
    sys::TempDir dir{"watch"};
    FolderWatch watch{dir.path(), FolderWatch::Use::kernel};
    Watched() { watch.begin(); }
    State state(const std::string& path) {
        watch.drain();
        return watch.state(path);
    }
    sys::Fd open(const std::string& path, int flags = 0) {
        return sys::open_write(dir.path() / path, flags);
    }
};

}  // namespace

TEST_CASE("a file is open for writing from its making until it is closed") {
    Watched w;
    REQUIRE(w.watch.works());
    sys::Fd file = w.open("a");
    CHECK(w.state("a") == State::writing);
    CHECK(w.watch.anything_open());
    sys::write_all(file.get(), "x");
    CHECK(w.state("a") == State::writing);
    file.close();
    CHECK(w.state("a") == State::closed);
    CHECK_FALSE(w.watch.anything_open());
    const auto seen = w.watch.take_seen();
    CHECK(seen.touched);
    CHECK(seen.closed);
    file = w.open("a", O_TRUNC);
    CHECK(w.state("a") == State::writing);
}

TEST_CASE("a renamed file keeps its state, a hard link is closed from the start") {
    Watched w;
    sys::Fd file = w.open("a.tmp");
    sys::write_all(file.get(), "x");
    sys::fs::rename(w.dir.path() / "a.tmp", w.dir.path() / "a");
    CHECK(w.state("a") == State::writing);
    file.close();
    CHECK(w.state("a") == State::closed);
    sys::fs::create_hard_link(w.dir.path() / "a", w.dir.path() / "b");
    CHECK(w.state("b") == State::unknown);
    CHECK_FALSE(w.watch.anything_open());
}

TEST_CASE("new folders and renamed ones are watched, with what is in them") {
    Watched w;
    sys::fs::create_directories(w.dir.path() / "d/e");
    w.watch.drain();
    sys::Fd file = w.open("d/e/f");
    CHECK(w.state("d/e/f") == State::writing);
    sys::fs::rename(w.dir.path() / "d", w.dir.path() / "g");
    CHECK(w.state("g/e/f") == State::writing);
    file.close();
    CHECK(w.state("g/e/f") == State::closed);
    sys::fs::remove_all(w.dir.path() / "g");
    CHECK(w.state("g/e/f") == State::unknown);
    CHECK_FALSE(w.watch.anything_open());
}

TEST_CASE("what is open when its writer is killed is torn, until somebody new writes it") {
    Watched w;
    sys::Fd file = w.open("a");
    w.watch.brace();
    sys::write_all(file.get(), "half");
    file.close();
    CHECK(w.state("a") == State::torn);
    w.watch.trust();
    CHECK(w.state("a") == State::torn);
    w.open("a", O_TRUNC).close();
    CHECK(w.state("a") == State::closed);
}

TEST_CASE("a writer unknown to the watch is found by asking") {
    const sys::TempDir dir("watch");
    sys::Fd writer = sys::open_write(dir.path() / "a", 0);
    const sys::Fd reader = sys::open_read(dir.path() / "a");
    if (nobody_writes(reader.get())) {
        MESSAGE("skipped: this file system grants no leases");
        return;
    }
    writer.close();
    CHECK(nobody_writes(reader.get()));
}

TEST_CASE("a scan sees regular files only, and says what it leaves") {
    const sys::TempDir dir("scan");
    sys::fs::create_directories(dir.path() / "d/empty");
    sys::write_file(dir.path() / "d/x", "1");
    sys::write_file(dir.path() / "d.x", "1");
    sys::write_file(dir.path() / ".hidden", "1");
    sys::write_file(dir.path() / std::string("raw\xff\n"), "1");
    sys::fs::create_symlink("/etc/passwd", dir.path() / "link");
    sys::fs::create_directory_symlink("/etc", dir.path() / "folder");
    REQUIRE(::mkfifo((dir.path() / "pipe").c_str(), 0600) == 0);
    std::vector<std::string> warned;
    const auto files = scan_folder(
        dir.path(), [&](const std::string& path, const std::string&) { warned.push_back(path); });
    REQUIRE(files.size() == 3);
    CHECK(files[0].path == "d.x");
    CHECK(files[1].path == "d/x");
    CHECK(files[2].path == "raw\xff\n");
    CHECK(warned.size() == 3);
}

TEST_CASE("a torn file is told by its bytes") {
    const sys::TempDir dir("whole");
    const auto why = [&](const std::string& name, const std::string& content) {
        sys::write_file(dir.path() / name, content);
        const sys::Fd file = sys::open_read(dir.path() / name);
        return why_torn(file.get(), content.size(), name);
    };
    const std::string zip =
        std::string("PK\3\4") + std::string(1000, 'x') + "PK\5\6" + std::string(18, '\0');
    CHECK(why("a.pt", zip).empty());
    CHECK_FALSE(why("a.pt", zip.substr(0, 900)).empty());
    CHECK_FALSE(why("a.pt", "").empty());
    CHECK(why("log.txt", "").empty());
    CHECK(why("a.pt", "any other bytes").empty());
    const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    const std::string tensors =
        std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header;
    CHECK(why("m.safetensors", tensors + "12345678").empty());
    CHECK_FALSE(why("m.safetensors", tensors + "1234567").empty());
    CHECK_FALSE(why("m.safetensors", tensors.substr(0, 30)).empty());
    CHECK_FALSE(why("m.safetensors", "123").empty());
    CHECK_FALSE(why("m.safetensors", std::string(8, '\xff')).empty());
}
