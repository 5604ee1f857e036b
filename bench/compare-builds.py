"""Proves that two builds of llmc make programs that compute the same, bit for bit.

    python3 bench/compare-builds.py OLD_BIN_DIR NEW_BIN_DIR [--draws 30] [--seed 0] [--steps 3] [--first N] [--keep DIR]

Draws (model, mesh, schedule) from the seed, compiles each with both builds, trains a few steps with the same seed, data and threads, and compares what the runs
leave and what `inspect --json` says. A draw that OLD refuses is drawn again; one that OLD takes and NEW refuses has failed.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test", "numerics"))
from harness import read_safetensors  # noqa: E402

DATA = os.path.join(ROOT, "test", "data")
ONNX = ["gpt2/dynamo.onnx", "gpt2/torchscript.onnx", "gpt2-tiny/dynamo.onnx", "gpt2-tiny/torchscript.onnx",
        "gpt2-tiny/attention23.onnx"]
SHAPED = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "gpt_neox", "phi", "phi3", "gemma2", "gemma3_text",
          "olmo2", "nemotron", "bert", "roberta", "distilbert"]
# Names of the same number in different configs.
LAYERS, WIDTH, HEADS = ["n_layer", "n_layers", "num_hidden_layers"], ["n_embd", "dim", "hidden_size"], \
    ["n_head", "n_heads", "num_attention_heads"]
INNER = ["n_inner", "hidden_dim", "intermediate_size"]
MESHES = [(d, p, t) for d in (1, 2, 3, 4, 8) for p in (1, 2, 3, 4, 8) for t in (1, 2, 4, 8) if d * p * t <= 8]


def put(content, names, value):
    for name in names:
        if name in content:
            content[name] = value


def draw_config(random_, folder, stages):
    """Writes a config of its own shape; returns what the draw is called, its path and its vocabulary."""
    kind = random_.choice(SHAPED)
    with open(os.path.join(DATA, kind, "config.json")) as f:
        content = json.load(f)
    layers = random_.choice([n for n in (2, 3, 4, 5, 6, 7, 8) if n >= stages])
    heads, size = random_.choice([2, 4, 8]), random_.choice([8, 16])
    put(content, LAYERS, layers)
    put(content, HEADS, heads)
    put(content, WIDTH, heads * size)
    put(content, ["head_dim"], size)
    put(content, ["query_pre_attn_scalar"], size)
    put(content, INNER, random_.choice([24, 40, 64, 96]))
    keys = random_.choice([n for n in (1, 2, 4, 8) if heads % n == 0])
    put(content, ["num_key_value_heads"], keys)
    if "tie_word_embeddings" in content:
        content["tie_word_embeddings"] = random_.random() < 0.5
    if "layer_types" in content:
        content["layer_types"] = [content["layer_types"][i % len(content["layer_types"])] for i in range(layers)]
    vocabulary = random_.choice([64, 67, 96, 257])
    content["vocab_size"] = vocabulary
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(content, f)
    return f"{kind} {layers}x{heads}x{size} keys {keys} words {vocabulary}", path, vocabulary


def draw(random_, folder):
    """Returns (title, model, flags of llmc compile, flags of the program)."""
    data, stages, tensor = random_.choice([m for m in MESHES if m != (1, 1, 1)] + [(1, 1, 1)])
    if random_.random() < 0.25:
        name = random_.choice(ONNX)
        title, model, vocabulary = name, os.path.join(DATA, name), 257
    else:
        title, model, vocabulary = draw_config(random_, folder, stages)
    micro, count = random_.choice([1, 1, 2, 3]), random_.choice([1, 2, 3, 4, 5, 8])
    length, schedule = random_.choice([8, 12, 16]), random_.choice(["gpipe", "1f1b", "1f1b"])
    optimizer = random_.choice(["adamw", "adamw", "sgd"])
    rows = data * micro * count
    compile_flags = ["--mesh", f"{data}x{stages}x{tensor}", "--micro-batch", micro, "--global-batch", rows, "--seq", length,
                     "--schedule", schedule, "--optimizer", optimizer]
    seed = random_.randrange(1 << 16)
    tokens = np.random.default_rng(seed).integers(0, vocabulary, 4 * rows * length + 1).astype("<u2")
    tokens.tofile(os.path.join(folder, "tokens.bin"))
    train_flags = ["--data", os.path.join(folder, "tokens.bin"), "--seed", seed, "--lr", "1e-2", "--clip", random_.choice([0, 1]),
                   "--threads", 1]
    for flag, share in (["--no-library"], 0.3), (["--cpu", "avx2"], 0.2):
        if random_.random() < share:
            train_flags += flag
    title += f", mesh {data}x{stages}x{tensor}, {schedule}, {count} micro-batches of {micro} x {length}, {optimizer}"
    return title, model, compile_flags, train_flags


class Refused(Exception):
    pass


def call(*arguments):
    done = subprocess.run([str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600)
    if done.returncode != 0:
        raise Refused(f"{arguments[0]} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-400:]}")
    return done.stdout


def compile_with(build, folder, model, flags):
    os.makedirs(folder)
    program = os.path.join(folder, "program")
    call(os.path.join(build, "llmc"), "compile", model, "-o", program, *flags)
    return program, json.loads(call(os.path.join(build, "llmc"), "inspect", program, "--json"))


def results_of(program, flags, steps):
    """Everything that a run leaves: name -> its type, shape and bytes, or a number."""
    paths = [program + suffix for suffix in (".dump", ".save", ".metrics")]
    if os.path.exists(paths[2]):
        os.remove(paths[2])  # of other flags
    call(program, "--steps", steps, "--dump", paths[0], "--save", paths[1], "--metrics", paths[2], *flags)
    results = {}
    for prefix, path in ("", paths[0]), ("saved:", os.path.join(paths[1], "model.safetensors")):
        for name, value in read_safetensors(path).items():
            results[prefix + name] = (str(value.dtype), value.shape, value.tobytes())
    with open(paths[2]) as f:
        for number, line in enumerate(f, 1):
            step = json.loads(line)
            results.update({f"step {number}: {key}": step[key] for key in ("loss", "grad_norm", "lr", "tokens")})
    return results


def facts_of(description):
    """What the plan moves and runs, as counts. Messages are added up, as their list may become finer."""
    facts = collections.Counter()
    for c in description["collectives"]:
        facts[("collective", c["kind"], *c["axes"], f"stage {c['stage']}", c["phase"], f"{c['bytes']} bytes",
               f"{c['per_step']} a step")] += 1
    for s in description["sends"]:
        facts[("messages", f"stage {s['from_stage']} to {s['to_stage']}", f"{s['bytes']} bytes")] += s["per_step"]
    for use in description["kernel_uses"]:
        facts[("launches of kernel", use["name"])] += use["launches"]
    for s in description["stages"]:
        facts[("stage", f"{s['stage']}", f"layers {s['first_layer']} to {s['last_layer']}", f"{s['slots']} slots")] += 1
    for key in "kernels", "parameters":
        for name in description[key]:
            facts[(key, name)] += 1
    for key in "ranks", "micro_batches", "state_bytes":
        facts[(key,)] = description[key]
    return facts


def differences(old, new, what):
    lines = []
    for key in sorted(set(old) | set(new), key=str):
        if old.get(key) == new.get(key):
            continue
        title = ", ".join(key) if isinstance(key, tuple) else key
        if isinstance(old.get(key), tuple) and isinstance(new.get(key), tuple):
            a, b = old[key], new[key]
            detail = "differs in type or shape" if a[:2] != b[:2] else "%d of %d bytes differ" % (
                sum(x != y for x, y in zip(a[2], b[2])), len(a[2]))
        elif isinstance(old.get(key), tuple) or isinstance(new.get(key), tuple):
            detail = "only in " + ("the old" if key in old else "the new")
        else:
            detail = f"{old.get(key, 'none')}, now {new.get(key, 'none')}"
        lines.append(f"{what}: {title}: {detail}")
    return lines


def arena(description):
    return sum(stage["arena_bytes"] for stage in description["memory"])


def compare(pool, builds, folder, drawn, steps):
    """Returns what differs and the arenas of both; None when the old build refuses the draw."""
    _, model, compile_flags, train_flags = drawn
    jobs = [pool.submit(compile_with, build, os.path.join(folder, name), model, compile_flags)
            for build, name in zip(builds, ("old", "new"))]
    if jobs[0].exception():
        jobs[1].exception()
        return None
    if jobs[1].exception():
        return [f"the new build refuses: {jobs[1].exception()}"], None
    (old, before), (new, after) = [job.result() for job in jobs]
    runs = [pool.submit(results_of, program, train_flags, steps) for program in (old, new)]
    if any(run.exception() for run in runs):
        texts = [str(run.exception()) for run in runs]
        return [f"a run ended: old {texts[0]}; new {texts[1]}"], None
    left = [run.result() for run in runs]
    lines = differences(*left, "run") + differences(facts_of(before), facts_of(after), "plan")
    return lines, (arena(before), arena(after), len(left[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old"), parser.add_argument("new")
    for name, default in ("draws", 30), ("seed", 0), ("steps", 3), ("first", 0):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--keep", metavar="DIR", help="keeps the programs of draws that failed there")
    options = parser.parse_args()
    builds = [os.path.abspath(options.old), os.path.abspath(options.new)]
    passed, failed, refused, number, arenas = 0, 0, 0, options.first, []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        while passed + failed < options.draws and refused < 10 * options.draws + 10:
            random_ = random.Random(f"{options.seed}:{number}")
            number += 1
            with tempfile.TemporaryDirectory(prefix="llmc-") as folder:
                drawn = draw(random_, folder)
                outcome = compare(pool, builds, folder, drawn, options.steps)
                if outcome is None:
                    refused += 1
                    continue
                lines, sizes = outcome
                if sizes:
                    arenas.append(sizes[1] / sizes[0])
                print(f"{'FAILED ' if lines else 'equal  '} {number - 1}: {drawn[0]}" + (f" ({sizes[2]} results)" if sizes else ""))
                print("".join(f"        {line}\n" for line in lines[:12]), end="")
                if len(lines) > 12:
                    print(f"        and {len(lines) - 12} more")
                if lines and options.keep:
                    shutil.copytree(folder, os.path.join(options.keep, str(number - 1)), dirs_exist_ok=True)
                passed, failed = passed + (not lines), failed + bool(lines)
                sys.stdout.flush()
    if arenas:
        print(f"arenas, new / old: {min(arenas):.3f} to {max(arenas):.3f}; {refused} draws that the old build refuses were drawn again")
    enough = passed + failed >= options.draws
    print("" if enough else "too few draws were accepted\n", end="")
    print(f"{passed} passed, {failed + (not enough)} failed")
    sys.exit(1 if failed or not enough else 0)


main()
