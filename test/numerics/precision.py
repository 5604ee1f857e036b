"""Training in bf16 and fp16 is as near to float64 as PyTorch's own model in that type.

test/data/precision.json has the errors of transformers' models in bfloat16 and float16
(test/data/make/precision.py). Gradients are compared as one vector, losses as the root mean square
over 8 batches; N ranks may be twice as far off as one.
"""
import json
import os

import numpy as np

from harness import (DATA, LLMC, Suite, below, call, compile_model, inputs, inspect, read_oracle,
                     require, train)

with open(os.path.join(DATA, "precision.json")) as f:
    PYTORCH = json.load(f)
ALLOWED, LEAST_LOSS, OF_ONE_RANK = 1.25, 5e-4, 2
MESHES = ["2x2x2", "4", "1x1x4"]
BATCHES, ROWS, LENGTH = 8, 8, 16
IGNORED = -100
one_rank = {}  # (model, precision) -> errors


def batches(vocabulary):
    """What test/data/make/precision.py draws."""
    rng = np.random.default_rng(20)
    ids = rng.integers(3, vocabulary, (BATCHES, ROWS, LENGTH))
    labels = rng.integers(0, vocabulary, (BATCHES, ROWS, LENGTH))
    labels[rng.random(labels.shape) < 0.2] = IGNORED
    return ids, labels


def gradient_error(dump, expected):
    """The error of all gradients as one vector."""
    distance = sum(np.sum((dump["grad:" + n].astype(np.float64) - g) ** 2) for n, g in expected.items())
    return float(np.sqrt(distance / sum(np.sum(g.astype(np.float64) ** 2) for g in expected.values())))


def errors(folder, model, precision, mesh):
    """Returns the errors of the gradients of one batch and of the losses of 8 others."""
    data = os.path.join(DATA, model)
    config = os.path.join(data, "config.json")
    with open(config) as f:
        vocabulary = json.load(f)["vocab_size"]
    program = os.path.join(folder, "program")
    compile_model(config, program, "--mesh", mesh, "--global-batch", ROWS, "--seq", LENGTH,
                  "--precision", precision)
    _, gradients = read_oracle(data)
    first = train(program, folder, *inputs(data), "--steps", 1)
    ids, labels = batches(vocabulary)
    np.save(os.path.join(folder, "ids.npy"), ids.reshape(-1, LENGTH))
    np.save(os.path.join(folder, "labels.npy"), labels.reshape(-1, LENGTH))
    later = train(program, folder, "--input", "input_ids=" + os.path.join(folder, "ids.npy"),
                  "--input", "labels=" + os.path.join(folder, "labels.npy"),
                  "--steps", BATCHES, "--lr", 0)
    loss = later["loss"].astype(np.float64) - np.array(PYTORCH[model]["losses"])
    return gradient_error(first, gradients), float(np.sqrt(np.mean(loss * loss)))


def one(folder, model, precision):
    gradient, loss = one_rank[model, precision] = errors(folder, model, precision, "1")
    theirs = PYTORCH[model][precision]
    return ", ".join([
        below(gradient, ALLOWED * theirs["gradient"], "gradients"),
        below(loss, max(ALLOWED * theirs["loss"], LEAST_LOSS), "losses")])


def many(folder, model, precision, mesh):
    require((model, precision) in one_rank, "one rank did not run")
    gradient, loss = errors(folder, model, precision, mesh)
    gradient1, loss1 = one_rank[model, precision]
    return ", ".join([below(gradient, OF_ONE_RANK * gradient1, "gradients"),
                      below(loss, max(OF_ONE_RANK * loss1, LEAST_LOSS), "losses")])


def verified(folder, model, precision, mesh, *flags):
    done = call([LLMC, "verify", os.path.join(DATA, model, "config.json"), "--mesh", mesh,
                 "--precision", precision, "--json", *flags], check=False)
    report = json.loads(done.stdout)
    failed = [c["name"] for c in report["checks"] if not c["passed"]]
    require(done.returncode == 0 and not failed, f"exit {done.returncode}: {failed}")
    return f"{len(report['checks'])} checks"


def states(folder):
    """Counts bytes a parameter: 2 + 4 + 12 in bf16, 4 + 4 + 8 in fp32 and 2 + 2 + 12 with
    gradients in bf16."""
    notes = []
    for flags, expected in [((), (4, 0, 4, 8)), (("--precision", "bf16"), (2, 4, 4, 8)),
                            (("--precision", "bf16", "--grad-dtype", "bf16"), (2, 4, 2, 8))]:
        program = os.path.join(folder, "program")
        compile_model(os.path.join(DATA, "gpt2", "config.json"), program, "--seq", LENGTH, *flags)
        report = inspect(program)
        count, memory = report["model"]["parameters"], report["memory"][0]
        got = tuple(memory[key] / count for key in ("weights", "masters", "gradients", "optimizer"))
        for own, wanted, part in zip(got, expected, ("weights", "masters", "gradients", "moments")):
            require(wanted <= own <= 1.01 * wanted + 0.01, f"{flags}: {own:.3f} bytes of {part} a parameter")
        notes.append("+".join(f"{x:.2f}" for x in got))
    return " ".join(notes)


LOW_ROLES = ["weights", "activations", "messages", "tensor_sums"]
FULL_ROLES = ["masters", "moments", "gradients", "gradient_sums", "statistics", "loss"]


def dtypes(folder):
    """What `inspect` finds in the plan, not what was asked for; the text tells it too."""
    program = os.path.join(folder, "program")
    config = os.path.join(DATA, "gpt2", "config.json")
    for low, gradients, *flags in [("bf16", "fp32"), ("fp16", "fp32"),
                                   ("bf16", "bf16", "--grad-dtype", "bf16")]:
        compile_model(config, program, "--mesh", "2x2x2", "--seq", LENGTH, "--precision", low, *flags)
        expected = {**{role: low for role in LOW_ROLES}, **{role: "fp32" for role in FULL_ROLES},
                    "gradients": gradients, "gradient_sums": gradients}
        got = inspect(program)["dtypes"]
        require(got == expected, f"{low} {flags}: {got}")
    compile_model(config, program, "--seq", LENGTH)
    require(set(inspect(program)["dtypes"].values()) == {"fp32"}, "a plan in fp32 has other types")
    text = call([LLMC, "inspect", program]).stdout
    require("\ntypes     fp32: weights, moments" in text, "no types in the text")


suite = Suite("precision")
for precision in ["bf16", "fp16"]:
    for model in PYTORCH:
        suite.run(f"{model} in {precision}, beside PyTorch", one, model, precision)
    for model in PYTORCH:
        for mesh in MESHES:
            if model != "gpt2" and precision == "fp16" and mesh != "2x2x2":
                continue
            suite.run(f"{model} in {precision} on {mesh}", many, model, precision, mesh)
suite.run("bytes of states", states)
suite.run("types of roles", dtypes)
for model, precision, mesh, *flags in [
        ("gemma2", "bf16", "2x2x2"), ("bert", "bf16", "1x2x2"), ("qwen3", "fp16", "2x1x2"),
        ("gpt2", "bf16", "2x2x2", "--grad-dtype", "bf16"),
        ("mistral", "bf16", "1x2x1", "--schedule", "gpipe"),
        ("gpt2", "bf16", "2", "--optimizer", "sgd", "--on-nonfinite", "skip")]:
    suite.run(f"verify {model} in {precision} on {mesh} {' '.join(flags)}", verified, model, precision,
              mesh, *flags)
suite.finish()
