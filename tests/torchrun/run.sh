#!/usr/bin/env bash
# The same programs under torchrun and under `trainyard-agent launch`; everything they can notice
# must be the same. Usage: run.sh BIN [UNITTEST ARGUMENT...]
# COMPAT_SUBJECT=torchrun compares torchrun with itself: a check of the comparison.
set -uo pipefail
bin=${1:?usage: run.sh BIN [UNITTEST ARGUMENT...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
if [[ ! -x $root/.venv/train/bin/torchrun ]]; then
    echo "tests/torchrun: skipped: .venv/train is missing; make it with: tools/python_env.sh" >&2
    exit 77
fi
if [[ ! -x $bin/trainyard-agent ]]; then
    echo "tests/torchrun: $bin/trainyard-agent is missing; build it with: make build" >&2
    exit 1
fi
COMPAT_BIN=$(cd "$bin" && pwd) || exit 1
export COMPAT_BIN COMPAT_ROOT=$root
# All cases start at once; with a selection only the selected ones run.
if [[ $# == 0 ]]; then
    export COMPAT_ALL=1
    set -- test_compatibility
fi
cd "$root/tests/torchrun" || exit 1
exec env PYTHONDONTWRITEBYTECODE=1 python3 -m unittest "$@"
