#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Python environments of the examples and tests under .venv/.
#
#   tools/python_env.sh [train v2 v3 hf]   make those that are missing or out of date
#   tools/python_env.sh --lock v2       write requirements/v2.lock anew from requirements/v2.txt
#
# requirements/<name>.txt pins what is asked for, requirements/<name>.lock everything below it.
# `train` is what training programs run in. `v2`, `v3` and `hf` see the packages of
# `train` through a .pth file, so that torch is downloaded and stored once.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=${TRAINYARD_PYTHON:-/usr/bin/python3}
clients=" v2 v3 hf "

fail() {
    echo "python_env: $*" >&2
    exit 1
}

site_packages() {
    "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

wanted_stamp() {
    {
        "$python" --version
        cat "$root/requirements/$1.txt" "$root/requirements/$1.lock"
        if [[ $clients == *" $1 "* ]]; then
            cat "$root/requirements/train.txt" "$root/requirements/train.lock"
        fi
    } 2>/dev/null | sha256sum | cut -d' ' -f1
}

create() {
    local name=$1 folder=$root/.venv/$1
    rm -rf "$folder"
    mkdir -p "$root/.venv"
    "$python" -m venv "$folder" ||
        fail "$python cannot make a virtual environment; on Debian: apt install python3-venv"
    if [[ $clients == *" $name "* ]]; then
        site_packages "$root/.venv/train" >"$(site_packages "$folder")/trainyard_train.pth"
    fi
}

install() {
    local name=$1 folder=$root/.venv/$1
    shift
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-compile \
        -r "$root/requirements/$name.txt" "$@" ||
        fail "installing requirements/$name.txt failed; see the lines above (network? PIP_INDEX_URL?)"
    # Compiled once here, by all cores, instead of at each first import.
    "$folder/bin/python" -m compileall -q -j 0 "$(site_packages "$folder")" >/dev/null 2>&1 || true
}

make_env() {
    local name=$1 folder=$root/.venv/$1 stamp started=$SECONDS
    [[ -f $root/requirements/$name.txt ]] || fail "no such environment: $name (see requirements/)"
    stamp=$(wanted_stamp "$name")
    if [[ -f $folder/.stamp && $(<"$folder/.stamp") == "$stamp" ]]; then
        return
    fi
    if [[ $clients == *" $name "* ]]; then
        make_env train
    fi
    echo "python_env: making .venv/$name" >&2
    create "$name"
    install "$name" -c "$root/requirements/$name.lock"
    echo "$stamp" >"$folder/.stamp"
    echo "python_env: .venv/$name ready in $((SECONDS - started)) s, $(du -sh "$folder" | cut -f1)" >&2
}

lock() {
    local name=$1
    if [[ $clients == *" $name "* ]]; then
        make_env train
    fi
    create "$name"
    install "$name"
    # --local leaves out what comes through the .pth; local version suffixes (+cpu) are not published.
    "$root/.venv/$name/bin/python" -m pip freeze --local --disable-pip-version-check |
        sed -E 's/\+[a-z0-9.]+$//' >"$root/requirements/$name.lock"
}

[[ $# -gt 0 ]] || set -- train v2 v3 hf
mkdir -p "$root/.venv"
exec 9>"$root/.venv/.lock"
flock 9
action=make_env
if [[ $1 == --lock ]]; then
    action=lock
    shift
fi
for name in "$@"; do
    "$action" "$name"
done
