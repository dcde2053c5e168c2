#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every example against a daemon of its own, two at a time, and reports each with its time.
# Usage: run_examples.sh BIN [EXAMPLE...]. Fails when one fails; 77 from an example means skipped.
set -euo pipefail
bin=$(cd "${1:?usage: run_examples.sh BIN [EXAMPLE...]}" && pwd)
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
at_once=2
limit=300 # seconds for one example; about 15 on a machine with nothing else to do, 08-elastic-speech a minute
for file in "$bin/trainyard" "$bin/trainyardd" "$bin/trainyard-agent" "$root"/.venv/{train,v2,v3}/bin/python; do
    [[ -x $file ]] || { echo "run_examples: $file is missing; run: make build python" >&2; exit 1; }
done

work=$(mktemp -d)
export TRAINYARD_HOME=$work/home PATH="$bin:$PATH" EXAMPLE_SHORT=1
# Whatever the caller's shell says about AWS stays outside.
while IFS= read -r name; do unset "$name"; done < <(compgen -e | grep -E '^(AWS_|SAGEMAKER_)' || true)
finish() {
    local running
    running=$(jobs -p)
    # shellcheck disable=SC2086
    [[ -z $running ]] || kill $running 2>/dev/null || true
    trainyard down --stop-jobs >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$TRAINYARD_HOME"
{
    echo "interpreters = [\"$root/.venv/train\"]"
    sed "s|@EXAMPLE@|$root/examples/03-ernie-pretraining|" "$root/examples/03-ernie-pretraining/trainyard.toml"
    cat "$root/examples/08-elastic-speech/trainyard.toml"
} >"$TRAINYARD_HOME/config.toml"
trainyard up --port 0
eval "$(trainyard env)"

run_one() {
    local name=$1 started=$SECONDS code=0
    timeout "$limit" "$root/examples/$name/run.sh" >"$work/$name.log" 2>&1 </dev/null || code=$?
    echo "$code $((SECONDS - started))" >"$work/$name.result"
}

[[ $# -gt 0 ]] || { cd "$root/examples" && set -- [0-9]*/; }
started=$SECONDS
for name in "$@"; do
    while [[ $(jobs -rp | wc -l) -ge $at_once ]]; do wait -n || true; done
    run_one "${name%/}" &
done
wait

passed=0 skipped=0 failed=0
for name in "$@"; do
    name=${name%/}
    read -r code seconds <"$work/$name.result"
    case $code in
    0) verdict=passed passed=$((passed + 1)) ;;
    77) verdict="skipped: $(tail -1 "$work/$name.log")" skipped=$((skipped + 1)) ;;
    124) verdict="failed: longer than $limit s" failed=$((failed + 1)) ;;
    *) verdict="failed: exit status $code" failed=$((failed + 1)) ;;
    esac
    printf '%-24s %4d s  %s\n' "$name" "$seconds" "$verdict"
    if [[ $code != 0 && $code != 77 ]]; then
        tail -40 "$work/$name.log" | sed 's/^/    /'
    fi
done
if [[ $failed -gt 0 ]]; then
    echo "--- daemon.log"
    tail -20 "$TRAINYARD_HOME/daemon.log" || true
fi
echo "$passed passed, $skipped skipped, $failed failed in $((SECONDS - started)) s"
[[ $failed == 0 ]]
