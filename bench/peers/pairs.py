#!/usr/bin/env python3
"""Two builds of llmc beside each other: the same work in turn, so that a noisy machine is fair.

pairs.py OLD_BIN NEW_BIN [--works gpt2-small,...] [--modes train,infer,ranks] [--pairs 15] [--json F]
The folders hold llmc and llmc-rt. A pair runs one step (a run of an inference) of each, after one
that is not counted; who goes first alternates. Prints medians, and the median of the pairs' ratios.
"""
import argparse
import json
import pathlib
import statistics
import tempfile

from run import Ours
from shapes import WORKS


def measure(work, mode, folders, pairs):
    with tempfile.TemporaryDirectory(prefix="llmc-bench-") as folder:
        both = []
        for side, binaries in enumerate(folders):
            place = pathlib.Path(folder) / str(side)
            place.mkdir()
            both.append(Ours(work, mode, place, binaries))
        times = [[], []]
        for i in range(pairs):
            for side in (0, 1) if i % 2 == 0 else (1, 0):
                times[side].append(both[side].median(iterations=1, warm=1)[0])
        return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--modes", default="train,infer,ranks")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    report = []
    for mode in arguments.modes.split(","):
        for name in arguments.works.split(","):
            old, new = measure(WORKS[name], mode, (arguments.old, arguments.new), arguments.pairs)
            ratio = statistics.median(a / b for a, b in zip(old, new))
            print(f"{mode:6} {name:12} old {statistics.median(old) * 1e3:8.1f} ms  new {statistics.median(new) * 1e3:8.1f} ms  "
                  f"speed new/old {statistics.median(old) / statistics.median(new):.3f}, median of {len(old)} pairs {ratio:.3f}",
                  flush=True)
            report.append({"mode": mode, "work": name, "old": old, "new": new, "ratio": ratio})
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
