// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/sample_line.h"

#include <doctest/doctest.h>

using namespace alg;

namespace {

std::string problem(std::string_view line, SampleLimits limits = {}) {
    SampleFields fields;
    const auto bad = parse_sample(line, limits, fields);
    return bad ? bad->kind + ": " + bad->what : "";
}

}  // namespace

TEST_CASE("a line of the demo set is read") {
    SampleFields fields;
    CHECK_FALSE(
        parse_sample("1 1490 17 2 4 2;0 0 0 0 1 1;0 1 2 3 4 5;-1 0 1 -1 0 -1;1", {}, fields));
    CHECK(fields.tokens == std::vector<std::int32_t>{1, 1490, 17, 2, 4, 2});
    CHECK(fields.types == std::vector<std::int32_t>{0, 0, 0, 0, 1, 1});
    CHECK(fields.words == std::vector<std::int8_t>{-1, 0, 1, -1, 0, -1});
    CHECK(fields.follows);
    CHECK(fields.counted);
}

TEST_CASE("further spaces do not matter, positions of another order are seen") {
    SampleFields fields;
    CHECK_FALSE(parse_sample(" 1  2 ; 0 0 ;0 7; -1 -1 ; 0 ", {}, fields));
    CHECK_FALSE(fields.counted);
    CHECK_FALSE(fields.follows);
    CHECK(fields.positions == std::vector<std::int32_t>{0, 7});
}

TEST_CASE("what is wrong with a line is said with its numbers") {
    CHECK(problem("1 2;0 0;0 1;-1 -1") == "not five fields: 4 fields, 5 expected");
    CHECK(problem("1 2;0 0;0 1;-1 -1;0;0") == "not five fields: 6 fields, 5 expected");
    CHECK(problem("") == "not five fields: 1 fields, 5 expected");
    CHECK(problem("1 2;0 0;0;-1 -1;0") ==
          "fields of unequal length: 2 tokens, 2 sentence ids, 1 positions, 2 word labels");
    CHECK(problem(";;;;0") == "no tokens: the line has no tokens");
    CHECK(problem("1 x;0 0;0 1;-1 -1;0") == "not a number: byte 2 is no integer");
    CHECK(problem("1 2.5;0 0;0 1;-1 -1;0") == "not a number: byte 3 is no integer");
    CHECK(problem("1 -;0 0;0 1;-1 -1;0") == "not a number: byte 3 is no integer");
    CHECK(problem("1 18000;0 0;0 1;-1 -1;0") ==
          "id beyond the vocabulary: token id 18000 at place 1 is not in 0..17999; is it the "
          "vocabulary of these files?");
    CHECK(problem("1 -3;0 0;0 1;-1 -1;0").starts_with("id beyond the vocabulary: token id -3"));
    CHECK(
        problem("1 99999999999999999999;0 0;0 1;-1 -1;0").starts_with("id beyond the vocabulary"));
    CHECK(problem("1 2;0 2;0 1;-1 -1;0") ==
          "wrong sentence id: sentence id 2 at place 1 is not in 0..1");
    CHECK(problem("1 2;0 0;0 600;-1 -1;0").starts_with("wrong position: position 600 at place 1"));
    CHECK(problem("1 2;0 0;0 1;-1 2;0") ==
          "wrong word label: word label 2 at place 1 is not in -1..1");
    CHECK(problem("1 2;0 0;0 1;-1 -1;2") ==
          "wrong next-sentence label: next_sentence_label 2 is neither 0 nor 1");
    CHECK(problem("1 2;0 0;0 1;-1 -1;") == "wrong next-sentence label: 0 next_sentence_labels");
    CHECK(problem("1 2 3;0 0 0;0 1 2;-1 0 -1;0", {.longest = 2}) ==
          "longer than max_seq_len: 3 tokens, max_seq_len is 2");
}
