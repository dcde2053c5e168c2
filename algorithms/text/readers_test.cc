// SPDX-License-Identifier: Apache-2.0
#include "text/readers.h"
#include "common/base/error.h"

#include <doctest/doctest.h>

#include <zlib.h>

#include <filesystem>

#include <stdlib.h>

using namespace alg;
namespace fs = std::filesystem;

namespace {

struct Channel {
    fs::path path;
    Channel() {
        std::string name = (fs::temp_directory_path() / "channel-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Channel() { fs::remove_all(path); }
    /// Packed when the name says so.
    Channel& file(const std::string& name, const std::string& content) {
        fs::create_directories((path / name).parent_path());
        gzFile out = gzopen((path / name).c_str(), name.ends_with(".gz") ? "wb" : "wbT");
        REQUIRE(gzwrite(out, content.data(), static_cast<unsigned>(content.size())) ==
                static_cast<int>(content.size()));
        gzclose(out);
        return *this;
    }
    RawSamples read(ReadOptions options = {}) {
        skipped = SkipLog(0);
        return read_samples(path, options, skipped);
    }
    std::string problem(const ReadOptions& options = {}) {
        try {
            read(options);
            return "none";
        } catch (const Failure& failure) {
            return failure.what();
        }
    }
    SkipLog skipped{0};
};

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("csv: quotes hold separators, line ends and quotes") {
    Channel channel;
    channel.file("a.csv",
                 "\xEF\xBB\xBFtext,label\r\n\"a, \"\"b\"\"\nc\",pos\r\nplain \"x\",neg\r\n\r\n");
    const RawSamples read = channel.read();
    REQUIRE(read.samples.size() == 2);
    CHECK(read.samples[0].text == "a, \"b\"\nc");
    CHECK(read.samples[0].label == "pos");
    CHECK(read.samples[1].text == "plain \"x\"");
    CHECK(has(read.where(read.samples[1]), "a.csv:4"));
    CHECK(label_names(read, "") == std::vector<std::string>{"neg", "pos"});
    CHECK_FALSE(read.pairs);
}

TEST_CASE("csv: a quote that is never closed is refused") {
    Channel channel;
    channel.file("a.csv", "text,label\nx,1\n\"open,1\ny,0\n");
    CHECK(has(channel.problem(), "a.csv:3: a quote opened in this record is never closed"));
}

TEST_CASE("tsv keeps quotes as they are and names what it skips") {
    Channel channel;
    channel.file("a.tsv.gz", "label\ttext_a\n1\t\"\"x\"\n0\tone\ttoo many\n0\tok\n7");
    const RawSamples read = channel.read();
    REQUIRE(read.samples.size() == 2);
    CHECK(read.samples[0].text == "\"\"x\"");
    CHECK(read.records == 4);
    CHECK(channel.skipped.counts().at("records with another number of fields") == 2);
}

TEST_CASE("without a header the shortest column is the label") {
    Channel channel;
    channel.file("a.tsv", "some text\t1\nanother text\t0\n");
    CHECK(channel.read().samples.at(1).label == "0");
    CHECK(channel.read().samples.at(0).text == "some text");
    channel.file("a.tsv", "1\tfirst\tsecond\n0\tthird\tfourth\n");
    const RawSamples pairs = channel.read();
    CHECK(pairs.pairs);
    CHECK(pairs.samples.at(0).text == "first");
    CHECK(pairs.samples.at(0).text_b == "second");
    channel.file("a.tsv", "a\tb\tc\td\n");
    CHECK(has(channel.problem(), "has 4 columns and no header"));
}

TEST_CASE("columns are named by hyperparameters") {
    Channel channel;
    channel.file("a.csv", "id,body,mark\n17,good,5\n");
    CHECK(channel.read({.text_column = "body", .label_column = "mark"}).samples.at(0).text ==
          "good");
    CHECK(channel.read({.text_column = "1", .label_column = "2"}).samples.size() == 2);
    CHECK(has(channel.problem({.text_column = "text", .label_column = "mark"}),
              "there is no column \"text\"; its first line has: id, body, mark"));
    channel.file("a.csv", "sentence1,sentence2,label\na,b,1\n");
    CHECK(channel.read().samples.at(0).text_b == "b");
}

TEST_CASE("JSON lines: bad lines are skipped and counted") {
    Channel channel;
    channel.file("a.jsonl",
                 "{\"text\": \"t\", \"label\": 1}\n{\"text\": \"u\", \n[1]\n"
                 "{\"review\": \"v\", \"text_b\": \"w\", \"label\": \"0\"}\n"
                 "{\"label\": 1}\n{\"text\": \"x\"}\n{\"text\": 3, \"label\": true}\n");
    const RawSamples read = channel.read();
    REQUIRE(read.samples.size() == 2);
    CHECK(read.samples[1].text_b == "w");
    CHECK(read.pairs);
    CHECK(channel.skipped.counts().at("lines that are no JSON object") == 2);
    CHECK(channel.skipped.counts().at("records without a text") == 2);
    CHECK(channel.skipped.counts().at("records without a label") == 1);
}

TEST_CASE("a folder per class") {
    Channel channel;
    channel.file("pos/1.txt", "good\nfilm").file("neg/1.txt.gz", "bad").file("neg/notes.md", "x");
    channel.file("README.txt", "about");
    const RawSamples read = channel.read();
    REQUIRE(read.samples.size() == 2);
    CHECK(read.format == "folders");
    CHECK(read.samples[0].label == "neg");
    CHECK(read.samples[0].text == "bad");
    CHECK(read.samples[1].text == "good\nfilm");
}

TEST_CASE("channels that cannot be read are refused") {
    Channel channel;
    CHECK(has(channel.problem(), "holds no data"));
    CHECK(has(channel.file("a", "no separator\n").problem(), "is neither csv, tsv nor JSON"));
    channel.file("a", "").file("a.csv", "text,label\n");
    CHECK(has(channel.problem(), "none of its 0 records can be used"));
    channel.file("a.csv", "text,label\nx,1\n").file("b.jsonl", "{}\n");
    CHECK(has(channel.problem(), "holds several formats, a.csv (csv) and b.jsonl (jsonl)"));
    fs::remove(channel.path / "b.jsonl");
    channel.file("pos/1.txt", "x");
    CHECK(has(channel.problem(), "holds several formats"));
    CHECK(channel.read({.format = "csv"}).samples.size() == 1);
    SkipLog skipped(0);
    CHECK_THROWS_AS(read_samples(channel.path / "none", {}, skipped), Failure);
}

TEST_CASE("over-long records are skipped") {
    Channel channel;
    channel.file("a.tsv", "label\ttext\n1\t" + std::string(kLongestRecord + 10, 'x') + "\n0\tok\n");
    CHECK(channel.read().samples.size() == 1);
    CHECK(channel.skipped.counts().at("over-long records") == 1);
    channel.file("a.tsv", "")
        .file("b.csv", "label,text\n1," + std::string(kLongestRecord + 10, 'x') + "\n0,ok\n");
    fs::remove(channel.path / "a.tsv");
    CHECK(channel.read().samples.size() == 1);
}

TEST_CASE("integer labels keep their values, others are sorted, given ones keep their order") {
    Channel channel;
    channel.file("a.tsv", "label\ttext\n2\tx\n0\ty\n");
    RawSamples read = channel.read();
    CHECK(label_names(read, "") == std::vector<std::string>{"0", "1", "2"});
    SkipLog skipped(0);
    CHECK(label_ids(read, {"0", "1", "2"}, skipped) == std::vector<std::int32_t>{2, 0});
    CHECK(label_ids(read, label_names(read, "1, 0"), skipped) == std::vector<std::int32_t>{1});
    CHECK(read.samples.size() == 1);
    CHECK(skipped.counts().at("labels out of range") == 1);
    CHECK_THROWS_AS(label_ids(read, {"9"}, skipped), Failure);
    CHECK_THROWS_AS(label_names(read, "a,,b"), Failure);
    CHECK_THROWS_AS(label_names(read, "a,a"), Failure);
    channel.file("a.tsv", "label\ttext\n-1\tx\n10\ty\n1\tz\n");
    CHECK(label_names(channel.read(), "") == std::vector<std::string>{"-1", "1", "10"});
}
