#!/usr/bin/env python3
"""Checks the module borders from the include lines: who may include whom, and that other modules
only use public headers. Prints every offending line; exits 1 when there is one."""

import pathlib
import re
import sys

# module -> modules it may include, besides itself. The order is the order of the build.
MAY_INCLUDE = {
    "base": set(),
    "sys": {"base"},
    "plan": {"base"},
    "rendezvous": {"base"},
    "shapes": {"base"},
    "http": {"base", "sys"},
    "aws": {"base", "sys", "http"},
    "store": {"base"},
    "objects": {"base", "sys", "store"},
    "telemetry": {"base", "sys", "store"},
    "images": {"base", "sys", "plan"},
    "engine": {"base", "sys", "plan"},
    "jobs": {"base", "plan", "store", "engine"},
    "api": {"base", "sys", "http", "aws", "shapes", "plan", "jobs", "objects", "telemetry", "images"},
    "agent": {"base", "sys", "http", "aws", "plan", "rendezvous"},
    "cli": {"base", "sys", "http", "aws", "shapes"},
    "daemon": {"base", "sys", "http", "aws", "plan", "store", "objects", "telemetry", "images", "engine", "jobs", "api"},
}
# Headers other modules may include. base, sys and shapes are sets of one-concept headers.
OPEN_MODULES = {"base", "sys", "shapes"}
EXTRA_PUBLIC = {"aws/xml.h", "aws/errors.h", "engine/local/local.h", "api/coverage.h"}
# Third-party headers confined to the files that wrap them.
CONFINED = {
    "sqlite3.h": r"src/store/",
    "re2/": r"src/(telemetry|shapes/pattern|api/sagemaker)",
    "pugixml": r"src/api/s3/",
    "toml++": r"src/daemon/config\.cc",
    "CLI/CLI.hpp": r"src/cli/parse\.cc",
    "boost/": r"src/http/",
    "openssl/": r"src/(http/tls|base/hash)",
    "archive.h": r"src/agent/",
}

# The built-in training programs, a project of their own: folder -> folders it may include, besides itself.
# They are workloads, so nothing of src/ is among them.
ALGORITHMS_MAY_INCLUDE = {
    "common/base": set(),
    "common/data": {"common/base"},
    "common/files": {"common/base"},
    "common/training": {"common/base", "common/data", "common/files"},
    "common/export": {"common/base", "common/files", "common/training"},
    "text": {"common/base"},
    "transformer": {"common/base", "common/files", "common/training", "common/export"},
}
ALGORITHMS_PARTS = set(ALGORITHMS_MAY_INCLUDE)  # a program may include all of them, but no other program
# Their tests build in seconds, under the sanitizers.
WITHOUT_TORCH = re.compile(r"algorithms/(common/(base|data)/|text/|common/files/(pickle|zip_|file\.|atomic_file))")
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
NOT_IN_ALGORITHMS = {
    "iostream": "fmt writes, files are read whole",
    "regex": "it is slow and recurses; read by hand",
    "format": "g++ 12 has none; common/base/error.h has fmt",
    "coroutine": "threads and values",
    "torch/torch.h": "it costs ten seconds each time; include the pieces",
    "torch/all.h": "it costs ten seconds each time; include the pieces",
}

root = pathlib.Path(__file__).resolve().parent.parent
problems = []


def complain(path, number, text):
    problems.append(f"{path.relative_to(root)}:{number}: {text}")


for path in sorted((root / "src").rglob("*")):
    if path.suffix not in (".cc", ".h"):
        continue
    where = str(path.relative_to(root))
    module = path.relative_to(root / "src").parts[0]
    is_test = path.name.endswith("_test.cc")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
        if not found:
            continue
        header = found.group(2)
        for prefix, allowed in CONFINED.items():
            if header.startswith(prefix) and not re.match(allowed, where) and not is_test:
                complain(path, number, f"<{header}> belongs behind {allowed}")
        if found.group(1) == "<" or "/" not in header:
            continue
        owner = header.split("/")[0]
        if owner not in MAY_INCLUDE or owner == module:
            continue
        if owner not in MAY_INCLUDE.get(module, set()) and not is_test:
            complain(path, number, f'module "{module}" may not include "{header}"')
        elif owner not in OPEN_MODULES and header != f"{owner}/{owner}.h" and header not in EXTRA_PUBLIC and not is_test:
            complain(path, number, f'"{header}" is private to "{owner}"; use "{owner}/{owner}.h"')



def algorithms_folder(name):
    """ "common/base" of "common/base/error.h", "text" of "text/wordpiece.h"."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "common" else parts[0]


programs = {path.parent.name for path in (root / "algorithms").glob("*/train.cc")}
for path in sorted((root / "algorithms").rglob("*")):
    if path.suffix not in (".cc", ".h"):
        continue
    where = str(path.relative_to(root))
    folder = algorithms_folder(str(path.relative_to(root / "algorithms")))
    allowed = ALGORITHMS_MAY_INCLUDE.get(folder, ALGORITHMS_PARTS) | {folder}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
        if not found:
            continue
        header = found.group(2)
        if header in NOT_IN_ALGORITHMS:
            complain(path, number, f"<{header}>: {NOT_IN_ALGORITHMS[header]}")
        if TORCH.match(header) and WITHOUT_TORCH.match(where):
            complain(path, number, f"<{header}>: this part does without LibTorch")
        if found.group(1) == "<" or "/" not in header or header.startswith("tests/support/"):
            continue
        owner = algorithms_folder(header)
        if owner in MAY_INCLUDE or header.startswith(("src/", "../")):
            complain(path, number, f'"{header}": the built-in programs are workloads and know nothing of src/')
        elif owner in ALGORITHMS_PARTS | programs and owner not in allowed and not path.name.endswith("_test.cc"):
            complain(path, number, f'"{folder}" may not include "{header}"')

print("\n".join(problems) if problems else "layering: ok")
sys.exit(1 if problems else 0)
