#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of flags in docs/reference/run.md from what `trainyard run --help` says, so that they cannot disagree.

Usage: run_flags.py BIN [PAGE]"""

import pathlib
import re
import subprocess
import sys

BEGIN, END = "<!-- flags: written by tools/run_flags.py -->", "<!-- end of flags -->"
WIDEST = 160


def rows(help_text):
    """The topics of --help as Markdown tables."""
    out, heading, words = [], None, []

    def finish():
        if heading is None:
            return
        ours = heading.endswith(" *")
        text = " ".join(words)
        default = ""
        if text.endswith(")"):
            at = text.rindex(" (")
            text, default = text[:at], text[at + 2:-1]
        flag = heading.removesuffix(" *").strip().replace("|", "\\|")
        out.append(f"| `{flag}`{' *' if ours else ''} | {default.replace('|', chr(92) + '|')} | {text.replace('|', chr(92) + '|')} |")

    for line in help_text.splitlines():
        if re.fullmatch(r"[A-Z][a-z ]+:", line):
            finish()
            heading, words = None, []
            out += ["", f"**{line[:-1]}**", "", "| flag | default | what |", "|---|---|---|"]
        elif re.match(r"  -", line):
            finish()
            heading, words = line.strip(), []
        elif line.startswith("        ") and heading is not None:
            words.append(line.strip())
        elif not line.strip():
            finish()
            heading, words = None, []
    finish()
    return out[1:]


def main():
    agent = pathlib.Path(sys.argv[1]) / "trainyard-agent"
    page = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "docs/reference/run.md")
    told = subprocess.run([agent, "launch", "--help"], check=True, capture_output=True, text=True).stdout
    table = rows(told)
    wide = [row for row in table if len(row) > WIDEST]
    if wide:
        sys.exit("run_flags.py: too long for the page, shorten the flag's text in flag_table.cc:\n" + "\n".join(wide))
    text = page.read_text()
    before, rest = text.split(BEGIN + "\n")
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n" + "\n".join(table) + f"\n{END}{after}")


if __name__ == "__main__":
    main()
