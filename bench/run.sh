#!/bin/sh
# Measures everything against its peer. Usage: run.sh BIN [start latency rates archive logs pipeline list]
#                                               run.sh BIN launcher [latency worker node drain ...]
set -eu
here=$(dirname "$0")
bin=$1
shift
if [ "${1:-}" = launcher ]; then
    shift
    exec python3 "$here/launcher.py" "$bin" "$@"
fi
python3 "$here/run.py" "$bin" "$@"
[ $# -gt 0 ] || exec python3 "$here/launcher.py" "$bin"
