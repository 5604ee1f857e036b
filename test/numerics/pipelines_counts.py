"""Schedules are as short, keep as few micro-batches and send as few messages as theory says.

With p stages, m micro-batches and v chunks of layers a stage, all equal, the share of a step in which a
stage waits is (p - 1) / (m + p - 1) in GPipe and 1F1B (Huang et al., 2019; Narayanan et al., 2021),
(p - 1) / (v m + p - 1) if chunks interleave (section 2.2 of the latter), and (p - 1) / (3 m + p - 1) where the
gradients of weights fill gaps (Qi et al., 2023, schedule ZB-H1). All figures come from `inspect --json`,
which walks the plan; the times from a second simulation here. --full: all p, m and v.
"""
import collections
import json
import os
import tempfile
from fractions import Fraction

from harness import Suite, compile_model, inspect, require

CONFIG = {"model_type": "gpt2", "n_head": 2, "n_embd": 16, "n_positions": 8, "vocab_size": 32}
SHARED = tempfile.TemporaryDirectory(prefix="llmc-")
plans = {}
suite = Suite("pipelines counts")


def plan_of(p, m, schedule, v=1, dp=1, tp=1):
    """Returns what inspect says of a model with one layer a virtual stage; each is compiled once."""
    key = (p, m, schedule, v, dp, tp)
    if key not in plans:
        model, program = (os.path.join(SHARED.name, name) for name in ("config.json", "program"))
        with open(model, "w") as f:
            json.dump({**CONFIG, "n_layer": p * v}, f)
        chunks = ("--virtual-stages", v) if v > 1 else ()
        compile_model(model, program, "--mesh", f"{dp}x{p}x{tp}", "--seq", 4, "--global-batch", dp * m,
                      "--stages", ",".join(["1"] * (p * v)), "--schedule", schedule, *chunks)
        plan = inspect(program)
        require((plan["schedule"], plan["micro_batches"]) == (schedule, m),
                f"{plan['schedule']} of {plan['micro_batches']} micro-batches")
        plans[key] = plan
    return plans[key]


def orders_of(plan):
    """Returns for each stage the (kind, chunk, micro-batch) that it runs, in order; the update is left out."""
    orders = [[] for _ in plan["stages"]]
    for row in sorted(plan["table"], key=lambda row: row["column"]):
        if row["kind"] != "U":
            orders[row["stage"]].append((row["kind"], row["chunk"], row["micro_batch"]))
    return orders


#===-- A second simulation ------------------------------------------------------===#

def needs(run, stages, chunks):
    """Returns what a (kind, virtual stage, micro-batch) waits for."""
    kind, virtual, micro_batch = run
    if kind == "W":
        return [("B", virtual, micro_batch)]
    if kind == "F":
        return [("F", virtual - 1, micro_batch)] if virtual else []
    after = [("B", virtual + 1, micro_batch)] if virtual + 1 < stages * chunks else []
    return [("F", virtual, micro_batch), *after]


def simulate(orders, chunks, cost):
    """Returns when each (kind, virtual stage, micro-batch) begins, and when the last one ends. `cost` is by kind."""
    stages, begins, ends = len(orders), {}, {}
    clock, at = [0] * stages, [0] * stages
    moved = True
    while moved:
        moved = False
        for s, order in enumerate(orders):
            while at[s] < len(order):
                kind, chunk, micro_batch = order[at[s]]
                run = (kind, chunk * stages + s, micro_batch)
                waited = needs(run, stages, chunks)
                if any(other not in ends for other in waited):
                    break
                begins[run] = max([clock[s], *(ends[other] for other in waited)])
                clock[s] = ends[run] = begins[run] + cost[kind]
                at[s] += 1
                moved = True
    left = [order[i] for order, i in zip(orders, at) if i < len(order)]
    require(not left, f"waits for ever: {left}")
    return begins, max(clock)


def empty_time(orders, chunks, cost):
    busy = sum(cost[kind] for order in orders for kind, _, _ in order)
    return len(orders) * simulate(orders, chunks, cost)[1] - busy


def most_alive(order, kinds):
    """Returns the most (chunk, micro-batch) that are between the first and the last of their runs."""
    last = {(chunk, micro_batch): i for i, (kind, chunk, micro_batch) in enumerate(order) if kind in kinds}
    alive, most = set(), 0
    for i, (kind, chunk, micro_batch) in enumerate(order):
        if kind in kinds:
            alive.add((chunk, micro_batch))
            most = max(most, len(alive))
            if last[chunk, micro_batch] == i:
                alive.remove((chunk, micro_batch))
    return most


#===-- Counts -------------------------------------------------------------------===#

def check_runs(plan, p, m, v, kinds):
    """Each micro-batch runs each kind once in every chunk, in the columns of the simulation."""
    rows = collections.Counter((row["stage"], row["chunk"], row["micro_batch"], row["kind"])
                               for row in plan["table"] if row["kind"] != "U")
    wanted = {(s, c, i, kind): 1 for s in range(p) for c in range(v) for i in range(m) for kind in kinds}
    require(rows == wanted, f"runs {sorted(set(rows.items()) ^ set(wanted.items()))[:8]}")
    updates = [row["stage"] for row in plan["table"] if row["kind"] == "U"]
    require(sorted(updates) == list(range(p)), f"updates of stages {updates}")
    begins, _ = simulate(orders_of(plan), v, dict.fromkeys(kinds, 1))
    columns = {(row["kind"], row["chunk"] * p + row["stage"], row["micro_batch"]): row["column"]
               for row in plan["table"] if row["kind"] != "U"}
    wrong = [f"{run} in column {columns[run]}, not {column}" for run, column in begins.items() if columns[run] != column]
    require(not wrong, "; ".join(wrong[:5]))


def check_messages(plan, p, m, v):
    """A message for each border between virtual stages, each micro-batch and each direction."""
    sent = collections.Counter()
    for send in plan["sends"]:
        require(send["axis"] == "pp", f"a message over {send['axis']}")
        require(send["from_stage"] == send["stage"], f"stage {send['stage']} sends from {send['from_stage']}")
        sent[send["phase"], send["chunk"] * p + send["from_stage"], send["to_stage"]] += send["per_step"]
    wanted = {("forward", k, (k + 1) % p): m for k in range(p * v - 1)}
    wanted.update({("backward", k, (k - 1) % p): m for k in range(1, p * v)})
    require(sent == wanted, f"messages {dict(sent)}, expected {wanted}")
    for phase in ("forward", "backward"):
        total = sum(send["per_step"] for send in plan["sends"] if send["phase"] == phase)
        require(total == (p * v - 1) * m, f"{total} messages {phase}, expected {(p * v - 1) * m}")


def kept(schedule, p, m, v, s):
    """Returns the (chunk, micro-batch) that stage s keeps at most."""
    return {"gpipe": m, "1f1b": min(m, p - s), "zero-bubble": min(m, p),
            "interleaved": min(v * m, 2 * (p - s - 1) + (v - 1) * p + 1)}[schedule]


def counted(folder, p, m, schedule, v=1, dp=1, tp=1):
    plan, kinds = plan_of(p, m, schedule, v, dp, tp), "FBW" if schedule == "zero-bubble" else "FB"
    check_runs(plan, p, m, v, kinds)
    check_messages(plan, p, m, v)
    orders, limits = orders_of(plan), [kept(schedule, p, m, v, s) for s in range(p)]
    alive = [most_alive(order, kinds) for order in orders]
    said = [stage["in_flight"] for stage in plan["stages"]]
    require(alive == said, f"stages keep {alive} micro-batches, inspect says {said}")
    fits = all(a <= b for a, b in zip(alive, limits)) if schedule == "zero-bubble" else alive == limits
    require(fits, f"stages keep {alive} micro-batches, expected {limits}")
    cells, empty = plan["bubble"]["cells"], plan["bubble"]["empty"]
    require(cells - empty == len(kinds) * p * m * v, f"{cells - empty} cells are not empty")
    if schedule == "zero-bubble" and m < p:
        require(cells <= p * 3 * (m + p - 1), f"{cells // p} columns, those of 1F1B would be {3 * (m + p - 1)}")
        return f"{cells // p} columns of {3 * (m + p - 1)}"
    work = 3 * m if schedule == "zero-bubble" else v * m
    share = Fraction(p - 1, work + p - 1)
    require(Fraction(empty, cells) == share, f"{empty} of {cells} cells are empty, expected {share}")
    return f"bubble {share}, {sum(send['per_step'] for send in plan['sends'])} messages, {max(alive)} kept"


def named(folder, p, m, share):
    """Pins figures that no formula of this file computes."""
    bubble = plan_of(p, m, "1f1b")["bubble"]
    require(Fraction(bubble["empty"], bubble["cells"]) == Fraction(share), f"{bubble}, expected {share}")


#===-- Times --------------------------------------------------------------------===#

def gaps_filled(folder, p, m):
    """A backward takes as long as its two parts; 1F1B runs both before it answers the stage before."""
    whole, parts = {"F": 1, "B": 2}, {"F": 1, "B": 1, "W": 1}
    ends = {schedule: simulate(orders_of(plan_of(p, m, schedule)), 1, parts if schedule == "zero-bubble" else whole)[1]
            for schedule in ("gpipe", "1f1b", "zero-bubble")}
    require(ends["gpipe"] == ends["1f1b"] == 3 * (m + p - 1), f"ends {ends}")
    require(ends["zero-bubble"] < ends["1f1b"], f"ends {ends}")
    require(m < p or ends["zero-bubble"] == 3 * m + p - 1, f"ends {ends}, expected {3 * m + p - 1}")
    return f"{ends['zero-bubble']} in place of {ends['1f1b']}"


def gaps_divided(folder, p, m, v):
    """A chunk takes the v-th part of a stage's time, and so do the gaps; whether backward takes once or twice as long."""
    found = []
    for backward in (1, 2):
        one = empty_time(orders_of(plan_of(p, m, "1f1b")), 1, {"F": v, "B": v * backward})
        many = empty_time(orders_of(plan_of(p, m, "interleaved", v)), v, {"F": 1, "B": backward})
        require(many * v == one, f"{many} empty in place of {one} with a backward of {backward} forwards")
        found.append(f"{many} in place of {one}")
    return ", ".join(found)


PLAIN = [(2, 1), (2, 4), (3, 2), (3, 8), (4, 4), (4, 32), (8, 5), (8, 32)]
INTERLEAVED = [(2, 2, 2), (2, 8, 3), (3, 3, 2), (3, 9, 3), (4, 4, 3), (4, 12, 2), (4, 32, 3), (8, 8, 2), (8, 32, 3)]
SPLIT = [(2, 1), (2, 2), (2, 8), (3, 2), (3, 3), (3, 7), (4, 3), (4, 4), (4, 32), (8, 5), (8, 8), (8, 32)]
if suite.full:
    PLAIN = [(p, m) for p in (2, 3, 4, 5, 8) for m in (*range(1, 11), 16, 32)]
    INTERLEAVED = [(p, p * groups, v) for p in (2, 3, 4, 5, 8) for groups in (1, 2, 3, 8) for v in (2, 3, 4)]
    SPLIT = PLAIN
for p, m in PLAIN:
    for schedule in ("gpipe", "1f1b"):
        suite.run(f"{schedule}, p {p}, m {m}", counted, p, m, schedule)
for p, m, v in INTERLEAVED:
    suite.run(f"interleaved, p {p}, m {m}, v {v}", counted, p, m, "interleaved", v)
for p, m in SPLIT:
    suite.run(f"zero-bubble, p {p}, m {m}", counted, p, m, "zero-bubble")
# Checks that counts are those of one rank of a column, whatever other ranks there are.
for schedule, v in [("1f1b", 1), ("interleaved", 2), ("zero-bubble", 1)]:
    suite.run(f"{schedule} beside dp 2 and tp 2", counted, 2, 4, schedule, v, 2, 2)
for p, m, share in [(4, 4, "3/7"), (4, 32, "3/35"), (8, 32, "7/39")]:
    suite.run(f"{share} for p {p}, m {m}", named, p, m, share)
for p, m in SPLIT:
    if m > 1:
        suite.run(f"gaps filled, p {p}, m {m}", gaps_filled, p, m)
for p, m, v in INTERLEAVED:
    suite.run(f"gaps divided, p {p}, m {m}, v {v}", gaps_divided, p, m, v)
suite.finish()
