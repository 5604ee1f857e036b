#!/usr/bin/env python3
"""Our programs in bf16 beside our own in fp32 and PyTorch's bf16, in turn, on the same work.

precision.py [--works gpt2-small,...] [--modes train,infer] [--rounds 5] [--json F]
A round runs one step (a run of an inference) of each, after one or two that are not counted; who
goes first turns. PyTorch trains by autocast, purely in bf16 (moments too), and compiled as the
faster of these. Prints medians, and medians of the rounds' ratios with what is wanted of them.
"""
import argparse
import json
import pathlib
import statistics
import tempfile

from run import Ours, peers_python, run_peer
from shapes import WORKS

FP32, BF16 = "llmc fp32", "llmc bf16"
EAGER = ["eager-autocast", "eager-pure"]
OF_FP32 = {"train": 1.5, "infer": 1.3}
OF_PYTORCH = 1.2


def measure(work, mode, python, rounds):
    """Returns who -> {"times": a median a round, "memory": the largest}."""
    results = {}

    def run(who, once):
        result = once()
        if "error" in result:
            raise SystemExit(f"{mode} {work.name}, {who}: {result['error']}")
        entry = results.setdefault(who, {"times": [], "memory": 0})
        entry["times"].append(statistics.median(result["times"]))
        entry["memory"] = max(entry["memory"], result["memory"])

    with tempfile.TemporaryDirectory(prefix="llmc-bench-") as folder:
        sides = {}
        for who in (FP32, BF16):
            place = pathlib.Path(folder) / who.replace(" ", "-")
            place.mkdir()
            ours = Ours(work, mode, place, flags=("--precision", who.split()[1]))
            sides[who] = lambda ours=ours: ours.run(iterations=1, warm=1)
        if mode == "train":
            for how in EAGER:
                sides[how] = lambda how=how: run_peer(python, "with_torch.py", f"train {how}", work, 1)
        for at in range(rounds):
            order = list(sides)
            for who in order[at % len(order):] + order[:at % len(order)]:
                run(who, sides[who])
            if at == 0 and mode == "train":
                # The compiled one joins in the first round too.
                best = min(EAGER, key=lambda how: results[how]["times"][0])
                how = best.replace("eager", "compiled")
                sides[how] = lambda: run_peer(python, "with_torch.py", f"train {how}", work, 1)
                run(how, sides[how])
    return results


def ratio(results, who):
    """How many times faster bf16 is than `who`: the median of the rounds."""
    return statistics.median(a / b for a, b in zip(results[who]["times"], results[BF16]["times"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--modes", default="train,infer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    python = peers_python()
    report = []
    for mode in arguments.modes.split(","):
        for name in arguments.works.split(","):
            results = measure(WORKS[name], mode, python, arguments.rounds)
            print(f"{mode} {name}")
            ratios = {who: ratio(results, who) for who in results}
            for who, result in results.items():
                print(f"  {who:20} {statistics.median(result['times']) * 1e3:9.1f} ms {result['memory'] / 2**20:8.0f} MiB, "
                      f"llmc bf16 is {ratios[who]:.2f} x as fast")
            print(f"  of our fp32 {ratios[FP32]:.2f} (wanted {OF_FP32[mode]})")
            if mode == "train":
                fastest = min((who for who in results if who not in (FP32, BF16)), key=lambda who: ratios[who])
                share = results[BF16]["memory"] / results[EAGER[0]]["memory"]
                print(f"  of PyTorch's {fastest} {ratios[fastest]:.2f} (wanted {OF_PYTORCH}), memory {share:.2f} of autocast's (wanted 1)",
                      flush=True)
            report.append({"mode": mode, "work": name, "ratios": ratios, "results": results})
            if arguments.json:
                arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
