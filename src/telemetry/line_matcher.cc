// SPDX-License-Identifier: Apache-2.0
#include "telemetry/literal.h"
#include "telemetry/literal_scan.h"
#include "telemetry/quick_match.h"
#include "telemetry/telemetry.h"

#include <re2/re2.h>
#include <algorithm>
#include <charconv>
#include <cmath>

namespace ty::telemetry {
namespace {

RE2::Options options() {
    RE2::Options options;
    options.set_log_errors(false);
    return options;
}

std::string_view remedy_for(RE2::ErrorCode code) {
    switch (code) {
        case RE2::ErrorBadPerlOp:
            return "look-around, conditionals and atomic groups are not supported; describe the "
                   "text "
                   "around the number instead, as in 'loss: ([0-9.]+)'";
        case RE2::ErrorBadEscape:
            return "back-references and \\Z are not supported; write the text out, and \\z or $ "
                   "for "
                   "the end of the line";
        case RE2::ErrorMissingBracket:
        case RE2::ErrorMissingParen:
        case RE2::ErrorUnexpectedParen:
            return "close every bracket and parenthesis; \\( and \\[ stand for the characters";
        case RE2::ErrorPatternTooLarge:
        case RE2::ErrorRepeatSize:
            return "use smaller repetition counts";
        case RE2::NoError:
        case RE2::ErrorInternal:
        case RE2::ErrorBadCharClass:
        case RE2::ErrorBadCharRange:
        case RE2::ErrorTrailingBackslash:
        case RE2::ErrorRepeatArgument:
        case RE2::ErrorRepeatOp:
        case RE2::ErrorBadUTF8:
        case RE2::ErrorBadNamedCapture:
            break;
    }
    return "correct the expression";
}

/// "12" and "0.125": digits, a full stop, digits, few enough that the division is exact.
std::optional<double> plain_decimal(std::string_view text) {
    static constexpr double kPowers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                         1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    if (text.empty() || text.size() > 15 || text.front() == '.' || text.back() == '.')
        return std::nullopt;
    std::uint64_t digits = 0;
    std::size_t decimals = 0;
    bool has_stop = false;
    for (const char c : text) {
        if (c >= '0' && c <= '9') {
            digits = digits * 10 + std::uint64_t(c - '0');
            decimals += has_stop ? 1 : 0;
        } else if (c == '.' && !has_stop) {
            has_stop = true;
        } else {
            return std::nullopt;
        }
    }
    return double(digits) / kPowers[decimals];
}

/// A finite number, or nothing. A full stop or comma that a greedy class took from the sentence is
/// dropped.
std::optional<double> number_of(std::string_view text) {
    if (const auto value = plain_decimal(text)) return value;
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '+'))
        text.remove_prefix(1);
    while (!text.empty() &&
           (text.back() == ' ' || text.back() == '\t' || text.back() == '\r' || text.back() == ','))
        text.remove_suffix(1);
    const auto parse = [](std::string_view digits) -> std::optional<double> {
        double value = 0;
        const auto [end, failed] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (failed != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value))
            return std::nullopt;
        return value;
    };
    if (const auto value = parse(text)) return value;
    if (text.ends_with('.')) return parse(text.substr(0, text.size() - 1));
    return std::nullopt;
}

struct Match {
    std::size_t end = 0;
    std::optional<double> value;
};

std::optional<Match> match_at(const RE2& regex, std::string_view line, std::size_t from,
                              RE2::Anchor anchor) {
    re2::StringPiece groups[2];
    if (!regex.Match(re2::StringPiece(line.data(), line.size()), from, line.size(), anchor, groups,
                     2))
        return std::nullopt;
    const auto end = std::size_t(groups[0].data() + groups[0].size() - line.data());
    Match match{.end = groups[0].empty() ? end + 1 : end, .value = std::nullopt};
    if (groups[1].data() != nullptr) match.value = number_of({groups[1].data(), groups[1].size()});
    return match;
}

struct Definition {
    std::unique_ptr<RE2> regex;
    Literal literal;
    std::optional<QuickMatch> quick;  ///< instead of regex where it knows the answer
};

/// A match that begins exactly at `from`.
std::optional<Match> match_here(const Definition& definition, std::string_view line,
                                std::size_t from) {
    if (definition.quick) {
        const QuickMatch::Result found =
            definition.quick->match_at(line, from, definition.literal.text.size());
        switch (found.verdict) {
            case QuickMatch::Verdict::no:
                return std::nullopt;
            case QuickMatch::Verdict::yes:
                return Match{.end = found.end,
                             .value = number_of(line.substr(found.group_begin,
                                                            found.group_end - found.group_begin))};
            case QuickMatch::Verdict::unknown:
                break;
        }
    }
    return match_at(*definition.regex, line, from, RE2::ANCHOR_START);
}

}  // namespace

void check_definition(const MetricDefinition& definition) {
    if (definition.name.empty())
        throw_error(Code::invalid, "InvalidMetricDefinition",
                    "a metric definition with the regex '{}' has no name; give it one",
                    definition.regex);
    if (definition.regex.empty())
        throw_error(
            Code::invalid, "InvalidMetricDefinition",
            "metric definition '{}' has no regex; give it one with a group around the number",
            definition.name);
    const RE2 regex(definition.regex, options());
    if (!regex.ok())
        throw_error(Code::invalid, "InvalidMetricDefinition",
                    "metric definition '{}': the regex '{}' is not usable: {}: '{}'; {}",
                    definition.name, definition.regex, regex.error(), regex.error_arg(),
                    remedy_for(regex.error_code()));
    if (regex.NumberOfCapturingGroups() < 1)
        throw_error(Code::invalid, "InvalidMetricDefinition",
                    "metric definition '{}': the regex '{}' has no capture group, so it can never "
                    "yield a value; put parentheses around the number, as in 'loss: ([0-9.]+)'",
                    definition.name, definition.regex);
}

struct LineMatcher::Impl {
    std::vector<Definition> definitions;
    std::vector<std::uint32_t> scanned;    ///< definition of each literal of the scan
    std::vector<std::uint32_t> unscanned;  ///< definitions without a literal
    std::unique_ptr<LiteralScan> scan;

    /// The last match's value that is a number, searching the whole line.
    std::optional<double> search(const Definition& definition, std::string_view line) const {
        std::optional<double> value;
        for (std::size_t from = 0; from <= line.size();) {
            const auto match = match_at(*definition.regex, line, from, RE2::UNANCHORED);
            if (!match) break;
            if (match->value) value = match->value;
            from = match->end;
        }
        return value;
    }

    /// The same where every match begins with the literal: only its occurrences are tried.
    std::optional<double> try_hits(const Definition& definition, std::string_view line,
                                   std::span<const std::uint32_t> offsets) const {
        std::optional<double> value;
        std::size_t from = 0;
        for (const std::uint32_t offset : offsets) {
            if (offset < from) continue;
            const auto match = match_here(definition, line, offset);
            if (!match) continue;
            if (match->value) value = match->value;
            from = match->end;
        }
        return value;
    }

    using Found = std::function<void(std::size_t, std::size_t, double)>;

    /// All definitions on one line; `hits` are the literals found in it, offsets from the line's
    /// start.
    void match_line(std::size_t number, std::string_view line,
                    std::span<const LiteralScan::Hit> hits, std::uint32_t line_start,
                    std::vector<std::uint32_t>& offsets, const Found& fn) const {
        const auto report = [&](std::uint32_t id, std::optional<double> value) {
            if (value) fn(number, id, *value);
        };
        for (const std::uint32_t id : unscanned) report(id, search(definitions[id], line));
        for (std::size_t i = 0; i < hits.size(); ++i) {
            const std::uint32_t literal = hits[i].literal;
            const auto is_same = [literal](const LiteralScan::Hit& hit) {
                return hit.literal == literal;
            };
            if (std::any_of(hits.begin(), hits.begin() + std::ptrdiff_t(i), is_same)) continue;
            const std::uint32_t id = scanned[literal];
            const Definition& definition = definitions[id];
            if (definition.literal.place == Literal::Place::anywhere) {
                report(id, search(definition, line));
                continue;
            }
            offsets.clear();
            for (std::size_t k = i; k < hits.size(); ++k)
                if (is_same(hits[k])) offsets.push_back(hits[k].offset - line_start);
            report(id, try_hits(definition, line, offsets));
        }
    }

    void match_block(const LogBlock& block, const Found& fn) const {
        std::vector<LiteralScan::Hit> hits;
        std::vector<std::uint32_t> offsets;
        if (scan) scan->find(block.text, hits);
        // Fingerprints lie at different places of their texts: neighbours may come out of order.
        const auto is_before = [](const LiteralScan::Hit& a, const LiteralScan::Hit& b) {
            return a.offset < b.offset;
        };
        if (!std::is_sorted(hits.begin(), hits.end(), is_before))
            std::stable_sort(hits.begin(), hits.end(), is_before);
        std::size_t line = 0;
        for (std::size_t at = 0; line < block.lines.size(); ++line) {
            if (unscanned.empty()) {  // only the lines that were hit
                if (at == hits.size()) return;
                while (line + 1 < block.lines.size() &&
                       block.lines[line + 1].offset <= hits[at].offset)
                    ++line;
            }
            at = match_hits(block, line, hits, at, offsets, fn);
        }
    }

    /// One line with the hits from `at` on that start before its end; returns the first one beyond.
    std::size_t match_hits(const LogBlock& block, std::size_t line,
                           std::span<const LiteralScan::Hit> hits, std::size_t at,
                           std::vector<std::uint32_t>& offsets, const Found& fn) const {
        const std::uint32_t start = block.lines[line].offset;
        const std::uint32_t end = start + block.lines[line].length;
        std::size_t beyond = at;
        while (beyond < hits.size() && hits[beyond].offset <= end) ++beyond;
        match_line(line, block.line(line), hits.subspan(at, beyond - at), start, offsets, fn);
        return beyond;
    }
};

LineMatcher::LineMatcher(std::span<const MetricDefinition> definitions)
    : impl_(std::make_unique<Impl>()) {
    std::vector<std::string> literals;
    for (const MetricDefinition& definition : definitions) {
        check_definition(definition);
        Definition compiled{.regex = std::make_unique<RE2>(definition.regex, options()),
                            .literal = required_literal(definition.regex),
                            .quick = QuickMatch::compile(definition.regex)};
        const auto id = std::uint32_t(impl_->definitions.size());
        if (compiled.literal.text.empty()) {
            impl_->unscanned.push_back(id);
        } else {
            impl_->scanned.push_back(id);
            literals.push_back(compiled.literal.text);
        }
        impl_->definitions.push_back(std::move(compiled));
    }
    if (!literals.empty()) impl_->scan = std::make_unique<LiteralScan>(std::move(literals));
}

LineMatcher::~LineMatcher() = default;
LineMatcher::LineMatcher(LineMatcher&&) noexcept = default;

void LineMatcher::match(std::string_view line,
                        const std::function<void(std::size_t, double)>& fn) const {
    std::vector<LiteralScan::Hit> hits;
    std::vector<std::uint32_t> offsets;
    if (impl_->scan) impl_->scan->find(line, hits);
    impl_->match_line(0, line, hits, 0, offsets,
                      [&](std::size_t, std::size_t id, double value) { fn(id, value); });
}

void LineMatcher::match_block(
    const LogBlock& block, const std::function<void(std::size_t, std::size_t, double)>& fn) const {
    impl_->match_block(block, fn);
}

}  // namespace ty::telemetry
