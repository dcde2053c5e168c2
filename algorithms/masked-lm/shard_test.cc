// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/shard.h"

#include "common/base/error.h"
#include "masked-lm/filelist.h"
#include "masked-lm/gz_lines.h"
#include "masked-lm/test_files.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

using namespace alg;
namespace fs = std::filesystem;
using alg::test::Folder;
using alg::test::sample_line;

namespace {

std::string contents(const fs::path& file) {
    std::string text;
    std::FILE* in = std::fopen(file.c_str(), "rb");
    char block[4096];
    while (const std::size_t count = std::fread(block, 1, sizeof block, in))
        text.append(block, count);
    std::fclose(in);
    return text;
}

template <typename Call>
std::string failure(Call&& call) {
    try {
        call();
    } catch (const Failure& error) {
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("lines come out as they went in, however the blocks fall") {
    const Folder folder;
    std::string text;
    std::vector<std::string> lines;
    for (int i = 0; i < 3000; ++i) {
        lines.push_back(std::string(static_cast<std::size_t>(i * 7919 % 2000),
                                    static_cast<char>('a' + i % 26)));
        text += lines.back() + (i % 5 == 0 ? "\r\n" : "\n");
    }
    lines.emplace_back("the last has no end");
    const fs::path file = folder.gz("x.gz", text + lines.back());
    GzLines reader(file);
    std::size_t i = 0;
    while (const auto line = reader.next()) CHECK(*line == lines.at(i++));
    CHECK(i == lines.size());
    CHECK(reader.number() == static_cast<std::int64_t>(lines.size()));
    CHECK(reader.damage().empty());
}

TEST_CASE("two gzip files joined are one") {
    const Folder folder;
    const std::string joined =
        contents(folder.gz("a.gz", "one\n")) + contents(folder.gz("b.gz", "two\n"));
    GzLines reader(folder.text("c.gz", joined));
    CHECK(reader.next() == "one");
    CHECK(reader.next() == "two");
    CHECK_FALSE(reader.next());
    CHECK(reader.damage().empty());
}

TEST_CASE("an endless line is cut and counts once") {
    const Folder folder;
    GzLines reader(folder.gz("x.gz", "a\n" + std::string(3'000'000, 'b') + "\nc\n"), 1000);
    CHECK(reader.next() == "a");
    CHECK(reader.next()->size() == 1000);
    CHECK(reader.next() == "c");
    CHECK(reader.number() == 3);
    CHECK_FALSE(reader.next());
}

TEST_CASE("a truncated file gives its whole lines and says so") {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 2000; ++i) text += sample_line(10 + i, 3 + i % 5, 4, i % 2);
    const std::string packed = contents(folder.gz("whole.gz", text));
    const fs::path torn = folder.text("torn.gz", packed.substr(0, packed.size() / 2));
    SkipLog skips(0);
    const Shard shard = read_shard(torn, {}, skips);
    CHECK(shard.size() > 100);
    CHECK(shard.size() < 2000);
    CHECK(skips.counts().at("damaged file") == 1);
    std::string flipped = packed;
    flipped[packed.size() / 2] = static_cast<char>(~flipped[packed.size() / 2]);
    SkipLog others(0);
    CHECK(read_shard(folder.text("flipped.gz", flipped), {}, others).size() > 0);
    CHECK(others.counts().contains("damaged file"));
}

TEST_CASE("files that are nothing are refused by name") {
    const Folder folder;
    SkipLog skips(0);
    const auto reading = [&](const fs::path& file) {
        return failure([&] { read_shard(file, {}, skips); });
    };
    CHECK(reading(folder.path() / "absent.gz").ends_with("absent.gz: No such file or directory"));
    CHECK(reading(folder.text("plain.gz", "1 2;0 0;0 1;-1 -1;0\n"))
              .ends_with("plain.gz: not a gzip file; compress it with gzip"));
    CHECK(reading(folder.text("empty.gz", ""))
              .ends_with("empty.gz: the file is empty; a gzip file of samples is expected"));
    CHECK(reading(folder.gz("none.gz", ""))
              .ends_with("none.gz: none of its 0 lines is a usable sample"));
    CHECK(
        reading(folder.gz("bad.gz", "a\nb\n")).ends_with("none of its 2 lines is a usable sample"));
}

TEST_CASE("bad lines are skipped, counted, and do not move the others") {
    const Folder folder;
    SkipLog skips(0);
    const Shard shard =
        read_shard(folder.gz("x.gz", sample_line(10, 2, 2, 1) + "1 2;0;0 1;-1 -1;0\n" +
                                         sample_line(20, 600, 2, 1) + sample_line(30, 3, 2, 0)),
                   {}, skips);
    CHECK(shard.size() == 2);
    CHECK(skips.total() == 2);
    CHECK(skips.counts().at("longer than max_seq_len") == 1);
    CHECK(shard.number_of(0) == 1);
    CHECK(shard.number_of(1) == 4);
    CHECK(shard.follows(0));
    CHECK_FALSE(shard.follows(1));
    CHECK(shard.length(1) == 8);
    CHECK(shard.token(1, 0) == 1);
    CHECK(shard.token(1, 1) == 31);
    CHECK(shard.type(1, 4) == 0);
    CHECK(shard.type(1, 5) == 1);
    CHECK(shard.word(1, 4) == -1);
    CHECK(shard.word(1, 5) == 0);
    CHECK(shard.position(1, 7) == 7);
}

TEST_CASE("positions of another order and large vocabularies are kept") {
    const Folder folder;
    SkipLog skips(0);
    const Shard shard =
        read_shard(folder.gz("x.gz", sample_line(10, 1, 1, 1) + "1 99999;0 5;0 7;-1 0;0\n"),
                   {.vocabulary = 100'000, .types = 6}, skips);
    CHECK(shard.size() == 2);
    CHECK(shard.position(0, 4) == 4);
    CHECK(shard.position(1, 1) == 7);
    CHECK(shard.token(1, 1) == 99999);
    CHECK(shard.type(1, 1) == 5);
}

TEST_CASE("a file list names files below the channel or by their base names") {
    const Folder folder;
    folder.gz("data/a.gz", "x\n");
    folder.gz("b.gz", "x\n");
    const auto files =
        read_filelist(folder.text("train_filelist", "./data/a.gz\t1.1\n\n/elsewhere/b.gz\t0.5\r\n"),
                      folder.path());
    REQUIRE(files.size() == 2);
    CHECK(files[0].path == folder.path() / "./data/a.gz");
    CHECK(files[0].listed == "./data/a.gz");
    CHECK(files[1].path == folder.path() / "b.gz");
    CHECK(files[1].mask_word_prob == doctest::Approx(0.5));
    CHECK(files[1].bytes > 0);
}

TEST_CASE("all problems of a file list are told at once") {
    const Folder folder;
    const std::string list = (folder.path() / "list").string();
    folder.text("list", "a.gz 1.1\nb.gz\t1.1\nc.gz\tmuch\n");
    CHECK(failure([&] { read_filelist(list, folder.path()); }) ==
          list + ":1: \"a.gz 1.1\" is not path<TAB>mask_word_prob; " + list +
              ":2: b.gz is not in " + folder.path().string() + ", nor is b.gz; " + list +
              ":3: \"c.gz\tmuch\" is not path<TAB>mask_word_prob");
    folder.text("list", "\n");
    CHECK(failure([&] {
              read_filelist(list, folder.path());
          }).starts_with("file list " + list + " names no file"));
    CHECK(failure([&] { read_filelist(list + "2", folder.path()); }).ends_with("cannot be opened"));
}

TEST_CASE("every file is in one round of an epoch, dealt to ranks in turn") {
    std::vector<ListedFile> files(11);
    for (std::size_t i = 0; i < files.size(); ++i) files[i].bytes = 100 * (i + 1);
    for (const int world : {1, 2, 4, 20}) {
        const auto rounds = rounds_of(files, {.world = world, .bytes = 300}, 3);
        std::map<int, int> seen;
        for (const FileRound& round : rounds)
            for (std::size_t i = 0; i < round.files.size(); ++i) {
                ++seen[round.files[i]];
                CHECK(round.rank[i] == (world == 20 ? 0 : (round.place[i] - 1) % world));
            }
        CHECK(seen.size() == files.size());
        CHECK(rounds.size() > 1);
    }
    const auto first = rounds_of(files, {}, 0), again = rounds_of(files, {}, 0);
    CHECK(first[0].files == again[0].files);
    CHECK(first[0].files != rounds_of(files, {}, 1)[0].files);
    CHECK(first.size() == 1);  // small files together
}
