"""Fresh exports of drawn models as transformers starts them, through every exporter of PyTorch, with
its float64 gradients, on one rank and on two meshes.

Needs the Python of scripts/oracles.txt (scripts/test.sh --full makes it).
    live_exports.py [NAME] --full [--draws N] [--seed S]
"""
import json
import os
import sys
import tempfile

from export_checks import check_export
from harness import DATA, Failure, Suite, call

PYTHON = os.environ.get("LLMC_ORACLE_PYTHON", "")
MAKE = os.path.join(DATA, "make", "fresh.py")
ARCHITECTURES = ["gpt2", "qwen3", "llama", "gpt_neox", "mistral", "qwen2", "phi", "phi3", "gemma2",
                 "gemma3_text", "olmo2", "nemotron", "bert", "mamba", "gates", "biased"]
EXPORTERS = ["dynamo", "plain", "torchscript"]
MESHES = ["1", "2x2x2", "1x4x2"]


def option(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def check(folder, made, exporter):
    with open(os.path.join(made, "draw.json")) as f:
        draw = json.load(f)
    if exporter in draw["errors"]:
        return f"PyTorch does not export it: {draw['errors'][exporter]}"
    errors, dropped = [], 0
    for mesh in MESHES:
        try:
            error, dropped = check_export(folder, os.path.join(made, exporter + ".onnx"), mesh)
        except Failure as failure:
            raise Failure(f"{mesh} of {json.dumps(draw)}: {failure}") from failure
        errors.append(error)
    return f"gradient {max(errors):.1e}, {dropped} zero biases dropped by the exporter"


def main():
    suite, seed, draws = Suite("live_exports"), option("--seed", 1), option("--draws", 2)
    if not (PYTHON and suite.full):
        suite.skip("fresh exports", "scripts/test.sh --full makes PyTorch's models and exports")
        suite.finish()
    for name in ARCHITECTURES:
        models = [f"{name}:{which}" for which in [*range(seed, seed + draws), *["full"] * (name == "gpt2")]
                  if suite.only in f"{name}-{which}"]
        with tempfile.TemporaryDirectory(prefix="llmc-exports-") as place:
            if models:
                call([PYTHON, MAKE, place, *models])
            for made in sorted(os.listdir(place)):
                for exporter in EXPORTERS:
                    suite.run(f"{made} {exporter}", check, os.path.join(place, made), exporter)
    suite.finish()


main()
