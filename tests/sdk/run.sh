#!/usr/bin/env bash
# The real clients against a daemon of their own: pytest suites over boto3, the AWS CLI and both
# generations of the SageMaker SDK. Usage: run.sh BIN [PYTEST ARGUMENT...]
set -uo pipefail
bin=${1:?usage: run.sh BIN [PYTEST ARGUMENT...]}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
TRAINYARD_BIN=$(cd "$bin" && pwd) || exit 1
export TRAINYARD_BIN
for program in trainyard trainyardd trainyard-agent; do
    if [[ ! -x $TRAINYARD_BIN/$program ]]; then
        echo "tests/sdk: $TRAINYARD_BIN/$program is missing; build it with: make build" >&2
        exit 1
    fi
done
for python in v2 v3 train; do
    if [[ ! -x $root/.venv/$python/bin/python ]]; then
        echo "tests/sdk: .venv/$python is missing; make it with: tools/python_env.sh" >&2
        exit 1
    fi
done
cd "$root" || exit 1
options=(-q -p no:cacheprovider --durations=5 "$@")
status=0
"$root/.venv/v2/bin/python" -m pytest "${options[@]}" --ignore="$root/tests/sdk/v3" tests/sdk || status=1
"$root/.venv/v3/bin/python" -m pytest "${options[@]}" tests/sdk/v3 || status=1
exit "$status"
