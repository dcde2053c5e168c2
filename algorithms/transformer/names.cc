// SPDX-License-Identifier: Apache-2.0
// Weights' names in Hugging Face's files: ours but for the fused query, key and value.
#include "common/base/error.h"
#include "transformer/encoder.h"

#include <ATen/ATen.h>

#include <array>
#include <set>

namespace alg {

namespace {

constexpr std::array<std::string_view, 3> kParts = {"query", "key", "value"};

void replace(std::string& name, std::string_view what, std::string_view with) {
    if (const auto at = name.find(what); at != std::string::npos) {
        name.replace(at, what.size(), with);
    }
}

// Older and shorter forms of a name -> BertForPreTraining's.
std::string current_name(std::string name) {
    if (name.ends_with("LayerNorm.gamma")) {
        replace(name, "LayerNorm.gamma", "LayerNorm.weight");
    } else if (name.ends_with("LayerNorm.beta")) {
        replace(name, "LayerNorm.beta", "LayerNorm.bias");
    }
    if (name.starts_with("ernie.")) {
        name.replace(0, 6, "bert.");
    } else if (name.starts_with("embeddings.") || name.starts_with("encoder.") ||
               name.starts_with("pooler.")) {
        name.insert(0, "bert.");
    }
    return name;
}

}  // namespace

NamedTensors to_hugging_face(const std::vector<Parameter>& parameters) {
    NamedTensors result;
    for (const Parameter& p : parameters) {
        const torch::Tensor value = p.value.detach();
        if (p.name.find(".self.qkv.") == std::string::npos) {
            result.emplace_back(p.name, value.contiguous());
            continue;
        }
        const std::int64_t rows = value.size(0) / 3;
        for (std::size_t i = 0; i < kParts.size(); ++i) {
            std::string name = p.name;
            replace(name, ".self.qkv.", format(".self.{}.", kParts[i]));
            result.emplace_back(std::move(name),
                                value.narrow(0, static_cast<std::int64_t>(i) * rows, rows).clone());
        }
    }
    return result;
}

NamedTensors from_hugging_face(const NamedTensors& weights) {
    std::vector<std::string> names;
    std::map<std::string, torch::Tensor> found;
    for (const auto& [name, value] : weights) {
        names.push_back(current_name(name));
        found[names.back()] = value;
    }
    const auto word = found.find("bert.embeddings.word_embeddings.weight");
    NamedTensors result;
    for (const std::string& name : names) {
        const torch::Tensor& value = found[name];
        if (name.ends_with(".position_ids") || name == "cls.predictions.decoder.bias") {
            continue;
        }
        if (name == "cls.predictions.decoder.weight" && word != found.end() &&
            at::equal(word->second, value)) {
            continue;
        }
        if (name.find(".self.key.") != std::string::npos ||
            name.find(".self.value.") != std::string::npos) {
            std::string query = name;  // taken with the query; without one they are named below
            replace(query, ".self.key.", ".self.query.");
            replace(query, ".self.value.", ".self.query.");
            if (!found.contains(query)) {
                fail("weights have {} but not {}", name, query);
            }
            continue;
        }
        if (name.find(".self.query.") == std::string::npos) {
            result.emplace_back(name, value);
            continue;
        }
        std::vector<torch::Tensor> parts;
        for (const std::string_view part : kParts) {
            std::string of_part = name;
            replace(of_part, ".self.query.", format(".self.{}.", part));
            if (!found.contains(of_part)) {
                fail("weights have {} but not {}", name, of_part);
            }
            parts.push_back(found[of_part]);
            if (parts.back().sizes() != value.sizes() || value.dim() == 0) {
                fail("weights {} and {} differ in shape", name, of_part);
            }
        }
        std::string fused = name;
        replace(fused, ".self.query.", ".self.qkv.");
        result.emplace_back(std::move(fused), at::cat(parts));
    }
    return result;
}

}  // namespace alg
