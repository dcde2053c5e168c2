#!/bin/sh
# Installs what is missing of tools/packages.txt; as root, or through sudo. Quiet when nothing is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
missing=""
while read -r package; do
    case $package in ''|'#'*) continue ;; esac
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done < "$here/packages.txt"
[ -n "$missing" ] || exit 0
run=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: these packages are missing and neither root nor sudo is at hand:$missing" >&2; exit 1; }
    run="sudo"
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
# shellcheck disable=SC2086  # one word per package
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null
