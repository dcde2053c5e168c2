// SPDX-License-Identifier: Apache-2.0
// See xml_scan.h. Every function moves forward through rest_, so hostile documents cost linear
// time.
#include "aws/xml_scan.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"

#include <algorithm>
#include <utility>

namespace ty::aws {

namespace {

constexpr std::size_t kMaxDepth = 32;

[[noreturn]] void malformed(std::string_view what) {
    throw_error(Code::corrupt, "MalformedXML", "the XML answer is malformed: {}", what);
}

void append_utf8(std::string& out, std::uint32_t point) {
    if (point < 0x80) {
        out += char(point);
    } else if (point < 0x800) {
        out += char(0xC0 | point >> 6);
        out += char(0x80 | (point & 63));
    } else if (point < 0x10000) {
        out += char(0xE0 | point >> 12);
        out += char(0x80 | (point >> 6 & 63));
        out += char(0x80 | (point & 63));
    } else {
        out += char(0xF0 | point >> 18);
        out += char(0x80 | (point >> 12 & 63));
        out += char(0x80 | (point >> 6 & 63));
        out += char(0x80 | (point & 63));
    }
}

std::uint32_t parse_reference(std::string_view digits) {
    const bool hex = digits.starts_with('x');
    if (hex) digits.remove_prefix(1);
    if (digits.empty() || digits.size() > 8) malformed("a character reference is out of range");
    std::uint64_t value = 0;
    for (const char c : digits) {
        const int digit = c >= '0' && c <= '9'          ? c - '0'
                          : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : hex && c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                        : -1;
        if (digit < 0) malformed("a character reference is no number");
        value = value * (hex ? 16 : 10) + std::uint64_t(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
        malformed("a character reference is out of range");
    return std::uint32_t(value);
}

std::string unescape(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (true) {
        const auto mark = text.find('&');
        out += text.substr(0, mark);
        if (mark == std::string_view::npos) return out;
        text.remove_prefix(mark + 1);
        const auto end = text.find(';');
        if (end == std::string_view::npos || end > 10) malformed("an entity is not closed");
        const std::string_view name = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (name == "amp")
            out += '&';
        else if (name == "lt")
            out += '<';
        else if (name == "gt")
            out += '>';
        else if (name == "quot")
            out += '"';
        else if (name == "apos")
            out += '\'';
        else if (name.starts_with('#'))
            append_utf8(out, parse_reference(name.substr(1)));
        else
            malformed("an entity is unknown");
    }
}

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::string_view local_name(std::string_view name) {
    const auto colon = name.find(':');
    return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

std::uint64_t parse_size(const std::string& text) {
    const auto value = parse_int(trim(text));
    if (!value || *value < 0) malformed("a Size is no number");
    return std::uint64_t(*value);
}

std::string without_quotes(const std::string& etag) {
    return replace_all(etag, "\"", "");
}

std::string decode_key(const std::string& key) {
    auto decoded = percent_decode(replace_all(key, "+", "%20"));
    if (!decoded) malformed("a url-encoded key has a broken escape");
    return *std::move(decoded);
}

void take_field(ListPage& page, ListedObject& object, const std::vector<std::string_view>& path,
                const std::string& text, bool& encoded) {
    if (path.size() == 2) {
        if (path[1] == "IsTruncated") page.truncated = trim(text) == "true";
        if (path[1] == "NextContinuationToken") page.next += text;
        if (path[1] == "EncodingType") encoded = trim(text) == "url";
    }
    if (path.size() == 3 && path[1] == "Contents") {
        if (path[2] == "Key") object.key += text;
        if (path[2] == "ETag") object.etag += text;
        if (path[2] == "Size") object.size = parse_size(text);
    }
}

}  // namespace

void XmlScanner::skip_past(std::string_view mark) {
    const auto at = rest_.find(mark);
    if (at == std::string_view::npos) malformed("a declaration or comment is not closed");
    rest_.remove_prefix(at + mark.size());
}

XmlScanner::Token XmlScanner::next() {
    if (close_pending_) {
        close_pending_ = false;
        const std::string_view name = open_.back();
        open_.pop_back();
        return {Kind::close, local_name(name), {}};
    }
    while (!rest_.empty()) {
        if (rest_.front() != '<') {
            const auto end = std::min(rest_.find('<'), rest_.size());
            const std::string_view text = rest_.substr(0, end);
            rest_.remove_prefix(end);
            if (!open_.empty()) return {Kind::text, {}, unescape(text)};
            if (!trim(text).empty() && text != "\xEF\xBB\xBF")
                malformed("text outside the document element");
        } else if (rest_.starts_with("<?")) {
            skip_past("?>");
        } else if (rest_.starts_with("<!--")) {
            skip_past("-->");
        } else if (rest_.starts_with("<![CDATA[")) {
            const auto end = rest_.find("]]>");
            if (end == std::string_view::npos || open_.empty())
                malformed("a CDATA section is misplaced");
            Token token{Kind::text, {}, std::string(rest_.substr(9, end - 9))};
            rest_.remove_prefix(end + 3);
            return token;
        } else if (rest_.starts_with("<!")) {
            malformed("document types are not accepted");
        } else {
            return read_tag();
        }
    }
    if (!open_.empty()) malformed("it ends inside an element");
    return {};
}

XmlScanner::Token XmlScanner::read_tag() {
    std::size_t end = 1;
    // A '>' may stand inside a quoted attribute.
    for (char quote = 0; end < rest_.size() && (quote != 0 || rest_[end] != '>'); ++end) {
        const char c = rest_[end];
        if (quote == 0 && (c == '"' || c == '\''))
            quote = c;
        else if (c == quote)
            quote = 0;
    }
    if (end >= rest_.size()) malformed("a tag is not closed");
    std::string_view tag = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (tag.starts_with('/')) {
        const std::string_view name = trim(tag.substr(1));
        if (open_.empty() || open_.back() != name) malformed("an end tag does not match");
        open_.pop_back();
        return {Kind::close, local_name(name), {}};
    }
    const bool empty = tag.ends_with('/');
    if (empty) tag.remove_suffix(1);
    const std::string_view name =
        tag.substr(0, std::size_t(std::ranges::find_if(tag, is_blank) - tag.begin()));
    if (name.empty()) malformed("a tag has no name");
    if (open_.size() >= kMaxDepth) malformed("elements are nested more than 32 deep");
    open_.push_back(name);
    close_pending_ = empty;
    return {Kind::open, local_name(name), {}};
}

ListPage parse_list_page(std::string_view document) {
    XmlScanner scanner(document);
    ListPage page;
    ListedObject object;
    std::vector<std::string_view> path;
    bool encoded = false;
    for (auto token = scanner.next(); token.kind != XmlScanner::Kind::end; token = scanner.next()) {
        switch (token.kind) {
            case XmlScanner::Kind::open:
                path.push_back(token.name);
                if (path.size() == 1 && token.name != "ListBucketResult")
                    malformed("it is no ListBucketResult");
                break;
            case XmlScanner::Kind::text:
                take_field(page, object, path, token.text, encoded);
                break;
            case XmlScanner::Kind::close:
                if (path.size() == 2 && token.name == "Contents") {
                    object.etag = without_quotes(object.etag);
                    page.objects.push_back(std::exchange(object, {}));
                }
                path.pop_back();
                break;
            case XmlScanner::Kind::end:
                break;
        }
    }
    // EncodingType may follow the keys.
    if (encoded)
        for (ListedObject& listed : page.objects) listed.key = decode_key(listed.key);
    return page;
}

std::optional<std::string> find_element(std::string_view document, std::string_view name) {
    const auto search = [&]() -> std::optional<std::string> {
        XmlScanner scanner(document);
        std::optional<std::string> found;
        for (auto token = scanner.next(); token.kind != XmlScanner::Kind::end;
             token = scanner.next()) {
            if (token.kind == XmlScanner::Kind::open && token.name == name) found.emplace();
            if (token.kind == XmlScanner::Kind::text && found) *found += token.text;
            if (token.kind == XmlScanner::Kind::close && found && token.name == name) return found;
        }
        return std::nullopt;
    };
    auto outcome = capture(search);
    return outcome.ok() ? std::move(outcome).value() : std::nullopt;
}

std::optional<Fault> find_fault(std::string_view document) {
    if (document.find("<Error>") == std::string_view::npos &&
        document.find("<Error ") == std::string_view::npos)
        return std::nullopt;
    const auto code = find_element(document, "Code");
    if (!code) return std::nullopt;
    return Fault{*code, find_element(document, "Message").value_or("")};
}

}  // namespace ty::aws
