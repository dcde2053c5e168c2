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

print("\n".join(problems) if problems else "layering: ok")
sys.exit(1 if problems else 0)
