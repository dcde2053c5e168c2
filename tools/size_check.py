#!/usr/bin/env python3
"""Budgets of source files and release binaries. Usage: size_check.py [release bin folder]"""

import pathlib
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
HARD_LINES = 800
BINARIES = {  # name: (bytes stripped, libraries it may need)
    "trainyardd": (25_000_000, None),
    "trainyard": (8_000_000, None),
    "trainyard-agent": (6_000_000, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}),
}
allowed = {}
for line in (root / "tools/size_allow.txt").read_text().splitlines():
    if line and not line.startswith("#"):
        name, reason = line.split(maxsplit=1)
        allowed[name] = reason
problems = []
files = subprocess.run(["git", "ls-files", "src", "algorithms", "tests", "bench", "tools"], cwd=root, capture_output=True, text=True).stdout
for name in files.splitlines():
    path = root / name
    if path.suffix not in (".cc", ".h", ".py") or name.startswith("src/shapes/") or not path.exists():
        continue
    lines = sum(1 for _ in path.open(errors="replace"))
    if lines > HARD_LINES and name not in allowed:
        problems.append(f"{name}: {lines} lines, the limit is {HARD_LINES}")
if len(sys.argv) > 1:
    for name, (limit, libraries) in BINARIES.items():
        path = pathlib.Path(sys.argv[1]) / name
        size = path.stat().st_size
        print(f"{name}: {size / 1e6:.2f} MB of {limit / 1e6:.0f} MB")
        if size > limit:
            problems.append(f"{name}: {size} bytes, the budget is {limit}")
        needed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
        names = {line.split("[")[1].split("]")[0] for line in needed.splitlines() if "(NEEDED)" in line}
        if libraries is not None and not names <= libraries:
            problems.append(f"{name}: needs {sorted(names - libraries)} besides {sorted(libraries)}")
print("\n".join(problems) if problems else "sizes: ok")
sys.exit(1 if problems else 0)
