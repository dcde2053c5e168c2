#!/bin/sh
# Runs export_parity.py in the environment that has torch; 77 when there is none.
python=$(dirname "$0")/../../../.venv/hf/bin/python
if [ ! -x "$python" ]; then
    echo "skipped: no $python"
    exit 77
fi
exec "$python" "$(dirname "$0")/export_parity.py" "$1"
