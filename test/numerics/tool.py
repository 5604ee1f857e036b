"""The program as a trainer's tool, and the compiler's phases from outside."""
import json
import os
import re
import signal
import subprocess
import time

import numpy as np

from harness import (DATA, LLMC, Failure, Suite, call, compile_model, inputs, inspect, read_safetensors,
                     require, train)

OWN = os.path.join(DATA, "gpt2")
CONFIG, TEXT = os.path.join(OWN, "config.json"), os.path.join(OWN, "text.bin")
EDIT = os.path.join(os.path.dirname(LLMC), "llmc-plan-edit")


def program(folder, *flags, model=CONFIG, name="program"):
    path = os.path.join(folder, name)
    compile_model(model, path, "--mesh", "2x2x2", "--seq", 16, "--global-batch", 8, *flags)
    return path


def equal(a, b):
    require(sorted(a) == sorted(b), "the dumps hold different tensors")
    for name in a:
        require(np.array_equal(a[name], b[name]), f"{name} differs")


def isolated(folder):
    """A kernel that touched another rank's arena would fault."""
    path = program(folder)
    flags = ["--data", TEXT, "--steps", 2]
    equal(train(path, folder, *flags), train(path, folder, *flags, "--isolate-arenas"))


def no_kernel_in_the_runtime(folder):
    """Without the emitted kernels there is nothing to call."""
    path, empty, bare = program(folder), os.path.join(folder, "empty.so"), os.path.join(folder, "bare")
    call(["clang-22", "-shared", "-nostdlib", "-x", "c", "/dev/null", "-o", empty])
    call([EDIT, path, bare, "kernels", empty])
    done = call([bare, "--data", TEXT, "--steps", 1], check=False)
    require(done.returncode == 1 and "kernel" in done.stderr, f"ran without kernels: {done.stderr}")
    symbols = call(["/usr/lib/llvm-22/bin/llvm-nm", "-C", os.path.join(os.path.dirname(LLMC), "llmc-rt")]).stdout
    # Leaves out what reads and writes the plan file, one table of which describes the attention of a launch.
    symbols = "\n".join(line for line in symbols.splitlines() if "planfile::" not in line)
    for op in ["layer_norm", "LayerNorm", "gelu", "Gelu", "softmax", "Softmax", "Attention", "attention(",
               "scatter_add", "AdamW::", "adamw("]:
        require(op not in symbols, f"the runtime has a symbol with {op}")


def own_products(folder):
    path = program(folder)
    flags = ["--data", TEXT, "--steps", 3]
    library, own = train(path, folder, *flags), train(path, folder, *flags, "--no-library")
    error = np.max(np.abs(library["loss"] - own["loss"]) / library["loss"])
    require(error <= 1e-5, f"losses differ by {error:.1e}")


def saved(folder, model):
    """--save writes the source's names; --weights reads them back, bit for bit."""
    path, place = program(folder, model=os.path.join(OWN, model)), os.path.join(folder, "saved")
    dump = train(path, folder, "--data", TEXT, "--steps", 2, "--save", place)
    weights = read_safetensors(os.path.join(place, "model.safetensors"))
    parameters = {n[len("param:"):]: v for n, v in dump.items() if n.startswith("param:")}
    for name, value in weights.items():
        require(np.array_equal(parameters[name], value), f"{name} differs between --save and --dump")
    again = train(path, folder, "--data", TEXT, "--steps", 0, "--weights", place)
    for name, value in parameters.items():
        require(np.array_equal(again["param:" + name], value), f"{name} differs after --weights")
    if model == "config.json":
        with open(os.path.join(place, "config.json")) as f, open(CONFIG) as g:
            require(json.load(f) == json.load(g), "config.json differs")
    return f"{len(weights)} tensors"


def stopped(folder):
    """Ctrl-C ends at a step border and still writes what was asked for."""
    path, place = program(folder), os.path.join(folder, "saved")
    process = subprocess.Popen([path, "--data", TEXT, "--steps", "100000", "--save", place],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    # A handler's frame on the stack of a thread in oneDNN's code would overwrite the heap:
    # one thread waits for signals, those that compute take none.
    for one in (signal.SIGINT, signal.SIGTERM):
        takers = 0
        for task in os.listdir(f"/proc/{process.pid}/task"):
            with open(f"/proc/{process.pid}/task/{task}/status") as f:
                status = f.read()
            takers += not int(re.search(r"SigBlk:\s*(\w+)", status).group(1), 16) >> (one - 1) & 1
            require(not int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16) >> (one - 1) & 1,
                    f"there is a handler of {one.name}")
        require(takers == 1, f"{takers} threads take {one.name}")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    require(process.returncode == 130, f"exit {process.returncode}: {err}")
    require(os.path.exists(os.path.join(place, "model.safetensors")), "nothing was saved")


def metrics(folder):
    path, file = program(folder), os.path.join(folder, "metrics.jsonl")
    done = call([path, "--data", TEXT, "--steps", 4, "--warmup", 2, "--lr-schedule", "cosine", "--metrics", file])
    with open(file) as f:
        lines = [json.loads(line) for line in f]
    require([line["step"] for line in lines] == [1, 2, 3, 4], f"steps {[line['step'] for line in lines]}")
    for key in "step loss grad_norm lr tokens step_time_s tokens_per_s".split():
        require(all(key in line for line in lines), f"a line without {key}")
    require(lines[0]["lr"] < lines[1]["lr"] and lines[3]["lr"] < lines[2]["lr"], "warm-up or cosine is off")
    require(lines[0]["tokens"] == 8 * 16, f"{lines[0]['tokens']} tokens a step")
    for word in ["mesh", "weights", "data", "optimizer", "lr", "clip", "seed", "left"]:
        require(word in done.stdout, f"the start or progress lines do not say {word}")


def phases(folder, phase):
    """Stopping after a phase and going on from the dump changes nothing."""
    whole, ir = program(folder), os.path.join(folder, "dump.mlir")
    program(folder, "--compile-to", phase, name="dump.mlir")
    rest = os.path.join(folder, "rest")
    compile_model(ir, rest)
    flags = ["--data", TEXT, "--steps", 2]
    equal(train(whole, folder, *flags), train(rest, folder, *flags))


def dumps(folder):
    place = os.path.join(folder, "phases")
    program(folder, "--dump-phases", place)
    names = sorted(os.listdir(place))
    expected = ["raise", "train", "shard", "partition", "schedule", "emit"]
    require([re.fullmatch(r"model\.\d-(\w+)\.mlir", n).group(1) for n in names] == expected, f"dumps {names}")


def verify_tells(folder):
    """-v: what verify does, with seconds; -q: nothing that is well."""
    told = call([LLMC, "verify", CONFIG, "--seq", "8", "--global-batch", "2", "-v"]).stderr
    for phase in ["compile for one rank", "one rank in double", "all ranks in double", "all ranks with kernels"]:
        require(re.search(phase + r"  \d+\.\d\d s", told), told)
    done = call([LLMC, "verify", CONFIG, "--seq", "8", "--global-batch", "2", "-q"])
    require(not done.stdout + done.stderr, done.stdout + done.stderr)


def inspected(folder):
    """Parameters have shapes, of a model and of its program; an inference has no schedule."""
    path = os.path.join(folder, "program")
    compile_model(CONFIG, path, "--infer", "--dim", "batch=1,sequence=4")
    model, plan = inspect(CONFIG), inspect(path)
    with open(CONFIG) as f:
        config = json.load(f)
    wanted = [config["n_positions"], config["n_embd"]]
    for said in model, plan:
        require(sorted(said["parameter_shapes"]) == sorted(said["parameters"]), "other names")
        require(said["parameter_shapes"]["transformer.wpe.weight"] == wanted, "another shape")
    require(plan["schedule"] == "none", f"schedule {plan['schedule']}")
    text = call([LLMC, "inspect", path]).stdout
    require(": 1 rank\n" in text and "1 row a run" in text, text[:500])
    require(f"transformer.wpe.weight  [{wanted[0]},{wanted[1]}]" in call([LLMC, "inspect", CONFIG]).stdout, "no shape")


def long_step(folder):
    """A step of 16,000 micro-batches is compiled and looked at about as fast as one of 16."""
    seconds = []
    for rows in 32, 32000:
        path, begin = os.path.join(folder, "program"), time.monotonic()
        compile_model(CONFIG, path, "--mesh", "2x2x2", "--seq", 16, "--global-batch", rows)
        seconds.append(time.monotonic() - begin)
        plan = inspect(path)
        require(plan["micro_batches"] == rows // 2, f"{plan['micro_batches']} micro-batches")
        require(plan["bubble"]["empty"] == 4, f"{plan['bubble']}")
    require(seconds[1] < 2.5 * seconds[0] + 2, f"{seconds[0]:.1f} s and {seconds[1]:.1f} s")
    return f"{seconds[0]:.1f} s and {seconds[1]:.1f} s"


def verbosity(folder):
    """-q says nothing, -v how long each phase took; neither changes the program."""
    contents = []
    for flags in [], ["-q"], ["-v"]:
        path = os.path.join(folder, "program")
        done = compile_model(CONFIG, path, "--seq", 16, *flags)
        with open(path, "rb") as f:
            contents.append(f.read())
        require(bool(done.stdout) == (flags != ["-q"]), f"{flags}: {done.stdout}")
        said = [line.split()[0] for line in done.stderr.splitlines()]
        wanted = ["raise", "train", "shard", "partition", "schedule", "emit"] if flags == ["-v"] else []
        require([w for w in said if w in wanted] == wanted, f"{flags}: {done.stderr}")
        require(flags != ["-q"] or not said, done.stderr)
    require(contents[0] == contents[1] == contents[2], "the programs differ")


suite = Suite("tool")
suite.run("kernels touch their own arena only", isolated)
suite.run("the runtime holds no kernel", no_kernel_in_the_runtime)
suite.run("products by emitted kernels", own_products)
for model in ["config.json", "dynamo.onnx", "torchscript.onnx"]:
    suite.run(f"save and load, {model}", saved, model)
suite.run("Ctrl-C", stopped)
suite.run("metrics and start lines", metrics)
for phase in ["raise", "train", "shard", "partition", "schedule"]:
    suite.run(f"compile to and from {phase}", phases, phase)
suite.run("numbered dumps", dumps)
suite.run("quiet and verbose", verbosity)
suite.run("inspect", inspected)
suite.run("a long step", long_step)
suite.run("verify, quiet and verbose", verify_tells)
suite.finish()
