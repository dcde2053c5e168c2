# SPDX-License-Identifier: Apache-2.0
"""Holds the encoder, its heads, their gradients and the exported models against Hugging Face's
BERT, torch.nn.TransformerEncoderLayer and ERNIE's mask. Usage: transformer_parity.py PARITY_TOOL"""
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification


def close(name, ours, theirs, tolerance=1e-4):
    assert ours.shape == theirs.shape, (name, ours.shape, theirs.shape)
    difference = (ours - theirs).abs().max() / max(theirs.abs().max(), 1e-3)
    assert difference < tolerance, f"{name}: relative difference {difference:.2e}"


def attention_layers(model, config, x, mask):
    """The encoder by torch.nn.TransformerEncoderLayer; mask: additive, [batch, length, length]."""
    state = model.state_dict()
    for i in range(config.num_hidden_layers):
        layer = torch.nn.TransformerEncoderLayer(
            config.hidden_size, config.num_attention_heads, config.intermediate_size, 0.0,
            config.hidden_act, config.layer_norm_eps, batch_first=True)
        get = lambda name: state[f"bert.encoder.layer.{i}.{name}"]
        load = {}
        for kind in ("weight", "bias"):
            load[f"self_attn.in_proj_{kind}"] = torch.cat(
                [get(f"attention.self.{part}.{kind}") for part in ("query", "key", "value")])
            load[f"self_attn.out_proj.{kind}"] = get(f"attention.output.dense.{kind}")
            load[f"linear1.{kind}"] = get(f"intermediate.dense.{kind}")
            load[f"linear2.{kind}"] = get(f"output.dense.{kind}")
            load[f"norm1.{kind}"] = get(f"attention.output.LayerNorm.{kind}")
            load[f"norm2.{kind}"] = get(f"output.LayerNorm.{kind}")
        layer.load_state_dict(load)
        x = layer.train()(x, src_mask=mask.repeat_interleave(config.num_attention_heads, 0))
    return x


def check(tool, seed, activation):
    torch.manual_seed(seed)
    heads, size = [(2, 16), (3, 20)][seed % 2]
    config = BertConfig(
        vocab_size=211, hidden_size=heads * size, num_hidden_layers=2 + seed % 2,
        num_attention_heads=heads, intermediate_size=88, max_position_embeddings=64,
        hidden_act=activation, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        initializer_range=0.2, num_labels=3, attn_implementation="eager")
    model = BertForPreTraining(config).eval()
    classifier = BertForSequenceClassification(config).eval()
    classifier.bert = model.bert
    for name, parameter in list(model.named_parameters()) + list(classifier.named_parameters()):
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    lengths = torch.tensor([37, 1, 50, 8])
    mask = (torch.arange(50) < lengths[:, None]).long()
    words = torch.randint(0, 211, (4, 50))
    labels = torch.where((torch.rand(4, 50) < 0.3) & (mask == 1), words, -1)
    inputs = dict(input_ids=torch.randint(0, 211, (4, 50)), attention_mask=mask,
                  token_type_ids=torch.randint(0, 2, (4, 50)), word_labels=labels,
                  next_labels=torch.randint(0, 2, (4,)), class_labels=torch.randint(0, 3, (4,)))

    real = {name: inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    encoded = model.bert(**real)
    hidden = encoded.last_hidden_state
    words_out, follows = model.cls(hidden, encoded.pooler_output)
    classes = classifier.classifier(encoded.pooler_output)
    entropy = lambda x, y: torch.nn.functional.cross_entropy(
        x.flatten(0, -2), y.flatten(), ignore_index=-1, reduction="sum")
    loss = (entropy(words_out, labels) + entropy(follows, inputs["next_labels"])
            + entropy(classes, inputs["class_labels"]))
    loss.backward()

    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        model.save_pretrained(folder)
        weights = load_file(folder / "model.safetensors")
        weights |= {f"classifier.{n}": p.detach() for n, p in classifier.classifier.named_parameters()}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        save_file({n: v.contiguous() for n, v in inputs.items()}, folder / "inputs.safetensors")
        subprocess.run([tool, path], check=True)
        ours = load_file(folder / "outputs.safetensors")
        again = load_file(folder / "again.safetensors")
        script = torch.jit.load(folder / "model.ts")
        small = torch.jit.load(folder / "model_int8.ts")

    visible = mask.bool()
    close("hidden states", ours["hidden"][visible], hidden.detach()[visible])
    close("words", ours["words"][visible], words_out.detach()[visible])
    close("next sentence", ours["follows"], follows.detach())
    close("classes", ours["classes"], classes.detach())
    close("loss", ours["loss"], loss.detach())
    gradients = dict(model.named_parameters()) | {
        f"classifier.{n}": p for n, p in classifier.classifier.named_parameters()}
    compared = 0
    for name, parameter in gradients.items():
        if f"grad.{name}" in ours:
            # A key's bias moves all scores of a query alike: its gradient is rounding.
            if not name.endswith("key.bias"):
                close(f"gradient of {name}", ours[f"grad.{name}"], parameter.grad)
            compared += 1
            assert torch.equal(again[name], parameter.detach()), name
    assert compared == len(gradients) == len(again), (compared, len(gradients), len(again))

    with torch.no_grad():
        x = model.bert.embeddings(inputs["input_ids"], inputs["token_type_ids"])
        keys = torch.zeros(4, 50, 50).masked_fill(~visible[:, None, :], -1e30)
        close("torch's layers", ours["hidden"][visible],
              attention_layers(model, config, x, keys)[visible])
        m = mask.float()
        ernie = (m[:, :, None] * m[:, None, :] - 1) * 10000
        close("ERNIE's mask", ours["hidden"][visible],
              attention_layers(model, config, x, ernie)[visible])
        scripted = script(inputs["input_ids"], inputs["token_type_ids"], mask)
        close("script's hidden states", scripted[0][visible], hidden[visible])
        close("script's classes", scripted[1], classes)
        close("script's words", scripted[2][visible], words_out[visible])
        one = script(inputs["input_ids"][2:3], inputs["token_type_ids"][2:3])
        close("script without a mask", one[0], hidden[2:3])
        quantised = small(inputs["input_ids"], inputs["token_type_ids"], mask)
        for index, exact in ((0, hidden), (2, words_out)):
            off = (quantised[index] - exact)[visible].abs().mean() / exact[visible].abs().mean()
            assert off < 0.15, f"int8 is {off:.3f} off"
    print(f"seed {seed} {activation}: {compared} gradients, int8 {off:.3f} off")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for seed, activation in enumerate(("gelu", "relu")):
        check(sys.argv[1], seed, activation)
