#!/bin/sh
# Measures everything against its peer. Usage: run.sh BIN [start latency rates archive logs pipeline list]
exec python3 "$(dirname "$0")/run.py" "$@"
