// SPDX-License-Identifier: Apache-2.0
// One pass over the bytes: a table says what each character becomes, letters gather in a word with
// the hashes of its prefixes, and a finished word is looked up whole, else piece by piece. A
// polynomial hash gives any piece's hash from two prefixes, so nothing is copied or allocated.
#include "text/wordpiece.h"

#include "common/base/error.h"
#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace alg {

namespace {

constexpr std::size_t kLongestWord = 250;  ///< characters
constexpr std::size_t kWordBytes = 4 * kLongestWord;
constexpr std::uint64_t kBase = 0x9E3779B97F4A7C55ULL;    // odd
constexpr std::uint64_t kSpread = 0xD6E8FEB86659FD93ULL;  // moves a hash's entropy to its top

constexpr auto kPowers = [] {
    std::array<std::uint64_t, kWordBytes + 1> powers{};
    powers[0] = 1;
    for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * kBase;
    return powers;
}();

constexpr std::uint64_t extend(std::uint64_t hash, char byte) {
    return hash * kBase + static_cast<unsigned char>(byte) + 1;
}

/// Pieces by hash. Words begin with those of one table and go on with those of another ("##ing" is
/// "ing" there).
class Pieces {
public:
    void add(std::string_view piece, std::int32_t id) {
        if (!piece.empty() && piece.size() <= kWordBytes) added_.push_back({piece, id});
    }
    void finish() {
        const std::size_t size = std::bit_ceil(added_.size() * 2 + 2);
        slots_.resize(size);
        shift_ = 64 - std::countr_zero(size);
        filter_.resize(std::max<std::size_t>(1, size * 4 / 64));
        for (const auto& [piece, id] : added_) {
            std::uint64_t hash = 0;
            for (const char byte : piece) hash = extend(hash, byte);
            std::size_t at = place(hash);
            while (slots_[at].id >= 0) at = (at + 1) & (size - 1);
            slots_[at] = {hash, id, static_cast<std::uint32_t>(text_.size())};
            const auto length = static_cast<std::uint16_t>(piece.size());
            text_.append(reinterpret_cast<const char*>(&length), sizeof length).append(piece);
            filter_[bit(hash) / 64] |= std::uint64_t{1} << bit(hash) % 64;
            std::uint16_t& longest = longest_[static_cast<unsigned char>(piece[0])];
            longest = std::max(longest, length);
        }
        added_ = {};
    }
    std::int32_t find(std::uint64_t hash, const char* piece, std::size_t size) const {
        const std::size_t at = bit(hash);
        if ((filter_[at / 64] >> at % 64 & 1) == 0) return -1;
        for (std::size_t i = place(hash); slots_[i].id >= 0; i = (i + 1) & (slots_.size() - 1))
            if (slots_[i].hash == hash && same(slots_[i].text, piece, size)) return slots_[i].id;
        return -1;
    }
    /// Of the pieces that begin with this byte.
    std::size_t longest(char first) const { return longest_[static_cast<unsigned char>(first)]; }

private:
    struct Slot {
        std::uint64_t hash = 0;
        std::int32_t id = -1;
        std::uint32_t text = 0;
    };
    struct Added {
        std::string_view piece;
        std::int32_t id;
    };
    std::size_t place(std::uint64_t hash) const { return hash * kSpread >> shift_; }
    /// Eight bits per slot: most pieces that are not there end here, in the first-level cache.
    std::size_t bit(std::uint64_t hash) const { return hash * kSpread >> (shift_ - 2); }
    bool same(std::uint32_t text, const char* piece, std::size_t size) const {
        std::uint16_t length = 0;
        std::memcpy(&length, text_.data() + text, sizeof length);
        return length == size && std::memcmp(text_.data() + text + sizeof length, piece, size) == 0;
    }

    std::vector<Added> added_;
    std::vector<Slot> slots_;
    std::vector<std::uint64_t> filter_;
    std::string text_;
    std::array<std::uint16_t, 256> longest_{};
    int shift_ = 62;
};

/// A word being gathered: its bytes and the hash of each prefix.
struct Word {
    std::size_t size = 0, characters = 0;
    std::array<char, kWordBytes + 4> bytes;
    std::array<std::uint64_t, kWordBytes + 5> prefix;

    Word() { prefix[0] = 0; }
    void add(char byte) {
        bytes[size] = byte;
        prefix[size + 1] = extend(prefix[size], byte);
        ++size;
    }
};

constexpr std::array<std::string_view, 5> kSpecials = {"[UNK]", "[SEP]", "[PAD]", "[CLS]",
                                                       "[MASK]"};

}  // namespace

struct WordPiece::Tables {
    enum class Kind : std::uint8_t {
        drop,
        space,
        letter,  ///< value: what it becomes
        alone,   ///< a word of its own; value: its token
        slow,    ///< becomes several, or may change places with its neighbours
    };
    static constexpr std::uint32_t pack(Kind kind, std::uint32_t value) {
        return static_cast<std::uint32_t>(kind) << 24 | value;
    }
    static constexpr std::uint32_t kPlane = 0x10000;

    Pieces begin, more;
    std::vector<std::uint32_t> characters;  ///< of the first plane
    std::vector<std::pair<std::string_view, std::int32_t>> specials;
};

/// One call of encode().
class WordPiece::Scanner {
public:
    Scanner(const WordPiece& owner, const Tables& tables, std::vector<std::int32_t>& ids,
            std::vector<std::string>* words = nullptr)
        : owner_(owner), tables_(tables), ids_(ids), words_(words) {}

    void scan(std::string_view text, std::size_t most) {
        using enum Tables::Kind;
        const std::size_t enough =
            most > ids_.max_size() - ids_.size() ? ids_.max_size() : ids_.size() + most;
        std::size_t at = 0;
        while (at < text.size()) {
            const std::size_t begun = at;
            const char byte = text[at];
            std::uint32_t code = static_cast<unsigned char>(byte);
            if (code < 0x80)
                ++at;
            else
                code = decode(text, at);
            const std::uint32_t entry =
                code < Tables::kPlane ? tables_.characters[code] : Tables::pack(slow, 0);
            const std::uint32_t value = entry & 0xFFFFFF;
            switch (static_cast<Tables::Kind>(entry >> 24)) {
                case drop:
                    break;
                case space:
                    end_word();
                    break;
                case letter:
                    add(value);
                    continue;
                case alone:
                    end_word();
                    if (byte == '[' && special(text, begun, at)) break;
                    if (words_ != nullptr)
                        normalise(code), end_word();
                    else
                        ids_.push_back(static_cast<std::int32_t>(value));
                    break;
                case slow:
                    at = begun;
                    slowly(text, at);
                    break;
            }
            if (ids_.size() >= enough) break;
        }
        end_word();
        if (ids_.size() > enough) ids_.resize(enough);
    }

    /// What a character is by itself; for the table.
    static std::uint32_t entry(const WordPiece& owner, const Tables& tables, std::uint32_t code);

private:
    void add(std::uint32_t code) {
        if (++word_.characters > static_cast<std::size_t>(owner_.options_.longest_word)) return;
        if (code < 0x80) {
            word_.add(static_cast<char>(code));
        } else if (code < 0x800) {
            word_.add(static_cast<char>(0xC0 | code >> 6));
            word_.add(static_cast<char>(0x80 | (code & 0x3F)));
        } else {
            if (code < 0x10000) {
                word_.add(static_cast<char>(0xE0 | code >> 12));
            } else {
                word_.add(static_cast<char>(0xF0 | code >> 18));
                word_.add(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
            }
            word_.add(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
            word_.add(static_cast<char>(0x80 | (code & 0x3F)));
        }
    }
    void end_word() {
        if (word_.characters == 0) return;
        if (word_.characters > static_cast<std::size_t>(owner_.options_.longest_word)) {
            if (words_ == nullptr) ids_.push_back(owner_.unknown_);
        } else if (words_ != nullptr) {
            words_->emplace_back(word_.bytes.data(), word_.size);
        } else {
            const std::int32_t id =
                tables_.begin.find(word_.prefix[word_.size], word_.bytes.data(), word_.size);
            if (id >= 0)
                ids_.push_back(id);
            else
                in_pieces();
        }
        word_.size = word_.characters = 0;
    }
    /// The longest piece there is, again and again; [UNK] for all when somewhere there is none.
    void in_pieces() {
        const std::size_t kept = ids_.size();
        for (std::size_t from = 0; from < word_.size;) {
            const Pieces& pieces = from == 0 ? tables_.begin : tables_.more;
            const char* piece = word_.bytes.data() + from;
            std::size_t size = std::min(word_.size - from, pieces.longest(*piece));
            std::int32_t id = -1;
            for (; size > 0; --size) {
                const std::uint64_t hash =
                    word_.prefix[from + size] - word_.prefix[from] * kPowers[size];
                id = pieces.find(hash, piece, size);
                if (id >= 0) break;
            }
            if (id < 0) {
                ids_.resize(kept);
                ids_.push_back(owner_.unknown_);
                return;
            }
            ids_.push_back(id);
            from += size;
        }
    }
    bool special(std::string_view text, std::size_t begun, std::size_t& at) {
        for (const auto& [token, id] : tables_.specials)
            if (text.substr(begun, token.size()) == token) {
                ids_.push_back(id);
                at = begun + token.size();
                return true;
            }
        return false;
    }

    // The general way: characters whose order may change wait until one comes that ends the run.
    void slowly(std::string_view text, std::size_t& at) {
        do {
            const std::size_t begun = at;
            const std::uint32_t code = decode(text, at);
            if (code < 0x80 && !is_dropped(code)) {  // the fast way goes on with it
                at = begun;
                break;
            }
            if (is_dropped(code)) continue;
            const bool apart = owner_.options_.split_chinese && is_chinese(code);
            if (is_space(code) || apart) boundary();
            if (is_space(code)) continue;
            normalise(code);
            if (apart) boundary();
        } while (!waiting_.empty() && at < text.size());
        release();
    }
    void normalise(std::uint32_t code) {
        if (!owner_.options_.lower_case) {
            emit(code);
            return;
        }
        parts_.clear();
        decompose(code, parts_);
        for (const std::uint32_t part : parts_) {
            const int order = combining_class(part);
            if (order == 0) release();
            if (is_mark(part)) continue;
            if (order == 0)
                emit(lowered(part));
            else
                waiting_.push_back({order, lowered(part)});
        }
    }
    void release() {
        std::stable_sort(waiting_.begin(), waiting_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [order, code] : waiting_) emit(code);
        waiting_.clear();
    }
    void boundary() {
        release();
        end_word();
    }
    void emit(std::uint32_t code) {
        const bool apart = is_punctuation(code);
        if (apart) end_word();
        add(code);
        if (apart) end_word();
    }

    const WordPiece& owner_;
    const Tables& tables_;
    std::vector<std::int32_t>& ids_;
    std::vector<std::string>* words_;  ///< instead of ids
    Word word_;
    std::vector<std::pair<int, std::uint32_t>> waiting_;
    std::vector<std::uint32_t> parts_;
};

std::uint32_t WordPiece::Scanner::entry(const WordPiece& owner, const Tables& tables,
                                        std::uint32_t code) {
    using enum Tables::Kind;
    if (is_dropped(code)) return Tables::pack(drop, 0);
    if (is_space(code)) return Tables::pack(space, 0);
    std::uint32_t becomes = code;
    if (owner.options_.lower_case) {
        std::vector<std::uint32_t> parts;
        decompose(code, parts);
        const int order = combining_class(parts[0]);
        if (order != 0 && !is_mark(parts[0])) return Tables::pack(slow, 0);
        std::erase_if(parts, is_mark);
        if (parts.empty()) return Tables::pack(drop, 0);
        if (parts.size() > 1) return Tables::pack(slow, 0);
        becomes = lowered(parts[0]);
    }
    const bool apart = owner.options_.split_chinese && is_chinese(code);
    if (!apart && !is_punctuation(becomes)) return Tables::pack(letter, becomes);
    std::vector<std::int32_t> ids;
    Scanner scanner(owner, tables, ids);
    scanner.add(becomes);
    scanner.end_word();
    return Tables::pack(alone, static_cast<std::uint32_t>(ids.at(0)));
}

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)),
      options_(options),
      unknown_(vocabulary_.id("[UNK]")),
      cls_(vocabulary_.id("[CLS]")),
      sep_(vocabulary_.id("[SEP]")) {
    for (const char* token : {"[UNK]", "[CLS]", "[SEP]"})
        if (vocabulary_.id(token) < 0)
            fail("the vocabulary has no {}; it must be a WordPiece vocabulary", token);
    if (options.longest_word < 1 || options.longest_word > static_cast<int>(kLongestWord))
        fail("words of {} characters: the longest must be between 1 and {}", options.longest_word,
             kLongestWord);
    auto tables = std::make_shared<Tables>();
    for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
        const std::string_view token = vocabulary_.token(id);
        tables->begin.add(token, id);
        if (token.starts_with("##")) tables->more.add(token.substr(2), id);
    }
    tables->begin.finish();
    tables->more.finish();
    for (const std::string_view token : kSpecials)
        if (const std::int32_t id = vocabulary_.id(token); id >= 0)
            tables->specials.emplace_back(token, id);
    tables->characters.resize(Tables::kPlane);
    for (std::uint32_t code = 0; code < Tables::kPlane; ++code)
        tables->characters[code] = Scanner::entry(*this, *tables, code);
    tables_ = std::move(tables);
}

void WordPiece::encode(std::string_view text, std::vector<std::int32_t>& ids,
                       std::size_t most) const {
    Scanner(*this, *tables_, ids).scan(text, most);
}

void WordPiece::words(std::string_view text, std::vector<std::string>& into) const {
    std::vector<std::int32_t> unused;
    Scanner(*this, *tables_, unused, &into).scan(text, std::numeric_limits<std::size_t>::max());
}

WordPiece::Encoded WordPiece::encode_pair(std::string_view a, std::string_view b, bool has_b,
                                          std::size_t longest) const {
    const std::size_t specials = has_b ? 3 : 2;
    if (longest < specials) fail("sequences of {} tokens leave no room for text", longest);
    const std::size_t room = longest - specials;
    Encoded result;
    result.ids.reserve(std::min<std::size_t>(longest, (a.size() + b.size()) / 3 + 8));
    result.ids.push_back(cls_);
    encode(a, result.ids, room + 1);
    std::vector<std::int32_t> second;
    if (has_b) encode(b, second, room + 1);
    if (result.ids.size() - 1 > room && second.size() > room) {  // which one is longer matters
        result.ids.resize(1);
        second.clear();
        encode(a, result.ids);
        encode(b, second);
    }
    std::size_t first = result.ids.size() - 1, other = second.size();
    if (first + other > room) {  // the longer one is cut first
        std::size_t &less = first <= other ? first : other, &more = first <= other ? other : first;
        if (!has_b) {
            first = room;
        } else {
            more = less > room ? less : std::max(less, room - less);
            if (less + more > room) {
                less = room / 2;
                more = less + room % 2;
            }
        }
    }
    result.ids.resize(1 + first);
    result.ids.push_back(sep_);
    result.second = static_cast<std::int32_t>(result.ids.size());
    if (has_b) {
        result.ids.insert(result.ids.end(), second.begin(), second.begin() + std::ptrdiff_t(other));
        result.ids.push_back(sep_);
    }
    return result;
}

}  // namespace alg
