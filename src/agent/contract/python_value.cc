// SPDX-License-Identifier: Apache-2.0
#include "agent/contract/python_value.h"

#include "base/format.h"
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ty::agent {

namespace {

constexpr int kMaxDepth = 200;

/// The code point that starts at `at`; advances. Text inside is valid UTF-8 or taken as Latin-1.
char32_t next_code_point(std::string_view text, std::size_t& at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (length == 1 || at + length > text.size()) {
        ++at;
        return lead;
    }
    char32_t value = lead & (0xFFu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        value = (value << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3Fu);
    }
    at += length;
    return value;
}

void append_utf8(std::string& out, char32_t c) {
    const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0 | (c >> 6)), put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        put(0xE0 | (c >> 12)), put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
    } else {
        put(0xF0 | (c >> 18)), put(0x80 | ((c >> 12) & 0x3F));
        put(0x80 | ((c >> 6) & 0x3F)), put(0x80 | (c & 0x3F));
    }
}

std::string quote_json(std::string_view text) {
    std::string out = "\"";
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = next_code_point(text, at);
        switch (c) {
            case U'"':
                out += "\\\"";
                break;
            case U'\\':
                out += "\\\\";
                break;
            case U'\n':
                out += "\\n";
                break;
            case U'\r':
                out += "\\r";
                break;
            case U'\t':
                out += "\\t";
                break;
            case U'\b':
                out += "\\b";
                break;
            case U'\f':
                out += "\\f";
                break;
            default:
                if (c >= 0x20 && c < 0x7F) {
                    out += static_cast<char>(c);
                } else if (c < 0x10000) {
                    out += format("\\u{:04x}", static_cast<std::uint32_t>(c));
                } else {
                    const auto rest = static_cast<std::uint32_t>(c) - 0x10000;
                    out += format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10),
                                  0xDC00 + (rest & 0x3FF));
                }
        }
    }
    return out + '"';
}

std::string quote_python(std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = next_code_point(text, at);
        if (c == static_cast<char32_t>(quote) || c == U'\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c == U'\n') {
            out += "\\n";
        } else if (c == U'\r') {
            out += "\\r";
        } else if (c == U'\t') {
            out += "\\t";
        } else if (c < 0x20 || c == 0x7F) {
            out += format("\\x{:02x}", static_cast<std::uint32_t>(c));
        } else {
            append_utf8(out, c);
        }
    }
    return out + quote;
}

}  // namespace

std::string python_float(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    char buffer[64];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
    std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
    std::string out;
    if (text.starts_with('-')) {
        out = "-";
        text.remove_prefix(1);
    }
    const std::size_t mark = text.find('e');
    std::string digits(text.substr(0, mark));
    std::erase(digits, '.');
    const int exponent = static_cast<int>(
        parse_int(text.substr(text[mark + 1] == '+' ? mark + 2 : mark + 1)).value_or(0));
    const int count = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        out += digits.substr(0, 1);
        if (count > 1) out += "." + digits.substr(1);
        return out + format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    }
    if (exponent < 0)
        return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    if (exponent + 1 >= count) {
        return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') +
               ".0";
    }
    const auto whole = static_cast<std::size_t>(exponent + 1);
    return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

/// Recursive descent over one text; fails by returning nullopt.
class PythonParser {
public:
    explicit PythonParser(std::string_view text) : text_(text) {}

    std::optional<PythonValue> document() {
        skip_space();
        std::optional<PythonValue> value = parse_value(0);
        if (!value) return std::nullopt;
        skip_space();
        return at_ == text_.size() ? value : std::nullopt;
    }

private:
    std::optional<PythonValue> parse_value(int depth) {
        if (depth > kMaxDepth || at_ >= text_.size()) return std::nullopt;
        switch (text_[at_]) {
            case '"': {
                std::optional<std::string> text = parse_text();
                if (!text) return std::nullopt;
                return PythonValue::of_text(std::move(*text));
            }
            case '[':
                return parse_list(depth);
            case '{':
                return parse_dict(depth);
            default:
                break;
        }
        if (take("null")) return PythonValue();
        if (take("true")) return PythonValue::of_bool(true);
        if (take("false")) return PythonValue::of_bool(false);
        if (take("NaN")) return real(std::numeric_limits<double>::quiet_NaN());
        if (take("Infinity")) return real(std::numeric_limits<double>::infinity());
        if (take("-Infinity")) return real(-std::numeric_limits<double>::infinity());
        return parse_number();
    }

    std::optional<PythonValue> parse_number() {
        const std::size_t start = at_;
        if (peek() == '-') ++at_;
        if (!is_digit(peek())) return std::nullopt;
        if (peek() == '0') {
            ++at_;
        } else {
            while (is_digit(peek())) ++at_;
        }
        bool whole = true;
        if (peek() == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
            whole = false;
            ++at_;
            while (is_digit(peek())) ++at_;
        }
        if (peek() == 'e' || peek() == 'E') {
            std::size_t after = at_ + 1;
            if (after < text_.size() && (text_[after] == '+' || text_[after] == '-')) ++after;
            if (after < text_.size() && is_digit(text_[after])) {
                whole = false;
                at_ = after;
                while (is_digit(peek())) ++at_;
            }
        }
        const std::string_view digits = text_.substr(start, at_ - start);
        if (!whole) {
            double value = 0;
            const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
            if (read.ec == std::errc::result_out_of_range) value = overflow(digits);
            return real(value);
        }
        PythonValue value;
        value.kind_ = PythonValue::Kind::integer;
        value.text_ = digits == "-0" ? "0" : std::string(digits);
        return value;
    }

    std::optional<PythonValue> parse_list(int depth) {
        std::vector<PythonValue> items;
        ++at_;
        skip_space();
        if (take("]")) return PythonValue::of_list({});
        for (;;) {
            skip_space();
            std::optional<PythonValue> item = parse_value(depth + 1);
            if (!item) return std::nullopt;
            items.push_back(std::move(*item));
            skip_space();
            if (take("]")) return PythonValue::of_list(std::move(items));
            if (!take(",")) return std::nullopt;
        }
    }

    std::optional<PythonValue> parse_dict(int depth) {
        PythonValue dict = PythonValue::of_dict({});
        ++at_;
        skip_space();
        if (take("}")) return dict;
        for (;;) {
            skip_space();
            if (peek() != '"') return std::nullopt;
            std::optional<std::string> name = parse_text();
            skip_space();
            if (!name || !take(":")) return std::nullopt;
            skip_space();
            std::optional<PythonValue> value = parse_value(depth + 1);
            if (!value) return std::nullopt;
            dict.set(std::move(*name), std::move(*value));
            skip_space();
            if (take("}")) return dict;
            if (!take(",")) return std::nullopt;
        }
    }

    std::optional<std::string> parse_text() {
        std::string out;
        for (++at_; at_ < text_.size(); ++at_) {
            const char c = text_[at_];
            if (c == '"') {
                ++at_;
                return out;
            }
            if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;
            if (c != '\\') {
                out += c;
                continue;
            }
            if (++at_ >= text_.size() || !escape(text_[at_], out)) return std::nullopt;
        }
        return std::nullopt;
    }

    bool escape(char c, std::string& out) {
        switch (c) {
            case '"':
            case '\\':
            case '/':
                out += c;
                return true;
            case 'b':
                out += '\b';
                return true;
            case 'f':
                out += '\f';
                return true;
            case 'n':
                out += '\n';
                return true;
            case 'r':
                out += '\r';
                return true;
            case 't':
                out += '\t';
                return true;
            case 'u':
                break;
            default:
                return false;
        }
        std::optional<char32_t> unit = hex4(at_ + 1);
        if (!unit) return false;
        at_ += 4;
        if (*unit >= 0xD800 && *unit < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
            const std::optional<char32_t> low = hex4(at_ + 3);
            if (low && *low >= 0xDC00 && *low < 0xE000) {
                unit = 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00);
                at_ += 6;
            }
        }
        // A lone surrogate has no place in an environment variable.
        append_utf8(out, *unit >= 0xD800 && *unit < 0xE000 ? U'\uFFFD' : *unit);
        return true;
    }

    std::optional<char32_t> hex4(std::size_t from) const {
        if (from + 4 > text_.size()) return std::nullopt;
        unsigned value = 0;
        const char* first = text_.data() + from;
        const auto read = std::from_chars(first, first + 4, value, 16);
        if (read.ptr != first + 4) return std::nullopt;
        return static_cast<char32_t>(value);
    }

    static PythonValue real(double value) {
        PythonValue result;
        result.kind_ = PythonValue::Kind::real;
        result.real_ = value;
        return result;
    }
    static double overflow(std::string_view digits) {
        const std::size_t mark = digits.find_first_of("eE");
        if (mark != std::string_view::npos && digits[mark + 1] == '-') return 0;
        return digits.starts_with('-') ? -std::numeric_limits<double>::infinity()
                                       : std::numeric_limits<double>::infinity();
    }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }
    void skip_space() {
        while (at_ < text_.size() &&
               std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
            ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

PythonValue PythonValue::of_text(std::string text) {
    PythonValue value;
    value.kind_ = Kind::text;
    value.text_ = std::move(text);
    return value;
}
PythonValue PythonValue::of_bool(bool flag) {
    PythonValue value;
    value.kind_ = Kind::boolean;
    value.flag_ = flag;
    return value;
}
PythonValue PythonValue::of_int(long long number) {
    PythonValue value;
    value.kind_ = Kind::integer;
    value.text_ = std::to_string(number);
    return value;
}
PythonValue PythonValue::of_list(std::vector<PythonValue> items) {
    PythonValue value;
    value.kind_ = Kind::list;
    value.items_ = std::move(items);
    return value;
}
PythonValue PythonValue::of_texts(const std::vector<std::string>& items) {
    std::vector<PythonValue> values;
    values.reserve(items.size());
    for (const std::string& item : items) values.push_back(of_text(item));
    return of_list(std::move(values));
}
PythonValue PythonValue::of_dict(std::vector<std::pair<std::string, PythonValue>> members) {
    PythonValue value;
    value.kind_ = Kind::dict;
    value.members_ = std::move(members);
    return value;
}

std::optional<PythonValue> PythonValue::parse(std::string_view text) {
    return PythonParser(text).document();
}

PythonValue PythonValue::decode(std::string_view text) {
    if (std::optional<PythonValue> value = parse(text)) return std::move(*value);
    return of_text(std::string(text));
}

void PythonValue::set(std::string name, PythonValue value) {
    const auto found =
        std::ranges::find(members_, name, &std::pair<std::string, PythonValue>::first);
    if (found != members_.end()) {
        found->second = std::move(value);
    } else {
        members_.emplace_back(std::move(name), std::move(value));
    }
}

std::string PythonValue::str() const {
    return kind_ == Kind::text ? text_ : repr();
}

std::string PythonValue::repr() const {
    switch (kind_) {
        case Kind::none:
            return "None";
        case Kind::boolean:
            return flag_ ? "True" : "False";
        case Kind::integer:
            return text_;
        case Kind::real:
            return python_float(real_);
        case Kind::text:
            return quote_python(text_);
        case Kind::list: {
            std::vector<std::string> parts;
            for (const PythonValue& item : items_) parts.push_back(item.repr());
            return "[" + join(parts, ", ") + "]";
        }
        case Kind::dict: {
            std::vector<std::string> parts;
            for (const auto& [name, value] : members_) {
                parts.push_back(quote_python(name) + ": " + value.repr());
            }
            return "{" + join(parts, ", ") + "}";
        }
    }
    return {};
}

std::string PythonValue::json() const {
    switch (kind_) {
        case Kind::none:
            return "null";
        case Kind::boolean:
            return flag_ ? "true" : "false";
        case Kind::integer:
            return text_;
        case Kind::real:
            if (std::isnan(real_)) return "NaN";
            if (std::isinf(real_)) return real_ > 0 ? "Infinity" : "-Infinity";
            return python_float(real_);
        case Kind::text:
            return quote_json(text_);
        case Kind::list: {
            std::vector<std::string> parts;
            for (const PythonValue& item : items_) parts.push_back(item.json());
            return "[" + join(parts, ",") + "]";
        }
        case Kind::dict: {
            std::vector<const std::pair<std::string, PythonValue>*> sorted;
            for (const auto& member : members_) sorted.push_back(&member);
            std::ranges::sort(sorted, {}, [](const auto* member) { return member->first; });
            std::vector<std::string> parts;
            for (const auto* member : sorted) {
                parts.push_back(quote_json(member->first) + ":" + member->second.json());
            }
            return "{" + join(parts, ",") + "}";
        }
    }
    return {};
}

}  // namespace ty::agent
