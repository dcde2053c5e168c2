// SPDX-License-Identifier: Apache-2.0
#include "api/logs/filter_pattern.h"

#include "base/error.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::logs {

namespace {

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool is_term_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

[[noreturn]] void refuse(const std::string& text) {
    throw Error(Code::invalid, "InvalidParameterException", text);
}

/// The phrase behind the quote at `at`; moves behind the closing one.
std::string quoted(std::string_view text, std::size_t& at) {
    std::string phrase;
    for (++at; at < text.size(); ++at) {
        if (text[at] == '"') {
            ++at;
            return phrase;
        }
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        phrase += text[at];
    }
    refuse("Invalid filter pattern: a quoted phrase is not closed; end it with \"");
}

std::string bare(std::string_view text, std::size_t& at) {
    const std::size_t begin = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    std::string term(text.substr(begin, at - begin));
    if (!std::ranges::all_of(term, is_term_character))
        refuse(format("Invalid character(s) in term '{}'; put it in double quotes", term));
    return term;
}

}  // namespace

FilterPattern::FilterPattern(std::string_view text) {
    const std::string_view trimmed = trim(text);
    if (trimmed.starts_with('{') || trimmed.starts_with('[') || trimmed.starts_with('%'))
        refuse(
            format("Filter patterns on {} are not supported here; use terms, \"quoted phrases\", "
                   "-excluded and ?alternative terms",
                   trimmed[0] == '{'   ? "JSON members ({ ... })"
                   : trimmed[0] == '[' ? "columns ([ ... ])"
                                       : "regular expressions (%...%)"));
    for (std::size_t at = 0; at < text.size();) {
        if (is_space(text[at])) {
            ++at;
            continue;
        }
        std::vector<std::string>& list = text[at] == '-' ? none_ : text[at] == '?' ? any_ : all_;
        if (&list != &all_) ++at;
        std::string term = at < text.size() && text[at] == '"' ? quoted(text, at) : bare(text, at);
        if (term.empty()) refuse("Invalid filter pattern: a term is empty");
        list.push_back(std::move(term));
    }
    // As on AWS: alternatives count only where nothing else is asked for.
    if (!all_.empty() || !none_.empty()) any_.clear();
}

bool FilterPattern::matches(std::string_view message) const {
    const auto is_in = [message](const std::string& term) {
        return message.find(term) != std::string_view::npos;
    };
    return std::ranges::all_of(all_, is_in) && std::ranges::none_of(none_, is_in) &&
           (any_.empty() || std::ranges::any_of(any_, is_in));
}

}  // namespace ty::api::logs
