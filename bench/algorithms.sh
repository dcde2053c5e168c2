#!/bin/sh
# Figures of the built-in programs beside their PyTorch and Hugging Face references.
# Usage: algorithms.sh PROGRAMS [curves ernie fixed short start tokenizer checkpoint overlap | quality]
# PROGRAMS: the folder with masked-lm and text-classification. Data: $TRAINYARD_DATA or ../shared/data. The small
# measuring programs are built in $ALGORITHMS_BUILD (build/algorithms).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${ALGORITHMS_BUILD:-$here/../build/algorithms}
[ ! -f "$build/build.ninja" ] || [ -n "${ALGORITHMS_BUILT:-}" ] ||
    ninja -C "$build" wordpiece_bench training_bench state_pause >/dev/null
export ALGORITHMS_BUILD="$build"
exec "$here/../.venv/hf/bin/python" "$here/algorithms.py" "$@"
