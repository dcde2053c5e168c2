#!/usr/bin/env bash
# Real PyTorch clients against the agent's TCPStore: run.sh <tcp_store_host>. 77: nothing to test with.
set -euo pipefail
root="$(cd "$(dirname "$0")/../../.." && pwd)"
python="$root/.venv/train/bin/python"
[ -x "$python" ] || { echo "skipped: $python is missing (requirements/ says what goes in)"; exit 77; }
[ -x "$1" ] || { echo "skipped: $1 is not built"; exit 77; }
exec "$python" "$root/tests/torchrun/tcp_store/test_clients.py" "$1"
