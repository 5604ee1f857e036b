"""How long llmc verifies large models, and the largest memory that it takes.

    python3 bench/verify.py [--model 7B] [--mesh 8x16x8]

Llamas of 7B and 70B parameters on 1,024 ranks, from a config.json alone. No other system does this; what stands beside
it is the time that `llmc compile` takes for the same plan.
"""
import argparse
import json
import os
import tempfile

from compile import LLAMA, MODELS, ROOT, timed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", action="append", choices=sorted(MODELS), help="default 7B and 70B")
    parser.add_argument("--mesh", default="8x16x8")
    arguments = parser.parse_args()
    llmc = os.path.join(ROOT, "build", "bin", "llmc")
    with tempfile.TemporaryDirectory(prefix="llmc-verify-") as folder:
        for model in arguments.model or ["7B", "70B"]:
            config = os.path.join(folder, "config.json")
            with open(config, "w") as f:
                json.dump({**LLAMA, **MODELS[model]}, f)
            compiled, _ = timed([llmc, "compile", config, "--mesh", arguments.mesh, "-o", os.path.join(folder, "out"), "-q"])
            seconds, memory = timed([llmc, "verify", config, "--mesh", arguments.mesh, "-q"])
            print(f"verify {model} on {arguments.mesh}: {seconds:.0f} s, {memory:.0f} MB; compile {compiled:.1f} s", flush=True)


if __name__ == "__main__":
    main()
