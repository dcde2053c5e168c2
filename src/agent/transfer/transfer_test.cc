// SPDX-License-Identifier: Apache-2.0
#include "agent/channels/channels.h"
#include "agent/channels/file/prefix.h"
#include "agent/testing/fake_daemon.h"
#include "agent/transfer/download.h"
#include "agent/transfer/gzip.h"
#include "agent/transfer/meter.h"
#include "agent/transfer/parts.h"
#include "agent/transfer/tar_writer.h"
#include "agent/transfer/tree.h"
#include "agent/transfer/unpack.h"
#include "agent/transfer/upload.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/sys.h"

#include <doctest/doctest.h>

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

using namespace ty;
using namespace ty::agent;

namespace {

using Objects = std::vector<aws::S3Client::Object>;
namespace fs = sys::fs;

std::vector<std::string> paths_of(const ChannelTree& tree) {
    std::vector<std::string> paths;
    for (const ChannelFile& file : tree.files) paths.push_back(file.path);
    return paths;
}

std::string refusal(const std::string& prefix, const Objects& objects) {
    const auto result = capture([&] { return plan_channel(prefix, objects); });
    return result.ok() ? "" : result.error().what();
}

TreeEntry file_entry(const std::string& path, std::uint64_t size) {
    TreeEntry entry;
    entry.path = path;
    entry.size = size;
    return entry;
}
TreeEntry link_entry(const std::string& path, const std::string& target) {
    TreeEntry entry;
    entry.path = path;
    entry.kind = TreeEntry::Kind::link;
    entry.target = target;
    return entry;
}

/// A tar with these entries; files are filled with 'x'.
std::string make_tar(const std::vector<TreeEntry>& entries) {
    std::string out;
    TarWriter tar([&out](std::string_view data) { out.append(data); });
    for (const TreeEntry& entry : entries) {
        tar.header(entry);
        if (entry.kind != TreeEntry::Kind::file) continue;
        tar.content(std::string(entry.size, 'x'));
        tar.pad(entry.size);
    }
    tar.finish();
    return out;
}

/// What unpacking says; empty when it works.
std::string unpack_error(const std::string& archive, const fs::path& into,
                         const UnpackLimits& limits = {}) {
    const auto result =
        capture([&] { return unpack(as_bytes(archive), "source.tar.gz", into, limits); });
    return result.ok() ? "" : result.error().what();
}

/// The type byte and link of the first header changed by hand, checksum mended.
std::string with_type(std::string tar, char type, std::string_view target = {}) {
    tar[156] = type;
    std::copy(target.begin(), target.end(), tar.begin() + 157);
    std::fill(tar.begin() + 148, tar.begin() + 156, ' ');
    unsigned sum = 0;
    for (int i = 0; i < 512; ++i)
        sum += static_cast<unsigned char>(tar[static_cast<std::size_t>(i)]);
    const std::string text = format("{:06o}", sum) + std::string("\0 ", 2);
    std::copy(text.begin(), text.end(), tar.begin() + 148);
    return tar;
}

MakeClient client_of(const FakeDaemon& daemon, SystemClock& clock) {
    return [&daemon, &clock] {
        return std::make_unique<aws::S3Client>(http::parse_url(daemon.url()),
                                               aws::Credentials{"AKID", "secret", ""}, "us-west-2",
                                               clock);
    };
}

std::string slurp(const fs::path& path) {
    return sys::read_file(path);
}

}  // namespace

TEST_CASE("a prefix is a string prefix and the rest of the key is the file's name") {
    const Objects objects = {
        {"data/train/a.txt", 3, "e"}, {"data/train/sub/b", 0, "e"}, {"data/train2/c", 1, "e"}};
    CHECK(paths_of(plan_channel("data/train", objects)) ==
          std::vector<std::string>{"a.txt", "sub/b", "2/c"});
    CHECK(paths_of(plan_channel("data/train/", objects)) ==
          std::vector<std::string>{"a.txt", "sub/b"});
    CHECK(paths_of(plan_channel("data/train/a.txt", objects)) == std::vector<std::string>{"a.txt"});
    CHECK(paths_of(plan_channel("", {{"x", 1, ""}})) == std::vector<std::string>{"x"});
}

TEST_CASE("markers become folders") {
    const ChannelTree tree =
        plan_channel("p", {{"p/", 0, ""}, {"p/empty/", 0, ""}, {"p/f", 1, ""}});
    CHECK(tree.folders == std::vector<std::string>{"empty"});
    CHECK(paths_of(tree) == std::vector<std::string>{"f"});
}

TEST_CASE("keys that cannot be files are refused by name") {
    CHECK(refusal("p", {{"p/../../etc/passwd", 1, ""}}).find("p/../../etc/passwd") !=
          std::string::npos);
    CHECK(refusal("p", {{"p/" + std::string(300, 'a'), 1, ""}}).find("longer than") !=
          std::string::npos);
    CHECK(refusal("p", {{"p/a", 1, ""}, {"p/a/b", 1, ""}}).find("needs the folder") !=
          std::string::npos);
    CHECK(refusal("p", {{"p/a/b", 1, ""}, {"p/a", 1, ""}}).find("makes a folder") !=
          std::string::npos);
    CHECK(refusal("p", {{"p/a", 1, ""}, {"p//a", 1, ""}}).find("the same file") !=
          std::string::npos);
    CHECK(refusal("p", {{"p/x/", 5, ""}}).find("has content") != std::string::npos);
    CHECK(refusal("p", {{std::string("p/a\0b", 5), 1, ""}}).find("zero byte") != std::string::npos);
}

TEST_CASE("progress reads like a sentence") {
    CHECK(of_bytes(3'250'586, 10'380'902) == "3.1 of 9.9 MiB");
    CHECK(of_bytes(5, 100) == "5 of 100 B");
    const Progress progress = {12, 40, 120u << 20, 240u << 20};
    CHECK(progress_text("Downloading input data", progress, milliseconds(1000)) ==
          "Downloading input data: 12 of 40 objects, 120.0 of 240.0 MiB, 120.0 MiB/s");
}

TEST_CASE("links are judged by whether they can leave the tree") {
    CHECK(stays_inside("a/b", "../c"));
    CHECK(stays_inside("link", "file"));
    CHECK_FALSE(stays_inside("a/b", "../../c"));
    CHECK_FALSE(stays_inside("a", "/etc"));
    CHECK_FALSE(stays_inside("a", "b/../../c"));
    CHECK_FALSE(stays_inside("a", ""));
}

TEST_CASE("a packed tree is read back by tar with names, modes and links as they were") {
    const sys::TempDir dir;
    const fs::path root = dir.path() / "in";
    const std::string deep = std::string(90, 'd') + "/" + std::string(120, 'e');
    fs::create_directories(root / deep);
    fs::create_directories(root / "empty");
    sys::write_file(root / deep / std::string(200, 'f'), "long");
    sys::write_file(root / "模型.bin", std::string(70'000, 'm'));
    sys::write_file(root / "run.sh", "#!/bin/sh\n", 0755);
    ::chmod((root / "run.sh").c_str(), 0755);
    fs::create_symlink("run.sh", root / "link");
    fs::create_symlink("/etc/passwd", root / "outside");
    REQUIRE(::mkfifo((root / "fifo").c_str(), 0600) == 0);
    std::vector<std::string> warnings;
    const auto warn = [&](const std::string& text) { warnings.push_back(text); };
    std::string packed;
    for (const GzipWriter::Codec codec : {GzipWriter::Codec::best, GzipWriter::Codec::zlib}) {
        packed.clear();
        GzipWriter gzip([&](std::string_view data) { packed.append(data); }, codec);
        write_tar(
            root, read_tree(root, warn), [&](std::string_view data) { gzip.write(data); }, warn,
            [](std::uint64_t) {});
        gzip.finish();
        const fs::path out = dir.path() / std::string(gzip.codec());
        fs::create_directories(out);
        sys::write_file(dir.path() / "x.tar.gz", packed);
        const sys::Output tar = sys::run(
            {.argv = {"tar", "-xpzf", (dir.path() / "x.tar.gz").string(), "-C", out.string()}},
            Deadline::in(seconds(20)));
        CHECK_MESSAGE(tar.exit.ok(), tar.text);
        CHECK(slurp(out / deep / std::string(200, 'f')) == "long");
        CHECK(slurp(out / "模型.bin").size() == 70'000);
        CHECK(fs::read_symlink(out / "link") == "run.sh");
        CHECK(fs::is_directory(out / "empty"));
        CHECK_FALSE(fs::exists(fs::symlink_status(out / "outside")));
        CHECK((fs::status(out / "run.sh").permissions() & fs::perms::owner_exec) !=
              fs::perms::none);
        // And by our own reader.
        const fs::path own = dir.path() / ("own-" + std::string(gzip.codec()));
        fs::create_directories(own);
        CHECK(unpack(as_bytes(packed), "x.tar.gz", own).size() == 3);
        CHECK(slurp(own / "模型.bin").size() == 70'000);
    }
    CHECK(warnings.size() == 4);
}

TEST_CASE("archives that want out are refused and nothing is written outside") {
    const sys::TempDir dir;
    const fs::path into = dir.path() / "a/code";
    fs::create_directories(into);
    CHECK(unpack_error(make_tar({file_entry("../evil", 3)}), into)
              .find("\"../evil\" is refused: its path contains") != std::string::npos);
    CHECK(unpack_error(make_tar({file_entry("a/../../evil", 3)}), into).find("is refused") !=
          std::string::npos);
    CHECK(unpack_error(make_tar({file_entry("/tmp/evil-file", 3)}), into).find("absolute") !=
          std::string::npos);
    CHECK(
        unpack_error(make_tar({link_entry("l", "/etc")}), into).find("leads out of the archive") !=
        std::string::npos);
    CHECK(unpack_error(make_tar({link_entry("l", "../..")}), into).find("leads out") !=
          std::string::npos);
    CHECK(unpack_error(make_tar({link_entry("d", "sub"), file_entry("d/f", 1)}), into)
              .find("through a link") != std::string::npos);
    CHECK(unpack_error(with_type(make_tar({file_entry("h", 0)}), '1', "../../../etc/passwd"), into)
              .find("is refused") != std::string::npos);
    CHECK(unpack_error(with_type(make_tar({file_entry("h", 0)}), '1', "nowhere"), into)
              .find("no file of the archive") != std::string::npos);
    CHECK(unpack_error(with_type(make_tar({file_entry("dev", 0)}), '3'), into).find("device") !=
          std::string::npos);
    CHECK(unpack_error(with_type(make_tar({file_entry("fifo", 0)}), '6'), into).find("FIFO") !=
          std::string::npos);
    CHECK(unpack_error("this is no archive at all, only a text of some length", into)
              .find("not a readable tar.gz") != std::string::npos);
    CHECK(unpack_error(make_tar({file_entry("x", 1), file_entry("x/y", 1)}), into)
              .find("same name") != std::string::npos);
    std::vector<std::string> outside;
    for (const auto& entry : fs::recursive_directory_iterator(dir.path())) {
        if (!entry.path().string().starts_with(into.string()) && entry.path() != dir.path() / "a")
            outside.push_back(entry.path().string());
    }
    CHECK(outside.empty());
    CHECK_FALSE(fs::exists("/tmp/evil-file"));
}

TEST_CASE("a link planted before a file of its name is replaced, not followed") {
    const sys::TempDir dir;
    const fs::path into = dir.path() / "code";
    fs::create_directories(into);
    sys::write_file(dir.path() / "code/target", "kept");
    CHECK(unpack_error(make_tar({link_entry("x", "target"), file_entry("x", 2)}), into).empty());
    CHECK(slurp(into / "x") == "xx");
    CHECK(slurp(into / "target") == "kept");
}

TEST_CASE("bombs stop at the limits") {
    const sys::TempDir dir;
    std::string bomb;
    GzipWriter gzip([&](std::string_view data) { bomb.append(data); });
    gzip.write(make_tar({file_entry("zeros", 5u << 20)}));
    gzip.finish();
    UnpackLimits limits;
    limits.total = Bytes(1u << 20);
    CHECK(unpack_error(bomb, dir.path(), limits).find("more than 1.0 MiB") != std::string::npos);
    limits = {};
    limits.entries = 3;
    CHECK(unpack_error(make_tar({file_entry("a", 1), file_entry("b", 1), file_entry("c", 1),
                                 file_entry("d", 1)}),
                       dir.path(), limits)
              .find("more than 3 entries") != std::string::npos);
    CHECK(unpack_error(bomb.substr(0, bomb.size() / 2), dir.path()).find("not a readable") !=
          std::string::npos);
}

TEST_CASE("downloads deliver every byte, large objects in ranges") {
    const sys::TempDir dir;
    FakeDaemon daemon;
    SystemClock clock;
    std::string big(70u << 20, '\0');
    for (std::size_t i = 0; i < big.size(); i += 4096) big[i] = static_cast<char>(i >> 12);
    daemon.put_object("b/big", big);
    daemon.put_object("b/small", "abc");
    daemon.put_object("b/zero", "");
    const auto client = client_of(daemon, clock)();
    std::vector<Download> downloads;
    for (const auto& object : client->list("b", "", Deadline::in(seconds(10)), {})) {
        downloads.push_back(
            {"b", object.key, object.etag, object.size, dir.path() / "sub" / object.key});
    }
    Progress last;
    download_all(client_of(daemon, clock), downloads,
                 [&](const Progress& progress) { last = progress; }, Deadline::in(seconds(60)), {});
    CHECK(slurp(dir.path() / "sub/small") == "abc");
    CHECK(fs::file_size(dir.path() / "sub/zero") == 0);
    CHECK(sys::read_file(dir.path() / "sub/big", Bytes(100u << 20)) == big);
    CHECK(last.objects == 3);
    CHECK(last.bytes == big.size() + 3);
    downloads[0].etag = "0123456789abcdef0123456789abcdef";
    CHECK_THROWS_AS(download_all(client_of(daemon, clock), downloads, [](const Progress&) {},
                                 Deadline::in(seconds(60)), {}),
                    Error);
}

namespace {

Transfer transfer_to(const FakeDaemon& daemon, SystemClock& clock) {
    return {.make_client = client_of(daemon, clock),
            .warn = [](const std::string&) {},
            .on_progress = [](const Progress&) {},
            .by = Deadline::in(seconds(60)),
            .stop = {}};
}

/// Bytes that do not compress.
std::string noise(std::size_t size, std::uint64_t seed = 1) {
    std::string bytes(size, '\0');
    for (char& c : bytes) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        c = static_cast<char>(seed >> 56);
    }
    return bytes;
}

}  // namespace

TEST_CASE(
    "uploads are one request when small and parts when large; an empty folder makes no object") {
    const sys::TempDir dir;
    FakeDaemon daemon;
    SystemClock clock;
    const Transfer how = transfer_to(daemon, clock);
    CHECK_FALSE(upload_archive(how, dir.path(), "b", "none.tar.gz"));
    CHECK_FALSE(daemon.object("b/none.tar.gz").has_value());
    const std::string weights = noise(20u << 20);
    sys::write_file(dir.path() / "weights", weights);
    CHECK(upload_archive(how, dir.path(), "b", "model.tar.gz"));
    const fs::path out = dir.path() / "out";
    fs::create_directories(out);
    const std::string packed = daemon.object("b/model.tar.gz").value();
    CHECK(packed.size() > (16u << 20));
    unpack(as_bytes(packed), "model.tar.gz", out);
    CHECK(slurp(out / "weights") == weights);
    fs::remove_all(out);
    sys::write_file(dir.path() / "tiny", "t");
    CHECK(upload_files(how, dir.path(), "b", "pre/model"));
    CHECK(daemon.object("b/pre/model/tiny") == "t");
    CHECK(daemon.object("b/pre/model/weights")->size() == weights.size());
}

TEST_CASE("parts of several nodes become one archive that tar opens, whatever their sizes") {
    FakeDaemon daemon;  // refuses multipart parts below 5 MiB, as S3 does
    SystemClock clock;
    const Transfer how = transfer_to(daemon, clock);
    const PartsPlace place = {"b", "job/output", "j.1"};
    // Around the smallest part there are the interesting cases.
    const std::vector<std::vector<std::size_t>> cases = {{10, 20, 30},
                                                         {6u << 20, 100, 7u << 20},
                                                         {100, 11u << 20, 3u << 20},
                                                         {3u << 20, 3u << 20},
                                                         {9u << 20}};
    for (const std::vector<std::size_t>& sizes : cases) {
        const sys::TempDir dir;
        std::vector<std::string> nodes = {"algo-empty"};
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const fs::path root = dir.path() / std::to_string(i);
            fs::create_directories(root / "shared");
            sys::write_file(root / format("shared/of-{}", i), noise(sizes[i], i + 1));
            sys::write_file(root / "same", std::to_string(i));
            nodes.push_back(format("algo-{}", i + 1));
            REQUIRE(upload_archive(how, root, "b", place.folder(nodes.back()) + "/model.tar.gz",
                                   TarEnd::open));
        }
        CHECK(join_parts(how, place, nodes, "model.tar.gz"));
        CHECK_FALSE(join_parts(how, place, nodes, "output.tar.gz"));
        CHECK_FALSE(find_joined(how, place).has_value());
        note_joined(how, place, true);
        CHECK(find_joined(how, place) == true);
        remove_parts(how, place);
        CHECK(daemon.object_names() == std::vector<std::string>{"b/job/output/model.tar.gz"});
        const std::string archive = (dir.path() / "model.tar.gz").string();
        sys::write_file(archive, daemon.object("b/job/output/model.tar.gz").value());
        const sys::Output tar =
            sys::run({.argv = {"tar", "-xzf", archive, "-C", (dir.path()).string()}},
                     Deadline::in(seconds(60)));
        CHECK_MESSAGE(tar.exit.ok(), tar.text);
        CHECK(tar.text.empty());
        for (std::size_t i = 0; i < sizes.size(); ++i)
            CHECK(slurp(dir.path() / format("shared/of-{}", i)) == noise(sizes[i], i + 1));
        CHECK(slurp(dir.path() / "same") == std::to_string(sizes.size() - 1));
        const sys::Output python =
            sys::run({.argv = {"/usr/bin/env", "python3", "-c",
                               "import sys, tarfile\nprint(sum(m.isfile() for m in "
                               "tarfile.open(sys.argv[1]).getmembers()))",
                               archive}},
                     Deadline::in(seconds(60)));
        if (python.exit.ok()) CHECK(python.text == format("{}\n", 2 * sizes.size()));
    }
    CHECK(daemon.copies() == 3);
}

TEST_CASE("a sharded channel gives every host its part, without overlap") {
    FakeDaemon daemon;
    SystemClock clock;
    for (const char* name : {"a", "b", "c/d", "e", "f"})
        daemon.put_object(std::string("data/p/") + name, name);
    const std::vector<std::vector<std::string>> expected = {{"a", "e"}, {"b", "f"}, {"c/d"}};
    const std::vector<std::string> hosts = {"algo-1", "algo-10", "algo-2"};
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        const sys::TempDir dir;
        StageContext context;
        context.make_client = client_of(daemon, clock);
        context.paths.folder = dir.path();
        context.host = hosts[i];
        context.hosts = hosts;
        context.on_progress = [](const Progress&) {};
        context.by = Deadline::in(seconds(60));
        stage_channels(context,
                       {{.name = "train",
                         .uri = "s3://data/p/",
                         .distribution = plan::Distribution::sharded_by_key}},
                       {});
        std::vector<std::string> names;
        const fs::path root = context.paths.data("train");
        for (const auto& entry : fs::recursive_directory_iterator(root)) {
            if (entry.is_regular_file())
                names.push_back(entry.path().lexically_relative(root).string());
        }
        std::ranges::sort(names);
        CHECK(names == expected[i]);
    }
}
