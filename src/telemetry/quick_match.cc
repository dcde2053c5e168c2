// SPDX-License-Identifier: Apache-2.0
#include "telemetry/quick_match.h"

#include <algorithm>
#include <string>

namespace ty::telemetry {

namespace {

/// Steps tried per attempt; beyond it backtracking is better left to an engine without it.
constexpr std::size_t kWork = 2000;
constexpr std::size_t kMostSteps = 120;

using Ascii = std::bitset<128>;

bool is_ascii(char c) {
    return static_cast<unsigned char>(c) < 128;
}

Ascii range(char first, char last) {
    Ascii out;
    for (int c = first; c <= last; ++c) out.set(std::size_t(c));
    return out;
}

/// \d \w \s and their opposites; an escaped punctuation mark is itself. Opposites hold more than
/// ASCII, which is never judged here.
std::optional<Ascii> escaped(char c) {
    switch (c) {
        case 'd':
            return range('0', '9');
        case 'D':
            return ~range('0', '9');
        case 'w':
            return range('0', '9') | range('a', 'z') | range('A', 'Z') | range('_', '_');
        case 'W':
            return ~*escaped('w');
        case 's':
            return range('\t', '\n') | range('\f', '\r') | range(' ', ' ');
        case 'S':
            return ~*escaped('s');
        case 't':
            return range('\t', '\t');
        default:
            break;
    }
    const bool is_letter =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter || !is_ascii(c) || c < ' ') return std::nullopt;
    return range(c, c);
}

}  // namespace

class QuickCompiler {
public:
    explicit QuickCompiler(std::string_view regex) : regex_(regex) {}

    std::optional<QuickMatch> compile() {
        while (at_ < regex_.size())
            if (!item() || out_.steps_.size() > kMostSteps) return std::nullopt;
        if (group_is_open_ || groups_ == 0) return std::nullopt;
        return std::move(out_);
    }

private:
    bool item() {
        const char c = regex_[at_];
        if (c == '(') return open_group();
        if (c == ')') return close_group();
        QuickMatch::Step step;
        if (c == '[') {
            const auto bytes = bracket();
            if (!bytes) return false;
            step.bytes = *bytes;
        } else if (c == '\\') {
            const auto bytes =
                at_ + 1 < regex_.size() ? escaped(regex_[at_ + 1]) : std::optional<Ascii>();
            if (!bytes) return false;
            step.bytes = *bytes;
            at_ += 2;
        } else if (c == '.') {
            step.bytes = ~range('\n', '\n');
            ++at_;
        } else {
            // Anchors, alternatives and braces are the engine's.
            if (!is_ascii(c) || std::string_view("^$|{}*+?]").find(c) != std::string_view::npos)
                return false;
            step.bytes = range(c, c);
            ++at_;
        }
        if (!quantifier(step)) return false;
        out_.steps_.push_back(step);
        return true;
    }

    bool quantifier(QuickMatch::Step& step) {
        if (at_ >= regex_.size()) return true;
        const char q = regex_[at_];
        if (q == '{') return false;
        if (q != '?' && q != '*' && q != '+') return true;
        step.may_be_absent = q != '+';
        step.may_repeat = q != '?';
        ++at_;
        // Lazy ones are the engine's.
        return at_ >= regex_.size() ||
               std::string_view("?*+{").find(regex_[at_]) == std::string_view::npos;
    }

    bool open_group() {
        if (group_is_open_) return false;
        ++at_;
        if (regex_.substr(at_).starts_with("?")) {
            if (!regex_.substr(at_).starts_with("?P<")) return false;
            const auto end = regex_.find('>', at_);
            if (end == std::string_view::npos) return false;
            at_ = end + 1;
        }
        if (++groups_ == 1) out_.group_first_ = out_.steps_.size();
        group_is_open_ = true;
        return true;
    }

    bool close_group() {
        if (!group_is_open_) return false;
        ++at_;
        if (groups_ == 1) out_.group_last_ = out_.steps_.size();
        group_is_open_ = false;
        return at_ >= regex_.size() ||
               std::string_view("?*+{").find(regex_[at_]) == std::string_view::npos;
    }

    /// One member of a bracket: a byte or a class; moves on.
    std::optional<Ascii> member() {
        const char c = regex_[at_];
        if (!is_ascii(c) || c == '[') return std::nullopt;  // "[:alpha:]" too
        if (c != '\\') {
            ++at_;
            return range(c, c);
        }
        if (at_ + 1 >= regex_.size()) return std::nullopt;
        const auto bytes = escaped(regex_[at_ + 1]);
        at_ += 2;
        return bytes;
    }

    std::optional<Ascii> bracket() {
        ++at_;
        const bool negated = at_ < regex_.size() && regex_[at_] == '^';
        if (negated) ++at_;
        Ascii out;
        for (bool first = true; at_ < regex_.size(); first = false) {
            if (regex_[at_] == ']' && !first) {
                ++at_;
                return negated ? ~out : out;
            }
            const auto low = member();
            if (!low) return std::nullopt;
            const bool is_range =
                at_ + 1 < regex_.size() && regex_[at_] == '-' && regex_[at_ + 1] != ']';
            if (!is_range) {
                out |= *low;
                continue;
            }
            ++at_;
            const auto high = member();
            if (!high || low->count() != 1 || high->count() != 1) return std::nullopt;
            out |= range(first_of(*low), first_of(*high));
        }
        return std::nullopt;
    }

    static char first_of(const Ascii& bytes) {
        for (std::size_t i = 0; i < bytes.size(); ++i)
            if (bytes[i]) return char(i);
        return 0;
    }

    std::string_view regex_;
    std::size_t at_ = 0;
    int groups_ = 0;
    bool group_is_open_ = false;
    QuickMatch out_;
};

std::optional<QuickMatch> QuickMatch::compile(std::string_view regex) {
    auto quick = QuickCompiler(regex).compile();
    if (quick) quick->find_final_steps();
    return quick;
}

/// The last step, and one before a byte that it cannot take itself.
void QuickMatch::find_final_steps() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        const bool is_last = i + 1 == steps_.size();
        steps_[i].is_final = is_last || (!steps_[i + 1].may_be_absent &&
                                         (steps_[i].bytes & steps_[i + 1].bytes).none());
    }
    while (fixed_ < std::min(group_first_, steps_.size()) && !steps_[fixed_].may_be_absent &&
           !steps_[fixed_].may_repeat && steps_[fixed_].bytes.count() == 1)
        ++fixed_;
}

bool QuickMatch::run(Attempt& attempt, std::size_t step, std::size_t at) const {
    for (;; ++step) {
        if (step == group_first_) attempt.group_begin = at;
        if (step == group_last_) attempt.group_end = at;
        if (step == steps_.size()) {
            attempt.end = at;
            return true;
        }
        const Step& now = steps_[step];
        const std::size_t most = now.may_repeat ? attempt.work_left : 1;
        const std::size_t limit = at + std::min(most, attempt.line.size() - at);
        std::size_t stop = at;
        for (; stop < limit; ++stop) {
            const auto byte = static_cast<unsigned char>(attempt.line[stop]);
            if (byte >= 128) {
                attempt.gave_up = true;
                return false;
            }
            if (!now.bytes[byte]) break;
        }
        const std::size_t least = now.may_be_absent ? at : at + 1;
        if (stop - at + 1 > attempt.work_left) {
            attempt.gave_up = true;
            return false;
        }
        attempt.work_left -= stop - at + 1;
        if (stop < least) return false;
        // Only one way to go on: no need to come back.
        if (stop == least || now.is_final) {
            at = stop;
            continue;
        }
        for (std::size_t next = stop;; --next) {
            if (run(attempt, step + 1, next)) return true;
            if (attempt.gave_up || next == least) return false;
        }
    }
}

QuickMatch::Result QuickMatch::match_at(std::string_view line, std::size_t from,
                                        std::size_t known) const {
    Attempt attempt{.line = line, .work_left = kWork};
    const std::size_t skipped = std::min(known, fixed_);
    const bool matched = run(attempt, skipped, from + skipped);
    if (attempt.gave_up) return {.verdict = Verdict::unknown};
    if (!matched) return {};
    return {.verdict = Verdict::yes,
            .end = attempt.end,
            .group_begin = attempt.group_begin,
            .group_end = attempt.group_end};
}

}  // namespace ty::telemetry
