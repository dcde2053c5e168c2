#!/usr/bin/env bash
# Style that a machine can check: formatting, module borders, file sizes, shell scripts.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
failed=0
git ls-files '*.cc' '*.h' | grep -v '^src/shapes/' | xargs clang-format-14 --dry-run -Werror 2>&1 | grep -E 'error:' | head -20
[ "${PIPESTATUS[2]}" -eq 0 ] || { echo "lint: run make fmt"; failed=1; }
python3 tools/layering.py || failed=1
python3 tools/size_check.py || failed=1
git ls-files '*.sh' .ci/run | xargs shellcheck -x || failed=1
# Time is handed out by base/clock.cc alone, and nothing sleeps.
if git grep -nE '(system|steady)_clock::now|[^_]sleep_for|[^a-z_]usleep\(|std::this_thread::sleep' -- 'src/*.cc' 'src/*.h' | grep -v '^src/base/'; then
    echo "lint: take the time from a Clock or Deadline"; failed=1
fi
exit "$failed"
