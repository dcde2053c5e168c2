#!/usr/bin/env bash
# Writes every generated file of the tree: AWS shapes, the compatibility table, the flags of trainyard run, the hyperparameters of the
# built-in programs where they are built.
# Usage: generate.sh BIN [--check]; with --check it fails when a committed file is out of date.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1
python3 tools/shapegen/shapegen.py
"$bin/compatibility" > docs/reference/compatibility.md
python3 tools/run_flags.py "$bin"
if [ "${2:-}" = "--check" ]; then
    git diff --exit-code --stat -- src/shapes docs/reference || { echo "generated files are out of date: run make generate and commit"; exit 1; }
elif compgen -G "$bin/algorithms/*.json" >/dev/null; then
    tools/algorithm_reference.py "$bin"
else
    echo "generate: the built-in programs are not built; docs/reference/algorithms stays as it is"
fi
