// SPDX-License-Identifier: Apache-2.0
// The rules one by one; wordpiece_parity.py compares whole corpora with Hugging Face's tokenizer.
#include "text/wordpiece.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "text/train_vocabulary.h"
#include "text/unicode.h"

#include <doctest/doctest.h>

using namespace alg;

namespace {

const std::vector<std::string> kTokens = {"[PAD]", "[UNK]",  "[CLS]", "[SEP]",  "[MASK]", "un",
                                          "##aff", "##able", "run",   "##ning", ",",      "中",
                                          "文",    "e",      "##e",   "[",      "]",      "cafe"};

std::vector<std::string> tokens(const WordPiece& tokenizer, std::string_view text) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    std::vector<std::string> result;
    for (const std::int32_t id : ids) result.push_back(tokenizer.vocabulary().token(id));
    return result;
}
using Tokens = std::vector<std::string>;

}  // namespace

TEST_CASE("words are cut into the longest pieces there are") {
    const WordPiece t{Vocabulary(kTokens)};
    CHECK(tokens(t, "unaffable running") == Tokens{"un", "##aff", "##able", "run", "##ning"});
    CHECK(tokens(t, "unaffablex un") == Tokens{"[UNK]", "un"});
    CHECK(tokens(t, "").empty());
    CHECK(tokens(t, " \t\n\xC2\xA0\xE3\x80\x80").empty());
}

TEST_CASE("punctuation and Chinese characters are words of their own") {
    const WordPiece t{Vocabulary(kTokens)};
    CHECK(tokens(t, "un,run中文e") == Tokens{"un", ",", "run", "中", "文", "e"});
    CHECK(tokens(WordPiece(Vocabulary(kTokens), {.split_chinese = false}), "中文") ==
          Tokens{"[UNK]"});
}

TEST_CASE("lower case loses accents too") {
    CHECK(tokens(WordPiece(Vocabulary(kTokens)), "CAFÉ Ée\xCC\x81") == Tokens{"cafe", "e", "##e"});
    CHECK(tokens(WordPiece(Vocabulary(kTokens), {.lower_case = false}), "cafe CAFE É") ==
          Tokens{"cafe", "[UNK]", "[UNK]"});
}

TEST_CASE("controls and invalid bytes vanish") {
    const WordPiece t{Vocabulary(kTokens)};
    CHECK(tokens(t, std::string_view("r\0u\x01n \xFF\xC3(", 9)) == Tokens{"run", "[UNK]"});
    CHECK(tokens(t, "r\xE2\x80\x8Bun") == Tokens{"run"});
}

TEST_CASE("words of more than a hundred characters are unknown") {
    const WordPiece t{Vocabulary(kTokens)};
    CHECK(tokens(t, std::string(100, 'e')).size() == 100);
    CHECK(tokens(t, std::string(101, 'e')) == Tokens{"[UNK]"});
    CHECK(tokens(t, std::string(100'000, 'e') + " un") == Tokens{"[UNK]", "un"});
    CHECK_THROWS_AS(WordPiece(Vocabulary(kTokens), {.longest_word = 251}), Failure);
}

TEST_CASE("special tokens in a text are those tokens") {
    const WordPiece t{Vocabulary(kTokens)};
    CHECK(tokens(t, "un[SEP]run [MASK]] [sep") ==
          Tokens{"un", "[SEP]", "run", "[MASK]", "]", "[", "[UNK]"});
}

TEST_CASE("pairs are cut where they are longest") {
    const WordPiece t{Vocabulary(kTokens)};
    using Ids = std::vector<std::int32_t>;
    const auto one = t.encode_pair("un un un", "", false, 4);
    CHECK(one.ids == Ids{2, 5, 5, 3});
    CHECK(one.second == 4);
    const auto two = t.encode_pair("un un un un", "run", true, 6);
    CHECK(two.ids == Ids{2, 5, 5, 3, 8, 3});
    CHECK(two.second == 4);
    CHECK(t.encode_pair("un un un un", "run run run", true, 6).ids == Ids{2, 5, 5, 3, 8, 3});
    CHECK(t.encode_pair("un un un", "run run run run", true, 6).ids == Ids{2, 5, 3, 8, 8, 3});
    CHECK(t.encode_pair("", "", true, 3).ids == Ids{2, 3, 3});
    CHECK_THROWS_AS(t.encode_pair("", "", true, 2), Failure);
}

TEST_CASE("a tokenizer needs its special tokens") {
    CHECK_THROWS_WITH_AS(WordPiece(Vocabulary({"[UNK]", "[CLS]"})), doctest::Contains("[SEP]"),
                         Failure);
}

TEST_CASE("invalid UTF-8 is told from valid") {
    CHECK(is_utf8("中é\xEF\xBF\xBD"));
    CHECK_FALSE(is_utf8("\xC0\xAF"));
    CHECK_FALSE(is_utf8("\xED\xA0\x80"));
    CHECK_FALSE(is_utf8("\xF4\x90\x80\x80"));
    CHECK_FALSE(is_utf8("\xE4\xB8"));
}

TEST_CASE("a trained vocabulary has characters and frequent joins") {
    VocabularyTrainer trainer({.size = 16, .min_frequency = 2});
    for (int i = 0; i < 10; ++i) trainer.add("low lower lowest");
    trainer.add("Ünique 中 中");
    const Vocabulary v = trainer.train();
    CHECK(v.size() == 16);
    CHECK(v.id("[PAD]") == 0);
    CHECK(v.id("[MASK]") == 4);
    CHECK(v.id("l") >= 5);
    CHECK(v.id("中") >= 5);
    CHECK(v.id("low") >= 5);
    CHECK(v.id("u") == -1);
    CHECK(tokens(WordPiece(v), "low") == Tokens{"low"});

    VocabularyTrainer again({.size = 16, .min_frequency = 2});
    again.add("Ünique 中 中");
    for (int i = 0; i < 10; ++i) again.add("lowest lower low");
    for (std::int32_t i = 0; i < v.size(); ++i) CHECK(again.train().token(i) == v.token(i));
    CHECK_THROWS_AS(VocabularyTrainer({}).train(), Failure);
}
