// SPDX-License-Identifier: Apache-2.0
#include "common/base/meter.h"

#include "common/base/error.h"

#include <algorithm>

namespace alg {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double Rate::take() {
    const double seconds = seconds_since(since_);
    const double rate = seconds > 0 ? events_ / seconds : 0;
    since_ = std::chrono::steady_clock::now();
    events_ = 0;
    return rate;
}

Progress::Progress(std::int64_t done, std::int64_t total)
    : start_(std::chrono::steady_clock::now()), first_(done), done_(done), total_(total) {}

void Progress::at(std::int64_t done) {
    done_ = done;
}

double Progress::seconds_left() const {
    const std::int64_t here = done_ - first_;
    if (here <= 0 || done_ >= total_) return 0;
    return seconds_since(start_) / static_cast<double>(here) * static_cast<double>(total_ - done_);
}

std::string Progress::text() const {
    const std::int64_t percent =
        total_ > 0 ? std::min<std::int64_t>(100, done_ * 100 / total_) : 100;
    std::string text = format("{} % ({}/{})", percent, done_, total_);
    if (done_ <= first_ || done_ >= total_) return text;  // nothing to judge by, or done
    const auto left = static_cast<std::int64_t>(seconds_left() + 0.5);
    return text + format(", {}:{:02}:{:02} left", left / 3600, left / 60 % 60, left % 60);
}

}  // namespace alg
