// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/make_data.h"

#include "common/base/error.h"
#include "masked-lm/filelist.h"
#include "masked-lm/shard.h"
#include "masked-lm/test_files.h"

#include <doctest/doctest.h>

using namespace alg;
using alg::test::Folder;

namespace {

Vocabulary vocabulary() {
    return Vocabulary({"[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "new", "york",
                       "##s",   "city",  "哈",    "利",     "波",    "特",  "是",
                       "书",    "。",    ".",     "i",      "like",  "the", "a"});
}

std::string text(const std::vector<std::int8_t>& units) {
    std::string result;
    for (const std::int8_t unit : units) result += static_cast<char>('0' + unit);
    return result;
}

}  // namespace

TEST_CASE("atoms are runs of letters and single other characters") {
    std::vector<bool> starts;
    CHECK(atoms_of("ab1 c.é哈利\tx", &starts) ==
          std::vector<std::string>{"ab1", "c", ".", "é", "哈", "利", "x"});
    CHECK(starts == std::vector<bool>{true, true, false, false, false, false, true});
    CHECK(atoms_of("\xff\xe5") == std::vector<std::string>{"\xff", "\xe5"});
    CHECK(atoms_of("").empty());
}

TEST_CASE("sentences end behind their marks and closing quotes") {
    CHECK(sentences_of("一。二！”三") == std::vector<std::string_view>{"一。", "二！”", "三"});
    CHECK(sentences_of("It is 3.5 m. So what? (No.) x") ==
          std::vector<std::string_view>{"It is 3.5 m.", "So what?", "(No.)", "x"});
    CHECK(sentences_of("  ").empty());
}

TEST_CASE("without lists white space separates masking units, pieces of a word belong to it") {
    const WordPiece pieces(vocabulary());
    const Segmented result = segment("I like yorks 哈利 波特。", pieces, {});
    CHECK(result.tokens == std::vector<std::int32_t>{17, 18, 6, 7, 9, 10, 11, 12, 15});
    CHECK(text(result.units) == "000101011");
}

TEST_CASE("a word list cuts text without spaces by the longest match") {
    const WordPiece pieces(vocabulary());
    Segmentation how;
    how.words.add("哈利", true);
    how.words.add("哈利波特", true);
    how.words.add("波特", true);
    CHECK(text(segment("哈利波特是哈利。", pieces, how).units) == "01110010");
}

TEST_CASE("entities and phrases are one unit, across words and whatever their case") {
    const WordPiece pieces(vocabulary());
    Segmentation how;
    how.entities.add("New York City", true);
    how.entities.add("哈利波特", true);
    CHECK(text(segment("i like new YORKs city", pieces, how).units) == "000010");  // another word
    CHECK(text(segment("I like New York   City.", pieces, how).units) == "000110");
    CHECK(text(segment("书 哈利 波特 是", pieces, how).units) == "001110");
}

TEST_CASE("pairs are two neighbouring parts of a document, or of two, and fit") {
    std::vector<std::vector<Segmented>> documents;
    for (int d = 0; d < 200; ++d) {
        documents.emplace_back();
        for (int s = 0; s < 5; ++s)  // sentence s of document d: its number, its tokens
            documents.back().push_back({{100 + d * 5 + s, 50, 51}, {0, 0, 1}});
    }
    const MakeOptions options{.longest = 16};
    const Pairs pairs = pairs_of(documents, options, Random(1));
    int follows = 0;
    for (const std::string& line : pairs.lines) {
        SampleFields fields;
        const auto bad = parse_sample(std::string_view(line).substr(0, line.size() - 1),
                                      {.vocabulary = 2000, .longest = 16}, fields);
        REQUIRE_FALSE(bad);
        CHECK(fields.counted);
        CHECK(fields.words[0] == -1);
        const auto sep = static_cast<std::size_t>(
            std::find(fields.tokens.begin(), fields.tokens.end(), 2) - fields.tokens.begin());
        CHECK(fields.words[sep] == -1);
        CHECK(fields.types[sep] == 0);
        CHECK(fields.types[sep + 1] == 1);
        std::size_t last = sep - 1;  // the first part's end may have been cut
        while (fields.tokens[last] < 100) --last;
        const int left = fields.tokens[last], right = fields.tokens[sep + 1];
        if (fields.follows)
            CHECK(right == left + 1);
        else
            CHECK((left - 100) / 5 != (right - 100) / 5);
        follows += fields.follows;
    }
    CHECK(follows > static_cast<int>(pairs.lines.size()) * 35 / 100);
    CHECK(follows < static_cast<int>(pairs.lines.size()) * 65 / 100);
    CHECK(pairs_of(documents, options, Random(1)).lines == pairs.lines);
    MakeOptions all_true = options;
    all_true.negatives = false;
    for (const std::string& line : pairs_of(documents, all_true, Random(1)).lines)
        CHECK(line.ends_with(";1\n"));
}

TEST_CASE("files and their list are what the reader reads") {
    const Folder folder;
    std::string raw;
    for (int i = 0; i < 30; ++i)
        raw += "I like the city. New York is a city.\n哈利波特是书。哈利是书。\n\n";
    const auto source = folder.gz("raw.txt.gz", raw);
    const WordPiece pieces(vocabulary());
    const MakeReport report = make_data({source}, folder.path() / "out", "train", pieces, {},
                                        {.longest = 32, .file_samples = 20});
    CHECK(report.documents == 30);
    CHECK(report.sentences == 120);
    CHECK(report.files == (report.samples + 19) / 20);
    const auto files = read_filelist(folder.path() / "out/train_filelist", folder.path() / "out");
    CHECK(static_cast<std::int64_t>(files.size()) == report.files);
    std::int64_t samples = 0;
    SkipLog skips;
    for (const ListedFile& file : files)
        samples += read_shard(file.path, {.vocabulary = 21, .longest = 32}, skips).size();
    CHECK(samples == report.samples);
    CHECK(skips.total() == 0);
}

TEST_CASE("text without a pair is refused, and nothing is written") {
    const Folder folder;
    const auto source = folder.text("raw.txt", "one\n\n\ntwo\n");
    CHECK_THROWS_AS(
        make_data({source}, folder.path() / "out", "train", WordPiece(vocabulary()), {}, {}),
        Failure);
    CHECK_FALSE(std::filesystem::exists(folder.path() / "out/train_filelist"));
}
