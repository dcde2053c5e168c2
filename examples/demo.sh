#!/usr/bin/env bash
# Starts a Trainyard of its own in a temporary folder, trains a real model through the unmodified
# SageMaker SDK, and shows what a user would look at afterwards. Usage: demo.sh BIN
set -euo pipefail
bin=$1
root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$bin:$root/.venv/v2/bin:$PATH"
home=$(mktemp -d)
export TRAINYARD_HOME=$home
trap 'trainyard down --stop-jobs >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "trainyard up"
VIRTUAL_ENV="$root/.venv/train" trainyard up --port 0
eval "$(trainyard env)"
say "trainyard doctor"
trainyard doctor || true
say "An unmodified SageMaker script: examples/01-digits-sdk-v2"
"$root/examples/01-digits-sdk-v2/run.sh"
say "trainyard jobs"
trainyard jobs
job=$(trainyard jobs --names | head -1)
say "trainyard describe $job"
trainyard describe "$job"
say "trainyard logs $job"
trainyard logs "$job" | tail -5
say "Done. By hand: trainyard up; eval \"\$(trainyard env)\"; python your_script.py"
