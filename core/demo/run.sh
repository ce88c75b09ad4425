#!/usr/bin/env bash
# Builds veneer when needed and runs the demo: the whole story on the embedded model. Build tree: build/ (VENEER_BUILD to change).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${VENEER_BUILD:-$root/build}
"$root/.ci/setup"
[ -f "$build/build.ninja" ] || cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release ${VENEER_CMAKE_OPTIONS:-}
cmake --build "$build" --target veneer_runtime
exec "$build/bin/veneer" demo "$@"
