#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cut botocore's SageMaker model down to what Trainyard serves.

Run by hand when operations are added or the model is to be refreshed; the result is checked in, so
that building needs no botocore:

    tools/shapegen/trim.py <botocore>/data/sagemaker/2017-07-24/service-2.json.gz

Kept: the operations named in families.json, the shapes they reach without documentation, and the
names of all operations, so that a known but unserved one can be told from an unknown one.
"""
import gzip
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
KEPT = ("type", "required", "members", "member", "key", "value", "enum", "min", "max", "pattern", "sensitive")
# Records of other kinds are never found here; their shapes would be nine tenths of the model.
PRUNED = {"SearchRecord": {"TrainingJob"}}


def references(shape):
    for member in shape.get("members", {}).values():
        yield member["shape"]
    for role in ("member", "key", "value"):
        if role in shape:
            yield shape[role]["shape"]


def trim_shape(name, shape):
    kept = {word: shape[word] for word in KEPT if word in shape}
    if "members" in kept:
        wanted = PRUNED.get(name)
        kept["members"] = {key: {"shape": member["shape"]} for key, member in kept["members"].items()
                           if wanted is None or key in wanted}
    for role in ("member", "key", "value"):
        if role in kept:
            kept[role] = {"shape": kept[role]["shape"]}
    return kept


def main():
    source = pathlib.Path(sys.argv[1])
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rt", encoding="utf-8") as file:
        model = json.load(file)
    families = json.loads((HERE / "families.json").read_text(encoding="utf-8"))
    served = [name for family in families for name in family.get("operations", [])]

    operations, shapes, queue = {}, {}, []
    for name in served:
        operation = model["operations"][name]
        operations[name] = {role: operation[role]["shape"] for role in ("input", "output") if role in operation}
        queue.extend(operations[name].values())
    while queue:
        name = queue.pop()
        if name not in shapes:
            shapes[name] = trim_shape(name, model["shapes"][name])
            queue.extend(references(shapes[name]))

    result = {
        "apiVersion": model["metadata"]["apiVersion"],
        "targetPrefix": model["metadata"]["targetPrefix"],
        "operationNames": sorted(model["operations"]),
        "operations": {name: operations[name] for name in sorted(operations)},
        "shapes": {name: shapes[name] for name in sorted(shapes)},
    }
    target = HERE / "models" / "sagemaker.json"
    target.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{target}: {len(operations)} of {len(model['operations'])} operations, {len(shapes)} shapes")


if __name__ == "__main__":
    main()
