// SPDX-License-Identifier: Apache-2.0
#include "text-classification/data.h"
#include "common/base/error.h"
#include "common/files/unpack.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <set>

using namespace alg;

namespace {

struct Channels {
    TemporaryFolder folder;
    Inputs inputs;
    Options options;
    Channels() {
        inputs.train = folder.path() / "train";
        fs::create_directory(inputs.train);
        options.max_length = 8;
    }
    fs::path write(const fs::path& name, const std::string& content) const {
        fs::create_directories((folder.path() / name).parent_path());
        std::FILE* out = std::fopen((folder.path() / name).c_str(), "w");
        REQUIRE(std::fwrite(content.data(), 1, content.size(), out) == content.size());
        std::fclose(out);
        return folder.path() / name;
    }
    DataReader read(const fs::path& start = {}) const { return {options, inputs, start, false}; }
    std::string problem() const {
        try {
            read();
            return "none";
        } catch (const Failure& failure) {
            return failure.what();
        }
    }
};

const std::string kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nA\n";

}  // namespace

TEST_CASE("samples get ids, lengths and labels; a part of them validates") {
    Channels c;
    std::string rows = "label\ttext\n";
    for (int i = 0; i < 50; ++i) rows += i % 2 == 0 ? "pos\ta a\n" : "neg\tb a b a b a b a\n";
    c.write("train/t.tsv", rows);
    c.write("train/vocab.txt", kVocabulary);
    const DataReader reader = c.read();
    const Data& data = reader.data();
    CHECK(data.labels == std::vector<std::string>{"neg", "pos"});
    CHECK(data.train.samples.size() == 45);
    CHECK(data.valid.samples.size() == 5);
    CHECK(data.train.cut > 0);
    for (std::size_t i = 0; i < data.train.samples.size(); ++i) {
        const Sample& sample = data.train.samples[i];
        CHECK(data.train.lengths[i] == (sample.label == 1 ? 4 : 8));
        CHECK(sample.text.ids.front() == 2);
        CHECK(sample.text.ids.back() == 3);
    }
    CHECK(c.read().data().fingerprint == data.fingerprint);
    c.options.seed = 2;
    CHECK(c.read().data().fingerprint != data.fingerprint);
    c.options.validation_split = 0;
    CHECK(c.read().data().valid.samples.empty());
}

TEST_CASE("without a vocabulary one is made of the texts") {
    Channels c;
    c.write("train/t.csv", "text,label\nsome words,0\nsome other words,1\nwords,1\n");
    const DataReader reader = c.read();
    CHECK(reader.data().vocabulary_made);
    CHECK(reader.tokenizer().vocabulary().id("words") > 4);
}

TEST_CASE("labels of another channel that training has not are skipped") {
    Channels c;
    c.write("train/t.csv", "text,label\na,x\nb,y\n");
    c.write("valid/v.csv", "text,label\na,x\nb,z\n");
    c.inputs.valid = c.folder.path() / "valid";
    CHECK(c.read().data().valid.samples.size() == 1);
    CHECK(c.read().data().train.samples.size() == 2);
}

TEST_CASE("classes that do not fit are refused") {
    Channels c;
    c.write("train/t.csv", "text,label\na,1\nb,1\n");
    CHECK(c.problem() == "none");  // 0 and 1: integers keep their values
    c.write("train/t.csv", "text,label\na,x\nb,x\n");
    CHECK(c.problem().find("every sample has the label \"x\"") != std::string::npos);
    c.write("train/t.csv", "text,label\na,x\nb,y\nb,z\n");
    c.options.num_labels = 2;
    CHECK(c.problem().find("there are 3 classes, num_labels says 2") != std::string::npos);
    c.options.labels = "y,x";
    CHECK(c.read().data().labels == std::vector<std::string>{"y", "x"});
}

TEST_CASE("a start brings its vocabulary and its case") {
    Channels c;
    c.write("train/t.csv", "text,label\nA,0\na,1\n");
    c.write("start/vocab.txt", kVocabulary);
    c.write("start/tokenizer_config.json", "{\"do_lower_case\": false, \"strip_accents\": null}");
    c.options.validation_split = 0;
    CHECK(c.read(c.folder.path() / "start").data().train.samples[0].text.ids ==
          std::vector<std::int32_t>{2, 7, 3});
    c.options.do_lower_case = "true";
    CHECK(c.read(c.folder.path() / "start").data().train.samples[0].text.ids ==
          std::vector<std::int32_t>{2, 5, 3});
    c.write("start/tokenizer_config.json", "{\"do_lower_case\": true, \"strip_accents\": false}");
    CHECK_THROWS_AS(c.read(c.folder.path() / "start"), Failure);
    c.write("empty/tokenizer_config.json", "{}");
    CHECK_THROWS_AS(c.read(c.folder.path() / "empty"), Failure);
    c.write(
        "fast/tokenizer.json",
        "{\"normalizer\": {\"lowercase\": false}, \"model\": {\"type\": \"WordPiece\", \"vocab\": "
        "{\"[UNK]\": 0, \"[CLS]\": 1, \"[SEP]\": 2, \"A\": 3}}}");
    c.options.do_lower_case = "configured";
    CHECK(c.read(c.folder.path() / "fast").data().train.samples[0].text.ids ==
          std::vector<std::int32_t>{1, 3, 2});
}

TEST_CASE("class weights") {
    Data data;
    data.labels = {"a", "b"};
    for (const std::int32_t label : {0, 0, 0, 1}) data.train.samples.push_back({{}, label});
    CHECK(class_weights("", data).empty());
    CHECK(class_weights("balanced", data) == std::vector<float>{4.0F / 2 / 3, 2});
    CHECK(class_weights("1, 2.5", data) == std::vector<float>{1, 2.5F});
    CHECK_THROWS_AS(class_weights("1", data), Failure);
    CHECK_THROWS_AS(class_weights("1,0", data), Failure);
    CHECK_THROWS_AS(class_weights("heavy", data), Failure);
}

TEST_CASE("a batch is its samples one after the other") {
    Dataset dataset;
    dataset.samples = {{{{2, 5, 3}, 3}, 0}, {{{2, 5, 3, 6, 3}, 3}, 1}};
    const std::vector<std::int64_t> chosen = {1, 0};
    const Batch batch = make_batch(dataset, chosen, 7);
    CHECK(batch.tokens == std::vector<std::int64_t>{2, 5, 3, 6, 3, 2, 5, 3});
    CHECK(batch.types == std::vector<std::int64_t>{0, 0, 0, 1, 1, 0, 0, 0});
    CHECK(batch.positions == std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2});
    CHECK(batch.labels == std::vector<std::int64_t>{1, 0});
    CHECK(batch.lengths == std::vector<std::int32_t>{5, 3});
    CHECK(make_batch(dataset, {}, 0).samples() == 0);
}

TEST_CASE("buckets") {
    CHECK(parse_buckets("32, 64").at(1) == 64);
    CHECK(parse_buckets("").empty());
    CHECK_THROWS_AS(parse_buckets("64,32"), Failure);
    CHECK_THROWS_AS(parse_buckets("a"), Failure);
}
