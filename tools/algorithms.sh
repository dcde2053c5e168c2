#!/usr/bin/env bash
# Configures the built-in training programs against the LibTorch of .venv/train.
#   tools/algorithms.sh BUILD_FOLDER OUTPUT_FOLDER
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:?usage: algorithms.sh BUILD_FOLDER OUTPUT_FOLDER}
output=${2:?usage: algorithms.sh BUILD_FOLDER OUTPUT_FOLDER}
python=$root/.venv/train/bin/python
if [[ ! -x $python ]]; then
    echo "algorithms: .venv/train is missing; make it with: tools/python_env.sh train" >&2
    exit 1
fi
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
prefix=$site/torch/share/cmake # torch.utils.cmake_prefix_path, without importing torch
cmake -S "$root/algorithms" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix" -DALG_OUTPUT="$output" >/dev/null
