#!/bin/sh
# Runs transformer_parity.py in the environment that has transformers; 77 when there is none.
python=$(dirname "$0")/../../.venv/hf/bin/python
if [ ! -x "$python" ]; then
    echo "skipped: no $python"
    exit 77
fi
exec "$python" "$(dirname "$0")/transformer_parity.py" "$1"
