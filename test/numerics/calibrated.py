"""Machines that are measured: llmc calibrate, what compile and trace predict from it, and what a run says of that.

    calibrated.py [NAME] [--full]

A predicted trace has the instructions of the measured one, in the same order on the same lanes. How near predictions are
is measured on quiet cores, by bench/cost/ourselves.py; here they must not be absurd.
"""
import collections
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

from harness import DATA, LLMC, Suite, call, compile_model, require
from trace_checks import read, well_formed

MODEL = os.path.join(DATA, "gpt2", "config.json")
TOKENS = os.path.join(DATA, "gpt2", "text.bin")


def calibrate(folder, *flags):
    path = os.path.join(folder, "machine.json")
    call([LLMC, "calibrate", "--quick", "-q", "-o", path, *flags])
    return path


def compiled(folder, cluster, name, *flags):
    out = os.path.join(folder, name)
    said = compile_model(MODEL, out, "--weights", "random", "--cluster", cluster, *flags).stdout
    line = next((line for line in said.splitlines() if line.startswith("predicted")), "")
    require("step" in line and "MFU" in line and "process" in line, f"compile prints no prediction: {said}")
    return out


def lanes(trace):
    """Names of instructions in order, by rank and stream, of the first step."""
    rows = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["cat"] != "schedule":
            args = event["args"]
            rows[event["pid"], event["tid"]].append(
                ((args["step"], args["entry"], args["instruction"]), event["name"].replace(" (own kernel)", "")))
    return {row: [name for (step, *_), name in sorted(events) if step == min(events)[0][0]] for row, events in rows.items()}


def titles(trace):
    """Names of ranks and streams, by place."""
    return {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"]
            if e["ph"] == "M" and e["name"].endswith("_name")}


def runs(folder, cluster, *flags):
    """What is predicted of a program is of the size of what it takes, and its trace has the same instructions."""
    out = compiled(folder, cluster, "program", *flags)
    predicted, measured, metrics = (os.path.join(folder, name) for name in ("predicted.json", "measured.json", "metrics"))
    told = json.loads(call([LLMC, "trace", out, "--cluster", cluster, "-o", predicted, "--json"]).stdout)
    call([out, "--data", TOKENS, "--steps", 6, "--metrics", metrics, "--trace", measured, "--trace-steps", "4:4", "-q"])
    with open(metrics) as f:
        lines = [json.loads(line) for line in f]
    for line in lines:
        require(abs(line["predicted_step_s"] / told["step_time_s"] - 1) < 1e-6, f"{line} beside {told['step_time_s']}")
        require(0 < line["mfu"] < 10, f"MFU {line['mfu']}")
    step = statistics.median(line["step_time_s"] for line in lines[2:])
    require(1 / 20 < told["step_time_s"] / step < 20, f"predicted {told['step_time_s']} s, took {step} s")
    first, second = read(predicted), read(measured)
    well_formed(first)
    require(titles(first) == titles(second), "lanes have other names")
    ours, theirs = lanes(first), lanes(second)
    require(set(ours) == set(theirs), f"lanes {set(ours) ^ set(theirs)}")
    for row in ours:
        require(ours[row] == theirs[row], f"rank, stream {row}: other instructions")
    for rank in told["ranks"]:
        whole = rank["compute_s"] + rank["idle_s"] + sum(rank["exposed_s"].values())
        require(abs(whole / told["step_time_s"] - 1) < 1e-6, f"the time of {rank} does not sum to the step")
    return f"{sum(map(len, ours.values()))} instructions, predicted {told['step_time_s'] / step:.2f} x"


def refused(code, words, *command):
    done = subprocess.run([LLMC, *map(str, command)], capture_output=True, text=True)
    require(done.returncode == code and words in done.stderr and done.stderr.count("error:") == 1,
            f"{command}: exit {done.returncode}, {done.stderr}")


def planned(folder, cluster):
    """llmc plan simulates the plan that compile makes, and says what of it takes how long; no type of numbers is free."""
    times = {}
    for precision in ("fp32", "bf16", "fp16"):
        told = json.loads(call([LLMC, "plan", MODEL, "--cluster", cluster, "--json", "--dp", 2, "--pp", 2, "--precision",
                                precision]).stdout)["chosen"]
        require(abs(sum(told["time_s"].values()) / told["step_time_s"] - 1) < 1e-6, f"parts {told['time_s']}")
        require(min(told["time_s"].values()) > -1e-9 and told["memory_bytes"]["process_peak"] > 0, f"{told}")
        times[precision] = told["step_time_s"]
    out = compiled(folder, cluster, "program", "--dp", 2, "--pp", 2)
    simulated = json.loads(call([LLMC, "trace", out, "--cluster", cluster, "--json"]).stdout)["step_time_s"]
    require(abs(times["fp32"] / simulated - 1) < 1e-6, f"plan says {times['fp32']} s, trace {simulated}")
    require(times["fp16"] > 0.8 * times["fp32"], f"{times}: fp16 has no library")
    accelerated = compile_model(MODEL, out, "--weights", "random", "--gpu", "h100").stdout
    require("predicted" in accelerated and "h100" in accelerated, accelerated)
    metrics = os.path.join(folder, "metrics")
    call([out, "--data", TOKENS, "--steps", 1, "--metrics", metrics, "-q"])
    require("predicted_step_s" not in open(metrics).read(), "a run on CPU ranks tells what was predicted of an accelerator")


def bad_input(folder, cluster):
    out = compiled(folder, cluster, "trained", "--mesh", "1")
    infer = os.path.join(folder, "infer")
    compile_model(MODEL, infer, "--infer", "--weights", "random", "-q")
    refused(2, "needs -o FILE", "calibrate")
    refused(2, "leave out 'model'", "calibrate", "model", "-o", os.path.join(folder, "m.json"))
    refused(1, "cannot write", "calibrate", "-o", os.path.join(folder, "none", "m.json"))
    refused(1, "needs an accelerator", "trace", out)
    refused(1, "did you mean 'h100'", "trace", out, "--gpu", "h10")
    refused(1, "takes a program that llmc compile wrote", "trace", MODEL, "--gpu", "h100")
    refused(1, "compiled with --infer", "trace", infer, "--gpu", "h100")
    refused(2, "needs a program", "trace", "--gpu", "h100")
    refused(1, "same file", "trace", out, "--gpu", "h100", "-o", out)
    refused(1, "--cluster", "compile", MODEL, "--weights", "random", "-o", cluster, "--cluster", cluster)
    refused(1, "measured with programs of llmc", "plan", MODEL, "--cluster", cluster, "--software", "eager")
    refused(1, "use 256 or fewer", "plan", MODEL, "--cluster", cluster, "--dp", 512)
    machine = read(cluster)
    machine["host"]["rates"][0]["launch_s"] = -3
    machine["host"]["cores"] = "two"
    wrong = os.path.join(folder, "wrong.json")
    with open(wrong, "w") as f:
        json.dump(machine, f)
    done = subprocess.run([LLMC, "trace", out, "--cluster", wrong], capture_output=True, text=True)
    require(done.returncode == 1 and "host.cores" in done.stderr and "rates[0].launch_s" in done.stderr, done.stderr)
    return "commands and cluster files"


def on_accelerators(folder, cluster):
    """One rank stands for each stage; faster links never make a step longer, and all of it is accounted for."""
    out = compiled(folder, cluster, "wide", "--mesh", "2x2x2", "--precision", "bf16")
    times = {}
    for gpu in ["a100-80g", "h100"]:
        told = json.loads(call([LLMC, "trace", out, "--gpu", gpu, "--json"]).stdout)
        require(len(told["ranks"]) == 2, f"{len(told['ranks'])} ranks stand for 2 stages")
        times[gpu] = told["step_time_s"]
    slow = json.loads(call([LLMC, "trace", out, "--gpu", "h100", "--gpus-per-node", 1, "--nvlink-domain", 1, "--nic-gbytes", 1,
                            "--json"]).stdout)["step_time_s"]
    require(slow > times["h100"], f"{slow} s over a slow network, {times['h100']} s in a node")
    return "".join(f"{gpu} {1e3 * time:.2f} ms  " for gpu, time in times.items())


def interrupted(folder, cluster):
    """Ctrl-C leaves nothing behind, and what was there."""
    kept, temporary = os.path.join(folder, "machine.json"), os.path.join(folder, "tmp")
    os.mkdir(temporary)
    with open(kept, "w") as f:
        f.write("mine")
    # Takes the signal even where the tests run in the background of a shell, which ignores it for them.
    process = subprocess.Popen([LLMC, "calibrate", "--quick", "-q", "-o", kept], env={**os.environ, "TMPDIR": temporary},
                               stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    for _ in range(200):
        if os.listdir(temporary):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    require(code == -signal.SIGINT, f"exit {code}")
    require(not os.listdir(temporary), f"leaves {os.listdir(temporary)}")
    require(open(kept).read() == "mine" and sorted(os.listdir(folder)) == ["machine.json", "tmp"], os.listdir(folder))


suite = Suite("calibrated")
with tempfile.TemporaryDirectory(prefix="llmc-") as shared:
    machine = calibrate(shared)
    suite.run("stages of tensor-parallel ranks", runs, machine, "--mesh", "1x2x2")
    suite.run("zero-bubble, ZeRO-1", runs, machine, "--dp", 2, "--pp", 2, "--schedule", "zero-bubble", "--zero", 1)
    suite.run("ZeRO-3", runs, machine, "--dp", 4, "--zero", 3)
    suite.run("ring of context-parallel ranks", runs, machine, "--dp", 1, "--cp", 2)
    suite.run("one rank", runs, machine, "--mesh", "1")
    suite.run("on accelerators", on_accelerators, machine)
    suite.run("plans", planned, machine)
    suite.run("bad input", bad_input, machine)
    suite.run("Ctrl-C", interrupted, machine)
suite.finish()
