# SPDX-License-Identifier: Apache-2.0
"""Configuration from groups, as with Hydra, in thirty lines: conf/<group>/<choice>.json, chosen and overridden by words.

    model=conv train.epochs=3                    on a command line
    {"model": "conv", "train.epochs": 3}         as hyperparameters, which arrive as --model conv --train.epochs 3"""

import json
import pathlib
import types

CONF = pathlib.Path(__file__).resolve().parent / "conf"
DEFAULTS = {"model": "wide", "train": "full"}


def pairs(words):
    words = list(words)
    while words:
        word = words.pop(0)
        if word.startswith("--") and "=" not in word:
            if not words:
                raise SystemExit(f"{word}: its value is missing")
            yield word[2:], words.pop(0)
        else:
            key, _, value = word.lstrip("-").partition("=")
            yield key, value


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def load(words):
    """One namespace per group, the chosen file's values with what the words override."""
    given = dict(pairs(words))
    groups = {}
    for group, default in DEFAULTS.items():
        file = CONF / group / f"{given.pop(group, default)}.json"
        if not file.exists():
            raise SystemExit(f"{group}={file.stem}: there are {', '.join(sorted(each.stem for each in file.parent.glob('*.json')))}")
        groups[group] = json.loads(file.read_text())
    for key, value in given.items():
        group, _, name = key.partition(".")
        if name not in groups.get(group, {}):
            raise SystemExit(f"{key}: no such setting; there are {', '.join(f'{g}.{n}' for g in groups for n in groups[g])}")
        groups[group][name] = parsed(value)
    return types.SimpleNamespace(**{group: types.SimpleNamespace(**values) for group, values in groups.items()})
