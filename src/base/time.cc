// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include "base/format.h"

#include <array>
#include <charconv>
#include <cmath>

namespace ty {

namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct Civil {
    int year, month, day, hour, minute, second, millisecond, weekday;
};

Civil civil_of(Instant instant) {
    const auto date = std::chrono::floor<days>(instant);
    const year_month_day ymd(date);
    const auto rest = (instant - date).count();
    return {.year = int(ymd.year()),
            .month = int(unsigned(ymd.month())),
            .day = int(unsigned(ymd.day())),
            .hour = int(rest / 3'600'000),
            .minute = int(rest / 60'000 % 60),
            .second = int(rest / 1000 % 60),
            .millisecond = int(rest % 1000),
            .weekday = int(std::chrono::weekday(date).c_encoding())};
}

std::optional<Instant> from_civil(const Civil& c) {
    const year_month_day ymd(std::chrono::year(c.year), std::chrono::month(unsigned(c.month)),
                             std::chrono::day(unsigned(c.day)));
    if (!ymd.ok() || c.hour > 23 || c.minute > 59 || c.second > 60) return std::nullopt;
    return Instant(sys_days(ymd)) + std::chrono::hours(c.hour) + std::chrono::minutes(c.minute) +
           seconds(c.second) + milliseconds(c.millisecond);
}

/// Takes exactly `width` digits off the front of text.
bool take(std::string_view& text, std::size_t width, int& out) {
    if (text.size() < width) return false;
    out = 0;
    for (std::size_t i = 0; i < width; ++i) {
        if (text[i] < '0' || text[i] > '9') return false;
        out = out * 10 + (text[i] - '0');
    }
    text.remove_prefix(width);
    return true;
}

bool skip(std::string_view& text, char c) {
    if (text.empty() || text[0] != c) return false;
    text.remove_prefix(1);
    return true;
}

}  // namespace

std::string format_iso8601(Instant instant) {
    const Civil c = civil_of(instant);
    return format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", c.year, c.month, c.day, c.hour,
                  c.minute, c.second, c.millisecond);
}

std::optional<Instant> parse_iso8601(std::string_view text) {
    Civil c{};
    if (!take(text, 4, c.year) || !skip(text, '-') || !take(text, 2, c.month) || !skip(text, '-') ||
        !take(text, 2, c.day))
        return std::nullopt;
    if (text.empty()) return from_civil(c);
    if (!skip(text, 'T') && !skip(text, ' ')) return std::nullopt;
    if (!take(text, 2, c.hour) || !skip(text, ':') || !take(text, 2, c.minute)) return std::nullopt;
    if (skip(text, ':') && !take(text, 2, c.second)) return std::nullopt;
    if (skip(text, '.')) {
        int scale = 100;
        while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
            c.millisecond += (text[0] - '0') * scale;
            scale /= 10;
            text.remove_prefix(1);
        }
    }
    auto instant = from_civil(c);
    if (!instant || text.empty() || text == "Z" || text == "z") return instant;
    const bool behind = text[0] == '-';
    if (!skip(text, '+') && !skip(text, '-')) return std::nullopt;
    int hours = 0, minutes = 0;
    if (!take(text, 2, hours)) return std::nullopt;
    skip(text, ':');
    if (!text.empty() && !take(text, 2, minutes)) return std::nullopt;
    if (!text.empty()) return std::nullopt;
    const auto offset = std::chrono::hours(hours) + std::chrono::minutes(minutes);
    return behind ? *instant + offset : *instant - offset;
}

std::string format_http_date(Instant instant) {
    const Civil c = civil_of(instant);
    return format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", kDays[std::size_t(c.weekday)], c.day,
                  kMonths[std::size_t(c.month - 1)], c.year, c.hour, c.minute, c.second);
}

std::optional<Instant> parse_http_date(std::string_view text) {
    const auto comma = text.find(", ");
    if (comma == std::string_view::npos) return std::nullopt;
    text.remove_prefix(comma + 2);
    Civil c{};
    if (!take(text, 2, c.day) || !skip(text, ' ') || text.size() < 3) return std::nullopt;
    for (std::size_t i = 0; i < kMonths.size(); ++i)
        if (text.starts_with(kMonths[i])) c.month = int(i) + 1;
    text.remove_prefix(3);
    if (!skip(text, ' ') || !take(text, 4, c.year) || !skip(text, ' ') || !take(text, 2, c.hour) ||
        !skip(text, ':') || !take(text, 2, c.minute) || !skip(text, ':') ||
        !take(text, 2, c.second))
        return std::nullopt;
    return from_civil(c);
}

std::string format_amz_date(Instant instant) {
    const Civil c = civil_of(instant);
    return format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", c.year, c.month, c.day, c.hour, c.minute,
                  c.second);
}

std::optional<Instant> parse_amz_date(std::string_view text) {
    Civil c{};
    if (!take(text, 4, c.year) || !take(text, 2, c.month) || !take(text, 2, c.day) ||
        !skip(text, 'T') || !take(text, 2, c.hour) || !take(text, 2, c.minute) ||
        !take(text, 2, c.second) || text != "Z")
        return std::nullopt;
    return from_civil(c);
}

double to_epoch_seconds(Instant instant) {
    return double(to_epoch_millis(instant)) / 1000.0;
}

Instant from_epoch_seconds(double value) {
    return Instant(milliseconds(std::llround(value * 1000.0)));
}

long long to_epoch_millis(Instant instant) {
    return instant.time_since_epoch().count();
}

Instant from_epoch_millis(long long millis) {
    return Instant(milliseconds(millis));
}

}  // namespace ty
