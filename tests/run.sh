#!/usr/bin/env bash
# Builds everything and runs every test. Build tree: build/ (VENEER_BUILD to change); further arguments go to ctest.
# Larger data sets are found through VENEER_TEST_DATA; without it each test that needs them says SKIP and is counted below.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${VENEER_BUILD:-$root/build}
"$root/.ci/setup"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release ${VENEER_CMAKE_OPTIONS:-}
cmake --build "$build"
log=$build/ctest.log
status=0
ctest --test-dir "$build" --output-on-failure --parallel 2 -O "$log" "$@" || status=$?
verbose=$build/Testing/Temporary/LastTest.log
skipped=$(grep -acE '^[[:space:]]*SKIP' "$verbose" || true)
echo "skipped parts: $skipped$([ "$skipped" = 0 ] || [ -n "${VENEER_TEST_DATA:-}" ] || echo ' (set VENEER_TEST_DATA to run them)')"
tail -n 5 "$log"
exit "$status"
