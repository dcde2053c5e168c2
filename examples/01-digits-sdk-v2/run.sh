#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Needs eval "$(trainyard env)". PYTHON: one with the packages of requirements/v2.txt.
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-$here/../../.venv/v2/bin/python}" "$here/run.py" "$@"
