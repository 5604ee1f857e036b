"""Dropout: masks against NumPy's own, equal on every mesh, whatever backward computes again.

The reference draws its masks independently: Philox4x32-10 of the counter (element, position, layer,
place) under a key of the row, which is Philox of (row, step) under the seed. A GPT-2 with these masks
gives the losses of a run, and central differences of it in float64 the gradients.
"""
import json
import os

import numpy as np

from harness import (DATA, LLMC, Suite, below, call, compile_model, gradient_errors, inspect, loss_error, require,
                     train)

RATE, SEED, ROWS = 0.1, 5, 8


def philox(counter, key):
    """Salmon et al., 2011: words of equal shape, as uint64 below 2^32; returns the four words."""
    low = np.uint64(0xFFFFFFFF)
    c = [np.asarray(x, np.uint64) for x in counter]
    k = [np.asarray(x, np.uint64) for x in key]
    for _ in range(10):
        left, right = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(right >> np.uint64(32)) ^ c[1] ^ k[0], right & low, (left >> np.uint64(32)) ^ c[3] ^ k[1], left & low]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c


class Masks:
    """Factors of dropout in one step of `rows` rows: 0, or 1 / (1 - rate)."""

    def __init__(self, rate, seed, step, rows):
        self.rate = rate
        words = philox([np.arange(rows), 0, step, 0], [seed ^ 0x64726F70, 0])
        self.keys = ((words[0] << np.uint64(32)) | words[1]) >> np.uint64(11)

    def draw(self, layer, place, position, element):
        """`position` and `element` broadcast with each other; the result is [rows, ...]."""
        position, element = np.broadcast_arrays(position, element)
        keys = self.keys.reshape(-1, *[1] * position.ndim)
        word = philox([element[None], position[None], layer, place], [keys & np.uint64(0xFFFFFFFF), keys >> np.uint64(32)])[0]
        return np.where(word < np.uint64(round(self.rate * 2**32)), 0.0, 1 / (1 - self.rate))


def gpt2_loss(w, config, ids, labels, masks):
    """Mean cross entropy of GPT-2 in float64. Layers count from 1; places are the weights of attention,
    the attention's output and the MLP's output; the embeddings are place 0 of layer 0."""
    rows, s = ids.shape
    d, heads = config["n_embd"], config["n_head"]
    position, feature = np.arange(s)[:, None], np.arange(d)[None]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:s]
    x = x * masks.draw(0, 0, position, feature)
    for i in range(config["n_layer"]):
        layer = f"transformer.h.{i}."
        q, k, v = np.split(linear(norm(x, layer + "ln_1"), layer + "attn.c_attn"), 3, axis=-1)
        q, k, v = (t.reshape(rows, s, heads, d // heads).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d // heads)
        scores = np.where(np.tri(s, dtype=bool), scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        element = np.arange(heads)[:, None, None] * s + np.arange(s)[None, None]
        p = p * masks.draw(i + 1, 0, np.arange(s)[None, :, None], element)
        o = (p @ v).transpose(0, 2, 1, 3).reshape(rows, s, d)
        x = x + linear(o, layer + "attn.c_proj") * masks.draw(i + 1, 1, position, feature)
        h = linear(norm(x, layer + "ln_2"), layer + "mlp.c_fc")
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3)))
        x = x + linear(h, layer + "mlp.c_proj") * masks.draw(i + 1, 2, position, feature)
    logits = norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T
    top = logits.max(-1, keepdims=True)
    lse = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]
    return (lse - np.take_along_axis(logits, labels[..., None], -1)[..., 0]).mean()


def config_of(folder, model, **changes):
    with open(os.path.join(DATA, model, "config.json")) as f:
        content = json.load(f)
    content.update(changes)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(content, f)
    return path, content


def batch(folder, vocabulary, s, steps=1):
    """Rows of `steps` steps; returns them and the flags that feed them."""
    draw = np.random.default_rng(16)
    arrays = {name: draw.integers(0, vocabulary, (steps * ROWS, s)) for name in ("input_ids", "labels")}
    flags = []
    for name, array in arrays.items():
        path = os.path.join(folder, name + ".npy")
        np.save(path, array)
        flags += ["--input", f"{name}={path}"]
    return arrays["input_ids"], arrays["labels"], flags


def against_numpy(folder, mesh, *flags):
    path, config = config_of(folder, "gpt2-tiny")
    program, s = os.path.join(folder, "program"), 16
    compile_model(path, program, "--mesh", mesh, "--seq", s, "--global-batch", ROWS, "--dropout", RATE, *flags)
    ids, labels, data = batch(folder, config["vocab_size"], s, steps=3)
    fixed = ["--seed", SEED, "--lr", 0, "--weight-decay", 0, "--weights", os.path.join(DATA, "gpt2-tiny")]
    dump = train(program, folder, *data, *fixed, "--steps", 3)
    w = {n[len("param:"):]: v.astype(np.float64) for n, v in dump.items() if n.startswith("param:")}
    parts = [slice(step * ROWS, (step + 1) * ROWS) for step in range(3)]
    losses = [gpt2_loss(w, config, ids[part], labels[part], Masks(RATE, SEED, step, ROWS)) for step, part in enumerate(parts)]
    worst = max(loss_error(got, expected) for got, expected in zip(dump["loss"], losses))
    others = [gpt2_loss(w, config, ids[parts[0]], labels[parts[0]], Masks(RATE, *key, ROWS)) for key in [(SEED + 1, 0), (SEED, 1)]]
    require(all(loss_error(losses[0], other) > 1e-4 for other in others), "another seed and another step draw alike")
    note = below(worst, 1e-6, "loss")

    # Gradients are those of the first step, along one direction a tensor. The head is the tied table.
    draw, masks, first = np.random.default_rng(17), Masks(RATE, SEED, 0, ROWS), parts[0]
    gradients = {n[len("grad:"):]: v.astype(np.float64) for n, v in dump.items() if n.startswith("grad:")}
    require(sorted(gradients) == sorted(w), f"gradients of {sorted(gradients)}, parameters {sorted(w)}")
    del gradients["lm_head.weight"]
    total, worst = np.sqrt(sum((g ** 2).sum() for g in gradients.values())), 0
    for name, gradient in gradients.items():
        direction = gradient + draw.standard_normal(gradient.shape) * np.abs(gradient).max()
        direction /= np.linalg.norm(direction)
        moved = [gpt2_loss({**w, name: w[name] + step * direction}, config, ids[first], labels[first], masks) for step in (1e-4, -1e-4)]
        slope = (moved[0] - moved[1]) / 2e-4
        worst = max(worst, abs(slope - (gradient * direction).sum()) / max(np.linalg.norm(gradient), 1e-3 * total))
    return note + ", " + below(worst, 2e-5, "worst slope")


def run(folder, name, model, mesh, *flags):
    place = os.path.join(folder, name)
    os.makedirs(place)
    path, config = config_of(place, model)
    program = os.path.join(place, "program")
    compile_model(path, program, "--mesh", mesh, "--seq", 16, "--global-batch", ROWS, "--dropout", RATE, "--optimizer", "sgd", *flags)
    _, _, data = batch(place, config["vocab_size"], 16, steps=2)
    return train(program, place, *data, "--seed", SEED, "--steps", 2, "--lr", 0.1)


def same_as_one_rank(folder, model, *meshes):
    """Losses, gradients and updated weights of one rank."""
    one, notes = run(folder, "one", model, "1"), []
    gradients = {n: v for n, v in one.items() if n.startswith("grad:")}
    weights = {n: v for n, v in one.items() if n.startswith("param:")}
    for i, flags in enumerate(meshes):
        dump = run(folder, f"mesh{i}", model, *flags)
        loss = max(loss_error(a, b) for a, b in zip(dump["loss"], one["loss"]))
        worst = max(gradient_errors(dump, gradients).values())
        moved = max(float(np.abs(dump[n] - v).max()) for n, v in weights.items())
        notes += [below(loss, 1e-5, f"{flags[0]}: loss"), below(worst, 1e-5, "gradient"), below(moved, 1e-5, "weight")]
    return ", ".join(notes)


def same_bits(folder, model, mesh, *flags):
    """Whatever backward computes again, with each op a kernel of its own, draws the same masks."""
    dumps = {kind: run(folder, kind, model, mesh, "--no-fusion", "--recompute", kind, *flags) for kind in ("none", "selective", "full")}
    for kind, dump in dumps.items():
        for name, value in dumps["none"].items():
            require(value.tobytes() == dump[name].tobytes(), f"--recompute {kind}: {name} differs")
    return f"{len(dumps['none'])} tensors"


def evaluates_whole(folder):
    """An evaluation drops nothing: its loss is that of the program without dropout."""
    path, _ = config_of(folder, "gpt2")
    tokens, losses = os.path.join(DATA, "gpt2", "text.bin"), []
    for rate in (0, 0.5):
        program = os.path.join(folder, f"program{rate}")
        compile_model(path, program, "--seq", 16, "--global-batch", ROWS, "--dropout", rate)
        said = call([program, "--data", tokens, "--steps", 0, "--eval-data", tokens, "--eval-batches", 2, "--seed", SEED])
        losses.append([line for line in said.stdout.splitlines() if "eval" in line and "loss" in line])
    require(losses[0] and losses[0] == losses[1], f"evaluations differ: {losses}")


def rates_of_config(folder):
    """`config` takes the model's rates; a model without is refused; one that has them is noted."""
    path, _ = config_of(folder, "gpt2", embd_pdrop=0.2, attn_pdrop=0.1, resid_pdrop=0.3)
    program = os.path.join(folder, "program")
    done = compile_model(path, program, "--seq", 16, "--dropout", "config")
    said = "embedding 0.2, attention 0.1, residual 0.3"
    require("dropout " + said in done.stdout, done.stdout)
    require(inspect(program)["dropout"] == said, "inspect names the rates")
    require(said in call([program, "--data", os.path.join(DATA, "gpt2", "text.bin"), "--steps", 1]).stdout, "the program names the rates")
    done = compile_model(path, program, "--seq", 16)
    require("trains without dropout" in done.stderr and "--dropout config" in done.stderr, done.stderr)
    done = compile_model(os.path.join(DATA, "gpt2", "dynamo.onnx"), program, "--seq", 16, "--dropout", "config", check=False)
    require(done.returncode == 1 and "--dropout config takes the rates of a config.json" in done.stderr, done.stderr)
    done = compile_model(path, program, "--seq", 16, "--infer", "--dim", "batch=1", "--dropout", 0.1, check=False)
    require(done.returncode != 0 and "nothing is dropped" in done.stderr, done.stderr)


def no_mask_kept(folder):
    """What forward keeps grows by no mask: with all dropout, activations are those without it, and the
    few numbers from which masks are drawn."""
    sizes = []
    for rate in (0, 0.1):
        path, config = config_of(folder, "gpt2")
        program = os.path.join(folder, f"program{rate}")
        compile_model(path, program, "--seq", 64, "--dropout", rate, "--recompute", "none")
        sizes.append(max(m["activations"] for m in inspect(program)["memory"]))
    bits = config["n_layer"] * 64 * config["n_embd"]  # of one branch, a byte an element
    require(sizes[1] - sizes[0] < bits, f"activations grow from {sizes[0]} to {sizes[1]} bytes, a mask has {bits}")


def verified(folder, model, mesh, *flags):
    path, _ = config_of(folder, model)
    done = call([LLMC, "verify", path, "--mesh", mesh, "--seq", 16, "--dropout", RATE, "--twin", "off", "--json", *flags], check=False)
    require(done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])
    return f"{len(json.loads(done.stdout)['checks'])} checks"


def other_mask(folder):
    """A backward that draws by another name than its forward is found."""
    path, _ = config_of(folder, "gpt2-tiny")
    step, changed = os.path.join(folder, "step.mlir"), os.path.join(folder, "changed.mlir")
    compile_model(path, step, "--seq", 16, "--dropout", RATE, "--compile-to", "train")
    with open(step) as f:
        lines = f.read().split("\n")
    places = [i for i, line in enumerate(lines) if "graph.dropout" in line and "graph.backward" in line and "place = 2" in line]
    require(len(places) == 1, f"{len(places)} dropouts of the MLP's cotangent")
    lines[places[0]] = lines[places[0]].replace("place = 2", "place = 3")
    with open(changed, "w") as f:
        f.write("\n".join(lines))
    for file, status in [(step, 0), (changed, 3)]:
        done = call([LLMC, "verify", file], check=False)
        require(done.returncode == status, f"{os.path.basename(file)}: exit {done.returncode}\n{done.stdout[-800:]}")


suite = Suite("dropout")
for mesh, flags in [("1", ()), ("1x2x1", ()), ("1x1x2", ("--sequence-parallel", "on")), ("1", ("--no-fusion",))]:
    suite.run(" ".join(["against numpy", mesh, *flags]), against_numpy, mesh, *flags)
for model in ["gpt2", "llama", "bert", "gpt_neox"]:
    suite.run(f"{model}: one rank's numbers on other meshes", same_as_one_rank, model, ("2x2x2", "--sequence-parallel", "on"),
              ("1x2x1", "--schedule", "gpipe"), ("1x1x2", "--sequence-parallel", "off"), ("1x1x2", "--cp", 2))
for model in ["gpt2", "llama"]:
    suite.run(f"{model}: same bits in each kind of recomputation", same_bits, model, "1x2x2")
suite.run("an evaluation drops nothing", evaluates_whole)
suite.run("rates of the config", rates_of_config)
suite.run("no mask is kept", no_mask_kept)
suite.run("another mask in backward is found", other_mask)
suite.run("verify draws the same", verified, "gpt2", "2x2x2")
suite.finish()
