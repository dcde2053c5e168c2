# SPDX-License-Identifier: Apache-2.0
"""Loads the folder with Hugging Face and compares its answers with the TorchScript file's. Usage: check_hf.py FOLDER"""

import sys

import torch
from transformers import BertForPreTraining, BertTokenizer

folder = sys.argv[1]
tokenizer = BertTokenizer.from_pretrained(folder)
model, report = BertForPreTraining.from_pretrained(folder, output_loading_info=True)
assert not report["missing_keys"] and not report["unexpected_keys"], report
batch = tokenizer(["今天的天气很好", "你好"], ["我们去公园。", "再见"], padding=True, return_tensors="pt")
with torch.no_grad():
    expected = model.eval()(**batch).prediction_logits
    got = torch.jit.load(f"{folder}/model.ts")(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"])
got = got[0] if isinstance(got, tuple) else got
real = batch["attention_mask"].bool()
difference = (expected - got)[real].abs().max().item()
print(f"Hugging Face: {sum(each.numel() for each in model.parameters()):,} parameters, differs from model.ts by {difference:.1e}")
assert difference < 1e-4
