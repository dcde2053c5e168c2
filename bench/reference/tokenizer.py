#!/usr/bin/env python3
"""Hugging Face's tokenizers (Rust) on one thread: megabytes of text per second. Usage: tokenizer.py FILE VOCAB SECONDS

Prints the JSON line that wordpiece_bench prints. encode_batch_fast() is its quickest call: no offsets, no Python per line."""

import json
import os
import sys
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402


def main():
    file, vocabulary, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    tokens = [line.rstrip("\n") for line in open(vocabulary, encoding="utf-8")]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    lines = [line.rstrip("\n") for line in open(file, encoding="utf-8")]
    size = sum(len(line.encode()) for line in lines)
    best, start = 1e9, time.monotonic()
    while time.monotonic() - start < seconds:
        begin = time.process_time()  # on a busy machine the share of a long round counts, not its length
        encoded = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        best = min(best, time.process_time() - begin)
    print(json.dumps(dict(mb_per_s=round(size / 1e6 / best, 2), bytes=size, tokens=sum(len(one) for one in encoded))))


if __name__ == "__main__":
    main()
