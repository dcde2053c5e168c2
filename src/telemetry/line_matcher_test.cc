// SPDX-License-Identifier: Apache-2.0
#include "telemetry/literal.h"
#include "telemetry/literal_scan.h"
#include "telemetry/telemetry.h"

#include <doctest/doctest.h>
#include <re2/re2.h>
#include <algorithm>
#include <random>

namespace ty::telemetry {
namespace {

using Found = std::vector<std::pair<std::size_t, double>>;

Found match(const std::vector<std::string>& regexes, std::string_view line) {
    std::vector<MetricDefinition> definitions;
    for (const std::string& regex : regexes) definitions.push_back({"m", regex});
    Found found;
    LineMatcher(definitions).match(line, [&](std::size_t id, double value) {
        found.emplace_back(id, value);
    });
    std::ranges::sort(found);
    return found;
}

TEST_CASE("the first group of each definition's last match is the value") {
    CHECK(match({R"(Train Loss: ([0-9\.]+))"}, "epoch 3 Train Loss: 0.25 Train Loss: 0.125") ==
          Found{{0, 0.125}});
    CHECK(match({R"(loss: ([0-9.]+), acc: ([0-9.]+))", R"(acc: ([0-9.]+))"},
                "loss: 1.5, acc: 0.75") == Found{{0, 1.5}, {1, 0.75}});
    CHECK(match({R"(current learning_rate:([0-9\.]+e?-?[0-9]*))"},
                "current learning_rate:5e-05 x") == Found{{0, 5e-05}});
    CHECK(match({R"(loss=(?P<value>-?\d+))"}, "loss=-7") == Found{{0, -7}});
    CHECK(match({"a(b)?c([0-9])"}, "ac1").empty());
    CHECK(match({R"((\d+)$)"}, "step 1 of 20") == Found{{0, 20}});
    CHECK(match({R"(^loss (\S+))"}, "no loss 3").empty());
    CHECK(match({"(?i)LOSS: ([0-9.]+)"}, "Loss: 4") == Found{{0, 4}});
    CHECK(match({"loss: ([0-9.]+)|error: ([0-9.]+)"}, "loss: 4") == Found{{0, 4}});
}

TEST_CASE("what is not a finite number makes no point") {
    CHECK(match({R"(loss: (\S+))"}, "loss: nan").empty());
    CHECK(match({R"(loss: (\S+))"}, "loss: inf").empty());
    CHECK(match({R"(loss: (\S+))"}, "loss: 1e999").empty());
    CHECK(match({R"(loss: (\S+))"}, "loss: 1.2.3").empty());
    CHECK(match({R"(loss: ([0-9.]+))"}, "The loss: 0.5.") == Found{{0, 0.5}});
    CHECK(match({R"(loss: (\S+))"}, "loss: 0.5, acc") == Found{{0, 0.5}});
    CHECK(match({R"(loss: (\S+))"}, "loss: 0.5 loss: nan") == Found{{0, 0.5}});
}

TEST_CASE("bad definitions are refused with name, regex, reason and remedy") {
    const auto message = [](const MetricDefinition& definition) -> std::string {
        try {
            check_definition(definition);
        } catch (const Error& error) {
            CHECK(error.code() == Code::invalid);
            return error.message();
        }
        return {};
    };
    for (const std::string& regex :
         {std::string("(?<=loss: )([0-9.]+)"), std::string("(?!x)(a)"), std::string(R"((a)\1)"),
          std::string("loss: ([0-9"), std::string("*a(b)"), std::string("loss: [0-9]+"),
          std::string("((a{900}){900})"), std::string("(\xff)")}) {
        const std::string text = message({"train:loss", regex});
        CAPTURE(regex);
        CHECK(text.find("'train:loss'") != std::string::npos);
        CHECK(text.find(regex) != std::string::npos);
        CHECK(text.find(';') != std::string::npos);
    }
    CHECK(message({"", "(a)"}).find("no name") != std::string::npos);
    CHECK(message({"m", ""}).find("no regex") != std::string::npos);
    CHECK(message({"m", "loss: (?P<v>[0-9.]+)"}).empty());
}

TEST_CASE("the required literal is certain, or not claimed") {
    const auto text = [](std::string_view regex) { return required_literal(regex).text; };
    CHECK(text("Train Loss: ([0-9.]+)") == "Train Loss: ");
    CHECK(required_literal("Train Loss: ([0-9.]+)").place == Literal::Place::start);
    CHECK(text(R"(\[metric\] ([0-9.]+))") == "[metric] ");
    CHECK(text("x*loss=([0-9]+)") == "loss=");
    CHECK(required_literal("x*loss=([0-9]+)").place == Literal::Place::anywhere);
    CHECK(text("losses?=([0-9]+)") == "losse");
    CHECK(text("a|b(c)").empty());
    CHECK(text("(?i)loss: (.)").empty());
    CHECK(text("(loss): ([0-9]+)") == ": ");
    CHECK(text("ab{2}c([0-9])") == "a");
    CHECK(text("a\xc3\xa9?(b)") == "a");
    CHECK(text(R"(\Qa.b\E(c))").empty());
    CHECK(text("ab+c(d)") == "ab");
}

/// What plain RE2 finds, line by line.
Found reference(const std::vector<std::string>& regexes, const std::string& line) {
    Found found;
    for (std::size_t id = 0; id < regexes.size(); ++id) {
        const RE2 regex(regexes[id]);
        re2::StringPiece rest(line);
        std::string group;
        double last = 0;
        bool any = false;
        while (RE2::FindAndConsume(&rest, regex, &group))
            if (!group.empty() && group.find_first_not_of("0123456789.") == std::string::npos &&
                std::count(group.begin(), group.end(), '.') <= 1 && group != ".") {
                any = true;
                last = std::stod(group);
            }
        if (any) found.emplace_back(id, last);
    }
    return found;
}

TEST_CASE("blocks and lines give what the plain engine gives, on random text") {
    const std::vector<std::string> regexes = {
        "loss: ([0-9.]+)",    "s: ([0-9]+)",        "ab?a([0-9])",    "a+ ([0-9.]+)",
        "(a)?b([0-9])",       "(?:ab)+([0-9])",     "[ab]s([0-9])",   "a([0-9])a",
        "lo.s: ([0-9]+) ",    "l([0-9])",           "a([0-9]*)[b2]",  "loss: ([^ ]*[0-9]) ?(s)",
        R"(b(\d+\.?\d*)a*b)", R"(l\S*s: ([\d.]+))", "ab([0-9a]+)a1?", R"(s([\w. ]*)[^a-l])"};
    std::vector<MetricDefinition> definitions;
    for (const std::string& regex : regexes) definitions.push_back({"m", regex});
    for (const std::size_t count : {regexes.size(), std::size_t(2), std::size_t(10)}) {
        const LineMatcher matcher{std::span<const MetricDefinition>(definitions).first(count)};
        std::mt19937 random(1);
        const std::vector<std::string> pieces = {"loss: ",
                                                 "s: ",
                                                 "a",
                                                 "b",
                                                 "ab",
                                                 "1",
                                                 "2.5",
                                                 " ",
                                                 "l",
                                                 "loss",
                                                 "9 ",
                                                 "\n",
                                                 "xyzxyzxyzxyzxyzxyz",
                                                 "\xc3\xa9"};
        std::string text;
        std::vector<std::string> lines;
        LogBlock block;
        for (int n = 0; n < 3000; ++n) {
            std::string line;
            for (auto k = random() % 12; k > 0; --k) line += pieces[random() % pieces.size()];
            block.lines.push_back({.time = {},
                                   .offset = std::uint32_t(text.size()),
                                   .length = std::uint32_t(line.size())});
            text += line + "\n";
            lines.push_back(line);
        }
        block.text = text;
        std::vector<Found> by_block(lines.size());
        matcher.match_block(block, [&](std::size_t line, std::size_t id, double value) {
            by_block[line].emplace_back(id, value);
        });
        for (std::size_t n = 0; n < lines.size(); ++n) {
            std::ranges::sort(by_block[n]);
            const Found wanted =
                reference({regexes.begin(), regexes.begin() + std::ptrdiff_t(count)}, lines[n]);
            CAPTURE(lines[n]);
            REQUIRE(by_block[n] == wanted);
            Found by_line;
            matcher.match(lines[n],
                          [&](std::size_t id, double value) { by_line.emplace_back(id, value); });
            std::ranges::sort(by_line);
            REQUIRE(by_line == wanted);
        }
    }
}

TEST_CASE("both ways of scanning find every occurrence, at every alignment") {
    const std::vector<std::string> literals = {"loss: ",         "a", "ab", "loss", "zz",
                                               "learning_rate:", "b", "=",  "ab",   "q"};
    const LiteralScan best(literals);
    const LiteralScan portable(literals, LiteralScan::Speed::portable);
    std::mt19937 random(2);
    for (int n = 0; n < 300; ++n) {
        std::string text;
        for (auto k = random() % 200; k > 0; --k) text += "abz los:=q"[random() % 10];
        for (const std::string& literal : literals)
            text.insert(random() % (text.size() + 1), literal);
        std::vector<std::pair<std::uint32_t, std::uint32_t>> wanted, got;
        for (std::uint32_t id = 0; id < literals.size(); ++id)
            for (std::size_t at = text.find(literals[id]); at != std::string::npos;
                 at = text.find(literals[id], at + 1))
                wanted.emplace_back(id, std::uint32_t(at));
        for (const LiteralScan* scan : {&best, &portable}) {
            std::vector<LiteralScan::Hit> hits;
            scan->find(text, hits);
            got.clear();
            for (const auto& hit : hits) got.emplace_back(hit.literal, hit.offset);
            std::ranges::sort(got);
            REQUIRE(got == wanted);
        }
    }
}

}  // namespace
}  // namespace ty::telemetry
