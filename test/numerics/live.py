"""Live oracles: drawn GPT-2 models, both exporters, and drawn configs of every architecture, with
PyTorch's float64 gradients, on drawn meshes.

Needs the Python of scripts/oracles.txt (scripts/test.sh --full makes it).
    live.py [NAME] --full [--draws N] [--seed S]
"""
import json
import os
import random
import re
import sys

from harness import (Failure, Suite, below, call, compile_model, gradient_errors, inputs, loss_error,
                     read_oracle, read_safetensors, require, train)
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("LLMC_ORACLE_PYTHON", "")


def option(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def valid_meshes(config):
    heads, inner = config["n_head"], config["n_inner"] or 4 * config["n_embd"]
    for dp in (1, 2, 4):
        for pp in range(1, config["n_layer"] + 1):
            for tp in (1, 2, 3, 4):
                if heads % tp == 0 and inner % tp == 0:
                    yield f"{dp}x{pp}x{tp}"


def names_by_content(program, folder):
    initial = {n[len("param:"):]: v for n, v in
               train(program, folder, *inputs(folder), "--steps", 0).items() if n.startswith("param:")}
    names = {}
    for name, value in read_safetensors(os.path.join(folder, "weights.safetensors")).items():
        for got, found in initial.items():
            if found.shape == value.shape and np.array_equal(found, value):
                names[name] = (got, False)
            elif found.ndim == 2 and found.T.shape == value.shape and np.array_equal(found.T, value):
                names.setdefault(name, (got, True))
        require(name in names, f"no parameter has the content of {name}")
    return names


def check(folder, seed):
    call([PYTHON, os.path.join(HERE, "live_models.py"), folder, seed])
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    rng = random.Random(seed)
    length = np.load(os.path.join(folder, "input_ids.npy")).shape[1]
    loss, gradients = read_oracle(folder)
    worst = []
    for model in ["config.json", "dynamo.onnx", "torchscript.onnx"]:
        mesh = rng.choice(list(valid_meshes(config)))
        schedule = rng.choice(["1f1b", "gpipe"])
        what = f"{model} on {mesh} {schedule}"
        program = os.path.join(folder, "program")
        compile_model(os.path.join(folder, model), program, "--mesh", mesh, "--schedule", schedule,
                      "--seq", length, "--global-batch", 8)
        dump = train(program, folder, *inputs(folder), "--steps", 1)
        got = {}
        for name, (source, swapped) in names_by_content(program, folder).items():
            value = dump["grad:" + source]
            got[name] = value.T if swapped else value
        missing = set(gradients) - set(got)
        require(not missing, f"{what}: no gradient for {sorted(missing)}")
        worst.append(below(loss_error(dump["loss"][0], loss), 1e-6, f"{what}: loss"))
        worst.append(below(max(gradient_errors(got, gradients).values()), 2e-5, "gradient"))
    shape = "{n_layer} x {n_embd}, {n_head} heads, {vocab_size} words, {activation_function}".format(**config)
    return shape + ": " + ", ".join(worst)


ARCHITECTURES = ["llama", "mistral", "qwen2", "qwen3", "gpt_neox", "phi", "phi3", "gemma2",
                 "gemma3_text", "olmo2", "bert", "roberta", "distilbert", "mixtral", "qwen2_moe", "qwen3_moe",
                 "deepseek_v2", "deepseek_v3", "gpt_oss", "nemotron"]


def draw_mesh(config, rng):
    heads = config.get("num_attention_heads") or config["n_heads"]
    inner = config.get("intermediate_size") or config["hidden_dim"]
    layers = config.get("num_hidden_layers") or config["n_layers"]
    tp = rng.choice([t for t in (1, 2, 2, 3, 4) if heads % t == 0 and inner % t == 0])
    return rng.choice([1, 2, 4]), rng.randint(1, layers), tp


def check_architecture(folder, name, seed):
    call([PYTHON, os.path.join(HERE, "live_architectures.py"), folder, name, seed])
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    rng = random.Random(f"{name} {seed}")
    length = np.load(os.path.join(folder, "input_ids.npy")).shape[1]
    loss, expected = read_oracle(folder)
    notes, program = [], os.path.join(folder, "program")
    for dp, pp, tp in [(1, 1, 1), draw_mesh(config, rng)]:
        flags = ["--seq", length, "--global-batch", 8, "--schedule", rng.choice(["1f1b", "gpipe"]),
                 "--micro-batch", rng.choice([1, 2])]
        model = os.path.join(folder, "config.json")
        done = compile_model(model, program, "--mesh", f"{dp}x{pp}x{tp}", *flags, check=False)
        # Stages hold whole groups of layers, where layers of several kinds alternate.
        most = re.search(r"groups of layers.*at most (\d+)", done.stderr)
        if most:
            pp = int(most.group(1))
        if done.returncode:
            compile_model(model, program, "--mesh", f"{dp}x{pp}x{tp}", *flags)
        dump = train(program, folder, *inputs(folder), "--steps", 1)
        what = f"{dp}x{pp}x{tp}"
        require(all("grad:" + n in dump for n in expected), f"{what}: gradients are missing")
        got = {n: dump["grad:" + n] for n in expected}
        notes.append(below(loss_error(dump["loss"][0], loss), 1e-6, f"{what}: loss"))
        worst, where = max((e, n) for n, e in gradient_errors(got, expected).items())
        notes.append(below(worst, 2e-5, f"gradient ({where})"))
    return ", ".join(notes)


suite = Suite("live")
seed = option("--seed", 1)
live = PYTHON and suite.full
for draw in range(option("--draws", 20)):
    title = f"drawn model {seed + draw}"
    if live:
        suite.run(title, check, seed + draw)
    else:
        suite.skip(title, "scripts/test.sh --full makes PyTorch's models and gradients")
        break
for name in ARCHITECTURES if live else []:
    for draw in range(max(1, option("--draws", 20) // 4)):
        suite.run(f"{name} {seed + draw}", check_architecture, name, seed + draw)
suite.finish()
