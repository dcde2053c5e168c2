// SPDX-License-Identifier: Apache-2.0
// What training says: the original's lines, which the article's metric_definitions find, and lines
// of our own about speed.
#pragma once

#include "common/base/meter.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace alg {

struct JournalStep {
    double follows = 0, words = 0, rate = 0;  ///< means of both losses, learning rate
    bool skipped = false;
};

/// Where training stands, as its lines say it.
struct JournalPlace {
    std::int64_t epoch = 1, step = 0;  ///< epochs count from 1 in the log
    int file_place = 1, files = 1;
    std::string file, mask_type;
    int queue = 0;
};

class Journal {
public:
    Journal(std::int64_t done, std::int64_t total) : progress_(done, total) {}
    void add(const JournalStep& step);
    /// Real tokens and right answers of all ranks since the last report.
    void report(const JournalPlace& place, double tokens, double correct, double samples);

    struct Validation {
        double follows = 0, samples = 0, correct = 0;  ///< sums over all ranks
        double words = 0, selected = 0;
        double ppl = 0, batches = 0;  ///< sum of each batch's perplexity
        double seconds = 0;
    };
    static void report(const JournalPlace& place, const Validation& validation);

private:
    Mean loss_, ppl_;
    double rate_ = 0;
    std::int64_t steps_ = 0, skipped_ = 0;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
    Progress progress_;
};

}  // namespace alg
