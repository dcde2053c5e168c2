// SPDX-License-Identifier: Apache-2.0
#include "common/files/safetensors_header.h"
#include "common/base/error.h"

#include <doctest/doctest.h>

using namespace alg;

namespace {

std::string file(const std::string& header, std::size_t data) {
    std::string content;
    for (int i = 0; i < 8; ++i) content += static_cast<char>(header.size() >> (8 * i) & 0xff);
    return content + header + std::string(data, '\1');
}

std::string problem(const std::string& content) {
    try {
        parse_safetensors_header(as_bytes(content), "f");
    } catch (const Failure& failure) {
        return failure.what();
    }
    return {};
}

bool refused(const std::string& header, std::size_t data, const std::string& words) {
    const std::string said = problem(file(header, data));
    const bool found = said.find(words) != std::string::npos;
    if (!found) MESSAGE("said: " << said);
    return found;
}

const std::string kA = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

}  // namespace

TEST_CASE("entries and metadata are read in the header's order") {
    const std::string content = file(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I8","shape":[],"data_offsets":[8,9]},)" +
            kA + R"(,"c":{"dtype":"BOOL","shape":[0,4],"data_offsets":[9,9]}}   )",
        9);
    const SafetensorsHeader header = parse_safetensors_header(as_bytes(content), "f");
    REQUIRE(header.entries.size() == 3);
    CHECK(header.metadata.at("format") == "pt");
    CHECK(header.entries[0].name == "b");
    CHECK(header.entries[0].shape.empty());
    CHECK(header.entries[1].element == Element::f32);
    CHECK(header.entries[1].shape == std::vector<std::int64_t>{2});
    CHECK(header.data + 9 == content.size());
}

TEST_CASE("the layout is aligned and reads back in the order given") {
    std::vector<SafetensorsEntry> entries{
        {.name = "flag", .element = Element::boolean, .shape = {3}},
        {.name = "w\"ö", .element = Element::f32, .shape = {2, 2}},
        {.name = "h", .element = Element::bf16, .shape = {}},
        {.name = "i", .element = Element::i64, .shape = {1}},
        {.name = "none", .element = Element::f64, .shape = {0}}};
    const SafetensorsLayout layout = lay_out_safetensors(entries, {{"format", "pt"}});
    CHECK(layout.head.size() % 8 == 0);
    const std::string content = layout.head + std::string(8 + 16 + 2 + 3, '\1');
    const SafetensorsHeader header = parse_safetensors_header(as_bytes(content), "f");
    REQUIRE(header.entries.size() == entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        CHECK(header.entries[i].name == entries[i].name);
        CHECK(header.entries[i].shape == entries[i].shape);
        CHECK(header.entries[i].begin % names_of(entries[i].element).size == 0);
    }
}

TEST_CASE("offsets that overlap, leave gaps or leave the file are refused") {
    const auto second = [](const char* offsets) {
        return "{" + kA + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets + "}}";
    };
    CHECK(problem(file(second("[8,12]"), 12)).empty());
    CHECK(refused(second("[4,8]"), 12, "before another tensor's end"));
    CHECK(refused(second("[9,13]"), 13, "leaving a gap"));
    CHECK(refused(second("[8,12]"), 11, "where its tensors need"));
    CHECK(refused(second("[8,12]"), 13, "where its tensors need"));
    CHECK(refused(second("[8,16]"), 16, "do not fit its shape"));
    CHECK(refused(second("[12,8]"), 12, "do not fit its shape"));
    CHECK(refused(second("[18446744073709551612,0]"), 12, "beyond all sizes"));
}

TEST_CASE("shapes whose size overflows are refused") {
    CHECK(refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                  0, "do not fit its shape"));
    CHECK(
        problem(
            file(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})",
                 0))
            .empty());
}

TEST_CASE("a header that is no header is refused") {
    CHECK(refused("{" + kA + "," + kA + "}", 8, "\"a\" occurs twice"));
    CHECK(refused(R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4,
                  "occurs twice"));
    CHECK(refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "occurs twice"));
    CHECK(refused(R"({"a":{"dtype":"Q4","shape":[],"data_offsets":[0,4]}})", 4,
                  "type Q4 is not read"));
    CHECK(refused(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 4, "two offsets"));
    CHECK(
        refused(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4,4]}})", 4, "more than two"));
    CHECK(refused(R"({"a":{"dtype":"F32","shape":[]}})", 0, "lacks"));
    CHECK(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "unexpected"));
    CHECK(refused(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4, "unexpected"));
    CHECK(refused(R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4, "unexpected"));
    CHECK(refused(R"({"a":7})", 4, "unexpected"));
    CHECK(refused(R"({"a":[]})", 4, "unexpected"));
    CHECK(refused(R"({"a":{"x":{}}})", 4, "unexpected"));
    CHECK(refused("{", 0, "no JSON"));
    CHECK(refused("[]", 0, "no object"));
    CHECK(refused("", 0, "no object"));
    CHECK(refused("{" + std::string(200'000, '['), 0, ""));
    CHECK_FALSE(problem("").empty());
    CHECK_FALSE(problem("\x7f").empty());
    CHECK(problem(std::string(8, '\xff') + "{}").find("longer than the file") != std::string::npos);
}

TEST_CASE("two tensors of one name are not written") {
    std::vector<SafetensorsEntry> twice{{.name = "a"}, {.name = "a"}};
    CHECK_THROWS_AS(lay_out_safetensors(twice, {}), Failure);
    std::vector<SafetensorsEntry> reserved{{.name = "__metadata__"}};
    CHECK_THROWS_AS(lay_out_safetensors(reserved, {{"format", "pt"}}), Failure);
}
