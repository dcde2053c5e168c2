#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the example against the Trainyard of this shell. PYTHON: one with the packages of requirements/v2.txt.
# EXAMPLE_SHORT=1: few updates, and no comparison with a model from scratch. Exit 77: the data is not on this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${TRAINYARD_DATA:-$root/../shared/data}
: "${AWS_ENDPOINT_URL:?not set; run: eval \"\$(trainyard env)\"}"
if [[ ! -f $data/ernie/demo_train_set.gz || ! -f $data/text/chnsenticorp.zip ]]; then
    echo "skipped: ernie/demo_train_set.gz or text/chnsenticorp.zip is not in $data; set TRAINYARD_DATA" >&2
    exit 77
fi
export SAGEMAKER_SUPPRESS_V2_WARNING=1 PYTHONUNBUFFERED=1
exec "${PYTHON:-$root/.venv/v2/bin/python}" "$here/incremental.py" "$data"
