#!/usr/bin/env bash
# Installs what the build and the tests need, on Debian 12. Quick when all is there.
set -euo pipefail

packages=(
  # the compiler: MLIR and LLVM as libraries, lld in process
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools liblld-22-dev zlib1g-dev libzstd-dev
  # what builds it
  clang-22 lld-22 cmake ninja-build
  # sanitizers and libFuzzer
  libclang-rt-22-dev
  # readers and the plan file
  libprotobuf-dev protobuf-compiler libflatbuffers-dev flatbuffers-compiler
  nlohmann-json3-dev libxxhash-dev
  # matrix products of the programs that it makes; loaded at run time
  libdnnl2 libdnnl-dev
  # tests; lit and FileCheck come with llvm-22-tools
  libgtest-dev python3 python3-numpy
  # draws pages of llmc report for test/page
  chromium
  # fetches the node cases of ONNX for test/conformance
  python3-pip
)
# Live oracles of scripts/test.sh --full live in a virtual environment.
[[ ${1:-} == --full ]] && packages+=(python3-venv)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "install.sh: error: apt-get not found; install by hand: ${missing[*]}" >&2
  exit 1
fi
root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: error: run as root, or install sudo; missing: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
install() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}
echo "installing ${missing[*]}"
# The package lists may be old, or not there yet: refresh them once and try again.
install || { "${root[@]}" apt-get update -q && install; }
