#!/usr/bin/env bash
# Prints a folder for LLMC_CUDA_PATH, or nothing where llmc finds an assembler by itself:
# without a CUDA toolkit, ptxas comes from PyPI into build/cuda. Exit 1 if it cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ -z ${LLMC_CUDA_PATH:-} ]] || { echo "$LLMC_CUDA_PATH"; exit 0; }
for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  [[ -z $folder || ! -x $folder/bin/ptxas ]] || exit 0
done
! command -v ptxas >/dev/null || exit 0

version=13.0.88 folder=build/cuda
if [[ ! -x $(echo "$folder"/nvidia/*/bin/ptxas) ]]; then
  mkdir -p "$folder"
  /usr/bin/python3 -m pip download -q --no-deps --only-binary=:all: -d "$folder" \
    "nvidia-cuda-nvcc==$version" >&2
  /usr/bin/python3 -m zipfile -e "$folder"/nvidia_cuda_nvcc-"$version"-*.whl "$folder"
  rm "$folder"/nvidia_cuda_nvcc-"$version"-*.whl
  chmod +x "$folder"/nvidia/*/bin/*
fi
echo "$PWD/$folder/nvidia"
