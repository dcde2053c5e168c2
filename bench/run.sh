#!/bin/sh
# Measures everything against its peer. Usage: run.sh BIN [start latency rates archive logs pipeline list]
#                                               run.sh BIN launcher [latency worker node drain ...]
#                                               run.sh BIN nodes [interruption saving goodput many]
#                                               run.sh BIN algorithms [...]   ($ALGORITHMS_BIN: the built-in programs)
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
programs=${ALGORITHMS_BIN:-$here/../build/release/bin/algorithms}
if [ "${1:-}" = algorithms ]; then
    shift
    exec "$here/algorithms.sh" "$programs" "$@"
fi
python3 "$here/run.py" "$bin" "$@"
[ $# -eq 0 ] || exit 0
python3 "$here/launcher.py" "$bin"
"$nodes" "$here/nodes.py" "$bin"
[ ! -x "$here/algorithms.sh" ] || exec "$here/algorithms.sh" "$programs"
