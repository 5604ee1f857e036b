#!/usr/bin/env bash
# Runs every kernel for a card and compares it with the CPU's: gpu-check.sh [--prepare] DIR [options]
#   gpu-check.sh --prepare DIR   where llmc is built: programs of each model of
#                                test/cuda/models in fp32 and bf16, with their kernels, into DIR
#   gpu-check.sh DIR             where a card is: prints errors, times and GB/s beside a copy;
#                                options (--seed N, --repeats N) are llmc-gpu-check's
# Exit 0: all agree; 1: one does not; 77: no card here. DIR may move between machines; where
# the card is, only its driver is needed.
set -euo pipefail

usage() { sed -n '2,8s/^# //p' "${BASH_SOURCE[0]}"; }
prepare=0
case ${1:-} in
  --prepare) prepare=1; shift ;;
  -h | --help) usage; exit 0 ;;
esac
[[ $# -gt 0 ]] || { usage >&2; exit 2; }
folder=$1
shift

if [[ $prepare -eq 0 ]]; then
  shopt -s nullglob
  programs=("$folder"/*.llmc)
  if [[ ${#programs[@]} -eq 0 || ! -x $folder/llmc-gpu-check ]]; then
    echo "gpu-check.sh: error: $folder holds no programs; make them with gpu-check.sh --prepare $folder" >&2
    exit 2
  fi
  exec "$folder/llmc-gpu-check" "${programs[@]}" "$@"
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=${LLMC_BUILD:-$root/build}/bin
mkdir -p "$folder"
cp "$bin/llmc-gpu-check" "$folder/"
cp "${BASH_SOURCE[0]}" "$folder/gpu-check.sh"
# Kernels depend on inner sizes and not on the number of layers: two are enough.
for config in "$root"/test/cuda/models/*.json; do
  name=$(basename "$config" .json)
  mkdir -p "$folder/$name"
  cp "$config" "$folder/$name/config.json"
  for precision in fp32 bf16; do
    "$bin/llmc" compile "$folder/$name/config.json" -o "$folder/$name-$precision.llmc" \
      --weights random --cuda-kernels all --micro-batch 4 --seq 256 --precision "$precision" "$@"
  done
done
