// SPDX-License-Identifier: Apache-2.0
#include "base/shape.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace ty;
using shape::Kind;
using shape::Type;

namespace {

struct Pair {
    std::optional<std::string> key, value;
    static const Type kShape;
};
struct Order {
    std::optional<std::string> order_name, color;
    std::optional<std::int64_t> count, weight;
    std::optional<double> price;
    std::optional<bool> urgent;
    std::optional<Instant> due;
    std::optional<std::vector<std::string>> notes;
    std::optional<std::vector<Pair>> pairs;
    std::optional<shape::Entries<std::string>> settings;
    std::optional<std::vector<Order>> parts;
    static const Type kShape;
};

bool no_blanks(std::string_view text) {
    return text.find(' ') == text.npos;
}
constexpr shape::Pattern kNoBlanks = {"\\S*", no_blanks};
constexpr std::string_view kColors[] = {"red", "green"};
constexpr Type kText = {.kind = Kind::string, .name = "Text"};
constexpr Type kWord = {
    .kind = Kind::string, .name = "Word", .min = 1, .max = 4, .pattern = &kNoBlanks};
constexpr Type kColor = {.kind = Kind::string, .name = "Color", .values = kColors};
constexpr Type kCount = {.kind = Kind::integer, .name = "Count", .min = 1, .max = 10};
constexpr Type kWeight = {.kind = Kind::integer, .name = "Weight", .wide = true};
constexpr Type kPrice = {.kind = Kind::number, .name = "Price", .min = 0};
constexpr Type kFlag = {.kind = Kind::boolean, .name = "Flag"};
constexpr Type kTime = {.kind = Kind::timestamp, .name = "Time"};
constexpr Type kNotes = {.kind = Kind::list,
                         .name = "Notes",
                         .max = 2,
                         .element = &kWord,
                         .access = &shape::kListOf<std::string>};
const Type kPairs = {
    .kind = Kind::list, .name = "Pairs", .element = &Pair::kShape, .access = &shape::kListOf<Pair>};
constexpr Type kSettings = {.kind = Kind::map,
                            .name = "Settings",
                            .key = &kWord,
                            .element = &kWord,
                            .access = &shape::kMapOf<std::string>};
const Type kParts = {.kind = Kind::list,
                     .name = "Parts",
                     .element = &Order::kShape,
                     .access = &shape::kListOf<Order>};
const shape::Field kPairFields[] = {shape::field<&Pair::key>("Key", kWord, true),
                                    shape::field<&Pair::value>("Value", kText, true)};
const Type Pair::kShape = {.kind = Kind::structure, .name = "Pair", .fields = kPairFields};
const shape::Field kOrderFields[] = {
    shape::field<&Order::order_name>("OrderName", kWord, true),
    shape::field<&Order::color>("Color", kColor),
    shape::field<&Order::count>("Count", kCount),
    shape::field<&Order::weight>("Weight", kWeight),
    shape::field<&Order::price>("Price", kPrice),
    shape::field<&Order::urgent>("Urgent", kFlag),
    shape::field<&Order::due>("Due", kTime),
    shape::field<&Order::notes>("Notes", kNotes),
    shape::field<&Order::pairs>("Pairs", kPairs),
    shape::field<&Order::settings>("Settings", kSettings),
    shape::field<&Order::parts>("Parts", kParts),
};
const Type Order::kShape = {.kind = Kind::structure, .name = "Order", .fields = kOrderFields};

std::vector<std::string> messages(std::string_view json) {
    std::vector<std::string> texts;
    for (const Problem& problem : shape::check(shape::read<Order>(parse_json(json))))
        texts.push_back(problem.message);
    return texts;
}

std::string refusal(std::string_view json) {
    try {
        shape::read<Order>(parse_json(json));
    } catch (const Error& error) {
        CHECK(error.code() == Code::invalid);
        CHECK(error.reason() == "SerializationException");
        return error.message();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("a document survives reading and writing in its own order of keys") {
    const auto json = parse_json(R"({"OrderName":"ab","Count":3,"Weight":5000000000,"Price":0.1,
        "Urgent":false,"Due":1762116564.123,"Notes":["x"],"Pairs":[{"Key":"k","Value":""}],
        "Settings":{"z":"1","a":"2"},"Parts":[{"OrderName":"cd"}]})");
    const Order order = shape::read<Order>(json);
    CHECK(to_epoch_millis(*order.due) == 1762116564123);
    CHECK(order.settings->front().first == "z");
    CHECK(dump_json(shape::write(order)) == dump_json(json));
}

TEST_CASE("null members are absent and unknown members are listed, not refused") {
    std::vector<std::string> unknown;
    const auto order = shape::read<Order>(
        parse_json(R"({"OrderName":"ab","Color":null,"Shade":1,"Pairs":[{"Key":"k","Lock":{}}]})"),
        &unknown);
    CHECK_FALSE(order.color.has_value());
    CHECK(unknown == std::vector<std::string>{"shade", "pairs.1.member.lock"});
}

TEST_CASE("a wrong JSON type is refused by the name of the member") {
    CHECK(refusal("[]") == "the request must be an object, not a list");
    CHECK(refusal(R"({"Count":"3"})") == "'count' must be a whole number, not a string");
    CHECK(refusal(R"({"Count":2.5})") == "'count' must be a whole number of 32 bits, not 2.5");
    CHECK(refusal(R"({"Count":2147483648})") ==
          "'count' must be a whole number of 32 bits, not 2147483648");
    CHECK(refusal(R"({"Weight":9223372036854775808})") ==
          "'weight' must be a whole number of 64 bits, not 9223372036854775808");
    CHECK(refusal(R"({"Urgent":"true"})") == "'urgent' must be true or false, not a string");
    CHECK(refusal(R"({"Notes":[1]})") == "'notes.1.member' must be a string, not a number");
    CHECK(refusal(R"({"Notes":["a",null]})") == "'notes.2.member' must be a string, not null");
    CHECK(refusal(R"({"Settings":{"a":1}})") == "'settings.a' must be a string, not a number");
    CHECK(refusal(R"({"Due":1e300})") == "'due' must be a time in epoch seconds, not a number");
    CHECK(refusal(R"({"Parts":[{"Pairs":[{"Key":7}]}]})") ==
          "'parts.1.member.pairs.1.member.key' must be a string, not a number");
    CHECK(refusal(R"({"Count":2.0})") == "accepted");
    CHECK(refusal(R"({"Due":"2026-01-31T12:00:00Z"})") == "accepted");
}

TEST_CASE("each constraint is reported in the service's words") {
    CHECK(messages("{}") ==
          std::vector<std::string>{
              "Value null at 'orderName' failed to satisfy constraint: Member must not be null"});
    CHECK(messages(R"({"OrderName":"a","Color":"blue"})") ==
          std::vector<std::string>{
              "Value 'blue' at 'color' failed to satisfy constraint: Member must "
              "satisfy enum value set: [red, green]"});
    CHECK(messages(R"({"OrderName":"a b c"})") ==
          std::vector<std::string>{
              "Value 'a b c' at 'orderName' failed to satisfy constraint: Member "
              "must have length less than or equal to 4",
              "Value 'a b c' at 'orderName' failed to satisfy constraint: Member "
              "must satisfy regular expression pattern: \\S*"});
    CHECK(messages(R"({"OrderName":"a","Count":0,"Price":-1})") ==
          std::vector<std::string>{
              "Value '0' at 'count' failed to satisfy constraint: Member must have "
              "value greater than or equal to 1",
              "Value '-1' at 'price' failed to satisfy constraint: Member must have "
              "value greater than or equal to 0"});
    CHECK(messages(R"({"OrderName":"a","Parts":[{"OrderName":"b"},{"Pairs":[{"Key":""}]}]})") ==
          std::vector<std::string>{"Value null at 'parts.2.member.orderName' failed to satisfy "
                                   "constraint: Member must not be null",
                                   "Value '' at 'parts.2.member.pairs.1.member.key' failed to "
                                   "satisfy constraint: Member must "
                                   "have length greater than or equal to 1",
                                   "Value null at 'parts.2.member.pairs.1.member.value' failed to "
                                   "satisfy constraint: Member "
                                   "must not be null"});
}

TEST_CASE("simple elements, map keys and map values are reported for the whole container") {
    const std::string rules =
        "[Member must have length less than or equal to 4, Member must have length greater than or "
        "equal to 1, Member must satisfy regular expression pattern: \\S*]";
    CHECK(messages(R"({"OrderName":"a","Notes":["ok","too long"]})") ==
          std::vector<std::string>{
              "Value '[ok, too long]' at 'notes' failed to satisfy constraint: Member must satisfy "
              "constraint: " +
              rules});
    CHECK(messages(R"({"OrderName":"a","Settings":{"key":"","longer":"x"}})") ==
          std::vector<std::string>{"Value '{key=, longer=x}' at 'settings' failed to satisfy "
                                   "constraint: Map keys must satisfy "
                                   "constraint: " +
                                       rules,
                                   "Value '{key=, longer=x}' at 'settings' failed to satisfy "
                                   "constraint: Map value must satisfy "
                                   "constraint: " +
                                       rules});
}

TEST_CASE("lengths count characters, not bytes, and long values are cut in messages") {
    CHECK(messages("{\"OrderName\":\"äöüß\"}").empty());
    const auto cut = messages("{\"OrderName\":\"" + std::string(100000, 'x') + "\"}");
    REQUIRE(cut.size() == 1);
    CHECK(cut[0].size() < 1300);
}

TEST_CASE("one sentence names all violations") {
    CHECK_NOTHROW(shape::require_none({}));
    CHECK(shape::violation_text(std::vector<Problem>{{"a", "A"}}) ==
          "1 validation error detected: A");
    try {
        shape::require_none({{"a", "A"}, {"b", "B"}});
        FAIL("did not throw");
    } catch (const Error& error) {
        CHECK(error.message() == "2 validation errors detected: A; B");
        CHECK(error.reason() == "ValidationException");
        CHECK(error.problems().size() == 2);
    }
}
