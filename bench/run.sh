#!/bin/sh
# Measures everything against its peer. Usage: run.sh BIN [start latency rates archive logs pipeline list]
#                                               run.sh BIN launcher [latency worker node drain ...]
#                                               run.sh BIN nodes [interruption saving goodput many]
set -eu
here=$(dirname "$0")
bin=$1
shift
if [ "${1:-}" = launcher ]; then
    shift
    exec python3 "$here/launcher.py" "$bin" "$@"
fi
nodes=$here/../.venv/v2/bin/python
if [ "${1:-}" = nodes ]; then
    shift
    exec "$nodes" "$here/nodes.py" "$bin" "$@"
fi
python3 "$here/run.py" "$bin" "$@"
[ $# -gt 0 ] || { python3 "$here/launcher.py" "$bin" && exec "$nodes" "$here/nodes.py" "$bin"; }
