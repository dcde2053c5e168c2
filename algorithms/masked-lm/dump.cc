// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/dump.h"

#include "transformer/encoder.h"

#include <ATen/ATen.h>

namespace alg {

Dump::Dump(fs::path file, const std::vector<Parameter>& parameters) : file_(std::move(file)) {
    for (const auto& [name, value] : to_hugging_face(parameters))
        weights_.emplace_back(name, value.cpu().clone());
}

void Dump::add(const std::vector<Batch>& micros, double rate, double follows, double words) {
    for (const Batch& batch : micros) {
        const std::vector<std::int64_t> lengths(batch.lengths.begin(), batch.lengths.end());
        batches_.push_back(Dictionary{{"tokens", at::tensor(batch.tokens)},
                                      {"types", at::tensor(batch.types)},
                                      {"positions", at::tensor(batch.positions)},
                                      {"lengths", at::tensor(lengths)},
                                      {"selected", at::tensor(batch.selected)},
                                      {"labels", at::tensor(batch.labels)},
                                      {"nsp", at::tensor(batch.follows)}});
    }
    rates_.emplace_back(rate);
    losses_.push_back(std::vector<Value>{follows, words});
}

void Dump::write() const {
    write_torch(
        file_,
        Dictionary{
            {"weights", weights_}, {"batches", batches_}, {"rates", rates_}, {"losses", losses_}});
}

}  // namespace alg
