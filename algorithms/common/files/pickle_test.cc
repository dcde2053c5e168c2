// SPDX-License-Identifier: Apache-2.0
#include "common/files/pickle.h"
#include "common/base/error.h"
#include "common/base/utf8.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace alg;
using Kind = PickleNode::Kind;
using namespace std::string_literals;

namespace {

std::string problem(const std::string& content) {
    try {
        parse_pickle(as_bytes(content), "p");
    } catch (const Failure& failure) {
        return failure.what();
    }
    return {};
}

bool refused(const std::string& content, const std::string& words) {
    const std::string said = problem(content);
    const bool found = said.find(words) != std::string::npos;
    if (!found) MESSAGE("said: " << said);
    return found;
}

/// A pickle whose dictionary holds one tensor.
std::string with_tensor(TensorRef tensor, std::int64_t elements) {
    PickleWriter writer;
    writer.empty_dictionary();
    writer.mark();
    writer.text("w");
    writer.tensor(tensor, "0", elements);
    writer.set_marked();
    return writer.finish();
}

const std::string kStart = "\x80\x02";

}  // namespace

TEST_CASE("what the writer says is what the interpreter reads") {
    PickleWriter writer;
    writer.empty_list();
    writer.mark();
    const std::vector<std::int64_t> integers{0,         255,       256,      -1, -(1LL << 31),
                                             1LL << 31, INT64_MIN, INT64_MAX};
    for (const std::int64_t value : integers) writer.integer(value);
    writer.number(-0.1);
    writer.number(INFINITY);
    writer.text("Größe 中文");
    writer.none();
    writer.boolean(true);
    writer.boolean(false);
    writer.append_marked();
    const std::string content = writer.finish();
    const Pickle pickle = parse_pickle(as_bytes(content), "p");
    const auto& items = pickle.children(pickle.top());
    REQUIRE(items.size() == integers.size() + 6);
    for (std::size_t i = 0; i < integers.size(); ++i)
        CHECK(pickle[items[i]].integer == integers[i]);
    CHECK(pickle[items[8]].number == -0.1);
    CHECK(std::isinf(pickle[items[9]].number));
    CHECK(pickle[items[10]].text == "Größe 中文");
    CHECK(pickle[items[11]].kind == Kind::none);
    CHECK(pickle[items[12]].integer == 1);
    CHECK(pickle[items[13]].integer == 0);
    CHECK(pickle.end == content.size());
}

TEST_CASE("a tensor is a reference to a part of a storage") {
    const std::string content =
        with_tensor({.element = Element::bf16, .offset = 2, .sizes = {2, 3}, .strides = {3, 1}}, 8);
    const Pickle pickle = parse_pickle(as_bytes(content), "p");
    REQUIRE(pickle.tensors.size() == 1);
    CHECK(pickle.tensors[0].sizes == std::vector<std::int64_t>{2, 3});
    CHECK(pickle.tensors[0].offset == 2);
    CHECK(pickle.tensors[0].element == Element::bf16);
    CHECK(pickle.storages.at(0).bytes == 16);
}

TEST_CASE("a tensor beyond its storage is refused, whatever overflows") {
    const auto check = [](std::int64_t offset, std::vector<std::int64_t> sizes,
                          std::vector<std::int64_t> strides) {
        return refused(with_tensor({.offset = offset, .sizes = sizes, .strides = strides}, 8),
                       "beyond its storage");
    };
    CHECK(check(3, {2, 3}, {3, 1}));
    CHECK(check(9, {0}, {1}));
    CHECK(check(8, {}, {}));
    CHECK(check(INT64_MAX, {2}, {1}));
    CHECK(check(0, {INT64_MAX, INT64_MAX}, {0, 0}));
    CHECK(check(0, {INT64_MAX}, {INT64_MAX}));
    CHECK(check(0, {2}, {INT64_MAX}));
    CHECK(problem(with_tensor({.offset = 7, .sizes = {}, .strides = {}}, 8)).empty());
    CHECK(problem(with_tensor({.offset = 8, .sizes = {0, 3, 2}, .strides = {6, 2, 1}}, 8)).empty());
    CHECK(problem(with_tensor({.sizes = {0}, .strides = {1}}, 0)).empty());
}

TEST_CASE("storages too large to address, or of two sizes, are refused") {
    CHECK(refused(with_tensor({.element = Element::f64}, INT64_MAX), "a storage of"));
    const std::string one =
        "((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
        "0Nf"s;
    const std::string id =
        "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
        "0X\x03\0\0\0cpuK"s;
    CHECK(refused(kStart + "(" + id + "\x04tQ" + id + "\x05tQt.", "two sizes"));
}

TEST_CASE("names that are not on the list are refused by name, before anything is called") {
    CHECK(refused(kStart + "cposix\nsystem\nX\x02\0\0\0ls\x85R."s,
                  "\"posix.system\" is not allowed"));
    CHECK(refused(kStart + "X\x08\0\0\0builtinsX\x04\0\0\0eval\x93."s, "\"builtins.eval\""));
    CHECK(refused(kStart + "ctorch\nload\n.", "\"torch.load\""));
    CHECK(refused(kStart + "ccollections\nOrderedDict\n)\x81.", "NEWOBJ"));
}

TEST_CASE("opcodes that are not needed are refused by name and offset") {
    CHECK(refused(kStart + "S'a'\n.", "opcode STRING is not allowed (at byte 2)"));
    CHECK(refused(kStart + "\xfe.", "0xfe is no opcode"));
    CHECK(refused("\x80\x09.", "protocol 9"));
    CHECK(refused(kStart + "B\x01\0\0\0x."s, "BINBYTES"));
}

TEST_CASE("objects that contain themselves are refused") {
    CHECK(refused(kStart + "]q\x01h\x01"
                           "a.",
                  "contains itself"));
    CHECK(refused(kStart + "}q\x01X\x01\0\0\0kh\x01s."s, "contains itself"));
    CHECK(refused(kStart + "]q\x01(h\x01t"
                           "a.",
                  "contains itself"));
}

TEST_CASE("objects that share parts more than exponentially often are refused quickly") {
    std::string content = kStart + "]X\x01\0\0\0xa"s;
    for (int i = 0; i < 60; ++i) content += "q\x01h\x01h\x01\x87";
    CHECK(refused(content + ".", "share so many parts"));
    std::string doubling = kStart + "]";
    for (int i = 0; i < 60; ++i) doubling += "2\x86";
    CHECK(refused(doubling + ".", "share so many parts"));
}

TEST_CASE("deep nesting is refused without deep recursion") {
    std::string content = kStart + "]";
    for (int i = 0; i < 1'000'000; ++i) content += "\x85";
    CHECK(refused(content + ".", "deep"));
    CHECK(refused(kStart + std::string(100'000, '(') + ".", "too deep"));
}

TEST_CASE("a dictionary needs pairs, and keys that are text or integers") {
    CHECK(refused(kStart + "}(X\x01\0\0\0ku."s, "without a value"));
    CHECK(refused(kStart + "})Ns.", "a tuple as key"));
    CHECK(refused(kStart + "](K\x01K\x02u.", "no dict"));
    CHECK(problem(kStart + "}K\x01Ns.").empty());
}

TEST_CASE("attributes of an ordered dictionary are passed over, of others refused") {
    CHECK(problem(kStart + "ccollections\nOrderedDict\n)R}X\x01\0\0\0kNsb."s).empty());
    CHECK(refused(kStart + "K\x01}b.", "attributes for a int"));
}

TEST_CASE("every way to run out of stack, mark, memo or bytes is refused") {
    for (const char* content : {"",
                                ".",
                                "0.",
                                "1.",
                                "2.",
                                "t.",
                                "a.",
                                "]a.",
                                "e.",
                                "]e.",
                                "s.",
                                "u.",
                                "q\x01.",
                                "h\x07.",
                                "R.",
                                "NR.",
                                "Q.",
                                "b.",
                                "\x93.",
                                "\x85.",
                                "\x87.",
                                "NN.",
                                "(N.",
                                "(0.",
                                "N(q\x01.",
                                "X\xff\xff\xff\xff.",
                                "\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
                                "K",
                                "J\x01",
                                "G\x01",
                                "ctorch",
                                "ctorch\nSize",
                                "\x8b\xff\xff\xff\xff."})
        CHECK_FALSE(problem(kStart + content).empty());
    CHECK_FALSE(problem("").empty());
}

TEST_CASE("text must be UTF-8") {
    CHECK(is_utf8("aä中\U0001f600"));
    for (const char* bad : {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\xe4\xb8"})
        CHECK_FALSE(is_utf8(bad));
    CHECK(refused(kStart + "X\x01\0\0\0\xff."s, "not UTF-8"));
    CHECK_THROWS_AS(PickleWriter().text("\xff"), Failure);
}
