// SPDX-License-Identifier: Apache-2.0
// From channels to numbered samples and batches. Free of LibTorch.
#pragma once

#include "text-classification/options.h"
#include "text/readers.h"
#include "text/wordpiece.h"

#include <optional>
#include <span>

namespace alg {

/// What random numbers are drawn for: one part of each key, so that no two uses meet.
enum class Purpose { plan, dropout, weights, split };

struct Sample {
    WordPiece::Encoded text;
    std::int32_t label = 0;
};

struct Dataset {
    std::vector<Sample> samples;
    std::vector<std::int32_t> lengths;  ///< in tokens
    std::int64_t cut = 0;               ///< samples that were longer than max_length
};

struct Data {
    std::vector<std::string> labels;  ///< names of the classes, by id
    Dataset train, valid, test;
    bool pairs = false;
    bool vocabulary_made = false;
    /// Of all that the order of training follows from.
    std::string fingerprint;
};

/// The folder a start was given as, or unpacked to, tells its vocabulary and case.
struct TokenizerFiles {
    std::optional<Vocabulary> vocabulary;
    std::optional<bool> lower_case;
    bool split_chinese = true;
};
/// vocab.txt, else tokenizer.json's; tokenizer_config.json's settings. Throws Failure for settings
/// that WordPiece here does not have.
TokenizerFiles read_tokenizer(const fs::path& folder);

class DataReader {
public:
    /// `start`: the unpacked folder, or empty. `speaks`: warnings are printed (one process does).
    DataReader(const Options& options, const Inputs& inputs, const fs::path& start, bool speaks);
    const Data& data() const { return data_; }
    const WordPiece& tokenizer() const { return *tokenizer_; }

private:
    RawSamples read(const fs::path& channel, std::vector<std::int32_t>& labels);
    void choose_tokenizer(const fs::path& train, const fs::path& start, const RawSamples& texts);
    Dataset encode(const RawSamples& raw, const std::vector<std::int32_t>& labels) const;
    void split();
    void describe() const;

    const Options& options_;
    const bool speaks_;
    Data data_;
    std::optional<WordPiece> tokenizer_;
};

/// Weights of the classes in the loss; empty: all 1. Throws Failure.
std::vector<float> class_weights(const std::string& given, const Data& data);

struct Batch {
    std::vector<std::int64_t> tokens, types, positions, labels;
    std::vector<std::int32_t> lengths;
    std::int64_t number = 0;  ///< within the epoch, over all ranks
    std::int64_t samples() const { return static_cast<std::int64_t>(lengths.size()); }
};
Batch make_batch(const Dataset& dataset, std::span<const std::int64_t> chosen, std::int64_t number);

/// "32,64,96"
std::vector<std::int32_t> parse_buckets(const std::string& text);

}  // namespace alg
