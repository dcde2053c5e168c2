#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the hyperparameters of the built-in programs into docs/reference/algorithms/<name>.md, from what
`<program> --describe` says, so that they cannot disagree.

Usage: algorithm_reference.py BIN [--check]; --check writes nothing and fails when a page is out of date.
Exits with 77 when the programs are not built."""

import json
import pathlib
import subprocess
import sys

BEGIN, END = "<!-- hyperparameters: written by tools/algorithm_reference.py -->", "<!-- end of hyperparameters -->"
PAGES = pathlib.Path(__file__).resolve().parent.parent / "docs/reference/algorithms"


def escape(text):
    """As it may stand in a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def code(text):
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""


def table(rows):
    """What has an effect, then other spellings, then what is accepted for the original's sake."""
    effective = [row for row in rows if not row.get("ignored") and not row.get("alias_of")]
    aliases = [row for row in rows if row.get("alias_of")]
    ignored = [row for row in rows if row.get("ignored")]
    out = ["| name | type | default | allowed | what |", "|---|---|---|---|---|"]
    for row in effective:
        out.append(f"| {code(row['name'])} | {row['type']} | {code(row['default'])} | {escape(row['allowed'])} "
                   f"| {escape(row['help'])} |")
    if aliases:
        out += ["", "Other spellings: " + ", ".join(f"{code(row['name'])} for {code(row['alias_of'])}"
                                                     for row in aliases) + "."]
    if ignored:
        out += ["", "Accepted, because the original has them, and without effect:", "", "| name | why |", "|---|---|"]
        out += [f"| {code(row['name'])} | {escape(row['help'])} |" for row in ignored]
    return out


def page_of(program):
    """(path, its text now, its text as it should be)."""
    told = subprocess.run([program, "--describe"], check=True, capture_output=True, text=True, timeout=60).stdout
    path = PAGES / f"{program.name}.md"
    text = path.read_text() if path.exists() else f"# {program.name}\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN + "\n")
    after = rest.split(END)[1]
    return path, text, f"{before}{BEGIN}\n" + "\n".join(table(json.loads(told))) + f"\n{END}{after}"


def main():
    folder = pathlib.Path(sys.argv[1]) / "algorithms"
    check = "--check" in sys.argv[2:]
    programs = [folder / json.loads(path.read_text())["program"] for path in sorted(folder.glob("*.json"))]
    if not programs or not all(program.exists() for program in programs):
        print(f"skipped: the built-in programs are not in {folder}; run make algorithms")
        sys.exit(77)
    stale = []
    for program in programs:
        path, text, wanted = page_of(program)
        if check and (text != wanted or not path.exists()):
            stale.append(path.name)
        elif not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted)
    if stale:
        sys.exit(f"docs/reference/algorithms: out of date: {', '.join(stale)}; run make generate and commit")


if __name__ == "__main__":
    main()
