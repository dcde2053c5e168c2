# SPDX-License-Identifier: Apache-2.0
"""Loads the folder with Hugging Face and classifies check.csv in it: as good as the job said. Usage: check_hf.py FOLDER ACCURACY"""

import csv
import json
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder, said = sys.argv[1], float(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(folder)
model, report = AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
assert not report["missing_keys"] and not report["unexpected_keys"], report
script = torch.jit.load(f"{folder}/model.ts")
with open(f"{folder}/check.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.reader(file))[1:]
with open(f"{folder}/config.yaml", encoding="utf-8") as file:
    longest = next(int(line.split(":")[1].strip(" '\"\n")) for line in file if line.startswith("max_length:"))
right, furthest = 0, 0.0
model.eval()
for at in range(0, len(rows), 100):
    texts, labels = zip(*rows[at:at + 100])
    batch = tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits
        furthest = max(furthest, (logits - script(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"])).abs().max().item())
    right += sum(model.config.id2label[int(best)] == label for best, label in zip(logits.argmax(1), labels))
print(f"Hugging Face: accuracy {right / len(rows):.4f}, differs from model.ts by {furthest:.1e}; labels {json.dumps(model.config.id2label)}")
assert abs(right / len(rows) - said) < 0.005 and furthest < 1e-4
