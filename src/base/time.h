// SPDX-License-Identifier: Apache-2.0
// Instants, deadlines and the clock that hands them out. Only clock.cc reads the system's clocks,
// so tests advance time instead of waiting for it (R15).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace ty {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Wall-clock time, the resolution AWS reports.
using Instant = std::chrono::sys_time<milliseconds>;
using Monotonic = std::chrono::steady_clock::time_point;

class Clock {
public:
    virtual ~Clock() = default;
    virtual Instant now() const = 0;
    virtual Monotonic monotonic() const = 0;
};

class SystemClock final : public Clock {
public:
    Instant now() const override;
    Monotonic monotonic() const override;
};

/// A point on the monotonic clock after which a wait gives up. Copyable value.
class Deadline {
public:
    static Deadline never() { return Deadline(); }
    static Deadline at(Monotonic point) { return Deadline(point); }
    /// From now on the real monotonic clock: deadlines bound kernel waits, which fakes cannot
    /// advance.
    static Deadline in(std::chrono::nanoseconds duration);

    bool is_never() const { return !point_.has_value(); }
    bool passed() const;
    /// Time left, never negative; a year for never().
    milliseconds left() const;
    /// Milliseconds for poll(2): -1 for never, rounded up.
    int poll_timeout() const;
    Monotonic point() const { return point_.value_or(Monotonic::max()); }
    static Deadline earlier(Deadline a, Deadline b) { return a.point() < b.point() ? a : b; }

private:
    Deadline() = default;
    explicit Deadline(Monotonic point) : point_(point) {}
    std::optional<Monotonic> point_;
};

/// "2026-01-31T12:00:00.000Z".
std::string format_iso8601(Instant instant);
/// Accepts seconds or fractions, "Z" or a numeric offset. nullopt when it is not a time.
std::optional<Instant> parse_iso8601(std::string_view text);
/// "Sat, 31 Jan 2026 12:00:00 GMT" (RFC 9110).
std::string format_http_date(Instant instant);
std::optional<Instant> parse_http_date(std::string_view text);
/// "20260131T120000Z", the form of x-amz-date.
std::string format_amz_date(Instant instant);
std::optional<Instant> parse_amz_date(std::string_view text);

double to_epoch_seconds(Instant instant);
Instant from_epoch_seconds(double seconds);
long long to_epoch_millis(Instant instant);
Instant from_epoch_millis(long long millis);

}  // namespace ty
