#!/usr/bin/env python3
"""Prints how well predictions choose among layouts of published runs: where they rank the measured best, what they lose.

    choose.py --rows measured.csv [--source TEXT] [--worse 5] [--jobs N]

Groups runs of equal conditions (source, model, accelerators, links, precision, dtypes, sequence, global batch, software), which
no layout changes, and takes groups of at least two layouts. All other columns are the layout; the kernel of attention is one
of them, since Megatron falls back to a slower one by micro-batch and tp. Repetitions of a layout count as one, with the mean
of their measured steps. Each layout is predicted by a call of `llmc plan` with all choices fixed (that of $LLMC, else
build/bin/llmc).

Prints by source, as means over its groups: groups, those with at least four layouts ("4+": with fewer any choice is among
the first three), layouts of a group; how often the measured best is our first, among our first three, and among them where
there are at least four layouts; mean and largest regret, which is how much longer the measured step of our first choice
takes than the best. Prints the same beside it of layouts in random order, and the regret of a rule of thumb, which takes the
least tp x pp (any, if several have it). Layouts that are predicted alike, or not at all, count against us. --worse prints
the layouts of each group that we lose more than so many percent in. The last line says whether the best is among the first
three in 80 % of the groups and the mean regret at most 3 %, as means over sources.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

from fit import options
from ourselves import LLMC
from repeats import MEASURED

CONDITIONS = ["source", "model", "config", "gpu", "gpus", "gpus_per_node", "nic_gbytes", "nvlink_domain", "board_watts",
              "launch_blocking", "cuda_graphs", "precision", "grad_dtype", "reduce_dtype", "optimizer_dtype", "seq",
              "global_batch", "software"]
NO_CHOICE = MEASURED | {"notes"} | set(CONDITIONS)
SHORT = {"virtual_stages": "chunks", "micro_batch": "micro-batch", "sequence_parallel": "sequence-parallel"}
WANTED_SHARE, WANTED_REGRET = 80, 3


class Layout:
    """Holds one layout of a group: the first of its rows, its measured and its predicted step."""

    def __init__(self, rows):
        self.row = rows[0]
        self.measured = statistics.mean(float(row["step_time_s"]) for row in rows)
        self.predicted = math.inf
        self.parts = {}
        self.fits = True

    def predict(self, folder):
        path = os.path.join(folder, self.row["id"] + ".json")
        with open(path, "w") as file:
            file.write(self.row["config"])
        done = subprocess.run([LLMC, "plan", path, "--train", "--json", *options(self.row)], capture_output=True, text=True)
        if done.returncode:
            print(f"{self.row['id']}: " + (done.stderr.strip().splitlines() or ["no message"])[0], file=sys.stderr)
            return
        chosen = json.loads(done.stdout)["chosen"]
        self.predicted, self.parts, self.fits = chosen["step_time_s"], chosen["time_s"], chosen["fits"]


class Group:
    """Holds layouts of equal conditions, and what each way to choose among them would have lost."""

    def __init__(self, rows):
        same = collections.defaultdict(list)
        for row in rows:
            same[tuple(value for column, value in row.items() if column not in NO_CHOICE)].append(row)
        self.layouts = sorted(map(Layout, same.values()), key=lambda layout: layout.measured)

    def regret(self, cost):
        """Returns what the layout of the least cost loses to the best, in %; the mean of those that cost the same."""
        least = min(map(cost, self.layouts))
        return 100 * (mean(x.measured for x in self.layouts if cost(x) == least) / self.layouts[0].measured - 1)

    def score(self):
        best = self.layouts[0].predicted
        self.place = sum(x.predicted <= best for x in self.layouts) if best < math.inf else len(self.layouts)
        self.ours = self.regret(lambda x: x.predicted)
        self.drawn = self.regret(lambda x: 0)
        self.rule = self.regret(lambda x: int(x.row["tp"]) * int(x.row["pp"]))

    def show(self):
        row = self.layouts[0].row
        print(f"\n{row['source']}: {row['model']} on {row['gpus']} {row['gpu']}, {row['global_batch']} x {row['seq']} tokens: "
              f"regret {self.ours:.1f} %, the best is our number {self.place} of {len(self.layouts)}")
        varied = [k for k in row if k not in NO_CHOICE and len({x.row[k] for x in self.layouts}) > 1]
        for x in self.layouts:
            print(f"  {x.row['id']} measured {x.measured:9.4f} s, predicted {x.predicted:9.4f} "
                  f"({100 * (x.predicted / x.measured - 1):+5.1f} %): "
                  + ", ".join(f"{SHORT.get(k, k)} {x.row[k]}" for k in varied)
                  + "; of it " + ", ".join(f"{k} {v:.3f}" for k, v in x.parts.items() if v > 0))


def mean(values):
    """Returns the mean of the values that are numbers, and no number of none."""
    values = [float(value) for value in values if not math.isnan(value)]
    return statistics.mean(values) if values else math.nan


def summary(groups):
    """Returns the columns of a row of the table, by name."""
    many = [g for g in groups if len(g.layouts) > 3]
    return {"groups": len(groups), "4+": len(many), "layouts": mean(len(g.layouts) for g in groups),
            "first%": 100 * mean(g.place == 1 for g in groups), "first3%": 100 * mean(g.place <= 3 for g in groups),
            "4+ first3%": 100 * mean(g.place <= 3 for g in many), "regret%": mean(g.ours for g in groups),
            "largest%": max(g.ours for g in groups), "drawn first3%": 100 * mean(min(1, 3 / len(g.layouts)) for g in groups),
            "drawn 4+ first3%": 100 * mean(3 / len(g.layouts) for g in many), "drawn regret%": mean(g.drawn for g in groups),
            "tp x pp regret%": mean(g.rule for g in groups)}


def cell(name, value):
    text = "-" if math.isnan(value) else f"{value:.1f}" if isinstance(value, float) else str(value)
    return f" {text:>{max(6, len(name))}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--source", default="", help="take only sources whose name contains this text")
    parser.add_argument("--worse", type=float, help="print the groups whose regret is more than so many percent")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    found = collections.defaultdict(list)
    for row in csv.DictReader(open(arguments.rows)):
        if arguments.source in row["source"]:
            found[tuple(row[column] for column in CONDITIONS)].append(row)
    sources = collections.defaultdict(list)
    for key, rows in found.items():
        group = Group(rows)
        if len(group.layouts) > 1:
            sources[key[0]].append(group)
    if not sources:
        sys.exit("no group has two layouts")
    groups = [group for each in sources.values() for group in each]
    layouts = [layout for group in groups for layout in group.layouts]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda layout: layout.predict(folder), layouts))
    for group in groups:
        group.score()
    table = {source: summary(each) for source, each in sorted(sources.items())}
    rows = dict(table)
    rows["mean over sources"] = {name: mean(row[name] for row in table.values()) for name in summary(groups)}
    rows["mean over sources"] |= {"groups": len(groups), "4+": sum(row["4+"] for row in table.values()), "largest%": max(g.ours for g in groups)}
    rows["mean over groups"] = summary(groups)
    names = list(rows["mean over sources"])
    width = max(map(len, rows))
    print(f"{'source':{width}}" + "".join(f" {name:>6}" for name in names))
    for source, row in rows.items():
        print(f"{source:{width}}" + "".join(cell(name, row[name]) for name in names))
    print(f"{len(layouts)} layouts: {sum(x.predicted == math.inf for x in layouts)} without an answer, "
          f"{sum(not x.fits for x in layouts)} predicted not to fit, "
          f"{sum(not group.layouts[0].fits for group in groups)} of them the best of a group")
    for group in sorted(groups, key=lambda group: -group.ours):
        if arguments.worse is not None and group.ours > arguments.worse:
            group.show()
    shown, regret = rows["mean over sources"]["first3%"], rows["mean over sources"]["regret%"]
    print(f"the best is among the first three in {shown:.1f} % of the groups (wanted: {WANTED_SHARE}; "
          f"{'reached' if shown >= WANTED_SHARE else 'missed'}), mean regret {regret:.2f} % (wanted: at most {WANTED_REGRET}; "
          f"{'reached' if regret <= WANTED_REGRET else 'missed'})")


if __name__ == "__main__":
    main()
