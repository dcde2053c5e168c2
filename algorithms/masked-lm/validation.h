// SPDX-License-Identifier: Apache-2.0
// The valid channel's batches, the same ones and masked the same way every time.
#pragma once

#include "masked-lm/journal.h"
#include "masked-lm/setup.h"

namespace alg {

class Validator {
public:
    /// `batches`: at most so many; 0: all. Ranks take them in turn.
    Validator(std::vector<ListedFile> files, FeedOptions options, std::int64_t batches);
    /// A collective call.
    Journal::Validation run(const MaskedLm& model, torch::Device device, Precision precision,
                            Group& group);

private:
    void add(const Batch& batch, const MaskedLm& model, torch::Device device, Precision precision,
             Journal::Validation& sums) const;

    const std::vector<ListedFile> files_;
    FeedOptions options_;
    const std::int64_t limit_;
    std::vector<Batch> held_;  ///< this rank's, when their number is limited
    bool complete_ = false;
};

}  // namespace alg
