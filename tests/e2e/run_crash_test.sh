#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 at random points, faults over jobs of several nodes, a full disk, each against a Trainyard of its own.
# Usage: run_crash_test.sh BIN [--seed N] [--kills N]; $NODE_FAULTS: how many of the second kind
set -euo pipefail
bin=${1:?usage: run_crash_test.sh BIN [--seed N] [--kills N]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(cd "$bin" && pwd)
python=$root/.venv/v2/bin/python
export PYTHONDONTWRITEBYTECODE=1
if [[ ! -x $python ]]; then
    echo "tests/e2e: .venv/v2 is missing; make it with: tools/python_env.sh" >&2
    exit 1
fi
failed=0
"$python" "$root/tests/e2e/crash_test.py" "$bin" "$@" || failed=1
"$python" "$root/tests/e2e/nodes_chaos.py" "$bin" --faults "${NODE_FAULTS:-30}" || failed=1
if [[ -f $root/tests/e2e/full_disk_test.py ]]; then
    "$python" "$root/tests/e2e/full_disk_test.py" "$bin" || failed=1
fi
exit "$failed"
