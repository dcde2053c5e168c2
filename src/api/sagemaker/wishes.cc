// SPDX-License-Identifier: Apache-2.0
#include "api/sagemaker/wishes.h"

#include "base/text.h"

#include <algorithm>

namespace ty::api::sagemaker {

namespace {

constexpr long long kMostRestarts = 1000;
constexpr long long kMostKept = 1000;

const std::string* find_tag(const shapes::CreateTrainingJobRequest& request, std::string_view key) {
    if (!request.tags) return nullptr;
    for (const shapes::Tag& tag : *request.tags)
        if (tag.key == key) return &*tag.value;
    return nullptr;
}

const std::string* find_hyperparameter(const shapes::CreateTrainingJobRequest& request,
                                       std::string_view name) {
    if (!request.hyper_parameters) return nullptr;
    for (const auto& [key, value] : *request.hyper_parameters)
        if (key == name) return &value;
    return nullptr;
}

std::string without_quotes(std::string_view text) {
    text = trim(text);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
        text = text.substr(1, text.size() - 2);
    return std::string(trim(text));
}

std::optional<plan::Elastic> parse_range(std::string_view text) {
    const auto parts = split(text, ':');
    if (parts.size() != 2 && parts.size() != 3) return std::nullopt;
    std::vector<long long> numbers;
    for (const std::string& part : parts) {
        const auto number = parse_int(part);
        if (!number) return std::nullopt;
        numbers.push_back(*number);
    }
    plan::Elastic elastic;
    if (numbers[0] < 1 || numbers[1] < numbers[0] || numbers[1] > kMostInstances)
        return std::nullopt;
    elastic.min_nodes = static_cast<int>(numbers[0]);
    elastic.max_nodes = static_cast<int>(numbers[1]);
    if (numbers.size() == 3) {
        if (numbers[2] < 0 || numbers[2] > kMostRestarts) return std::nullopt;
        elastic.max_restarts = static_cast<int>(numbers[2]);
    }
    return elastic;
}

}  // namespace

std::optional<plan::Elastic> elastic_of(const shapes::CreateTrainingJobRequest& request,
                                        Findings& findings) {
    const std::string* tag = find_tag(request, kElasticTag);
    const std::string* parameter = find_hyperparameter(request, kElasticHyperparameter);
    if (tag == nullptr && parameter == nullptr) return std::nullopt;
    const std::string text = without_quotes(tag != nullptr ? *tag : *parameter);
    const std::string source = tag != nullptr
                                   ? fmt::format("tag {}", kElasticTag)
                                   : fmt::format("hyperparameter {}", kElasticHyperparameter);
    const std::string path = tag != nullptr ? "tags" : "hyperParameters";
    if (tag != nullptr && parameter != nullptr && without_quotes(*parameter) != text)
        findings.add(path, fmt::format("The tag {} is \"{}\" and the hyperparameter {} is \"{}\": "
                                       "give one of them",
                                       kElasticTag, text, kElasticHyperparameter,
                                       without_quotes(*parameter)));
    const auto elastic = parse_range(text);
    if (!elastic)
        findings.add(path,
                     fmt::format("The {} is \"{}\": write \"min:max\" or "
                                 "\"min:max:restarts\" with 1 <= min <= max <= {} and at most "
                                 "{} restarts, for example \"1:4\"",
                                 source, text, kMostInstances, kMostRestarts));
    return elastic;
}

bool has_checkpoint_tags(const shapes::CreateTrainingJobRequest& request) {
    return find_tag(request, kKeptTag) != nullptr || find_tag(request, kResumeTag) != nullptr;
}

void apply_checkpoint_tags(const shapes::CreateTrainingJobRequest& request,
                           plan::Checkpoint& checkpoint, Findings& findings) {
    if (const std::string* kept = find_tag(request, kKeptTag)) {
        const auto number = parse_int(trim(*kept));
        if (number && *number >= 1 && *number <= kMostKept)
            checkpoint.keep = static_cast<int>(*number);
        else
            findings.add("tags",
                         fmt::format("The tag {} is \"{}\": write a whole number from 1 to {}",
                                     kKeptTag, *kept, kMostKept));
    }
    if (const std::string* from = find_tag(request, kResumeTag)) {
        const std::string id(trim(*from));
        const bool plausible = !id.empty() && std::ranges::all_of(id, [](char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   c == '-' || c == '_' || c == '.' || c == '~';
        });
        if (plausible && id != "." && id != "..")
            checkpoint.resume = id;
        else
            findings.add("tags",
                         fmt::format("The tag {} is \"{}\", which is no id of a checkpoint: "
                                     "trainyard checkpoints JOB lists them",
                                     kResumeTag, *from));
    }
}

}  // namespace ty::api::sagemaker
