// SPDX-License-Identifier: Apache-2.0
#include "api/agent/log_frames.h"

#include "base/error.h"

#include <charconv>
#include <cstring>

namespace ty::api {

namespace {

constexpr std::uint64_t kLastMillis = 253'402'300'799'999;  // year 9999

class Frames {
public:
    explicit Frames(std::string_view body) : left_(body) {}

    bool done() const { return left_.empty(); }

    telemetry::LogLine next() {
        ++frame_;
        const std::uint64_t millis = number(' ', "a time in milliseconds and a space");
        if (millis > kLastMillis) refuse("a time before the year 10000");
        const std::uint64_t size = number('\n', "a byte count and a line feed");
        if (size >= left_.size()) refuse("as many bytes as it announces, and a line feed");
        const std::string_view text = left_.substr(0, size);
        if (left_[size] != '\n') refuse("a line feed after its bytes");
        if (std::memchr(text.data(), '\n', text.size()) != nullptr)
            refuse("no line feed among its bytes");
        left_.remove_prefix(size + 1);
        return {from_epoch_millis(static_cast<long long>(millis)), std::string(text)};
    }

private:
    std::uint64_t number(char terminator, const char* wanted) {
        std::uint64_t value = 0;
        const auto [end, failed] =
            std::from_chars(left_.data(), left_.data() + left_.size(), value);
        if (failed != std::errc() || end == left_.data() + left_.size() || *end != terminator)
            refuse(wanted);
        left_.remove_prefix(static_cast<std::size_t>(end - left_.data()) + 1);
        return value;
    }
    [[noreturn]] void refuse(const char* wanted) const {
        throw_error(Code::invalid, "MalformedLogs", "log frame {} must have {}", frame_, wanted);
    }

    std::string_view left_;
    std::size_t frame_ = 0;
};

}  // namespace

std::vector<telemetry::LogLine> parse_log_frames(std::string_view body) {
    std::vector<telemetry::LogLine> lines;
    for (Frames frames(body); !frames.done();) lines.push_back(frames.next());
    return lines;
}

}  // namespace ty::api
