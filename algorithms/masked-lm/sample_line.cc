// SPDX-License-Identifier: Apache-2.0
#include "masked-lm/sample_line.h"

#include "common/base/error.h"

#include <algorithm>

namespace alg {

namespace {

constexpr std::int32_t kLargest = 100'000'000;  // larger numbers stay here: none is valid

/// Integers up to the next `;` or the end. False at anything else; `at` stays there.
template <typename T>
bool integers(const char*& at, const char* end, std::vector<T>& into) {
    into.clear();
    while (true) {
        while (at != end && *at == ' ') ++at;
        if (at == end || *at == ';') return true;
        const bool negative = *at == '-';
        if (negative) ++at;
        unsigned digit = 0;
        if (at == end || (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) > 9)
            return false;
        std::int32_t value = 0;
        do {
            value = value < kLargest ? value * 10 + static_cast<std::int32_t>(digit) : value;
            ++at;
        } while (at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9);
        if (at != end && *at != ' ' && *at != ';') return false;
        if (negative) value = -value;
        into.push_back(static_cast<T>(sizeof(T) == 1 ? std::clamp(value, -100, 100) : value));
    }
}

template <typename T>
std::optional<BadLine> outside(const std::vector<T>& values, std::int64_t from, std::int64_t below,
                               const char* kind, const char* name, const std::string& remedy) {
    // One pass without branches; a second only where something is wrong.
    bool wrong = false;
    for (const T value : values) wrong |= (value < from) | (value >= below);
    if (!wrong) return std::nullopt;
    const auto bad = std::find_if(values.begin(), values.end(),
                                  [&](T value) { return value < from || value >= below; });
    return BadLine{kind, format("{} {} at place {} is not in {}..{}{}", name, int{*bad},
                                bad - values.begin(), from, below - 1, remedy)};
}

std::optional<BadLine> check(const SampleFields& fields, const SampleLimits& limits) {
    const std::size_t length = fields.tokens.size();
    if (fields.types.size() != length || fields.positions.size() != length ||
        fields.words.size() != length)
        return BadLine{"fields of unequal length",
                       format("{} tokens, {} sentence ids, {} positions, {} word labels", length,
                              fields.types.size(), fields.positions.size(), fields.words.size())};
    if (length == 0) return BadLine{"no tokens", "the line has no tokens"};
    if (static_cast<std::int64_t>(length) > limits.longest)
        return BadLine{"longer than max_seq_len",
                       format("{} tokens, max_seq_len is {}", length, limits.longest)};
    if (auto bad = outside(fields.tokens, 0, limits.vocabulary, "id beyond the vocabulary",
                           "token id", "; is it the vocabulary of these files?"))
        return bad;
    if (auto bad = outside(fields.types, 0, limits.types, "wrong sentence id", "sentence id", ""))
        return bad;
    if (auto bad = outside(fields.positions, 0, limits.positions, "wrong position", "position",
                           "; see max_position_embeddings"))
        return bad;
    return outside(fields.words, -1, 2, "wrong word label", "word label", "");
}

}  // namespace

std::optional<BadLine> parse_sample(std::string_view line, const SampleLimits& limits,
                                    SampleFields& fields) {
    const char* at = line.data();
    const char* const end = at + line.size();
    std::vector<std::int32_t>* const numbers[] = {&fields.tokens, &fields.types, &fields.positions};
    const auto no_number = [&]() -> BadLine {
        return {"not a number", format("byte {} is no integer", at - line.data())};
    };
    const auto fields_missing = [&](int found) -> BadLine {
        return {"not five fields", format("{} fields, 5 expected", found)};
    };
    for (int i = 0; i < 3; ++i) {
        if (!integers(at, end, *numbers[i])) return no_number();
        if (at == end) return fields_missing(i + 1);
        ++at;
    }
    if (!integers(at, end, fields.words)) return no_number();
    if (at == end) return fields_missing(4);
    ++at;
    std::vector<std::int32_t> label;
    if (!integers(at, end, label)) return no_number();
    if (at != end) return fields_missing(6);
    if (auto bad = check(fields, limits)) return bad;
    if (label.size() != 1 || label[0] < 0 || label[0] > 1)
        return BadLine{"wrong next-sentence label",
                       label.size() == 1
                           ? format("next_sentence_label {} is neither 0 nor 1", label[0])
                           : format("{} next_sentence_labels", label.size())};
    fields.follows = label[0] == 1;
    bool counted = true;
    for (std::size_t i = 0; i < fields.positions.size(); ++i)
        counted &= fields.positions[i] == static_cast<std::int32_t>(i);
    fields.counted = counted;
    return std::nullopt;
}

}  // namespace alg
