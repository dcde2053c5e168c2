// SPDX-License-Identifier: Apache-2.0
// Vocabulary files of BERT and ERNIE, and the table from token to id.
#include "common/base/error.h"
#include "common/base/random.h"
#include "common/base/utf8.h"
#include "text/lines.h"
#include "text/unicode.h"
#include "text/wordpiece.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>

namespace alg {

namespace {

constexpr std::int32_t kLargestId = 10'000'000;  ///< far above any vocabulary; bounds memory

std::uint64_t hash_of(std::string_view token) {
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (const char byte : token)
        hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3ULL;
    return mix(hash);
}

/// `token<TAB>id`; nothing when the line is not of that form.
struct Numbered {
    std::string_view token;
    std::int64_t id;
};
std::optional<Numbered> numbered(std::string_view line) {
    const std::size_t tab = line.rfind('\t');
    if (tab == std::string_view::npos || tab == 0) return std::nullopt;
    std::int64_t id = 0;
    const char* end = line.data() + line.size();
    const auto [rest, error] = std::from_chars(line.data() + tab + 1, end, id);
    if (error != std::errc() || rest != end) return std::nullopt;
    return Numbered{line.substr(0, tab), id};
}

}  // namespace

Vocabulary Vocabulary::read(const std::filesystem::path& file) {
    LineReader reader(file, 1U << 16);
    std::vector<std::string> tokens;
    std::string line;
    bool with_ids = false;
    while (reader.next(line)) {
        const std::int64_t at = reader.number();
        const auto fields = numbered(line);
        if (!is_utf8(line)) fail("{}:{}: is not UTF-8", file.string(), at);
        if (at == 1) with_ids = fields.has_value();
        if (!with_ids) {
            tokens.push_back(line);
            continue;
        }
        if (!fields) {
            if (line.empty()) continue;
            fail("{}:{}: \"{:.40}\" is not token<TAB>id as the lines before it", file.string(), at,
                 line);
        }
        if (fields->id < 0 || fields->id > kLargestId)
            fail("{}:{}: id {} of \"{}\" must be between 0 and {}", file.string(), at, fields->id,
                 fields->token, kLargestId);
        const auto id = static_cast<std::size_t>(fields->id);
        if (id >= tokens.size()) tokens.resize(id + 1);
        if (!tokens[id].empty())
            fail("{}:{}: \"{}\" and \"{}\" have the same id {}", file.string(), at, tokens[id],
                 fields->token, id);
        tokens[id] = fields->token;
    }
    while (!tokens.empty() && tokens.back().empty()) tokens.pop_back();
    try {
        Vocabulary vocabulary(std::move(tokens));
        if (vocabulary.id("[UNK]") < 0)
            fail("has no [UNK]; it must be a WordPiece vocabulary, one token a line");
        return vocabulary;
    } catch (const Failure& failure) {
        fail("{}: {}{}", file.string(), failure.what(),
             with_ids ? "" : " (an id is the line's number minus one)");
    }
}

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    slots_.resize(std::bit_ceil(tokens_.size() * 2 + 2));
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
        if (tokens_[i].empty()) continue;  // an id without a token
        const std::uint64_t hash = hash_of(tokens_[i]);
        std::size_t at = hash & mask;
        for (; slots_[at].id >= 0; at = (at + 1) & mask)
            if (slots_[at].hash == hash && token(slots_[at].id) == tokens_[i])
                fail("token \"{}\" is there twice: ids {} and {}", tokens_[i], slots_[at].id, i);
        slots_[at] = {hash, static_cast<std::int32_t>(i)};
    }
}

std::int32_t Vocabulary::size() const {
    return static_cast<std::int32_t>(tokens_.size());
}

std::int32_t Vocabulary::id(std::string_view token) const {
    if (token.empty()) return -1;
    const std::uint64_t hash = hash_of(token);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask; slots_[at].id >= 0; at = (at + 1) & mask)
        if (slots_[at].hash == hash && tokens_[static_cast<std::size_t>(slots_[at].id)] == token)
            return slots_[at].id;
    return -1;
}

const std::string& Vocabulary::token(std::int32_t id) const {
    if (id < 0 || id >= size()) fail("vocabulary of {} tokens has no id {}", size(), id);
    return tokens_[static_cast<std::size_t>(id)];
}

void Vocabulary::write(const std::filesystem::path& file) const {
    std::string text;
    for (std::int32_t i = 0; i < size(); ++i) {
        std::string token = tokens_[static_cast<std::size_t>(i)];
        for (int extra = 0; token.empty() || (extra > 0 && id(token) >= 0); ++extra)
            token = format("[unused{}{}]", i, std::string(static_cast<std::size_t>(extra), '_'));
        text += token;
        text += '\n';
    }
    std::FILE* out = std::fopen(file.c_str(), "we");
    const bool opened = out != nullptr;
    const bool written = opened && std::fwrite(text.data(), 1, text.size(), out) == text.size();
    const bool closed = opened && std::fclose(out) == 0;
    if (!written || !closed)
        fail("{}: the vocabulary cannot be written: {}", file.string(), std::strerror(errno));
}

}  // namespace alg
