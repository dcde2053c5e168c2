// SPDX-License-Identifier: Apache-2.0
#include "api/logs/event_json.h"

#include "base/format.h"
#include "base/text.h"

#include <algorithm>

namespace ty::api::logs {

namespace {

void append_escaped(std::string& out, std::string_view text) {
    for (const char c : text) {
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20)
                    out += format("\\u{:04x}", static_cast<unsigned>(c));
                else
                    out += c;
        }
    }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    bool is_plain = true, is_ascii = true;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        is_plain = is_plain && byte >= 0x20 && byte != '"' && byte != '\\';
        is_ascii = is_ascii && byte < 0x80;
    }
    out += '"';
    if (!is_ascii && !is_valid_utf8(text))
        append_escaped(out, to_valid_utf8(text));
    else if (is_plain)
        out += text;
    else
        append_escaped(out, text);
    out += '"';
}

}  // namespace ty::api::logs
