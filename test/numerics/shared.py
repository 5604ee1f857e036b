"""Ranks of one process hold equal weights once, and compute the same bits as alone.

What a program says it shares is held against what the system says of its memory.
"""
import contextlib
import json
import os
import re
import subprocess
import time

import numpy as np

from harness import Suite, call, compile_model, inspect, require, train

GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 256, "vocab_size": 16384,
        "n_positions": 32, "tie_word_embeddings": True}
ROWS, SEQUENCE = 4, 32
SAYS = re.compile(r"([\d,]+) bytes of (\d+) tensors that no instruction writes lie there once "
                  r"for all ranks, not ([\d,]+) in arenas")


def number(text):
    return int(text.replace(",", ""))


def run(program, *flags):
    """What it prints, and the most bytes that it was seen to hold."""
    most = 0
    with open(program + ".log", "w+") as log:
        process = subprocess.Popen([program, *flags], stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            with contextlib.suppress(OSError, AttributeError), open(f"/proc/{process.pid}/status") as status:
                most = max(most, 1024 * int(re.search(r"VmHWM:\s*(\d+)", status.read()).group(1)))
            time.sleep(0.002)
        log.seek(0)
        text = log.read()
    require(process.returncode == 0, f"{program} ended with status {process.returncode}\n{text[-4000:]}")
    return text, most


def model(folder):
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(GPT2, f)
    return path


def infer(folder, mesh):
    program, ids = os.path.join(folder, "program"), os.path.join(folder, "ids.npy")
    compile_model(model(folder), program, "--infer", "--dim", f"batch={ROWS}", "--mesh", mesh)
    np.save(ids, np.random.default_rng(1).integers(0, GPT2["vocab_size"], (ROWS, SEQUENCE)))
    logits, memory, said = [], [], []
    for name, flags in (("shared", ["--repeat", "8"]), ("alone", ["--unshared", "--repeat", "8"]), ("any-order", ["--interleaving", "3"]),
                        ("closed", ["--isolate-arenas"])):
        out = os.path.join(folder, name)
        text, most = run(program, "--input", f"input_ids={ids}", "--output", out, "--seed", "5",
                         "--threads", "1", *flags)
        logits.append(np.load(os.path.join(out, "logits.npy")))
        memory.append(most)
        said.append(SAYS.search(text))
    require(np.isfinite(logits[0]).all(), "the logits are not finite")
    for other in logits[1:]:
        require(logits[0].tobytes() == other.tobytes(), "shared weights change bits")
    require(said[0] and not said[1], "the program must say what is shared, and only if it is")
    bytes_, tensors, apart = (number(said[0][i]) for i in (1, 2, 3))
    # Each rank of each stage would have all of its weights, shared or not.
    held = sum(stage["weights"] for stage in inspect(program)["memory"])
    dp, pp, tp = map(int, mesh.split("x"))
    held *= dp * tp
    require(bytes_ < apart <= held, f"{bytes_} bytes once, {apart} apart, {held} of all")
    if mesh.endswith("x1x1"):
        require(apart == held, f"{apart} of {held} bytes are shared")
    saved, less = apart - bytes_, memory[1] - memory[0]
    # At the borders of what an arena does not touch, the system gives whole large pages.
    require(abs(less - saved) <= (dp * pp * tp + 1) * (2 << 20),
            f"{saved} bytes less by its own word, {less} by the system's")
    return (f"{tensors} tensors, {bytes_ / 1e6:.1f} MB for {apart / 1e6:.1f}; "
            f"the process {memory[0] / 1e6:.0f} MB, without {memory[1] / 1e6:.0f}")


def trains(folder):
    """A step writes every weight: nothing may be shared."""
    program, tokens = os.path.join(folder, "program"), os.path.join(folder, "tokens.bin")
    compile_model(model(folder), program, "--mesh", "2x1x2")
    np.random.default_rng(1).integers(0, 9, 4000).astype("<u2").tofile(tokens)
    flags = ["--data", tokens, "--steps", "2", "--seed", "5"]
    text, _ = run(program, *flags)
    require(not SAYS.search(text), "training shares weights")
    dumps = [train(program, folder, *flags, *more) for more in ([], ["--unshared"])]
    require(all(dumps[0][name].tobytes() == dumps[1][name].tobytes() for name in dumps[0]),
            "the dumps differ")


suite = Suite("shared")
for mesh in ["4x1x1", "1x1x4", "1x2x1", "2x2x2"]:
    suite.run(f"inference on {mesh}", infer, mesh)
suite.run("training on 2x1x2", trains)
suite.finish()
