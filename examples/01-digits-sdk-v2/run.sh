#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the example against the Trainyard of this shell. PYTHON: one with the packages of requirements/v2.txt.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${AWS_ENDPOINT_URL:?not set; run: eval \"\$(trainyard env)\"}"
export SAGEMAKER_SUPPRESS_V2_WARNING=1 PYTHONUNBUFFERED=1
exec "${PYTHON:-$here/../../.venv/v2/bin/python}" "$here/digits.py"
