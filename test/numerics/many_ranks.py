"""1,024 ranks in one process: the step of one rank, in bounded time and memory."""
import json
import os
import subprocess
import time

import numpy as np

from harness import (Failure, Suite, below, compile_model, gradient_errors, inspect, loss_error, read_safetensors,
                     require)

CONFIG = {"model_type": "gpt2", "n_layer": 16, "n_embd": 128, "vocab_size": 256}
RANKS, STEPS, ROWS = 1024, 3, 128


def run(program, folder):
    """Losses and first gradients, seconds and bytes of a run."""
    dump, log = program + ".safetensors", program + ".log"
    start = time.time()
    with open(log, "w") as out:
        process = subprocess.Popen(
            [program, "--data", os.path.join(folder, "tokens.bin"), "--steps", str(STEPS),
             "--seed", "1", "--dump", dump], stdout=out, stderr=subprocess.STDOUT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    if status != 0:
        with open(log) as f:
            raise Failure(f"{program} ended with status {status}\n{f.read()[-4000:]}")
    return read_safetensors(dump), time.time() - start, usage.ru_maxrss * 1024


def check(folder, sequence, heads, *mesh):
    model = os.path.join(folder, "config.json")
    with open(model, "w") as f:
        json.dump({**CONFIG, "n_positions": sequence, "n_head": heads}, f)
    tokens = np.random.default_rng(1).integers(0, CONFIG["vocab_size"], STEPS * ROWS * sequence + 1)
    tokens.astype("<u2").tofile(os.path.join(folder, "tokens.bin"))
    flags = ["--seq", sequence, "--global-batch", ROWS]
    one, many = os.path.join(folder, "one"), os.path.join(folder, "many")
    compile_model(model, one, *flags, "--micro-batch", 8)
    compile_model(model, many, *flags, *mesh)
    plan = inspect(many)
    require(plan["sequence_parallel"] == "on", "sequence parallelism is off")
    require(plan["ranks"] == RANKS, f"{plan['ranks']} ranks")
    expected, _, _ = run(one, folder)
    got, seconds, memory = run(many, folder)
    # Twice the promised time, since machines are noisy; memory is not.
    require(seconds <= 360, f"{STEPS} steps took {seconds:.0f} s")
    require(memory <= 8 * 2**30, f"the process took {memory / 2**30:.1f} GiB")
    require(len(got["loss"]) == STEPS, f"{len(got['loss'])} losses")
    worst = max(loss_error(a, b) for a, b in zip(got["loss"], expected["loss"]))
    gradients = [{name: value for name, value in dump.items() if name.startswith("grad:")}
                 for dump in (got, expected)]
    errors = gradient_errors(*gradients)
    notes = [below(worst, 1e-5, "loss"), below(max(errors.values()), 1e-5, "gradients"),
             f"{seconds:.1f} s, {memory / 2**30:.2f} GiB"]
    return ", ".join(notes)


suite = Suite("many ranks")
suite.run("16 layers on 8x16x8", check, 16, 16, "--mesh", "8x16x8")
suite.run("16 layers on dp 4, pp 8, tp 4, cp 8", check, 32, 16, "--mesh", "4x8x4", "--cp", 8)
# Gives each chunk one layer, and each of 32 ranks a head and a token.
suite.run("16 layers on dp 4, pp 8, tp 32, interleaved", check, 32, 32, "--mesh", "4x8x32", "--virtual-stages", 2)
suite.run("16 layers on dp 4, pp 8, tp 32, zero-bubble", check, 32, 32, "--mesh", "4x8x32", "--schedule", "zero-bubble")
suite.finish()
