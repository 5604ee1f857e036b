#!/usr/bin/env python3
"""Steps of each schedule of a pipeline beside 1F1B on the same mesh, in turn.

    python3 bench/schedules.py [--works gpt2-small,...] [--stages 2] [--rounds 5] [--json F]

A round runs three steps of each after two that are not counted; who goes first turns. Prints medians, the largest memory
of the process (all ranks), medians of the rounds' ratios to 1F1B, and the share of empty columns. Ranks of one process
share its cores, so that a stage which waits leaves them to others: the times show what more messages and more kernels
cost, and not what fewer empty columns save.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
from run import ROOT, Ours, in_turn  # noqa: E402
from shapes import WORKS  # noqa: E402

SIDES = {"1f1b": (), "gpipe": ("--schedule", "gpipe"), "interleaved, v 2": ("--virtual-stages", "2"),
         "zero-bubble": ("--schedule", "zero-bubble")}


def empty_share(program):
    done = subprocess.run([ROOT / "build" / "bin" / "llmc", "inspect", program, "--json"], check=True, stdout=subprocess.PIPE)
    bubble = json.loads(done.stdout)["bubble"]
    return bubble["empty"] / bubble["cells"]


def measure(work, stages, rounds):
    """Returns, by schedule, the seconds of a step in every round, the largest memory and the empty share."""
    with tempfile.TemporaryDirectory(prefix="llmc-schedules-") as folder:
        runs = []
        for name, flags in SIDES.items():
            place = pathlib.Path(folder) / name.replace(", ", "-").replace(" ", "")
            place.mkdir()
            runs.append((name, Ours(work, "train", place, pp=stages, micro=1, flags=flags)))
        results = in_turn(runs, rounds)
        for name, ours in runs:
            results[name]["empty"] = empty_share(ours.out)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default="gpt2-small,llama-small")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    report = []
    for name in arguments.works.split(","):
        work = WORKS[name]
        results = measure(work, arguments.stages, arguments.rounds)
        print(f"{name}, {work.rows} micro-batches of {work.tokens} tokens, fp32, pp {arguments.stages}")
        for side, result in results.items():
            slower = statistics.median(a / b for a, b in zip(result["times"], results["1f1b"]["times"])) - 1
            print(f"  {side:18} {statistics.median(result['times']) * 1e3:9.1f} ms {result['memory'] / 2**20:8.0f} MiB "
                  f"{100 * slower:+6.1f} %  {100 * result['empty']:5.1f} % empty", flush=True)
        report.append({"work": name, "rows": work.rows, "tokens": work.tokens, "stages": arguments.stages, "results": results})
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
