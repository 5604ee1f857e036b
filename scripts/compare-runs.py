#!/usr/bin/env python3
"""Shows two training runs side by side: compare-runs.py RUN RUN

RUN.jsonl is what --metrics wrote, RUN.safetensors what --dump wrote. Exits 1 unless
the loss fell and the runs agree: losses of the first ten steps within 1e-5, of all
within 1e-3, the weights after the last step, as one vector, within 1e-3 (relative).
"""
import array
import json
import math
import struct
import sys

EARLY, LATE, WEIGHTS = 1e-5, 1e-3, 1e-3


def losses(run):
    with open(run + ".jsonl") as lines:
        return [json.loads(line)["loss"] for line in lines if line.strip()]


def weights(run):
    """Name -> float32 values of every param:NAME of the dump."""
    with open(run + ".safetensors", "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, body = json.loads(file.read(size)), file.read()
    found = {}
    for name, entry in header.items():
        if name.startswith("param:"):
            if entry["dtype"] != "F32":
                sys.exit(f"{run}.safetensors: {name} is {entry['dtype']}, expected F32")
            begin, end = entry["data_offsets"]
            found[name] = array.array("f", body[begin:end])
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    first, second = sys.argv[1:]
    a, b = losses(first), losses(second)
    if len(a) != len(b) or not a:
        sys.exit(f"{first} has {len(a)} steps, {second} has {len(b)}")
    errors = [abs(x - y) / abs(y) for x, y in zip(a, b)]
    print(f"{'step':>5} {first.split('/')[-1]:>14} {second.split('/')[-1]:>14} {'difference':>12}")
    shown = sorted({0, 1, 2, 4, 9, *range(19, len(a), 20), len(a) - 1})
    for step in shown:
        if step < len(a):
            print(f"{step + 1:5} {a[step]:14.6f} {b[step]:14.6f} {errors[step]:12.1e}")

    left, right = weights(first), weights(second)
    if left.keys() != right.keys() or not left:
        sys.exit(f"the dumps have other parameters: {sorted(left.keys() ^ right.keys())[:5]}")
    if any(len(left[name]) != len(right[name]) for name in left):
        sys.exit("the dumps have parameters of other sizes")
    apart = math.sqrt(math.fsum((x - y) ** 2 for name in left for x, y in zip(left[name], right[name])))
    size = math.sqrt(math.fsum(y * y for values in right.values() for y in values))
    count = sum(len(values) for values in left.values())
    print(f"{count} weights in {len(left)} tensors after {len(a)} steps: relative difference {apart / size:.1e}")

    tail = min(10, len(a))
    verdicts = {
        f"the loss falls from {a[0]:.3f} to {sum(a[-tail:]) / tail:.3f} (mean of the last {tail})":
            len(a) == 1 or sum(a[-tail:]) / tail < a[0],
        f"losses of steps 1 to {min(10, len(a))} agree within {EARLY:.0e}": max(errors[:10]) <= EARLY,
        f"all losses agree within {LATE:.0e}": max(errors) <= LATE,
        f"the weights agree within {WEIGHTS:.0e}": apart <= WEIGHTS * size,
    }
    for what, holds in verdicts.items():
        print(f"{'yes' if holds else 'NO':>3}  {what}")
    sys.exit(0 if all(verdicts.values()) else 1)


if __name__ == "__main__":
    main()
