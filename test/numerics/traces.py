"""Traces of runs: well formed, complete, and what the plan says that runs."""
import collections
import json
import os
import signal
import subprocess
import time

import numpy as np

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require
from trace_checks import read, well_formed

OWN = os.path.join(DATA, "gpt2")
TOKENS = os.path.join(OWN, "text.bin")


def instructions(phases):
    return [e for e in phases["X"] if e["cat"] != "schedule"]


def arrows(phases):
    """Pairs of ends; each lies on a bar of its row, and time goes forward."""
    bars = collections.defaultdict(list)
    for event in instructions(phases):
        bars[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    starts = {e["id"]: e for e in phases["s"]}
    require(len(starts) == len(phases["s"]), "two arrows have one id")
    ends = {e["id"]: e for e in phases["f"]}
    require(set(starts) == set(ends), "an arrow has one end")
    for number, start in starts.items():
        end = ends[number]
        require(start["ts"] <= end["ts"] and end["bp"] == "e" and start["cat"] == end["cat"], f"arrow {start}")
        for tip in [start, end]:
            require(any(b - 1e-3 <= tip["ts"] <= e + 1e-3 for b, e in bars[tip["pid"], tip["tid"]]),
                    f"an arrow begins or ends at nothing: {tip}")
    return collections.Counter(e["cat"] for e in starts.values())


def against_plan(phases, plan, steps):
    """One rank of each stage runs what `inspect` counts, and all ranks of a stage the same."""
    ranks = {}
    for event in instructions(phases):
        ranks.setdefault((event["args"]["step"], event["args"]["stage"], event["pid"]),
                         collections.Counter())[event["cat"]] += 1
    require({step for step, _, _ in ranks} == set(steps), f"steps {sorted({s for s, _, _ in ranks})}")
    require(len(ranks) == len(steps) * plan["ranks"], "ranks are missing")
    for step in steps:
        total = collections.Counter()
        for stage in range(len(plan["stages"])):
            counts = [c for (s, t, _), c in sorted(ranks.items()) if (s, t) == (step, stage)]
            require(all(c == counts[0] for c in counts), f"ranks of stage {stage} differ")
            total += counts[0]
        require(total == plan["instructions"], f"step {step}: {dict(total)}, the plan {plan['instructions']}")


def group_sizes(phases):
    """Arrows that the collectives and messages of the trace should have."""
    expected = collections.Counter()
    for event in instructions(phases):
        if event["cat"] == "collective" and event["pid"] == event["args"]["ranks"][0]:
            expected["collective"] += len(event["args"]["ranks"]) - 1
        expected["message"] += event["cat"] == "send"
    return +expected


def trains(folder):
    program, out = os.path.join(folder, "program"), os.path.join(folder, "trace.json")
    compile_model(os.path.join(OWN, "config.json"), program, "--mesh", "2x2x2", "--seq", 16, "--global-batch", 8)
    plan = inspect(program)
    run = [program, "--data", TOKENS, "--steps", 5, "--trace", out]
    done = call(run)
    require("steps 2 to 4" in done.stdout, done.stdout)
    trace = read(out)
    phases = well_formed(trace)
    against_plan(phases, plan, [2, 3, 4])
    got = arrows(phases)
    require(got == group_sizes(phases) and len(got) == 2, f"arrows {got}, expected {group_sizes(phases)}")
    require(trace["otherData"]["dropped"] == 0, "events were dropped")
    sends = [e for e in phases["X"] if e["cat"] == "send"]
    per_step = sum(s["per_step"] for s in plan["sends"]) * plan["ranks"] // len(plan["stages"])
    require(len(sends) == 3 * per_step, f"{len(sends)} sends in 3 steps, the plan has {per_step} a step")
    launches = [e for e in phases["X"] if e["cat"] == "launch"]
    require({e["name"] for e in launches} <= set(plan["kernels"]), "a kernel that the plan does not have")
    require(all(e["args"]["op"] and e["args"]["bytes"] > 0 for e in launches), "a launch of nothing")
    require({e["args"]["micro_batch"] for e in launches} == set(range(plan["micro_batches"])), "micro-batches")
    reduced = collections.Counter((e["args"]["stage"], e["args"]["bytes"]) for e in phases["X"]
                                  if e["cat"] == "collective" and len(e["args"]["ranks"]) > 1)
    for c in plan["collectives"]:
        require(reduced[c["stage"], c["bytes"]] > 0, f"no collective of {c['bytes']} bytes at stage {c['stage']}")
    call([*run[:-2], "--trace-steps", "2:2", "--trace", out])
    against_plan(well_formed(read(out)), plan, [2])
    refused = call([*run, "--trace-steps", "6"], check=False)
    require(refused.returncode == 1 and "there are only 5 steps" in refused.stderr, refused.stderr)
    return f"{len(instructions(phases))} instructions, {got['message']} messages, {got['collective']} members"


def infers(folder):
    program, out = os.path.join(folder, "program"), os.path.join(folder, "trace.json")
    compile_model(os.path.join(OWN, "config.json"), program, "--infer", "--mesh", "1x2x2",
                  "--dim", "batch=2", "--dim", "sequence=12")
    ids = os.path.join(folder, "ids.npy")
    np.save(ids, np.arange(24, dtype=np.int64).reshape(2, 12))
    run = [program, "--input", f"input_ids={ids}", "--output", folder, "--trace", out]
    call(run)
    against_plan(well_formed(read(out)), inspect(program), [1])
    call([*run, "--repeat", 2])
    phases = well_formed(read(out))
    against_plan(phases, inspect(program), [2, 3])
    require(arrows(phases) == group_sizes(phases), "arrows")


def interrupted(folder):
    program, out = os.path.join(folder, "program"), os.path.join(folder, "trace.json")
    compile_model(os.path.join(OWN, "config.json"), program, "--mesh", "2x1x2", "--seq", 16, "--global-batch", 4)
    metrics = os.path.join(folder, "metrics")
    child = subprocess.Popen([program, "--data", TOKENS, "--steps", "1000000", "--trace", out, "--metrics", metrics,
                              "--trace-steps", "1:1000000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while not (os.path.exists(metrics) and os.path.getsize(metrics)) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    text = child.communicate(timeout=60)[0].decode()
    require(child.returncode == 130 and "stopped after step" in text, text)
    trace = read(out)
    phases = well_formed(trace)
    arrows(phases)
    steps = trace["otherData"]["steps"]
    require(steps >= 1, "no step")
    if trace["otherData"]["dropped"] == 0:
        against_plan(phases, inspect(program), list(range(1, steps + 1)))
    return f"{steps} steps"


def beside(folder):
    """Exchanges of rows run beside products of the shared expert: in the plan, and in time."""
    program, out = os.path.join(folder, "program"), os.path.join(folder, "trace.json")
    compile_model(os.path.join(DATA, "deepseek_v3", "config.json"), program, "--mesh", "dp=2,tp=2,ep=4", "--seq", 64)
    for direction in ["forward", "backward"]:
        for node in ["model.layers.1.post_attention_layernorm", "model.layers.1.mlp.experts.down_proj"]:
            answer = json.loads(call([LLMC, "explain", program, f"dpxtp/{direction}/{node}", "--json"]).stdout)
            overlap = answer["overlap"]
            require(overlap["matmuls"] > 0, f"{direction} of {node}: {overlap}")
    tokens = os.path.join(folder, "tokens.bin")
    np.random.default_rng(1).integers(0, 60, 4096).astype(np.uint16).tofile(tokens)
    call([program, "--data", tokens, "--steps", 4, "--trace", out])
    bars = instructions(well_formed(read(out)))
    products = collections.defaultdict(list)
    for event in bars:
        if event["cat"] == "matmul" and any("shared_experts" in node for node in event["args"]["nodes"]):
            products[event["pid"]].append(event)
    exchanges = [e for e in bars if e["cat"] == "collective" and e["args"]["rule"].startswith("rows ")]
    met = sum(any(p["ts"] < e["ts"] + e["dur"] and e["ts"] < p["ts"] + p["dur"] for p in products[e["pid"]])
              for e in exchanges)
    require(met > 0, f"none of {len(exchanges)} exchanges overlaps with a product of the shared expert")
    return f"{met} of {len(exchanges)} exchanges beside the shared expert"


suite = Suite("traces")
suite.run("training on 2x2x2", trains)
suite.run("inference on 1x2x2", infers)
suite.run("exchanges of experts", beside)
suite.run("Ctrl-C", interrupted)
suite.finish()
