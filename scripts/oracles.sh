#!/usr/bin/env bash
# Makes build/oracles: a virtual environment with the programs that --full compares with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stamp=build/oracles/requirements.txt
if cmp -s scripts/oracles.txt "$stamp"; then
  exit 0
fi
/usr/bin/python3 -m venv build/oracles
build/oracles/bin/pip install -q -r scripts/oracles.txt
cp scripts/oracles.txt "$stamp"
