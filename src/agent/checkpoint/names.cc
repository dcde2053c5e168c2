// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpoint/names.h"

#include "agent/checkpoint/manifest.h"
#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace ty::agent {

namespace {

constexpr std::string_view kOurs = ".trainyard";
constexpr std::size_t kLongestPath = 4096;
constexpr std::array<std::string_view, 7> kUnfinished = {
    ".tmp", ".temp", ".part", ".partial", ".incomplete", "~", ".swp"};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Exactly `count` digits and a '-' from the front.
std::optional<std::int64_t> take_number(std::string_view& text, std::size_t count) {
    if (text.size() <= count || text[count] != '-') return std::nullopt;
    std::int64_t value = 0;
    for (const char c : text.substr(0, count)) {
        if (!is_digit(c)) return std::nullopt;
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(count + 1);
    return value;
}

bool is_node_name(std::string_view text) {
    return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
        return is_digit(c) || is_letter(c) || c == '-' || c == '~' || c == '_';
    });
}

/// S3 keys are UTF-8, and listings are XML, which has no way to say control characters.
bool fits_a_key(std::string_view path) {
    return is_valid_utf8(path) && std::ranges::none_of(path, [](char c) {
               return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
           });
}

/// The last number in one component that follows `word` (letters before it, and at most one of
/// '-', '_', '=' between).
struct Number {
    std::string word;
    std::int64_t value = 0;
};
std::vector<Number> numbers_of(std::string_view name) {
    std::vector<Number> numbers;
    for (std::size_t at = 0; at < name.size();) {
        if (!is_digit(name[at])) {
            ++at;
            continue;
        }
        std::size_t end = at;
        while (end < name.size() && is_digit(name[end])) ++end;
        std::size_t word_end = at;
        if (word_end > 0 && std::string_view("-_=").find(name[word_end - 1]) != name.npos)
            --word_end;
        std::size_t word = word_end;
        while (word > 0 && is_letter(name[word - 1])) --word;
        if (const auto value = parse_int(name.substr(at, end - at)); value && word < word_end)
            numbers.push_back({to_lower(name.substr(word, word_end - word)), *value});
        at = end;
    }
    return numbers;
}

}  // namespace

std::string CheckpointId::str() const {
    return format("{:06}-{:09}-{:09}-{}", epoch.attempt, epoch.generation, sequence, node);
}

std::optional<CheckpointId> CheckpointId::parse(std::string_view text) {
    const auto attempt = take_number(text, 6);
    if (!attempt) return std::nullopt;
    const auto generation = take_number(text, 9);
    if (!generation) return std::nullopt;
    const auto sequence = take_number(text, 9);
    if (!sequence || !is_node_name(text)) return std::nullopt;
    return CheckpointId{{*attempt, *generation}, *sequence, std::string(text)};
}

bool is_safe_path(std::string_view path) {
    if (path.empty() || path.size() > kLongestPath || path.find('\0') != path.npos) return false;
    if (path == kOurs || path.starts_with(".trainyard/")) return false;
    return std::ranges::all_of(split(path, '/'), [](const std::string& part) {
        return !part.empty() && part != "." && part != ".." && part.size() <= 255;
    });
}

std::string manifest_key(const CheckpointId& id) {
    return format(".trainyard/manifests/{}.json", id.str());
}
std::string data_key(const CheckpointId& data, std::string_view path) {
    return format(".trainyard/data/{}/{}", data.str(), percent_encode(path, Slash::keep));
}
std::string visible_key(std::string_view path) {
    return fits_a_key(path) ? std::string(path) : percent_encode(path, Slash::keep);
}

bool is_left_out(std::string_view path) {
    const std::vector<std::string> parts = split(path, '/');
    return std::ranges::any_of(parts, [](const std::string& part) {
        return part.starts_with('.') || std::ranges::any_of(kUnfinished, [&](std::string_view end) {
                   return part.ends_with(end);
               });
    });
}

std::optional<std::int64_t> step_of(std::string_view path) {
    // The innermost name that has a number speaks, when the number counts steps: checkpoint-1200/
    // model-1-of-3.safetensors is step 1200.
    static constexpr std::array<std::string_view, 6> kWords = {"checkpoint", "ckpt",   "iter",
                                                               "iteration",  "global", "update"};
    std::vector<std::string> parts = split(path, '/');
    std::ranges::reverse(parts);
    std::optional<std::int64_t> weaker;
    for (const std::string& part : parts) {
        for (const Number& number : numbers_of(part)) {
            if (number.word.ends_with("step") || number.word.ends_with("steps"))
                return number.value;
            if (!weaker && std::ranges::find(kWords, number.word) != kWords.end())
                weaker = number.value;
        }
    }
    return weaker;
}

std::optional<std::int64_t> step_of_state(std::string_view json) {
    const Result<Json> state = capture([&] { return parse_json(json); });
    if (!state.ok()) return std::nullopt;
    Json value = Result<Json>(state).value();
    if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer())
        return std::nullopt;
    const Json& step = value["step"];
    if (step.is_number_unsigned() && step.get<std::uint64_t>() > (1ull << 62)) return std::nullopt;
    return step.get<std::int64_t>();
}

}  // namespace ty::agent
