#!/usr/bin/env python3
"""Steps with sequence or context parallelism or recomputation beside the same mesh without, in turn.

    python3 bench/recompute.py [--works gpt2-small,...] [--precisions fp32,bf16] [--rounds 5] [--json F]

A round runs three steps of each side after two that are not counted; who goes first turns. Prints medians, the largest
memory of the process (all ranks), and medians of the rounds' ratios to the peer: the same model, mesh and batch with
none of these, which keeps all that backward reads, on every tensor rank. The ring adds ranks, which do the same work.
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
from run import Ours, in_turn  # noqa: E402
from shapes import WORKS  # noqa: E402

OFF = ("--sequence-parallel", "off")
# By mesh: what is added to the flags of the peer, and by how many per cent it may be slower.
SIDES = {
    (1, 2): {"none": (OFF, None), "sequence-parallel": (("--sequence-parallel", "on"), 3),
             "selective": ((*OFF, "--recompute", "selective"), 10), "full": ((*OFF, "--recompute", "full"), 36)},
    (1, 1): {"none": ((), None), "selective": (("--recompute", "selective"), 10),
             "full": (("--recompute", "full"), 36)},
}
# The same number of tokens in rows as long as one shares out.
RING = {"none": ((), None), "cp 2, ring": (("--cp", "2"), 10), "cp 2, heads": (("--cp", "2", "--cp-kind", "heads"), None)}
LONG = 2048


def measure(work, mesh, sides, precision, rounds):
    """Returns, by side, the seconds of a step in every round and the largest memory."""
    dp, tp = mesh
    with tempfile.TemporaryDirectory(prefix="llmc-recompute-") as folder:
        runs = []
        for name, (flags, _) in sides.items():
            place = pathlib.Path(folder) / name
            place.mkdir()
            runs.append((name, Ours(work, "train", place, dp=dp, tp=tp, flags=("--precision", precision, *flags))))
        return in_turn(runs, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default="gpt2-small,llama-small")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    report = []
    for name in arguments.works.split(","):
        for precision in arguments.precisions.split(","):
            short = WORKS[name]
            long = dataclasses.replace(short, rows=max(1, short.rows * short.tokens // LONG), tokens=LONG)
            for work, mesh, sides in [*((short, *one) for one in SIDES.items()), (long, (1, 1), RING)]:
                results = measure(work, mesh, sides, precision, arguments.rounds)
                print(f"{name}, {work.rows} x {work.tokens} tokens, {precision}, dp {mesh[0]} x tp {mesh[1]}")
                for side, result in results.items():
                    slower = statistics.median(a / b for a, b in zip(result["times"], results["none"]["times"])) - 1
                    limit = sides[side][1]
                    wanted = f" (at most {limit:+} %)" if limit else ""
                    print(f"  {side:18} {statistics.median(result['times']) * 1e3:9.1f} ms {result['memory'] / 2**20:8.0f} MiB "
                          f"{100 * slower:+6.1f} %{wanted}", flush=True)
                report.append({"work": name, "rows": work.rows, "tokens": work.tokens, "precision": precision, "mesh": mesh, "results": results})
                if arguments.json:
                    arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
