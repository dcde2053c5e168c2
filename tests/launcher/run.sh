#!/usr/bin/env bash
# What `trainyard run` promises, with real processes. Usage: run.sh BIN [UNITTEST ARGUMENT...]
set -uo pipefail
bin=${1:?usage: run.sh BIN [UNITTEST ARGUMENT...]}
shift
TRAINYARD_BIN=$(cd "$bin" && pwd) || exit 1
export TRAINYARD_BIN
if [[ ! -x $TRAINYARD_BIN/trainyard-agent ]]; then
    echo "tests/launcher: $TRAINYARD_BIN/trainyard-agent is missing; build it with: make build" >&2
    exit 1
fi
cd "$(dirname "$0")" || exit 1
if [[ $# == 0 ]]; then
    set -- discover -p '*_test.py'
fi
exec env PYTHONDONTWRITEBYTECODE=1 python3 -m unittest "$@"
