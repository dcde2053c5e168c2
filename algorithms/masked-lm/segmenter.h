// SPDX-License-Identifier: Apache-2.0
// Sentences as tokens and masking units. Text is cut into atoms (a run of letters and digits, or
// one other character); words, entities and phrases are sequences of atoms, so that spaces between
// words do not matter for matching.
#pragma once

#include "text/wordpiece.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace alg {

/// Longest match over lists of words or phrases.
class PhraseList {
public:
    /// Adds what the file has, one a line; returns how many.
    std::size_t read(const std::filesystem::path& file, bool lower_case);
    void add(std::string_view phrase, bool lower_case);
    /// Atoms of the longest phrase that begins at `first`; 0: none.
    std::size_t longest(const std::vector<std::string>& atoms, std::size_t first,
                        std::size_t end) const;
    bool empty() const { return phrases_.empty(); }

private:
    std::unordered_set<std::string> phrases_;  ///< atoms, each followed by a zero byte
    std::size_t most_ = 0;                     ///< atoms of the longest one
};

/// `starts`: for each atom whether white space (or the beginning) is before it.
std::vector<std::string> atoms_of(std::string_view text, std::vector<bool>* starts = nullptr);

/// Sentences of a line: a sentence ends behind 。！？； and behind . ! ? before white space.
std::vector<std::string_view> sentences_of(std::string_view line);

/// Tokens of a sentence, and for each 0 (first of its masking unit) or 1 (further ones).
struct Segmented {
    std::vector<std::int32_t> tokens;
    std::vector<std::int8_t> units;
};

struct Segmentation {
    PhraseList words;     ///< for text that is not segmented
    PhraseList entities;  ///< entities and phrases: before words
    bool spaces = true;   ///< white space separates words: text is segmented
};

Segmented segment(std::string_view sentence, const WordPiece& pieces, const Segmentation& how);

}  // namespace alg
