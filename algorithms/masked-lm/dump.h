// SPDX-License-Identifier: Apache-2.0
// What a reference implementation needs to repeat a training: first weights, batches, rates.
#pragma once

#include "common/files/tensors.h"
#include "masked-lm/round.h"

#include "common/training/module.h"

namespace alg {

class Dump {
public:
    /// Keeps a copy of the weights.
    Dump(fs::path file, const std::vector<Parameter>& parameters);
    void add(const std::vector<Batch>& micros, double rate, double follows, double words);
    std::int64_t updates() const { return static_cast<std::int64_t>(rates_.size()); }
    /// {"weights": by Hugging Face's names, "batches": [{"tokens", "types", "positions", "lengths",
    /// "selected", "labels", "nsp"}…] (packed; one a micro-batch), "rates": […], "losses": [[next
    /// sentence, words]…] of ours}.
    void write() const;

private:
    const fs::path file_;
    Dictionary weights_;
    std::vector<Value> batches_, rates_, losses_;
};

}  // namespace alg
