#!/usr/bin/env python3
"""How far runs of equal choices differ within a source, and what rank correlation a perfect model would have of them.

    repeats.py --rows measured.csv [--table OUT.csv of fit.py]

Takes runs whose columns but the measured ones are equal for repetitions, and the standard deviation of their logarithms for
the noise of the source. Measures the rank correlation of tokens/s per GPU between the truth and the truth with such noise,
of 1,000 draws: with the measured values for the truth, which spread more than the truth does, and with the predictions.
"""
import argparse
import collections
import csv
import math
import random
import statistics

import numpy as np

from fit import ranks

MEASURED = {"id", "step_time_s", "memory_gib", "memory_kind"}


def correlation(a, b):
    return np.corrcoef(ranks(a), ranks(b))[0, 1]


def noise(rows):
    """Returns the standard deviation of the logarithm of repeated runs, and their degrees of freedom."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[tuple(v for k, v in row.items() if k not in MEASURED)].append(math.log(float(row["step_time_s"])))
    squares = sum((x - statistics.mean(g)) ** 2 for g in groups.values() for x in g)
    freedom = sum(len(g) - 1 for g in groups.values())
    return (math.sqrt(squares / freedom) if freedom else 0), freedom


def ceiling(truth, sigma, draw):
    """Returns the mean rank correlation with noise, and the bounds of nine draws of ten."""
    found = sorted(correlation(truth, [t * math.exp(draw.gauss(0, sigma)) for t in truth]) for _ in range(1000))
    return f"{statistics.mean(found):.3f} ({found[50]:.3f} to {found[949]:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--table", help="predictions of the rows, as fit.py writes them")
    arguments = parser.parse_args()
    predicted = {}
    if arguments.table:
        predicted = {row["id"]: float(row["predicted_s"]) for row in csv.DictReader(open(arguments.table))}
    sources = collections.defaultdict(list)
    for row in csv.DictReader(open(arguments.rows)):
        sources[row["source"]].append(row)
    for source, rows in sources.items():
        sigma, freedom = noise(rows)
        if freedom < 5:
            continue
        work = [float(row["global_batch"]) * float(row["seq"]) / float(row["gpus"]) for row in rows]
        measured = [w / float(row["step_time_s"]) for w, row in zip(work, rows)]
        print(f"{source}: equal choices differ by {100 * sigma:.1f} % (one standard deviation, {freedom} repetitions)")
        print(f"  rank of a perfect model, if the measured speeds are the truth: {ceiling(measured, sigma, random.Random(1))}")
        if all(row["id"] in predicted for row in rows):
            ours = [w / predicted[row["id"]] for w, row in zip(work, rows)]
            print(f"  if the predicted ones are: {ceiling(ours, sigma, random.Random(1))}; ours of the measured ones: {correlation(measured, ours):.3f}")


if __name__ == "__main__":
    main()
