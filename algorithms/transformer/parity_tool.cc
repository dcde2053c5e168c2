// SPDX-License-Identifier: Apache-2.0
// Runs the encoder and all heads on weights and inputs from Python, for transformer_parity.py:
//   parity_tool FOLDER
// FOLDER has config.json, model.safetensors (Hugging Face's names) and inputs.safetensors
// (input_ids, token_type_ids, attention_mask, word_labels, next_labels, class_labels); it gets
// outputs.safetensors (results, "grad." + names), model.ts and model_int8.ts.
#include "common/base/error.h"
#include "transformer/encoder.h"
#include "transformer/script.h"

#include <ATen/ATen.h>

#include <cstdio>

using namespace alg;

namespace {

class Model : public Module {
public:
    explicit Model(const EncoderConfig& c)
        : encoder(c, 1),
          pooler(c.hidden, 0.02, 2),
          words(c, encoder.word_embedding(), 3),
          follows(c.hidden, 2, 0.02, 4),
          classes(c.hidden, 3, 0.02, 5) {
        child("bert", encoder);
        child("bert.pooler", pooler);
        child("cls.predictions", words);
        child("cls.seq_relationship", follows);
        child("classifier", classes);
    }
    Encoder encoder;
    Pooler pooler;
    MaskedLmHead words;
    LinearHead follows, classes;
};

NamedTensors part(const NamedTensors& weights, const std::string& prefix) {
    NamedTensors result;
    for (const auto& [name, value] : weights) {
        if (name.starts_with(prefix)) {
            result.emplace_back(name.substr(prefix.size()), value);
        }
    }
    return result;
}

void save_script(const fs::path& file, const EncoderConfig& config, const NamedTensors& weights,
                 bool quantised) {
    ScriptModel script(quantised ? "ModelInt8" : "Model");
    script.child("bert", script_encoder(config, part(weights, "bert."), quantised));
    script.child("pooler", script_pooler(part(weights, "bert.pooler."), quantised));
    script.child("classes", script_linear_head(part(weights, "classifier."), quantised));
    script.child("words",
                 script_masked_lm_head(
                     config, part(weights, "cls.predictions."),
                     part(weights, "bert.embeddings.word_embeddings.").at(0).second, quantised));
    script.define(
        "def forward(self, input_ids: Tensor, token_type_ids: Optional[Tensor] = None,\n"
        "            attention_mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor, Tensor]:\n"
        "    hidden = self.bert.forward(input_ids, token_type_ids, attention_mask)\n"
        "    return (hidden, self.classes.forward(self.pooler.forward(hidden)),\n"
        "            self.words.forward(hidden))\n");
    script.module().save(file.string());
}

void run(const fs::path& folder) {
    const EncoderConfig config = read_encoder_config(folder / "config.json", {});
    Model model(config);
    load_parameters(model.parameters(),
                    from_hugging_face(read_weights(folder / "model.safetensors")),
                    "model.safetensors");
    std::map<std::string, torch::Tensor> inputs;
    for (const auto& [name, value] : read_safetensors(folder / "inputs.safetensors")) {
        inputs[name] = value;
    }
    const torch::Tensor lengths = inputs["attention_mask"].sum(1).to(at::kInt).contiguous();
    EncoderInput input;
    input.shape = packed({lengths.data_ptr<std::int32_t>(), std::size_t(lengths.numel())});
    input.shape.longest = inputs["input_ids"].size(1);  // as wide as Python's
    input.tokens = unpad(inputs["input_ids"], input.shape);
    input.types = unpad(inputs["token_type_ids"], input.shape);
    input.positions =
        unpad(at::arange(input.shape.longest).expand_as(inputs["input_ids"]), input.shape);

    Pass pass;
    const torch::Tensor hidden = model.encoder.forward(input, pass);
    const torch::Tensor pooled = model.pooler.forward(hidden, input.shape);
    const torch::Tensor words = model.words.forward(hidden);
    const torch::Tensor follows = model.follows.forward(pooled);
    const torch::Tensor classes = model.classes.forward(pooled);
    const CrossEntropy word_loss =
        model.words.loss(hidden, unpad(inputs["word_labels"], input.shape));
    const torch::Tensor loss = word_loss.sum +
                               cross_entropy_sum(follows, inputs["next_labels"]).sum +
                               cross_entropy_sum(classes, inputs["class_labels"]).sum;
    loss.backward();
    NamedTensors outputs = {{"hidden", pad(hidden, input.shape).detach()},
                            {"words", pad(words, input.shape).detach()},
                            {"follows", follows.detach()},
                            {"classes", classes.detach()},
                            {"loss", loss.detach()}};
    std::vector<Parameter> gradients = model.parameters();
    const NamedTensors weights = to_hugging_face(gradients);
    for (Parameter& p : gradients) {
        p.value = p.value.grad();
    }
    for (const auto& [name, value] : to_hugging_face(gradients)) {
        outputs.emplace_back("grad." + name, value);
    }
    write_safetensors(folder / "outputs.safetensors", outputs);
    write_safetensors(folder / "again.safetensors", weights);
    save_script(folder / "model.ts", config, weights, false);
    save_script(folder / "model_int8.ts", config, weights, true);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: parity_tool FOLDER\n", stderr);
        return 2;
    }
    try {
        run(argv[1]);
    } catch (const std::exception& problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
    return 0;
}
