#!/usr/bin/env python3
"""Steps of ZeRO's stages 1 to 3 beside stage 0, in turn, on the same mesh.

    python3 bench/zero.py [--works gpt2-small,...] [--ranks 4] [--precisions fp32,bf16] [--rounds 5] [--json F]

A round runs three steps of each stage after two that are not counted; who goes first turns. Prints medians, the largest
memory of the process (all ranks), and medians of the rounds' ratios. Stage 0 is the peer: what plain data parallelism
takes for the same step.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
from run import Ours, in_turn  # noqa: E402
from shapes import WORKS  # noqa: E402

STAGES = range(4)
# How many per cent a stage may be slower than stage 0.
LIMITS = {1: 5, 2: 5, 3: 15}


def measure(work, ranks, precision, rounds):
    """Returns, by stage, the seconds of a step in every round and the largest memory."""
    with tempfile.TemporaryDirectory(prefix="llmc-zero-") as folder:
        sides = []
        for stage in STAGES:
            place = pathlib.Path(folder) / str(stage)
            place.mkdir()
            sides.append((stage, Ours(work, "train", place, dp=ranks, flags=("--precision", precision, "--zero", str(stage)))))
        return in_turn(sides, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default="gpt2-small,llama-small")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    report = []
    for name in arguments.works.split(","):
        for precision in arguments.precisions.split(","):
            results = measure(WORKS[name], arguments.ranks, precision, arguments.rounds)
            print(f"{name}, {precision}, {arguments.ranks} ranks")
            for stage, result in results.items():
                slower = statistics.median(a / b for a, b in zip(result["times"], results[0]["times"])) - 1
                wanted = f" (at most {LIMITS[stage]:+} %)" if stage in LIMITS else ""
                print(f"  --zero {stage} {statistics.median(result['times']) * 1e3:9.1f} ms {result['memory'] / 2**20:8.0f} MiB "
                      f"{100 * slower:+6.1f} %{wanted}", flush=True)
            report.append({"work": name, "precision": precision, "ranks": arguments.ranks, "results": results})
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
