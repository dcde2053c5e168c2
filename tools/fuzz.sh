#!/usr/bin/env bash
# Runs every fuzz target for a while, starting from the committed corpus. Usage: fuzz.sh BIN SECONDS
set -euo pipefail
bin=$1 seconds=$2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in "$bin"/*_fuzz; do
    name=$(basename "$target")
    mkdir -p "$work/$name"
    echo "== $name"
    "$target" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$work/" \
        "$work/$name" "tests/fuzz/corpus/${name%_fuzz}" 2>&1 | grep -E 'ERROR|SUMMARY|stat::number_of_executed_units' || true
    if compgen -G "$work/crash-*" >/dev/null; then
        echo "fuzz: $name failed; input:"; od -A x -t x1z "$work"/crash-* | head -20
        exit 1
    fi
done
