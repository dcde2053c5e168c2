// SPDX-License-Identifier: Apache-2.0
// The simple regexes that metric definitions are made of, without the regex engine: fixed text,
// character classes, ? * +, and plain groups. Only ASCII is judged here; anything else is left to
// the engine.
//
// Same answers as RE2 by construction: greedy, leftmost alternative first, with a bound on the
// work. Private to telemetry/. Immutable after construction: any thread.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ty::telemetry {

class QuickMatch {
public:
    /// nullopt when the regex is more than this understands. For a regex that RE2 accepts.
    static std::optional<QuickMatch> compile(std::string_view regex);

    enum class Verdict { no, yes, unknown };  ///< unknown: ask the engine
    struct Result {
        Verdict verdict = Verdict::no;
        std::size_t end = 0;                         ///< of the match
        std::size_t group_begin = 0, group_end = 0;  ///< of the first group
    };
    /// Whether a match begins exactly at `from`. `known` bytes of fixed text, with which the regex
    /// starts, are there already: required_literal() found them.
    Result match_at(std::string_view line, std::size_t from, std::size_t known = 0) const;

private:
    /// One class of bytes, repeated.
    struct Step {
        std::bitset<128> bytes;
        bool may_be_absent = false, may_repeat = false;
        bool is_final = false;  ///< what it takes greedily it never has to give back
    };
    struct Attempt {
        std::string_view line;
        std::size_t work_left = 0;
        bool gave_up = false;
        std::size_t group_begin = 0, group_end = 0, end = 0;
    };
    friend class QuickCompiler;
    void find_final_steps();
    bool run(Attempt& attempt, std::size_t step, std::size_t at) const;

    std::vector<Step> steps_;
    std::size_t fixed_ = 0;                         ///< leading steps that are one fixed byte each
    std::size_t group_first_ = 0, group_last_ = 0;  ///< steps [first, last) are the first group
};

}  // namespace ty::telemetry
