// SPDX-License-Identifier: Apache-2.0
#include "transformer/script.h"

#include "common/base/error.h"

#include <ATen/ATen.h>

#include <cmath>

namespace alg {

namespace {

constexpr const char* kEncoder = R"(
def forward(self, input_ids: Tensor, token_type_ids: Optional[Tensor] = None,
            attention_mask: Optional[Tensor] = None,
            position_ids: Optional[Tensor] = None) -> Tensor:
    positions = torch.arange(input_ids.size(1), device=input_ids.device).unsqueeze(0)
    if position_ids is not None:
        positions = position_ids
    types = torch.zeros_like(input_ids)
    if token_type_ids is not None:
        types = token_type_ids
    x = torch.embedding(self.word, input_ids) + torch.embedding(self.position, positions)
    x = self.norm.forward(x + torch.embedding(self.type, types))
    hidden_keys: Optional[Tensor] = None
    if attention_mask is not None:
        hidden_keys = torch.eq(attention_mask, 0).unsqueeze(1).unsqueeze(1)
)";

constexpr const char* kLayer = R"(
def forward(self, x: Tensor, hidden_keys: Optional[Tensor]) -> Tensor:
    qkv = self.qkv.forward(x).view([x.size(0), x.size(1), 3, {heads}, {size}])
    query = qkv.select(2, 0).transpose(1, 2)
    key = qkv.select(2, 1).transpose(1, 2)
    value = qkv.select(2, 2).transpose(1, 2)
    scores = torch.matmul(query, key.transpose(2, 3)) * {factor}
    if hidden_keys is not None:
        scores = torch.masked_fill(scores, hidden_keys, -1e30)
    mixed = torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2)
    y = self.norm1.forward(x + self.out.forward(mixed.reshape([x.size(0), x.size(1), {hidden}])))
    return self.norm2.forward(y + self.down.forward(torch.{activation}(self.up.forward(y))))
)";

const char* name_of(Activation activation) {
    return activation == Activation::relu ? "relu" : "gelu";
}

// Weights by name, under a prefix.
class Weights {
public:
    Weights(const NamedTensors& all, std::string prefix) : all_(all), prefix_(std::move(prefix)) {}

    const at::Tensor* find(const std::string& name) const {
        for (const auto& [of_one, value] : all_) {
            if (of_one == prefix_ + name) {
                return &value;
            }
        }
        return nullptr;
    }
    at::Tensor operator[](const std::string& name) const {
        const at::Tensor* found = find(name);
        if (found == nullptr) {
            fail("weights have no {}{}, which the exported model needs", prefix_, name);
        }
        return found->detach();
    }
    // Our fused matrix, or Hugging Face's three.
    at::Tensor query_key_value(const char* what) const {
        const std::string self = "attention.self.";
        if (const at::Tensor* fused = find(self + "qkv." + what)) {
            return fused->detach();
        }
        return at::cat({(*this)[self + "query." + what], (*this)[self + "key." + what],
                        (*this)[self + "value." + what]});
    }

private:
    const NamedTensors& all_;
    std::string prefix_;
};

ScriptModel norm(const Weights& weights, const std::string& name, double epsilon) {
    ScriptModel script("LayerNorm");
    const at::Tensor scale = weights[name + ".weight"];
    script.tensor("weight", scale);
    script.tensor("bias", weights[name + ".bias"]);
    script.define(
        format("def forward(self, x: Tensor) -> Tensor:\n"
               "    return torch.layer_norm(x, [{}], self.weight, self.bias, {:.17g})\n",
               scale.size(0), epsilon));
    return script;
}

ScriptModel layer(const EncoderConfig& config, const Weights& weights, bool quantised) {
    ScriptModel script(quantised ? "EncoderLayerInt8" : "EncoderLayer");
    const auto linear = [&](const char* name, const std::string& from) {
        script.linear(name, weights[from + ".weight"], weights[from + ".bias"], quantised);
    };
    script.linear("qkv", weights.query_key_value("weight"), weights.query_key_value("bias"),
                  quantised);
    linear("out", "attention.output.dense");
    linear("up", "intermediate.dense");
    linear("down", "output.dense");
    script.child("norm1", norm(weights, "attention.output.LayerNorm", config.norm_epsilon));
    script.child("norm2", norm(weights, "output.LayerNorm", config.norm_epsilon));
    const std::int64_t size = config.hidden / config.heads;
    const std::string factor = format("{:.17g}", 1 / std::sqrt(static_cast<double>(size)));
    script.define(format(kLayer, fmt::arg("heads", config.heads), fmt::arg("size", size),
                         fmt::arg("factor", factor), fmt::arg("hidden", config.hidden),
                         fmt::arg("activation", name_of(config.activation))));
    return script;
}

}  // namespace

ScriptModel script_encoder(const EncoderConfig& config, const NamedTensors& weights,
                           bool quantised) {
    ScriptModel script(quantised ? "EncoderInt8" : "Encoder");
    const Weights own(weights, "");
    script.tensor("word", own["embeddings.word_embeddings.weight"]);
    script.tensor("position", own["embeddings.position_embeddings.weight"]);
    script.tensor("type", own["embeddings.token_type_embeddings.weight"]);
    script.child("norm", norm(own, "embeddings.LayerNorm", config.norm_epsilon));
    std::string source = kEncoder;
    for (std::int64_t i = 0; i < config.layers; ++i) {
        const std::string name = format("layer{}", i);
        script.child(name,
                     layer(config, Weights(weights, format("encoder.layer.{}.", i)), quantised));
        source += format("    x = self.{}.forward(x, hidden_keys)\n", name);
    }
    script.define(source + "    return x\n");
    return script;
}

ScriptModel script_pooler(const NamedTensors& weights, bool quantised) {
    ScriptModel script(quantised ? "PoolerInt8" : "Pooler");
    const Weights own(weights, "");
    script.linear("dense", own["dense.weight"], own["dense.bias"], quantised);
    script.define(
        "def forward(self, hidden: Tensor) -> Tensor:\n"
        "    return torch.tanh(self.dense.forward(hidden.select(1, 0)))\n");
    return script;
}

ScriptModel script_linear_head(const NamedTensors& weights, bool quantised) {
    ScriptModel script(quantised ? "LinearHeadInt8" : "LinearHead");
    const Weights own(weights, "");
    script.linear("dense", own["weight"], own["bias"], quantised);
    script.define(
        "def forward(self, pooled: Tensor) -> Tensor:\n"
        "    return self.dense.forward(pooled)\n");
    return script;
}

ScriptModel script_masked_lm_head(const EncoderConfig& config, const NamedTensors& weights,
                                  const torch::Tensor& shared_embedding, bool quantised) {
    ScriptModel script(quantised ? "MaskedLmHeadInt8" : "MaskedLmHead");
    const Weights own(weights, "");
    script.linear("dense", own["transform.dense.weight"], own["transform.dense.bias"], quantised);
    script.child("norm", norm(own, "transform.LayerNorm", config.norm_epsilon));
    const at::Tensor decoder =
        shared_embedding.defined() ? shared_embedding.detach() : own["decoder.weight"];
    script.linear("decoder", decoder, own["bias"], quantised);
    script.define(
        format("def forward(self, hidden: Tensor) -> Tensor:\n"
               "    x = torch.{}(self.dense.forward(hidden))\n"
               "    return self.decoder.forward(self.norm.forward(x))\n",
               name_of(config.activation)));
    return script;
}

}  // namespace alg
