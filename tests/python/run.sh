#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python helper. Usage: run.sh [UNITTEST ARGUMENT...]. With torch where .venv/train has it, else without those tests.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
python=../../.venv/train/bin/python
[[ -x $python ]] || python=python3
if [[ $# == 0 ]]; then
    set -- discover -p '*_test.py'
fi
exec env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=../../python OMP_NUM_THREADS=2 "$python" -m unittest "$@"
