// SPDX-License-Identifier: Apache-2.0
// A WordPiece vocabulary made from texts: all characters that are frequent enough, then the pieces
// that come of joining the most frequent pair of neighbours again and again.
#pragma once

#include "text/wordpiece.h"

#include <unordered_map>

namespace alg {

struct VocabularyOptions {
    std::int32_t size = 8000;        ///< at most; with the five special tokens
    std::int64_t min_frequency = 2;  ///< of characters and joined pairs
    bool lower_case = true;
};

/// One thread. The result is a function of the texts' words and counts alone, not of their order.
class VocabularyTrainer {
public:
    explicit VocabularyTrainer(const VocabularyOptions& options);
    void add(std::string_view text);
    /// [PAD], [UNK], [CLS], [SEP], [MASK], characters by frequency, joined pieces in the order they
    /// were joined. Throws Failure when there are no words.
    Vocabulary train() const;

private:
    VocabularyOptions options_;
    WordPiece splitter_;
    std::unordered_map<std::string, std::int64_t> counts_;
    std::vector<std::string> words_;  ///< of the text being added
};

}  // namespace alg
