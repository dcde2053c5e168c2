#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random points against a Trainyard of its own. Usage: run_crash_test.sh BIN [OPTION...]
set -euo pipefail
bin=${1:?usage: run_crash_test.sh BIN [OPTION...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
TRAINYARD_BIN=$(cd "$bin" && pwd)
export TRAINYARD_BIN
export PYTHONDONTWRITEBYTECODE=1
if [[ ! -x $root/.venv/v2/bin/python ]]; then
    echo "tests/e2e: .venv/v2 is missing; make it with: tools/python_env.sh" >&2
    exit 1
fi
exec "$root/.venv/v2/bin/python" "$root/tests/e2e/crash_test.py" "$@"
