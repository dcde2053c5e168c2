// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizer: the same tokens as Hugging Face's BertTokenizerFast on any input. Free of
// LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace alg {

class Vocabulary {
public:
    /// One token a line (BERT), or `token<TAB>id` (ERNIE). Throws Failure naming file and line:
    /// doubled tokens or ids, bad ids, missing [UNK].
    static Vocabulary read(const std::filesystem::path& file);
    explicit Vocabulary(std::vector<std::string> tokens);
    std::int32_t size() const;  ///< largest id + 1
    /// -1 when absent.
    std::int32_t id(std::string_view token) const;
    const std::string& token(std::int32_t id) const;
    /// One token a line, as Hugging Face reads it; ids without a token get "[unused<id>]".
    void write(const std::filesystem::path& file) const;

private:
    std::vector<std::string> tokens_;
    struct Slot {
        std::uint64_t hash = 0;
        std::int32_t id = -1;
    };
    std::vector<Slot> slots_;  ///< open addressing
};

struct WordPieceOptions {
    bool lower_case = true;     ///< also strips accents, as BERT does
    bool split_chinese = true;  ///< space around CJK characters
    int longest_word = 100;     ///< characters, at most 250; longer words are [UNK]
};

/// Immutable after construction; any thread.
class WordPiece {
public:
    WordPiece(Vocabulary vocabulary, WordPieceOptions options = {});
    /// Appends the ids of `text` (UTF-8; invalid bytes count as U+FFFD) without [CLS] and [SEP].
    /// "[CLS]", "[SEP]", "[MASK]", "[PAD]" and "[UNK]" written in the text are those tokens, as in
    /// Hugging Face's. At most `most` ids: what follows is not looked at.
    void encode(std::string_view text, std::vector<std::int32_t>& ids,
                std::size_t most = std::numeric_limits<std::size_t>::max()) const;
    /// Appends the words of `text` after normalisation, before any vocabulary.
    void words(std::string_view text, std::vector<std::string>& into) const;
    /// [CLS] a [SEP] (b [SEP]), cut to `longest` as Hugging Face's longest_first; types: 0 for a, 1
    /// for b.
    struct Encoded {
        std::vector<std::int32_t> ids;
        std::int32_t second = 0;  ///< where the second text begins; ids.size() when there is none
    };
    Encoded encode_pair(std::string_view a, std::string_view b, bool has_b,
                        std::size_t longest) const;
    const Vocabulary& vocabulary() const { return vocabulary_; }
    const WordPieceOptions& options() const { return options_; }

private:
    Vocabulary vocabulary_;
    WordPieceOptions options_;
    std::int32_t unknown_, cls_, sep_;
    struct Tables;  ///< characters and pieces, ready for the inner loop
    std::shared_ptr<const Tables> tables_;
    class Scanner;
};

}  // namespace alg
