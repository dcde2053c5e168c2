// SPDX-License-Identifier: Apache-2.0
// Byte-pair joining over counted words. Counts of pairs are kept up to date; the queue's entries
// may be stale and are corrected when they come to the top.
#include "text/train_vocabulary.h"

#include "common/base/error.h"
#include "text/unicode.h"

#include <algorithm>
#include <queue>

namespace alg {

namespace {

std::vector<std::string> specials() {
    return {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
}

struct Word {
    std::vector<std::int32_t> pieces;
    std::int64_t count = 0;
};

class Joiner {
public:
    Joiner(std::vector<std::string> tokens, std::vector<Word> words)
        : tokens_(std::move(tokens)), words_(std::move(words)) {
        for (std::size_t i = 0; i < tokens_.size(); ++i)
            ids_.emplace(tokens_[i], static_cast<std::int32_t>(i));
        for (std::size_t w = 0; w < words_.size(); ++w)
            for (std::size_t i = 0; i + 1 < words_[w].pieces.size(); ++i)
                change(key(words_[w].pieces[i], words_[w].pieces[i + 1]), words_[w].count, w);
        for (const auto& [pair, count] : counts_) queue_.push({count, pair});
    }

    std::vector<std::string> run(std::size_t size, std::int64_t min_frequency) {
        while (tokens_.size() < size && !queue_.empty()) {
            const Entry top = queue_.top();
            queue_.pop();
            const std::int64_t now = counts_[top.pair];
            if (now != top.count) {
                if (now > 0) queue_.push({now, top.pair});
                continue;
            }
            if (now < min_frequency) break;
            join(top.pair);
        }
        return std::move(tokens_);
    }

private:
    using Pair = std::uint64_t;
    struct Entry {
        std::int64_t count;
        Pair pair;
        bool operator<(const Entry& other) const {
            return count != other.count ? count < other.count : pair > other.pair;
        }
    };
    static Pair key(std::int32_t a, std::int32_t b) {
        return static_cast<Pair>(static_cast<std::uint32_t>(a)) << 32 |
               static_cast<std::uint32_t>(b);
    }
    void change(Pair pair, std::int64_t by, std::size_t word) {
        counts_[pair] += by;
        if (by <= 0) return;
        std::vector<std::uint32_t>& where = where_[pair];
        if (where.empty() || where.back() != word)
            where.push_back(static_cast<std::uint32_t>(word));
    }
    void join(Pair pair) {
        const auto a = static_cast<std::int32_t>(pair >> 32);
        const auto b = static_cast<std::int32_t>(pair & 0xFFFFFFFF);
        const std::string joined =
            tokens_[static_cast<std::size_t>(a)] + tokens_[static_cast<std::size_t>(b)].substr(2);
        const auto [found, fresh] = ids_.emplace(joined, static_cast<std::int32_t>(tokens_.size()));
        if (fresh) tokens_.push_back(joined);
        const std::vector<std::uint32_t> where = std::move(where_[pair]);
        where_.erase(pair);
        touched_.clear();
        for (const std::uint32_t word : where) join_in(word, a, b, found->second);
        counts_.erase(pair);
        std::sort(touched_.begin(), touched_.end());
        touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
        for (const Pair other : touched_)
            if (const auto count = counts_.find(other); count != counts_.end())
                queue_.push({count->second, other});
    }
    void join_in(std::size_t w, std::int32_t a, std::int32_t b, std::int32_t joined) {
        std::vector<std::int32_t>& pieces = words_[w].pieces;
        const std::int64_t count = words_[w].count;
        for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
            if (pieces[i] != a || pieces[i + 1] != b) continue;
            if (i > 0) {
                change(key(pieces[i - 1], a), -count, w);
                add(key(pieces[i - 1], joined), count, w);
            }
            if (i + 2 < pieces.size()) {
                change(key(b, pieces[i + 2]), -count, w);
                add(key(joined, pieces[i + 2]), count, w);
            }
            pieces[i] = joined;
            pieces.erase(pieces.begin() + std::ptrdiff_t(i) + 1);
        }
    }
    void add(Pair pair, std::int64_t count, std::size_t word) {
        change(pair, count, word);
        touched_.push_back(pair);
    }

    std::vector<std::string> tokens_;
    std::vector<Word> words_;
    std::unordered_map<std::string, std::int32_t> ids_;
    std::unordered_map<Pair, std::int64_t> counts_;
    std::unordered_map<Pair, std::vector<std::uint32_t>> where_;
    std::priority_queue<Entry> queue_;
    std::vector<Pair> touched_;
};

/// The first character as it is, the others with "##".
std::vector<std::string> characters_of(const std::string& word) {
    std::vector<std::string> result;
    for (std::size_t at = 0; at < word.size();) {
        const std::size_t from = at;
        decode(word, at);
        result.push_back((from == 0 ? "" : "##") + word.substr(from, at - from));
    }
    return result;
}

}  // namespace

VocabularyTrainer::VocabularyTrainer(const VocabularyOptions& options)
    : options_(options),
      splitter_(Vocabulary(specials()), WordPieceOptions{.lower_case = options.lower_case}) {}

void VocabularyTrainer::add(std::string_view text) {
    words_.clear();
    splitter_.words(text, words_);
    for (const std::string& word : words_) ++counts_[word];
}

Vocabulary VocabularyTrainer::train() const {
    if (counts_.empty()) fail("no words to make a vocabulary of");
    std::vector<std::pair<std::string, std::int64_t>> counted(counts_.begin(), counts_.end());
    std::sort(counted.begin(), counted.end());
    std::unordered_map<std::string, std::int64_t> found;
    for (const auto& [word, count] : counted)
        for (const std::string& character : characters_of(word)) found[character] += count;
    std::vector<std::pair<std::string, std::int64_t>> alphabet(found.begin(), found.end());
    std::erase_if(alphabet, [&](const auto& c) { return c.second < options_.min_frequency; });
    std::sort(alphabet.begin(), alphabet.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::vector<std::string> tokens = specials();
    const auto size = static_cast<std::size_t>(options_.size);
    for (const auto& [character, count] : alphabet)
        if (tokens.size() < size) tokens.push_back(character);
    std::unordered_map<std::string, std::int32_t> ids;
    for (std::size_t i = 0; i < tokens.size(); ++i)
        ids.emplace(tokens[i], static_cast<std::int32_t>(i));
    std::vector<Word> words;
    for (const auto& [text, count] : counted) {
        Word word{.count = count};
        for (const std::string& character : characters_of(text)) {
            const auto id = ids.find(character);
            if (id == ids.end()) break;
            word.pieces.push_back(id->second);
        }
        if (word.pieces.size() > 1) words.push_back(std::move(word));
    }
    return Vocabulary(
        Joiner(std::move(tokens), std::move(words)).run(size, options_.min_frequency));
}

}  // namespace alg
