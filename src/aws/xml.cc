// SPDX-License-Identifier: Apache-2.0
// See xml.h. Escaping copies clean runs whole: listings of thousands of keys are mostly clean.
#include "aws/xml.h"

#include "base/error.h"
#include "base/text.h"

namespace ty::aws {

namespace {

void append_escaped_char(std::string& out, char c) {
    switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&apos;";
            break;
        case '\r':
            out += "&#13;";
            break;
        default:
            out += "\xEF\xBF\xBD";
            break;
    }
}

bool needs_escape(char c) {
    switch (c) {
        case '&':
        case '<':
        case '>':
        case '"':
        case '\'':
            return true;
        case '\t':
        case '\n':
            return false;
        default:
            return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    }
}

/// U+FFFE and U+FFFF are valid UTF-8 and invalid XML.
bool is_noncharacter(std::string_view text, std::size_t i) {
    return text[i] == '\xEF' && i + 2 < text.size() && text[i + 1] == '\xBF' &&
           (text[i + 2] == '\xBE' || text[i + 2] == '\xBF');
}

void append_valid(std::string& out, std::string_view text) {
    std::size_t clean = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool noncharacter = is_noncharacter(text, i);
        if (!noncharacter && !needs_escape(text[i])) continue;
        out += text.substr(clean, i - clean);
        append_escaped_char(out, noncharacter ? '\0' : text[i]);
        if (noncharacter) i += 2;
        clean = i + 1;
    }
    out += text.substr(clean);
}

}  // namespace

void append_xml_escaped(std::string& out, std::string_view text) {
    if (is_valid_utf8(text))
        append_valid(out, text);
    else
        append_valid(out, to_valid_utf8(text));
}

std::string xml_escape(std::string_view text) {
    std::string out;
    append_xml_escaped(out, text);
    return out;
}

XmlWriter::XmlWriter(Declaration declaration) {
    if (declaration == Declaration::write) out_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
}

XmlWriter& XmlWriter::open(std::string_view name, Attributes attributes) {
    out_ += '<';
    out_ += name;
    for (const auto& [key, value] : attributes) {
        out_ += ' ';
        out_ += key;
        out_ += "=\"";
        append_xml_escaped(out_, value);
        out_ += '"';
    }
    out_ += '>';
    open_.emplace_back(name);
    return *this;
}

XmlWriter& XmlWriter::close() {
    TY_ASSERT(!open_.empty());
    out_ += "</";
    out_ += open_.back();
    out_ += '>';
    open_.pop_back();
    return *this;
}

XmlWriter& XmlWriter::element(std::string_view name, std::string_view text) {
    out_ += '<';
    out_ += name;
    if (text.empty()) {
        out_ += "/>";
        return *this;
    }
    out_ += '>';
    append_xml_escaped(out_, text);
    out_ += "</";
    out_ += name;
    out_ += '>';
    return *this;
}

XmlWriter& XmlWriter::text(std::string_view text) {
    append_xml_escaped(out_, text);
    return *this;
}

std::string XmlWriter::finish() && {
    while (!open_.empty()) close();
    return std::move(out_);
}

}  // namespace ty::aws
