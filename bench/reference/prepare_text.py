#!/usr/bin/env python3
"""Text sets as train.tsv, dev.tsv, test.tsv (header, then label<TAB>text) and vocab.txt, the same on every machine.

Usage: prepare_text.py DATA OUT [SET...]
DATA: folder with chnsenticorp.zip, sentence_polarity.zip, movie_reviews.zip; OUT gets a folder per set.
chnsenticorp keeps its own split; the others are shuffled (seed 1) and split 80/10/10. The vocabulary is for
WordPiece: 8,000 tokens counted in train.tsv."""

import collections
import pathlib
import random
import sys
import zipfile

from tokenizers import normalizers, pre_tokenizers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def chnsenticorp(archive):
    for part in ("train", "dev", "test"):
        lines = archive.read(f"{part}.tsv").decode().splitlines()[1:]
        yield part, [tuple(line.split("\t", 1)) for line in lines]


def shuffled_split(rows):
    random.Random(1).shuffle(rows)
    tenth = len(rows) // 10
    yield "train", rows[2 * tenth :]
    yield "dev", rows[:tenth]
    yield "test", rows[tenth : 2 * tenth]


def sentence_polarity(archive):
    rows = []
    for label, name in (("0", "neg"), ("1", "pos")):
        text = archive.read(f"sentence_polarity/rt-polarity.{name}").decode()
        rows += [(label, line) for line in text.split("\n") if line.strip()]
    return shuffled_split(rows)


def movie_reviews(archive):
    rows = []
    for name in sorted(archive.namelist()):
        if name.endswith(".txt") and ("/neg/" in name or "/pos/" in name):
            rows.append(("1" if "/pos/" in name else "0", archive.read(name).decode("utf-8", "replace")))
    return shuffled_split(rows)


def vocabulary(texts, size=8000):
    """Hugging Face's trainer gives another result in each run (ties in hash order). This one counts: all characters,
    the endings most in use, and whole words; ties in alphabetical order."""
    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = collections.Counter()
    for text in texts:
        words.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    letters, endings = collections.Counter(), collections.Counter()
    for word, count in words.items():
        for place, letter in enumerate(word):
            letters["##" + letter if place else letter] += count
        for length in range(2, min(len(word), 6)):
            endings["##" + word[-length:]] += count

    def best(counter):
        return [name for name, _ in sorted(counter.items(), key=lambda item: (-item[1], item[0]))]

    chosen = dict.fromkeys(SPECIAL + best(letters)[: size * 3 // 4])
    chosen.update(dict.fromkeys(best(endings)[: size // 8]))
    for word in best(words):
        if len(chosen) == size:
            break
        chosen.setdefault(word)
    return list(chosen)


def main():
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for read in (chnsenticorp, sentence_polarity, movie_reviews):
        name = read.__name__
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        texts = []
        with zipfile.ZipFile(data / f"{name}.zip") as archive:
            for part, rows in read(archive):
                rows = [(label, " ".join(text.split())) for label, text in rows]
                texts = texts or [text for _, text in rows]  # train comes first
                body = "label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows)
                (folder / f"{part}.tsv").write_text(body, encoding="utf-8")
                print(f"{name}/{part}.tsv: {len(rows)} rows")
        tokens = vocabulary(texts)
        (folder / "vocab.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
        print(f"{name}/vocab.txt: {len(tokens)} tokens")


if __name__ == "__main__":
    main()
