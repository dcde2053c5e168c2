// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher/options/macros.h"

#include <cstddef>

namespace ty::agent {

namespace {

bool is_name_character(char c, bool first) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

std::size_t name_length(std::string_view text) {
    std::size_t length = 0;
    while (length < text.size() && is_name_character(text[length], length == 0)) ++length;
    return length;
}

}  // namespace

std::string substitute(std::string_view text,
                       const std::map<std::string, std::string, std::less<>>& values) {
    std::string out;
    while (!text.empty()) {
        const std::size_t dollar = text.find('$');
        out += text.substr(0, dollar);
        if (dollar == text.npos) break;
        text.remove_prefix(dollar);
        const bool braced = text.size() > 1 && text[1] == '{';
        const std::size_t start = braced ? 2 : 1;
        const std::size_t length = text.size() > start ? name_length(text.substr(start)) : 0;
        const std::size_t end = start + length + (braced ? 1 : 0);
        const bool closed =
            !braced || (start + length < text.size() && text[start + length] == '}');
        const auto found = values.find(text.substr(start, length));
        if (text.starts_with("$$")) {
            out += '$';
            text.remove_prefix(2);
        } else if (length > 0 && closed && found != values.end()) {
            out += found->second;
            text.remove_prefix(end);
        } else {
            out += '$';
            text.remove_prefix(1);
        }
    }
    return out;
}

}  // namespace ty::agent
