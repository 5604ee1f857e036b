"""Training in bf16 and fp16 is as near to float64 as PyTorch's own model in that type.

test/data/precision.json has the errors of transformers' models in bfloat16 and float16
(test/data/make/precision.py). Gradients are compared as one vector, losses as the root mean square
over 8 batches; N ranks may be twice as far off as one.
"""
import json
import os
import sys

import numpy as np

import onnx_lite
from harness import (DATA, LLMC, Suite, below, call, compile_model, inputs, inspect, read_oracle,
                     read_safetensors, require, train, write_safetensors)

sys.path.append(os.path.join(DATA, "make"))
from batches import BATCHES, LENGTH, ROWS, batches

with open(os.path.join(DATA, "precision.json")) as f:
    PYTORCH = json.load(f)
ALLOWED, LEAST_LOSS, OF_ONE_RANK = 1.25, 5e-4, 2
OUTPUTS = 3e-2  # of an inference
MESHES = ["2x2x2", "4", "1x1x4"]
one_rank = {}  # (model, precision) -> errors


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
    done = call([LLMC, "verify", os.path.join(DATA, model), "--mesh", mesh, "--seq", LENGTH // 2,
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
    for low, gradients, sums, *flags in [
            ("bf16", "fp32", "fp32"), ("fp16", "fp32", "fp32"),
            ("bf16", "bf16", "bf16", "--grad-dtype", "bf16"), ("bf16", "fp32", "bf16", "--reduce-dtype", "bf16"),
            ("bf16", "fp32", "bf16", "--reduce-dtype", "bf16", "--zero", 0),
            ("bf16", "bf16", "fp32", "--grad-dtype", "bf16", "--reduce-dtype", "fp32"),
            ("fp16", "fp32", "fp16", "--reduce-dtype", "fp16", "--zero", 2)]:
        compile_model(config, program, "--mesh", "2x2x2", "--seq", LENGTH, "--precision", low, *flags)
        expected = {**{role: low for role in LOW_ROLES}, **{role: "fp32" for role in FULL_ROLES},
                    "gradients": gradients, "gradient_sums": sums}
        got = inspect(program)["dtypes"]
        require(got == expected, f"{low} {flags}: {got}")
    done = compile_model(config, program, "--mesh", "2", "--seq", LENGTH, "--reduce-dtype", "bf16")
    require("precision   fp32; bf16: gradients between ranks" in done.stdout, done.stdout)
    compile_model(config, program, "--seq", LENGTH)
    require(set(inspect(program)["dtypes"].values()) == {"fp32"}, "a plan in fp32 has other types")
    text = call([LLMC, "inspect", program]).stdout
    require("\ntypes     fp32: weights, moments" in text, "no types in the text")


def bound(model, arrays):
    """--dim for each symbol of a file's inputs, from the shapes of their arrays."""
    sizes = {symbol: size for name, dims in onnx_lite.input_dims(model).items()
             for symbol, size in zip(dims, arrays[name].shape)
             if isinstance(symbol, str) and symbol.isidentifier()}
    return [flag for symbol, size in sizes.items() for flag in ("--dim", f"{symbol}={size}")]


def compile_inference(folder, path, arrays, *flags):
    program = os.path.join(folder, "program")
    call([LLMC, "compile", path, "--infer", "-o", program, *bound(path, arrays), *flags])
    return program


def infers(folder, model, suffix, mesh):
    """The outputs of a file in bf16 are near those that its exporter stored, and its weights take
    two bytes each."""
    data = os.path.join(DATA, "models", model)
    arrays, expected = (dict(np.load(os.path.join(data, f"{kind}{suffix}.npz")))
                        for kind in ("inputs", "expected"))
    program = compile_inference(folder, os.path.join(data, "model.onnx"), arrays, "--mesh", mesh,
                                "--precision", "bf16")
    plan = inspect(program)
    require(plan["dtypes"]["weights"] == plan["dtypes"]["activations"] == "bf16", f"{plan['dtypes']}")
    count, weights = plan["model"]["parameters"], plan["memory"][0]["weights"]
    require(mesh != "1" or 2 * count <= weights <= 2.05 * count, f"{weights} bytes of {count} weights")
    given = []
    for name, value in arrays.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        given += ["--input", f"{name}={os.path.join(folder, name)}.npy"]
    call([program, *given, "--output", os.path.join(folder, "results")])
    worst = 0.0
    for name, value in expected.items():
        got = np.load(os.path.join(folder, "results", name + ".npy"))
        require(got.dtype == value.dtype, f"{name} is {got.dtype}")
        worst = max(worst, float(np.linalg.norm((got - value).ravel()) / np.linalg.norm(value.ravel())))
    return below(worst, OUTPUTS, "outputs")


def infers_config(folder, mesh):
    """A config's logits in bf16 beside those in fp32."""
    ids = os.path.join(folder, "ids.npy")
    np.save(ids, np.random.default_rng(3).integers(0, 257, (2, LENGTH)))
    logits = []
    for precision in ("fp32", "bf16"):
        program = os.path.join(folder, precision)
        call([LLMC, "compile", os.path.join(DATA, "gpt2", "config.json"), "--infer", "--dim", "batch=2",
              "--seq", LENGTH, "--mesh", mesh, "--precision", precision, "-o", program])
        call([program, "--input", "input_ids=" + ids, "--output", os.path.join(folder, precision + ".results")])
        logits.append(np.load(os.path.join(folder, precision + ".results", "logits.npy")))
    error = np.linalg.norm(logits[1] - logits[0]) / np.linalg.norm(logits[0])
    require(error > 0, "bf16 computes what fp32 does")
    return below(float(error), OUTPUTS, "logits")


def casts_weights(folder):
    """Weights of a file in bf16 are held in the type that was asked for."""
    data = os.path.join(DATA, "models", "llama", "dynamo-18-bf16")
    path, arrays = os.path.join(data, "model.onnx"), dict(np.load(os.path.join(data, "inputs.npz")))
    for flags, expected in [(("--precision", "fp32"), "fp32"), (("--precision", "fp16"), "fp16"),
                            (("--precision", "bf16"), "bf16")]:
        got = inspect(compile_inference(folder, path, arrays, *flags))["dtypes"]["weights"]
        require(got == expected, f"{flags}: weights are {got}, expected {expected}")


def saved_tensors(folder):
    """What a step of GPT-2 saves: names and shapes of its weights."""
    data, program = os.path.join(DATA, "gpt2"), os.path.join(folder, "trained")
    compile_model(os.path.join(data, "config.json"), program, "--global-batch", ROWS, "--seq", LENGTH)
    train(program, folder, *inputs(data), "--steps", 1, "--save", os.path.join(folder, "saved"))
    return read_safetensors(os.path.join(folder, "saved", "model.safetensors"))


def keeps_type(folder):
    """Without --precision an inference computes in the type of MODEL's weights: what most elements of
    its files have, else `dtype` of its config. A training does not."""
    models = os.path.join(DATA, "models")
    for model, expected in [("llama/dynamo-18-bf16", "bf16"), ("qwen2/dynamo-23-fp16", "fp16"),
                            ("gpt2/dynamo-18", "fp32")]:
        arrays = dict(np.load(os.path.join(models, model, "inputs.npz")))
        program = compile_inference(folder, os.path.join(models, model, "model.onnx"), arrays)
        require(inspect(program)["dtypes"]["weights"] == expected, f"{model}: {inspect(program)['dtypes']}")
    with open(os.path.join(DATA, "gpt2", "config.json")) as f:
        config = {name: value for name, value in json.load(f).items() if "dtype" not in name}
    saved = {name: np.zeros(value.shape, np.uint16) for name, value in saved_tensors(folder).items()}
    table = max(saved, key=lambda name: saved[name].size)

    def type_of(name, stored, field, kind="--infer"):
        """The type of a model's weights; `stored`: the types of the largest one and of the others."""
        place = os.path.join(folder, name)
        os.makedirs(place)
        with open(os.path.join(place, "config.json"), "w") as f:
            json.dump({**config, **field}, f)
        if stored:
            tensors = {n: v.astype(np.float32) if stored[n != table] == "F32" else v
                       for n, v in saved.items()}
            write_safetensors(os.path.join(place, "model.safetensors"), tensors,
                              {n: stored[n != table] for n in saved})
        program = os.path.join(place, "program")
        call([LLMC, "compile", place, kind, "-o", program])
        return inspect(program)["dtypes"]["weights"]

    for name, stored, field, expected in [
            ("stored", ("BF16", "BF16"), {"dtype": "float16"}, "bf16"),
            ("stored_fp16", ("F16", "F16"), {"dtype": "bfloat16"}, "fp16"),
            ("wide_table", ("F32", "BF16"), {}, "bf16"),
            ("wide", ("F32", "F32"), {"dtype": "bfloat16"}, "fp32"),
            ("drawn", None, {"dtype": "bfloat16"}, "bf16"),
            ("drawn_older", None, {"torch_dtype": "float16"}, "fp16"),
            ("drawn_wide", None, {"dtype": "float32"}, "fp32"),
            ("drawn_torch", None, {"dtype": "torch.bfloat16"}, "bf16"),
            ("drawn_half", None, {"dtype": "half"}, "fp16"),
            ("drawn_null", None, {"dtype": None, "torch_dtype": "bfloat16"}, "bf16"),
            ("drawn_nested", None, {"text_config": {"dtype": "bfloat16"}}, "bf16"),
            ("drawn_odd", None, {"dtype": 16}, "fp32"),
            ("drawn_unsaid", None, {}, "fp32")]:
        got = type_of(name, stored, field)
        require(got == expected, f"{name}: {got}, expected {expected}")
    got = type_of("training", ("BF16", "BF16"), {"dtype": "bfloat16"}, "--train")
    require(got == "fp32", f"a training's weights are {got}")


def exceeds(folder):
    """Weights that leave the range of fp16 make no number, which verify does not call equal; what is
    rounded to another type than its own is said."""
    tensors = saved_tensors(folder)
    norm = next(name for name in tensors if name.endswith("ln_f.weight"))
    place = os.path.join(folder, "exceeds")
    os.makedirs(place)
    with open(os.path.join(DATA, "gpt2", "config.json")) as f, \
            open(os.path.join(place, "config.json"), "w") as out:
        out.write(f.read())
    write_safetensors(os.path.join(place, "model.safetensors"),
                      {n: np.full(v.shape, 1e5, np.float32) if n == norm else v.astype(np.float16).view(np.uint16)
                       for n, v in tensors.items()}, {n: "F32" if n == norm else "F16" for n in tensors})
    flags = ["--infer", "--dim", "batch=2", "--seq", LENGTH]
    done = call([LLMC, "compile", place, *flags, "-o", os.path.join(folder, "program")])
    require("computes in fp16, the type of most of its weights; 1 tensor of another type is rounded to it"
            in done.stderr, done.stderr)
    done = call([LLMC, "verify", place, *flags], check=False)
    require(done.returncode == 3 and "kernels:finite" in done.stdout, f"exit {done.returncode}: {done.stdout}")


def sampled():
    """Each model of the suite once in a low precision, meshes and kinds of training in turn."""
    models = [f"{name}/config.json" for name in sorted(os.listdir(DATA))
              if os.path.exists(os.path.join(DATA, name, "config.json"))]
    models += ["models/gemma3/dynamo-23/model.onnx", "models/llama/dynamo-18-bf16/model.onnx",
               "models/gpt2/ts-17-mask/model.onnx", "models/olmo2/dynamo-18/model.onnx",
               "exports/gates/plain.onnx", "exports/biased/dynamo.onnx"]
    ways = [("2x2x2",), ("4",), ("1x1x4",), ("1x2x1", "--schedule", "gpipe"), ("3x1x1",),
            ("2x1x2", "--optimizer", "sgd"), ("1x2x2", "--micro-batch", 2), ("1",)]
    for i, model in enumerate(models):
        yield model, ("bf16", "bf16", "fp16")[i % 3], ways[i % len(ways)]


suite = Suite("precision")
for precision in ["bf16", "fp16"]:
    for model in PYTORCH:
        suite.run(f"{model} in {precision}, beside PyTorch", one, model, precision)
    for model in PYTORCH:
        for mesh in MESHES:
            if model != "gpt2" and mesh != "2x2x2" and not suite.full:
                continue
            suite.run(f"{model} in {precision} on {mesh}", many, model, precision, mesh)
suite.run("bytes of states", states)
suite.run("types of roles", dtypes)
for model, precision, mesh, *flags in [
        ("gemma2", "bf16", "2x2x2"), ("bert", "bf16", "1x2x2"), ("qwen3", "fp16", "2x1x2"),
        ("gpt2", "bf16", "2x2x2", "--grad-dtype", "bf16"),
        ("mistral", "bf16", "1x2x1", "--schedule", "gpipe"),
        ("gpt2", "bf16", "2", "--optimizer", "sgd", "--on-nonfinite", "skip"),
        ("gpt2", "bf16", "2x2x2", "--reduce-dtype", "bf16", "--zero", 0),
        ("llama", "bf16", "2x1x4", "--reduce-dtype", "bf16", "--zero", 1),
        ("gemma2", "bf16", "4", "--grad-dtype", "bf16", "--reduce-dtype", "fp32", "--zero", 3),
        ("qwen3", "fp16", "2x2x1", "--reduce-dtype", "fp16", "--zero", 2),
        ("llama", "fp16", "4x1x1", "--reduce-dtype", "bf16", "--zero", 1),
        ("bert", "fp32", "3x1x2", "--reduce-dtype", "bf16", "--micro-batch", 2, "--zero", 0),
        ("gpt2", "fp32", "2x2x2", "--reduce-dtype", "bf16", "--optimizer", "sgd", "--zero", 2)]:
    suite.run(f"verify {model} in {precision} on {mesh} {' '.join(map(str, flags))}", verified,
              model + "/config.json", precision, mesh, *flags)
for model, precision, (mesh, *flags) in list(sampled())[::1 if suite.full else 2]:
    suite.run(f"{model} in {precision} on {mesh} {' '.join(map(str, flags))}", verified, model, precision,
              mesh, *flags)
for model, suffix in [("gpt2/dynamo-18", ""), ("llama/optimum-18-past", "_decode"), ("gemma2/dynamo-23", ""),
                      ("bert/dynamo-18-mask-types", "")]:
    for mesh in ["1", "2x2x2"]:
        suite.run(f"inference of {model}{suffix} in bf16 on {mesh}", infers, model, suffix, mesh)
for mesh in ["1", "2x2x2"]:
    suite.run(f"inference of gpt2's config in bf16 on {mesh}", infers_config, mesh)
suite.run("weights of an inference in another type than the file's", casts_weights)
suite.run("an inference keeps the type of its model", keeps_type)
suite.run("an inference whose weights exceed the type of most", exceeds)
suite.finish()
