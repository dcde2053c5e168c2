#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our tokens against Hugging Face's BertTokenizerFast: wordpiece_parity.py WORDPIECE_IDS [SIZE].

Every code point (alone, and in the middle of a word), random mixes of scripts, marks, emoji and
special tokens, long words, pairs and their truncation, invalid UTF-8; cased and uncased; with
ERNIE's vocabulary and an English one trained here. Exit 77: no Hugging Face or no data.
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PYTHON = os.path.join(ROOT, ".venv", "hf", "bin", "python")
DATA = os.environ.get("TRAINYARD_DATA") or os.path.join(ROOT, "..", "shared", "data")
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LONGEST = 100000


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def english():
    name = os.path.join(DATA, "text", "sentence_polarity.zip")
    if not os.path.exists(name):
        skip(f"no {name}")
    with zipfile.ZipFile(name) as archive:
        text = b"".join(archive.read(n) for n in archive.namelist() if "rt-polarity" in n)
    return text.decode("utf-8").splitlines()


def train_vocabulary(lines, file):
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator(
        lines, vocab_size=8000, min_frequency=2, show_progress=False, special_tokens=SPECIALS
    )
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    with open(file, "w", encoding="utf-8") as out:
        out.writelines(token + "\n" for token, _ in vocabulary)


def read_vocabulary(file):
    with open(file, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return {r[0]: int(r[1]) if len(r) == 2 else i for i, r in enumerate(rows)}


POOLS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCXYZ", "0123456789", "    \t\r\n", ".,;:!?'\"()[]{}<>@#$%^&*~`|\\",
    "éèêëÉÀÅåñÑçÇüÜßẞıİŁłŒœÆ", "αβγΑΒΓΣσςΐΰ", "абвгдежзАБВЙйЁё", "אבגדהו", "ابتثجحخ", "हिन्दीक्ष",
    "ไทยภาษา", "한국어각힣", "ひらがなカタカナがぎぐ", "中文字符测试的一是不", "豈更車", "𠀀𠀁𪜀",
    "\u0300\u0301\u0302\u0308\u0323\u0327\u0338\u0345\u034f", "\u302e\u302f\U0001d165\U0001d16d\U00016ff0",
    "\u1abf\u08d4\u1b44\u0c3c\u1df6", "😀👍🏽👩‍👩‍👧🇩🇪❤️", "\u200b\u200d\ufeff\u00ad\ufffd\x00\x1b\x7f\x85",
    "\u2028\u2029\u3000\u00a0\u1680", "，。！？《》“”、·…—", "ﬁﬂ①²½Ⅷℌ", "\U0001e943\U00010450\u13a0\u1c90Ა",
    "\u09cb\u0dde\u1112\u1161\u11ab\u0f73",
]


def random_text(rng, words):
    parts = []
    for _ in range(rng.randrange(1, 30)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(rng.choice(words))
        elif kind < 0.4:
            parts.append(rng.choice(SPECIALS + ["[sep]", "[CLS", "[MASK]]", "[[UNK]", "##ing", "[ SEP]"]))
        elif kind < 0.85:
            pools = rng.choices(POOLS, k=rng.randrange(1, 4))
            parts.append("".join(rng.choice(rng.choice(pools)) for _ in range(rng.randrange(1, 12))))
        elif kind < 0.95:
            codes = (rng.randrange(0x110000) for _ in range(rng.randrange(1, 6)))
            parts.append("".join(chr(c) for c in codes if not 0xD800 <= c <= 0xDFFF))
        else:
            parts.append(rng.choice("ab1é한") * rng.choice([1, 33, 34, 99, 100, 101, 102, 250, 251, 400]))
        if rng.random() < 0.6:
            parts.append(" ")
    return "".join(parts)


def ours(tool, vocabulary, case, longest, pairs):
    given = b"".join(
        struct.pack("<i", len(a)) + a + (struct.pack("<i", -1) if b is None else struct.pack("<i", len(b)) + b)
        for a, b in pairs
    )
    out = subprocess.run(
        [tool, vocabulary, case, str(longest)], input=given, stdout=subprocess.PIPE, check=True
    ).stdout
    at, result = 0, []
    while at < len(out):
        size, second = struct.unpack_from("<ii", out, at)
        result.append((list(struct.unpack_from(f"<{size}i", out, at + 8)), second))
        at += 8 + 4 * size
    assert len(result) == len(pairs)
    return result


def compare(tool, tokenizer, vocabulary, case, longest, pairs):
    """pairs of bytes; the second may be None. The number of differences."""
    first = [a.decode("utf-8", "replace") for a, _ in pairs]
    mine = ours(tool, vocabulary, case, longest, pairs)
    wrong = 0
    other = [None if b is None else b.decode("utf-8", "replace") for _, b in pairs]
    tokenizer.set_truncation_and_padding(
        PaddingStrategy.DO_NOT_PAD, TruncationStrategy.LONGEST_FIRST, longest, 0, None, None
    )
    theirs = tokenizer.backend_tokenizer.encode_batch(
        [a if b is None else (a, b) for a, b in zip(first, other)]
    )
    for a, b, (ids, begin), their in zip(first, other, mine, theirs):
        types = [0] * begin + [1] * (len(ids) - begin)
        if their.ids != ids or their.type_ids != types:
            wrong += 1
            if wrong <= 3:
                print(f"{case} {longest}: {a[:200]!r} {b!r:.200}")
                print(f"  ours   {ids[:40]}\n  theirs {their.ids[:40]}")
    return wrong


def corpus(rng, lines, size):
    words = [w for line in rng.sample(lines, 500) for w in line.split()]
    codes = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    # a piece of text is many code points: calls are what costs. Each both alone and in a word.
    texts = [" ".join(codes[i : i + 64]) for i in range(0, len(codes), 64)]
    texts += ["A" + "bA".join(codes[i : i + 64]) + "b" for i in range(0, len(codes), 64)]
    marks = [c for c in codes if 0x300 <= ord(c) < 0x20000 and not c.isalnum() and not c.isspace()]
    texts += ["a" + "".join(rng.choice(marks) for _ in range(8)) + "\u302eb" for _ in range(size)]
    texts += [random_text(rng, words) for _ in range(size)]
    texts += lines
    singles = [(t.encode(), None) for t in texts]
    broken = []
    for _ in range(size // 4):
        raw = bytearray(random_text(rng, words).encode())
        for _ in range(rng.randrange(1, 6)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        broken.append((bytes(raw[: rng.randrange(1, len(raw) + 1)]), None))
    short = [
        (random_text(rng, words).encode(), random_text(rng, words).encode() if rng.random() < 0.8 else None)
        for _ in range(size // 10)
    ]
    return singles + broken, short


def main():
    tool = sys.argv[1]
    try:
        global PaddingStrategy, TruncationStrategy
        from transformers import BertTokenizerFast
        from transformers.tokenization_utils_base import PaddingStrategy, TruncationStrategy
    except ImportError:
        if sys.executable != PYTHON and os.path.exists(PYTHON):
            os.execv(PYTHON, [PYTHON, os.path.abspath(__file__), *sys.argv[1:]])
        skip("no Hugging Face in .venv/hf")
    lines = english()
    chinese = os.path.join(DATA, "ernie", "vocab.txt")
    if not os.path.exists(chinese):
        skip(f"no {chinese}")
    rng, size = random.Random(20), int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    wrong = total = 0
    with tempfile.TemporaryDirectory() as folder:
        trained = os.path.join(folder, "vocab.txt")
        train_vocabulary(lines, trained)
        for vocabulary in (trained, chinese):
            long, short = corpus(rng, lines, size)
            for case in ("uncased", "cased"):
                tokenizer = BertTokenizerFast(
                    vocab=read_vocabulary(vocabulary), do_lower_case=case == "uncased"
                )
                tokenizer.model_max_length = 10**9
                wrong += compare(tool, tokenizer, vocabulary, case, LONGEST, long)
                total += len(long)
                for longest in (3, 4, 5, 8, 17, 64):
                    wrong += compare(tool, tokenizer, vocabulary, case, longest, short)
                    total += len(short)
    print(f"{total} texts, {wrong} of them with other tokens than Hugging Face's")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
