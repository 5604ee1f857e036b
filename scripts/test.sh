#!/usr/bin/env bash
# Installs, builds and runs every test: test.sh [--full] [--no-build] [--only REGEX]
#   --full      also the long draws and the live oracles (PyTorch, JAX, ONNX Runtime)
#   --no-build  test what is built
#   --only      only the units whose name matches
# The last line is "N passed, N failed, N skipped"; exit 1 if any failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=() only=() build=1
while [[ $# -gt 0 ]]; do
  case $1 in
    --full) full=(--full) ;;
    --no-build) build=0 ;;
    --only) [[ $# -gt 1 ]] || { echo "test.sh: error: --only needs a pattern" >&2; exit 2; }
      only=(--only "$2"); shift ;;
    -h | --help) sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "test.sh: error: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift
done

step() { # a step before the tests: its failure is the one failure
  local start=$SECONDS name=$1
  shift
  if ! "$@"; then
    echo "$name failed"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
  fi
  echo "$name: $((SECONDS - start)) s"
}

step install scripts/install.sh "${full[@]}"
[[ $build -eq 0 ]] || step build scripts/build.sh release
if [[ ${#full[@]} -gt 0 && -z ${LLMC_ORACLE_PYTHON:-} ]]; then
  step oracles scripts/oracles.sh
  LLMC_ORACLE_PYTHON=$PWD/build/oracles/bin/python
fi
export LLMC_ORACLE_PYTHON=${LLMC_ORACLE_PYTHON:-}
# Where there is none, what needs it is skipped.
cuda=$(scripts/cuda-assembler.sh) || echo "no CUDA assembler: its tests will be skipped"
[[ -z ${cuda:-} ]] || export LLMC_CUDA_PATH=$cuda
exec /usr/bin/python3 scripts/run-tests.py "${full[@]}" "${only[@]}"
