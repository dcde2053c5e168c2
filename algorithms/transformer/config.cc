// SPDX-License-Identifier: Apache-2.0
// An encoder's shape from config.json or ernie_config.json.
#include "common/base/error.h"
#include "transformer/encoder.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace alg {

namespace {

std::string read_whole(const fs::path& file) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "rbe"),
                                                             std::fclose);
    if (!in) {
        fail("{} cannot be opened; it has to hold the model's shape (hidden_size, …)",
             file.string());
    }
    std::string text;
    std::array<char, 4096> part;
    while (const std::size_t n = std::fread(part.data(), 1, part.size(), in.get())) {
        text.append(part.data(), n);
    }
    if (std::ferror(in.get()) != 0) {
        fail("{} cannot be read", file.string());
    }
    return text;
}

// Takes values out of one JSON object and keeps all complaints.
class Reader {
public:
    explicit Reader(const nlohmann::json& from) : from_(from) {}

    void count(const char* name, std::int64_t& value, bool required = false) {
        if (const nlohmann::json* found = find(name, required)) {
            if (found->is_number_integer() && found->get<std::int64_t>() >= 1 &&
                found->get<std::int64_t>() <= 1'000'000'000) {
                value = found->get<std::int64_t>();
            } else {
                complain(name, *found, "a whole number of at least 1");
            }
        }
    }
    void real(const char* name, double& value, double least, double below) {
        if (const nlohmann::json* found = find(name, false)) {
            if (found->is_number() && found->get<double>() >= least &&
                found->get<double>() < below) {
                value = found->get<double>();
            } else {
                complain(name, *found, format("a number in [{}, {})", least, below));
            }
        }
    }
    void activation(const char* name, Activation& value) {
        if (const nlohmann::json* found = find(name, false)) {
            if (*found == "gelu") {
                value = Activation::gelu;
            } else if (*found == "relu") {
                value = Activation::relu;
            } else {
                complain(name, *found, "\"gelu\" or \"relu\"");
            }
        }
    }
    void add(std::string problem) { problems_.push_back(std::move(problem)); }
    void finish(const fs::path& file) const {
        if (!problems_.empty()) {
            std::string all;
            for (const std::string& problem : problems_) {
                all += (all.empty() ? "" : "; ") + problem;
            }
            fail("{}: {}", file.string(), all);
        }
    }

private:
    const nlohmann::json* find(const char* name, bool required) {
        const auto found = from_.find(name);
        if (found != from_.end() && !found->is_null()) {
            return &*found;
        }
        if (required) {
            add(format("{} is missing", name));
        }
        return nullptr;
    }
    void complain(const char* name, const nlohmann::json& value, const std::string& wanted) {
        add(format("{} is {}, not {}", name, value.dump(), wanted));
    }

    const nlohmann::json& from_;
    std::vector<std::string> problems_;
};

}  // namespace

EncoderConfig read_encoder_config(const fs::path& file, const EncoderConfig& standard) {
    const auto json = nlohmann::json::parse(read_whole(file), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) {
        fail("{} is not a JSON object; it has to hold the model's shape (hidden_size, …)",
             file.string());
    }
    Reader reader(json);
    EncoderConfig c = standard;
    reader.count("vocab_size", c.vocabulary, true);
    reader.count("hidden_size", c.hidden, true);
    reader.count("num_hidden_layers", c.layers, true);
    reader.count("num_attention_heads", c.heads, true);
    c.intermediate = 4 * c.hidden;
    reader.count("intermediate_size", c.intermediate);
    reader.count("max_position_embeddings", c.positions);
    reader.count("type_vocab_size", c.types);
    reader.activation("hidden_act", c.activation);
    reader.real("hidden_dropout_prob", c.dropout, 0, 1);
    reader.real("attention_probs_dropout_prob", c.attention_dropout, 0, 1);
    reader.real("layer_norm_eps", c.norm_epsilon, 0, 1);
    reader.real("initializer_range", c.initializer_range, 0, 100);
    if (c.hidden % c.heads != 0) {
        reader.add(format("hidden_size {} is not a multiple of num_attention_heads {}", c.hidden,
                          c.heads));
    }
    reader.finish(file);
    return c;
}

nlohmann::json hugging_face_config(const EncoderConfig& c) {
    return {{"model_type", "bert"},
            {"vocab_size", c.vocabulary},
            {"hidden_size", c.hidden},
            {"num_hidden_layers", c.layers},
            {"num_attention_heads", c.heads},
            {"intermediate_size", c.intermediate},
            {"max_position_embeddings", c.positions},
            {"type_vocab_size", c.types},
            {"hidden_act", c.activation == Activation::relu ? "relu" : "gelu"},
            {"hidden_dropout_prob", c.dropout},
            {"attention_probs_dropout_prob", c.attention_dropout},
            {"layer_norm_eps", c.norm_epsilon},
            {"initializer_range", c.initializer_range},
            {"pad_token_id", 0},
            {"position_embedding_type", "absolute"}};
}

}  // namespace alg
