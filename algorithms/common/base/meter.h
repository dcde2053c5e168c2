// SPDX-License-Identifier: Apache-2.0
// Numbers watched while training: means, rates, progress. Plain values, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace alg {

/// Weighted mean since the last reset.
class Mean {
public:
    void add(double sum, double weight = 1) {
        sum_ += sum;
        weight_ += weight;
    }
    double value() const { return weight_ > 0 ? sum_ / weight_ : 0; }
    double sum() const { return sum_; }
    double weight() const { return weight_; }
    void reset() { sum_ = weight_ = 0; }

private:
    double sum_ = 0, weight_ = 0;
};

/// Events per second between two looks.
class Rate {
public:
    Rate() : since_(std::chrono::steady_clock::now()) {}
    void add(double events) { events_ += events; }
    /// Rate since the last call of take(); starts anew.
    double take();

private:
    std::chrono::steady_clock::time_point since_;
    double events_ = 0;
};

/// Where the training stands: "37 % (370/1000), 0:02:10 left".
class Progress {
public:
    Progress(std::int64_t done, std::int64_t total);
    void at(std::int64_t done);
    std::string text() const;
    double seconds_left() const;

private:
    std::chrono::steady_clock::time_point start_;
    std::int64_t first_, done_, total_;
};

}  // namespace alg
