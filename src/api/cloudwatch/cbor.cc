// SPDX-License-Identifier: Apache-2.0
#include "api/cloudwatch/cbor.h"

#include "base/error.h"
#include "base/text.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

namespace ty::api::cloudwatch {

namespace {

constexpr int kDeepest = 32;
constexpr std::uint8_t kBreak = 0xff;

enum Major : std::uint8_t {
    unsigned_number = 0,
    negative_number = 1,
    byte_string = 2,
    text_string = 3,
    array = 4,
    map = 5,
    tag = 6,
    simple = 7,
};

class Reader {
public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}

    Json document() {
        Json value = item(0);
        if (at_ != bytes_.size()) fail("the document ends before the body does");
        return value;
    }

private:
    struct Head {
        std::uint8_t major, info;
        std::uint64_t argument;
        bool indefinite;
    };

    [[noreturn]] void fail(std::string_view why) const {
        throw_error(Code::invalid, "SerializationException", "malformed CBOR at byte {}: {}", at_,
                    why);
    }

    std::uint8_t byte() {
        if (at_ >= bytes_.size()) fail("the body ends inside an item");
        return static_cast<std::uint8_t>(bytes_[at_++]);
    }

    std::uint64_t big_endian(int count) {
        std::uint64_t value = 0;
        for (int i = 0; i < count; ++i) value = value << 8 | byte();
        return value;
    }

    Head head() {
        const std::uint8_t first = byte();
        Head out{static_cast<std::uint8_t>(first >> 5), static_cast<std::uint8_t>(first & 31), 0,
                 false};
        if (out.info < 24)
            out.argument = out.info;
        else if (out.info < 28)
            out.argument = big_endian(1 << (out.info - 24));
        else if (out.info == 31)
            out.indefinite = true;
        else
            fail("a reserved length");
        return out;
    }

    bool take_break() {
        if (at_ >= bytes_.size()) fail("the body ends inside an item");
        if (static_cast<std::uint8_t>(bytes_[at_]) != kBreak) return false;
        ++at_;
        return true;
    }

    std::string_view raw(std::uint64_t length) {
        if (length > bytes_.size() - at_) fail("a string is longer than the body");
        const std::string_view out = bytes_.substr(at_, std::size_t(length));
        at_ += std::size_t(length);
        return out;
    }

    std::string text(const Head& head) {
        std::string out;
        if (!head.indefinite) {
            out = raw(head.argument);
        } else {
            while (!take_break()) {
                const Head part = this->head();
                if (part.major != text_string || part.indefinite) fail("a chunk is not text");
                out += raw(part.argument);
            }
        }
        if (!is_valid_utf8(out)) fail("text is not UTF-8");
        return out;
    }

    /// A container's next element is there: false at its end.
    bool more(const Head& head, std::uint64_t done) {
        if (head.indefinite) return !take_break();
        // Each element takes a byte at least: a lying count ends at the end of the body, not in
        // memory.
        return done < head.argument;
    }

    Json list(const Head& head, int depth) {
        Json out = Json::array();
        for (std::uint64_t n = 0; more(head, n); ++n) out.push_back(item(depth + 1));
        return out;
    }

    Json object(const Head& head, int depth) {
        Json out = Json::object();
        for (std::uint64_t n = 0; more(head, n); ++n) {
            if (n >= 256) fail("a map has more than 256 members");
            const Head key = this->head();
            if (key.major != text_string) fail("a key is not text");
            std::string name = text(key);
            if (out.contains(name)) fail("a key comes twice");
            out[std::move(name)] = item(depth + 1);
        }
        return out;
    }

    Json real(double value) const {
        if (!std::isfinite(value)) fail("a number is not finite");
        return value;
    }

    static double half(std::uint64_t bits) {
        const auto exponent = int(bits >> 10 & 31);
        const auto mantissa = double(bits & 1023);
        double value = 0;
        if (exponent == 0)
            value = std::ldexp(mantissa, -24);
        else if (exponent == 31)
            value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN();
        else
            value = std::ldexp(mantissa + 1024, exponent - 25);
        return (bits & 0x8000) != 0 ? -value : value;
    }

    Json simple_value(const Head& head) {
        if (head.indefinite) fail("a break outside a container");
        switch (head.info) {
            case 20:
                return false;
            case 21:
                return true;
            case 22:
            case 23:
                return nullptr;
            case 25:
                return real(half(head.argument));
            case 26:
                return real(double(std::bit_cast<float>(std::uint32_t(head.argument))));
            case 27:
                return real(std::bit_cast<double>(head.argument));
        }
        fail("an unknown simple value");
    }

    Json item(int depth) {
        if (depth > kDeepest) fail("nesting deeper than 32");
        const Head head = this->head();
        constexpr auto kLargest = std::uint64_t(std::numeric_limits<std::int64_t>::max());
        if (head.indefinite && (head.major < byte_string || head.major == tag))
            fail("a number without an end");
        switch (head.major) {
            case unsigned_number:
                if (head.argument > kLargest) fail("a number is too large");
                return std::int64_t(head.argument);
            case negative_number:
                if (head.argument > kLargest) fail("a number is too large");
                return -1 - std::int64_t(head.argument);
            case text_string:
                return text(head);
            case array:
                return list(head, depth);
            case map:
                return object(head, depth);
            case tag: {
                if (head.argument != 1) fail("a tag other than 1 (time)");
                Json value = item(depth + 1);
                if (!value.is_number()) fail("a time is not a number");
                return value;
            }
            case simple:
                return simple_value(head);
        }
        fail("byte strings are not used by this service");
    }

    std::string_view bytes_;
    std::size_t at_ = 0;
};

void put_head(std::string& out, Major major, std::uint64_t argument) {
    const auto first = static_cast<std::uint8_t>(major << 5);
    int width = 0;
    if (argument < 24) {
        out += char(first | argument);
        return;
    }
    if (argument <= 0xff)
        width = 0;
    else if (argument <= 0xffff)
        width = 1;
    else if (argument <= 0xffff'ffff)
        width = 2;
    else
        width = 3;
    out += char(first | (24 + width));
    for (int shift = (8 << width) - 8; shift >= 0; shift -= 8) out += char(argument >> shift & 255);
}

void put_real(std::string& out, double value) {
    out += char(0xfb);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) out += char(bits >> shift & 255);
}

void put(std::string& out, const Json& value, bool is_time) {
    if (value.is_number()) {
        if (is_time) put_head(out, tag, 1);
        if (value.is_number_float() || is_time)
            put_real(out, value.get<double>());
        else if (value.is_number_unsigned() || value.get<std::int64_t>() >= 0)
            put_head(out, unsigned_number, value.get<std::uint64_t>());
        else
            put_head(out, negative_number, std::uint64_t(-1 - value.get<std::int64_t>()));
    } else if (value.is_string()) {
        const std::string text = to_valid_utf8(value.get_ref<const std::string&>());
        put_head(out, text_string, text.size());
        out += text;
    } else if (value.is_array()) {
        put_head(out, array, value.size());
        for (const Json& element : value) put(out, element, is_time);
    } else if (value.is_object()) {
        put_head(out, map, value.size());
        for (const auto& [name, member] : value.items()) {
            put_head(out, text_string, name.size());
            out += name;
            put(out, member, is_time_member(name));
        }
    } else if (value.is_boolean()) {
        out += char(value.get<bool>() ? 0xf5 : 0xf4);
    } else {
        out += char(0xf6);
    }
}

}  // namespace

Json decode_cbor(std::string_view bytes) {
    return Reader(bytes).document();
}

std::string encode_cbor(const Json& value) {
    std::string out;
    put(out, value, false);
    return out;
}

bool is_time_member(std::string_view name) {
    return name == "Timestamp" || name == "Timestamps" || name == "StartTime" || name == "EndTime";
}

}  // namespace ty::api::cloudwatch
