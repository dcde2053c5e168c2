// SPDX-License-Identifier: Apache-2.0
#include "telemetry/literal.h"

#include <optional>
#include <vector>

namespace ty::telemetry {
namespace {

/// One top-level item of a concatenation.
struct Item {
    std::optional<char> byte;  ///< a fixed byte; nullopt: anything else
    bool repeats = false;      ///< '+': it is there, but what follows may not be adjacent
};

/// Position after the bracket expression that starts at `at`; npos when it never ends.
std::size_t skip_class(std::string_view regex, std::size_t at) {
    ++at;
    if (at < regex.size() && regex[at] == '^') ++at;
    if (at < regex.size() && regex[at] == ']') ++at;
    for (; at < regex.size(); ++at) {
        if (regex[at] == '\\') {
            ++at;
        } else if (regex.substr(at, 2) == "[:") {
            const std::size_t end = regex.find(":]", at + 2);
            if (end != std::string_view::npos) at = end + 1;
        } else if (regex[at] == ']') {
            return at + 1;
        }
    }
    return std::string_view::npos;
}

/// Position after the group that starts at `at`.
std::size_t skip_group(std::string_view regex, std::size_t at) {
    std::size_t depth = 0;
    while (at < regex.size()) {
        const char c = regex[at];
        if (c == '\\') {
            at += 2;
        } else if (c == '[') {
            at = skip_class(regex, at);
            if (at == std::string_view::npos) return at;
        } else {
            ++at;
            if (c == '(') ++depth;
            if (c == ')' && --depth == 0) return at;
        }
    }
    return std::string_view::npos;
}

bool is_plain_escape(char c) {
    // \. \[ \- and the like; letters and digits have meanings of their own.
    return !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c > 0;
}

/// Splits the regex; nullopt when it is not one concatenation that we understand.
std::optional<std::vector<Item>> split_items(std::string_view regex) {
    std::vector<Item> items;
    for (std::size_t at = 0; at < regex.size();) {
        const char c = regex[at];
        Item item;
        if (c == '|' || c == ')') return std::nullopt;
        if (c == '(') {
            at = skip_group(regex, at);
        } else if (c == '[') {
            at = skip_class(regex, at);
        } else if (c == '\\') {
            if (at + 1 >= regex.size()) return std::nullopt;
            const char next = regex[at + 1];
            // \Q…\E, \pL, \x41, \C and octal codes take more than two characters or change what
            // follows.
            if (next == 'Q' || next == 'E' || next == 'p' || next == 'P' || next == 'x' ||
                next == 'C' || (next >= '0' && next <= '9'))
                return std::nullopt;
            if (is_plain_escape(next)) item.byte = next;
            at += 2;
        } else {
            const bool is_special = c == '.' || c == '^' || c == '$';
            if (!is_special) item.byte = c;
            ++at;
        }
        if (at == std::string_view::npos) return std::nullopt;
        // Bytes of a longer UTF-8 character: a quantifier covers them all, so none of them is
        // certain alone.
        if (at < regex.size()) {
            const char q = regex[at];
            if (q == '*' || q == '?' || q == '{') {
                while (item.byte && static_cast<unsigned char>(*item.byte) >= 0x80 &&
                       static_cast<unsigned char>(*item.byte) < 0xc0 && !items.empty()) {
                    item.byte = items.back().byte;
                    items.pop_back();
                    if (!item.byte) break;
                }
                item.byte.reset();
                at = q == '{' ? regex.find('}', at) : at;
                if (at == std::string_view::npos) return std::nullopt;
                ++at;
            } else if (q == '+') {
                // Of a longer character only what came before is kept: repeating breaks the run
                // anyway.
                item.repeats = true;
                ++at;
            }
            if (at < regex.size() && (regex[at] == '?' || regex[at] == '+' || regex[at] == '*'))
                ++at;
        }
        items.push_back(item);
    }
    return items;
}

}  // namespace

Literal required_literal(std::string_view regex) {
    // Flags such as (?i) change what a literal means; (?: and (?P< do not.
    for (std::size_t at = regex.find("(?"); at != std::string_view::npos;
         at = regex.find("(?", at + 2)) {
        const std::string_view rest = regex.substr(at + 2);
        if (!rest.starts_with(':') && !rest.starts_with("P<")) return {};
    }
    const auto items = split_items(regex);
    if (!items) return {};
    Literal best;
    std::string run;
    std::size_t run_start = 0;
    const auto end_run = [&](std::size_t next) {
        // A start of a few bytes beats anything longer: only its occurrences need trying.
        const bool has_good_start = best.place == Literal::Place::start && best.text.size() >= 4;
        if (run.size() > best.text.size() && !has_good_start) {
            best.text = run;
            best.place = run_start == 0 ? Literal::Place::start : Literal::Place::anywhere;
        }
        run.clear();
        run_start = next;
    };
    for (std::size_t i = 0; i < items->size(); ++i) {
        const Item& item = (*items)[i];
        if (item.byte) run += *item.byte;
        if (!item.byte || item.repeats) end_run(i + 1);
    }
    end_run(items->size());
    return best;
}

}  // namespace ty::telemetry
