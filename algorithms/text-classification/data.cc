// SPDX-License-Identifier: Apache-2.0
#include "text-classification/data.h"

#include "common/base/error.h"
#include "common/base/json_file.h"
#include "common/base/random.h"
#include "text/lines.h"
#include "text/train_vocabulary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace alg {

namespace {

constexpr std::size_t kLargestJson = std::size_t{64} << 20;

/// Numbers separated by commas.
template <typename Number>
std::vector<Number> parse_list(const std::string& name, const std::string& text) {
    std::vector<Number> result;
    const char* end = text.data() + text.size();
    for (const char* at = text.data(); at < end;) {
        while (at < end && *at == ' ') ++at;
        Number value{};
        const auto [rest, error] = std::from_chars(at, end, value);
        if (error != std::errc() || (rest != end && *rest != ','))
            fail("{}: \"{}\" is no list of numbers separated by commas", name, text);
        result.push_back(value);
        at = rest + 1;
    }
    return result;
}

Vocabulary vocabulary_of(const nlohmann::json& tokenizer, const fs::path& file) {
    const nlohmann::json model = tokenizer.value("model", nlohmann::json::object());
    const nlohmann::json entries =
        model.is_object() ? model.value("vocab", nlohmann::json()) : nlohmann::json();
    if (!entries.is_object() || model.value("type", "WordPiece") != "WordPiece")
        fail("{}: is no WordPiece tokenizer", file.string());
    std::vector<std::string> tokens;
    for (const auto& [token, id] : entries.items()) {
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() > 10'000'000)
            fail("{}: the id of \"{}\" is no number", file.string(), token);
        tokens.resize(std::max(tokens.size(), id.get<std::size_t>() + 1));
        tokens[id.get<std::size_t>()] = token;
    }
    return Vocabulary(std::move(tokens));
}

/// A member of an object: true, false, or nothing (null, absent).
std::optional<bool> flag_of(const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_boolean()) return std::nullopt;
    return found->get<bool>();
}

}  // namespace

TokenizerFiles read_tokenizer(const fs::path& folder) {
    TokenizerFiles files;
    std::error_code ignored;
    const auto settings = [&](const nlohmann::json& from, const char* lower_case,
                              const char* chinese, const fs::path& file) {
        if (const auto lower = flag_of(from, lower_case)) files.lower_case = lower;
        files.split_chinese = flag_of(from, chinese).value_or(files.split_chinese);
        const auto accents = flag_of(from, "strip_accents");
        if (accents && *accents != files.lower_case.value_or(true))
            fail("{}: strip_accents {} with lower case {} is not supported", file.string(),
                 *accents, files.lower_case.value_or(true));
    };
    if (const fs::path file = folder / "tokenizer.json"; fs::exists(file, ignored)) {
        const auto json = nlohmann::json::parse(read_text(file, kLargestJson), nullptr, false);
        if (!json.is_object()) fail("{}: is no JSON object", file.string());
        if (!fs::exists(folder / "vocab.txt", ignored))
            files.vocabulary = vocabulary_of(json, file);
        if (const auto n = json.find("normalizer"); n != json.end() && n->is_object())
            settings(*n, "lowercase", "handle_chinese_chars", file);
    }
    if (const auto json = read_json_object(folder / "tokenizer_config.json"))
        settings(*json, "do_lower_case", "tokenize_chinese_chars",
                 folder / "tokenizer_config.json");
    if (fs::exists(folder / "vocab.txt", ignored))
        files.vocabulary = Vocabulary::read(folder / "vocab.txt");
    return files;
}

DataReader::DataReader(const Options& options, const Inputs& inputs, const fs::path& start,
                       bool speaks)
    : options_(options), speaks_(speaks) {
    std::vector<std::int32_t> labels;
    const RawSamples train = read(inputs.train, labels);
    data_.pairs = train.pairs;
    choose_tokenizer(inputs.train, start, train);
    data_.train = encode(train, labels);
    const auto other = [&](const fs::path& channel) {
        if (channel.empty()) return Dataset{};
        const RawSamples raw = read(channel, labels);
        return encode(raw, labels);
    };
    data_.valid = other(inputs.valid);
    data_.test = other(inputs.test);
    if (inputs.valid.empty()) split();
    std::uint64_t key =
        key_of(static_cast<std::uint64_t>(options.seed), data_.train.samples.size());
    for (const Sample& sample : data_.train.samples) {
        key = key_of(key, sample.label);
        for (const std::int32_t id : sample.text.ids)
            key = mix(key ^ static_cast<std::uint64_t>(id));
    }
    data_.fingerprint = alg::format("{:016x}", key);
    if (speaks_) describe();
}

RawSamples DataReader::read(const fs::path& channel, std::vector<std::int32_t>& labels) {
    SkipLog skipped(speaks_ ? 3 : 0);
    RawSamples raw = read_samples(channel,
                                  {.format = options_.format,
                                   .text_column = options_.text_column,
                                   .text_b_column = options_.text_b_column,
                                   .label_column = options_.label_column},
                                  skipped);
    if (data_.labels.empty()) {  // the train channel is read first
        data_.labels = label_names(raw, options_.labels);
        const auto count = static_cast<std::int64_t>(data_.labels.size());
        if (options_.num_labels > 0 && options_.labels.empty() && count <= options_.num_labels) {
            for (std::int64_t i = count; i < options_.num_labels; ++i)
                data_.labels.push_back(std::to_string(i));
        } else if (options_.num_labels > 0 && count != options_.num_labels) {
            fail("{}: there are {} classes, num_labels says {}; name those to be used in labels",
                 channel.string(), count, options_.num_labels);
        }
        if (data_.labels.size() < 2)
            fail("{}: every sample has the label \"{}\"; classification needs two classes or more",
                 channel.string(), data_.labels.at(0));
    }
    labels = label_ids(raw, data_.labels, skipped);
    if (speaks_) skipped.summarise(raw.records, "records of " + channel.string());
    return raw;
}

void DataReader::choose_tokenizer(const fs::path& train, const fs::path& start,
                                  const RawSamples& texts) {
    TokenizerFiles files;
    if (!start.empty()) files = read_tokenizer(start);
    std::error_code ignored;
    if (!options_.vocab_path.empty()) {
        const fs::path inside = train / fs::path(options_.vocab_path).filename();
        files.vocabulary = Vocabulary::read(fs::is_regular_file(options_.vocab_path, ignored)
                                                ? fs::path(options_.vocab_path)
                                                : inside);
    } else if (start.empty() && fs::is_regular_file(train / "vocab.txt", ignored)) {
        files.vocabulary = Vocabulary::read(train / "vocab.txt");
    }
    if (options_.do_lower_case != "configured") files.lower_case = options_.do_lower_case == "true";
    const bool lower_case = files.lower_case.value_or(true);
    if (!files.vocabulary) {
        if (!start.empty())
            fail("{}: has no vocab.txt; put the model's vocabulary there or name it by vocab_path",
                 start.string());
        VocabularyTrainer trainer({.size = static_cast<std::int32_t>(options_.vocab_size),
                                   .min_frequency = options_.vocab_min_frequency,
                                   .lower_case = lower_case});
        for (const RawSample& sample : texts.samples) {
            trainer.add(sample.text);
            trainer.add(sample.text_b);
        }
        files.vocabulary = trainer.train();
        data_.vocabulary_made = true;
    }
    tokenizer_.emplace(
        std::move(*files.vocabulary),
        WordPieceOptions{.lower_case = lower_case, .split_chinese = files.split_chinese});
}

Dataset DataReader::encode(const RawSamples& raw, const std::vector<std::int32_t>& labels) const {
    const auto longest = static_cast<std::size_t>(options_.max_length);
    Dataset result;
    result.samples.reserve(raw.samples.size());
    for (std::size_t i = 0; i < raw.samples.size(); ++i) {
        const RawSample& from = raw.samples[i];
        Sample sample{tokenizer_->encode_pair(from.text, from.text_b, data_.pairs, longest),
                      labels[i]};
        result.cut += sample.text.ids.size() == longest;
        result.lengths.push_back(static_cast<std::int32_t>(sample.text.ids.size()));
        result.samples.push_back(std::move(sample));
    }
    return result;
}

/// Moves a random part of the training samples to validation.
void DataReader::split() {
    const auto count = static_cast<std::int64_t>(data_.train.samples.size());
    const auto part = static_cast<std::int64_t>(
        std::llround(static_cast<double>(count) * options_.validation_split));
    if (part < 1 || part >= count) return;
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    shuffle(order.begin(), order.end(),
            Random(key_of(static_cast<std::uint64_t>(options_.seed), Purpose::split)));
    std::vector<bool> taken(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < part; ++i)
        taken[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
    Dataset all = std::exchange(data_.train, {});
    for (std::size_t i = 0; i < all.samples.size(); ++i) {
        Dataset& to = taken[i] ? data_.valid : data_.train;
        to.lengths.push_back(all.lengths[i]);
        to.samples.push_back(std::move(all.samples[i]));
    }
    data_.train.cut = all.cut;
}

void DataReader::describe() const {
    std::vector<std::int64_t> counts(data_.labels.size());
    for (const Sample& sample : data_.train.samples)
        ++counts[static_cast<std::size_t>(sample.label)];
    std::string classes;
    for (std::size_t i = 0; i < std::min<std::size_t>(counts.size(), 20); ++i)
        classes += alg::format("{}{}: {}", i == 0 ? "" : ", ", data_.labels[i], counts[i]);
    say("{} training samples{} ({}{}), {} to validate with, {} to test with",
        data_.train.samples.size(), data_.pairs ? " of two texts" : "", classes,
        counts.size() > 20 ? ", …" : "", data_.valid.samples.size(), data_.test.samples.size());
    const double tokens =
        std::accumulate(data_.train.lengths.begin(), data_.train.lengths.end(), 0.0);
    say("vocabulary of {} tokens{}; {:.1f} tokens a sample, {} samples fill max_length {}",
        tokenizer_->vocabulary().size(),
        data_.vocabulary_made ? ", made of the training texts" : "",
        tokens / static_cast<double>(data_.train.samples.size()), data_.train.cut,
        options_.max_length);
}

std::vector<float> class_weights(const std::string& given, const Data& data) {
    if (given.empty() || given == "none") return {};
    const std::size_t classes = data.labels.size();
    if (given != "balanced") {
        std::vector<float> weights = parse_list<float>("class_weights", given);
        if (weights.size() != classes ||
            std::any_of(weights.begin(), weights.end(), [](float w) { return !(w > 0); }))
            fail(
                "class_weights: \"{}\" must be {} numbers above 0, one for each class, or "
                "balanced",
                given, classes);
        return weights;
    }
    std::vector<std::int64_t> counts(classes);
    for (const Sample& sample : data.train.samples)
        ++counts[static_cast<std::size_t>(sample.label)];
    std::vector<float> weights;
    for (const std::int64_t count : counts)  // a class nobody has counts as one sample
        weights.push_back(static_cast<float>(
            static_cast<double>(data.train.samples.size()) / static_cast<double>(classes) /
            static_cast<double>(std::max<std::int64_t>(count, 1))));
    return weights;
}

Batch make_batch(const Dataset& dataset, std::span<const std::int64_t> chosen,
                 std::int64_t number) {
    Batch batch{.number = number};
    for (const std::int64_t i : chosen) {
        const Sample& sample = dataset.samples[static_cast<std::size_t>(i)];
        const auto length = static_cast<std::int64_t>(sample.text.ids.size());
        batch.tokens.insert(batch.tokens.end(), sample.text.ids.begin(), sample.text.ids.end());
        for (std::int64_t at = 0; at < length; ++at) {
            batch.types.push_back(at >= sample.text.second ? 1 : 0);
            batch.positions.push_back(at);
        }
        batch.labels.push_back(sample.label);
        batch.lengths.push_back(static_cast<std::int32_t>(length));
    }
    return batch;
}

std::vector<std::int32_t> parse_buckets(const std::string& text) {
    std::vector<std::int32_t> bounds = parse_list<std::int32_t>("buckets", text);
    if (!std::is_sorted(bounds.begin(), bounds.end()) || (!bounds.empty() && bounds.front() < 1))
        fail("buckets: \"{}\" must be lengths in ascending order", text);
    return bounds;
}

}  // namespace alg
