#!/usr/bin/env bash
# One model, two meshes: trains GPT-2 on 8 ranks (dp 2 x pp 2 x tp 2) and on one,
# and shows that the loss falls and that both learned the same: demo.sh [STEPS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=${1:-100}
[[ $steps =~ ^[1-9][0-9]*$ ]] || { echo "demo.sh: error: STEPS is a whole number of at least 1, got '$steps'" >&2; exit 2; }
out=build/demo
example=examples/gpt2

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say "$@"; "$@"; }

scripts/install.sh
scripts/build.sh release llmc llmc-rt
mkdir -p "$out"
start=$SECONDS

# The model's tokens are bytes: each becomes one u16.
say "bytes of $example/text.txt as tokens -> $out/tokens.bin"
/usr/bin/python3 - "$example/text.txt" "$out/tokens.bin" <<'PYTHON'
import pathlib, sys
text = pathlib.Path(sys.argv[1]).read_bytes()
pathlib.Path(sys.argv[2]).write_bytes(b"".join(bytes([byte, 0]) for byte in text))
print(len(text), "tokens")
PYTHON

for mesh in 2x2x2 1; do
  run build/bin/llmc compile "$example/model.onnx" --train --mesh "$mesh" --global-batch 16 -o "$out/gpt2-$mesh"
  run "$out/gpt2-$mesh" --data "$out/tokens.bin" --steps "$steps" --lr 1e-3 \
    --metrics "$out/gpt2-$mesh.jsonl" --force --dump "$out/gpt2-$mesh.safetensors"
done

run /usr/bin/python3 scripts/compare-runs.py "$out/gpt2-2x2x2" "$out/gpt2-1"
echo "demo: $((SECONDS - start)) s after the build"
