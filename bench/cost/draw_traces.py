#!/usr/bin/env python3
"""Draws a predicted and a measured trace of one program, one above the other on one scale of time, as SVG.

    llmc trace OUT --cluster machine.json -o predicted.json
    ./OUT --data tokens.bin --steps 6 --trace measured.json --trace-steps 5:5
    draw_traces.py predicted.json measured.json picture.svg
"""
import collections
import json
import sys

WIDTH, LANE, LEFT, TOP = 1400, 16, 190, 46
COLOURS = {"matmul": "#3b6fb6", "launch": "#7fb069", "collective": "#d1495b", "send": "#edae49", "recv": "#edae49",
           "copy": "#9a9a9a", "fill": "#9a9a9a", "feed": "#9a9a9a"}


def read(path):
    """Bars by lane (rank, stream), from the start of the first traced step; names of lanes."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    bars = [e for e in events if e["ph"] == "X" and e["cat"] in COLOURS]
    first = min(e["args"]["step"] for e in bars)
    bars = [e for e in bars if e["args"]["step"] == first]
    begin = min(e["ts"] for e in bars)
    lanes = collections.defaultdict(list)
    for event in bars:
        lanes[event["pid"], event["tid"]].append((event["ts"] - begin, event["dur"], event["cat"]))
    return lanes, names


def merged(bars, scale):
    """Bars of at least half a pixel; shorter ones join what they touch."""
    out = []
    for ts, dur, cat in sorted(bars):
        x, width = ts * scale, dur * scale
        if out and out[-1][2] == cat and x - (out[-1][0] + out[-1][1]) < 0.5:
            out[-1][1] = max(out[-1][1], x + width - out[-1][0])
        elif width >= 0.25 or not out or x - (out[-1][0] + out[-1][1]) >= 0.5:
            out.append([x, max(width, 0.3), cat])
    return out


def main():
    predicted, measured, target = sys.argv[1:]
    traces = [("predicted", *read(predicted)), ("measured", *read(measured))]
    longest = max(ts + dur for _, lanes, _ in traces for bars in lanes.values() for ts, dur, _ in bars)
    scale = (WIDTH - LEFT - 10) / longest
    body, y = [], TOP
    for title, lanes, names in traces:
        end = max(ts + dur for bars in lanes.values() for ts, dur, _ in bars)
        body.append(f'<text x="6" y="{y - 6}" font-weight="bold">{title}: {end / 1000:.1f} ms</text>')
        for lane in sorted(lanes):
            body.append(f'<text x="6" y="{y + 12}">rank {lane[0]} {names.get(lane, "")[:22]}</text>')
            body += [f'<rect x="{LEFT + x:.1f}" y="{y + 2}" width="{width:.1f}" height="{LANE - 4}" fill="{COLOURS[cat]}"/>'
                     for x, width, cat in merged(lanes[lane], scale)]
            y += LANE
        y += 30
    legend = "".join(f'<rect x="{LEFT + 120 * i}" y="8" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{LEFT + 16 + 120 * i}" y="18">{name}</text>'
                     for i, (name, colour) in enumerate([("product", COLOURS["matmul"]), ("kernel", COLOURS["launch"]),
                                                         ("collective", COLOURS["collective"]), ("message", COLOURS["send"]),
                                                         ("copy", COLOURS["copy"])]))
    with open(target, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" '
                   f'font-size="11"><rect width="100%" height="100%" fill="white"/>{legend}{"".join(body)}</svg>\n')


if __name__ == "__main__":
    main()
