#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two nodes of one job on this machine: the second is killed, comes back, and the first is asked to leave.
# Needs no daemon. PATH: trainyard, and a python with torch and scikit-learn (requirements/train.txt).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH="${PYTHON_BIN:-$here/../../.venv/train/bin}:$PATH"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 EPOCHS=60 EPOCH_SECONDS=0.2
port=$((20000 + RANDOM % 9000))
mkdir "$work/checkpoints"

node() {
    exec trainyard run --nnodes 1:2 --rdzv-endpoint "127.0.0.1:$port" --rdzv-backend c10d --rdzv-id "elastic-$port" --max-restarts 3 \
        --checkpoint-dir "$work/checkpoints" --log-dir "$work/logs" --events "$work/events-$1" "$here/train.py"
}
until_says() { # PATTERN FILE...: waits until the line is there
    for _ in $(seq 600); do
        if cat "${@:2}" 2>/dev/null | grep -q "$1"; then return; fi
        sleep 0.1
    done
    echo "no \"$1\" within 60 s:" >&2
    cat "$work"/node-* >&2
    exit 1
}

node a >"$work/node-a" 2>&1 & first=$!
until_says launcher_started "$work/events-a"
node b >"$work/node-b" 2>&1 & second=$!
until_says "world of 2" "$work/node-a" "$work/node-b"
sleep 2
echo "== the second node dies (kill -9)"
kill -9 "$second"
until_says "world of 1: from epoch [1-9]" "$work/node-a"
echo "== it comes back; the job grows at the next checkpoint"
node c >"$work/node-c" 2>&1 & third=$!
until_says '"generation_started".*"nodes":2' "$work/events-c"
sleep 1
echo "== the first node is asked to leave (SIGTERM): after the next checkpoint the other one goes on alone"
kill -TERM "$first"
wait "$first" || echo "   its launcher has ended with $?"
wait "$third"
cat "$work/node-a" "$work/node-c"
grep -Eq "epochs 60, test accuracy 0\.9[4-9]" "$work/node-c"
