#!/usr/bin/env bash
# Configures and builds: build.sh [release|debug|asan|fuzz] [target...]
# Leaves build/bin/llmc, llmc-opt, llmc-rt and the tests (build-debug/, ...).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
case ${1:-} in
  release | debug | asan | fuzz) preset=$1; shift ;;
  -h | --help) sed -n '2,3s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
esac
options=()
# Lets ccache keep what is compiled with precompiled headers, which it refuses otherwise.
command -v ccache >/dev/null &&
  options+=("-DCMAKE_CXX_COMPILER_LAUNCHER=env;CCACHE_SLOPPINESS=pch_defines,time_macros;ccache")

folder=build
[[ $preset == release ]] || folder=build-$preset
mkdir -p "$folder"
if ! cmake --preset "$preset" "${options[@]}" >"$folder/configure.log" 2>&1; then
  cat "$folder/configure.log" >&2
  exit 1
fi
exec ninja -C "$folder" -j "${JOBS:-$(nproc)}" "${@:-all}"
