"""Balance of experts: the auxiliary loss, the moved biases and what a capacity drops, on every mesh and against numpy.

In the models of these checks attention and experts give nothing, so that every router sees the norm of the
tokens' embeddings, and numpy follows from tokens and weights what a router does, in float64.
"""
import json
import os

import numpy as np

from experts import CHOICES, DEEPSEEK, EXPERTS, LAYERS, MIXTRAL, QWEN2, SEQ, proved, refused, resumed, write_config
from harness import LLMC, Suite, below, call, compile_model, require, train, write_safetensors

ROWS, STEPS, ALPHA, RATE = 8, 3, 0.5, 0.01
LLAMA = {"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def rows(folder, ignored=True):
    """Rows of all steps, whose tokens are of few kinds, so that experts get unequal loads; some labels do not count."""
    random = np.random.default_rng(5)
    ids = np.minimum(random.geometric(0.08, (ROWS * STEPS, SEQ)), 95).astype("<i8")
    labels = random.integers(0, 96, ids.shape).astype("<i8")
    if ignored:
        labels[1::3, 5:] = -100
        labels[4] = -100
    flags = []
    for name, value in [("input_ids", ids), ("labels", labels)]:
        path = os.path.join(folder, name + ".npy")
        np.save(path, value)
        flags += ["--input", f"{name}={path}"]
    return ids.reshape(STEPS, ROWS, SEQ), labels.reshape(STEPS, ROWS, SEQ), flags


def compiled(folder, content, mesh, *flags):
    name = "p" + "".join(ch if ch.isalnum() else "_" for ch in "_".join([mesh, *map(str, flags)]))
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        compile_model(write_config(folder, content), path, "--mesh", mesh, "--seq", SEQ, "--global-batch", ROWS, *flags)
    return path


def weights(folder, content, still):
    """Drawn weights; `still`: attention and experts give nothing to the residual stream."""
    initial = train(compiled(folder, content, "1", "--moe-balance", "none"), folder, *rows(folder)[2], "--steps", 0)
    drawn = {n[len("param:"):]: v.copy() for n, v in initial.items() if n.startswith("param:")}
    for name, value in drawn.items():
        if still and name.endswith(("o_proj.weight", "w2.weight", "down_proj.weight")):
            value[...] = 0
    path = os.path.join(folder, "still.safetensors" if still else "drawn.safetensors")
    write_safetensors(path, drawn)
    return {n: v.astype("f8") for n, v in drawn.items()}, path


def scored(values, ids, layer, name, epsilon):
    """(router's input [rows, tokens, width], logits [rows, tokens, experts]) of a layer."""
    x = values["model.embed_tokens.weight"][ids]
    x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * values[f"model.layers.{layer}.post_attention_layernorm.weight"]
    return x, x @ values[name].T


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def chosen(scores, count):
    """One-hot marks [..., experts] of the best experts; of equal ones the lower comes first."""
    marks = np.zeros(scores.shape)
    np.put_along_axis(marks, np.argsort(-scores, axis=-1, kind="stable")[..., :count], 1, axis=-1)
    return marks


def auxiliary(probability, marks):
    """(loss of each row, its derivative by each probability): equations 17 to 20 of DeepSeek-V3."""
    tokens, experts = probability.shape[1:]
    f = experts / (CHOICES * tokens) * marks.sum(axis=1)
    return ALPHA * np.sum(f * probability.mean(axis=1), axis=1), np.broadcast_to(ALPHA * f[:, None] / tokens, probability.shape)


def by_numpy(folder, content, router, first, epsilon, squash):
    """The auxiliary loss adds to the loss the rows' mean by their labels, and nothing but its gradient to routers."""
    values, path = weights(folder, content, still=True)
    ids, labels, flags = rows(folder)
    runs = [train(compiled(folder, content, "1", "--moe-balance", *balance), folder, *flags, "--steps", 1, "--weights", path)
            for balance in (["none"], ["aux", "--moe-aux-loss", ALPHA])]
    counted = np.sum(labels[0] != -100, axis=1)
    expected, worst = 0.0, 0.0
    for layer in range(first, content["num_hidden_layers"]):
        name = f"model.layers.{layer}.{router}"
        x, logits = scored(values, ids[0], layer, name, epsilon)
        if squash:
            scores = 1 / (1 + np.exp(-logits))
            probability = scores / scores.sum(axis=-1, keepdims=True)
            groups = chosen(np.sort(scores.reshape(*scores.shape[:-1], 4, 2), axis=-1).sum(axis=-1), 2)
            marks = chosen(np.where(np.repeat(groups, 2, axis=-1) > 0, scores, -1), CHOICES)
        else:
            probability = softmax(logits)
            marks = chosen(probability, CHOICES)
        losses, slopes = auxiliary(probability, marks)
        expected += np.sum(losses * counted) / counted.sum()
        if squash:
            slopes = (slopes - np.sum(slopes * probability, axis=-1, keepdims=True)) / scores.sum(axis=-1, keepdims=True) * scores * (1 - scores)
        else:
            slopes = probability * (slopes - np.sum(slopes * probability, axis=-1, keepdims=True))
        gradient = np.einsum("bte,btd->ed", slopes * counted[:, None, None], x) / counted.sum()
        got = runs[1]["grad:" + name].astype("f8") - runs[0]["grad:" + name]
        require(np.linalg.norm(gradient) > 1e-4, f"{name}: the gradient is {np.linalg.norm(gradient)}, which shows nothing")
        worst = max(worst, np.linalg.norm(got - gradient) / np.linalg.norm(gradient))
    error = abs(runs[1]["loss"][0] - runs[0]["loss"][0] - expected) / expected
    return below(error, 1e-5, f"auxiliary loss {expected:.4f}") + ", " + below(worst, 2e-5, "worst gradient of a router")


def on_meshes(folder, content, balance, meshes):
    """Loss, gradients and updated weights of every mesh and micro-batch are those of one rank."""
    _, path = weights(folder, content, still=False)
    _, _, flags = rows(folder)
    runs = {}
    for mesh, *choices in [("1",), *meshes]:
        program = compiled(folder, content, mesh, *balance, *choices)
        runs[mesh, *choices] = train(program, folder, *flags, "--steps", STEPS, "--lr", "1e-3", "--weights", path)
    base, worst = runs.pop(("1",)), 0.0
    floor = 1e-3 * np.sqrt(sum(float(np.sum(v.astype("f8") ** 2)) for n, v in base.items() if n.startswith("grad:")))
    for key, run in runs.items():
        require(np.allclose(run["loss"], base["loss"], rtol=1e-6), f"{key}: losses {run['loss']}, one rank {base['loss']}")
        for name, value in base.items():
            if name.endswith("e_score_correction_bias") or not name.startswith(("grad:", "param:")):
                continue
            error = np.linalg.norm(run[name].astype("f8") - value) / max(np.linalg.norm(value.astype("f8")), floor)
            require(error < 1e-4, f"{key}: {name} differs by {error:.1e}")
            worst = max(worst, error)
    return f"{len(runs)} meshes, losses {base['loss'][0]:.6f} ... {base['loss'][-1]:.6f}, worst tensor {worst:.1e}"


def biases(folder):
    """Biases after some steps: those of a numpy account of the counts, and the same bits on every mesh."""
    values, path = weights(folder, DEEPSEEK, still=True)
    ids, _, flags = rows(folder)
    name = "model.layers.{}.mlp.gate.e_score_correction_bias"
    layers = range(1, DEEPSEEK["num_hidden_layers"])
    bias = {layer: values[name.format(layer)].astype("f4") for layer in layers}
    moved = 0
    for step in range(STEPS):
        for layer in layers:
            _, logits = scored(values, ids[step], layer, f"model.layers.{layer}.mlp.gate.weight", 1e-6)
            choice = 1 / (1 + np.exp(-logits)) + bias[layer]
            groups = chosen(np.sort(choice.reshape(*choice.shape[:-1], 4, 2), axis=-1).sum(axis=-1), 2)
            loads = chosen(np.where(np.repeat(groups, 2, axis=-1) > 0, choice, -9), CHOICES).sum(axis=(0, 1))
            require(loads.sum() == ROWS * SEQ * CHOICES, f"numpy counts {loads}")
            moved += int(np.sum(loads != loads.mean()))
            bias[layer] = (bias[layer] + np.float32(RATE) * np.sign(loads.mean() - loads).astype("f4")).astype("f4")
    meshes = [("1",), ("1", "--micro-batch", 2), ("1", "--micro-batch", 8), ("2",), ("2", "--micro-batch", 4), ("4",), ("8",),
              ("8", "--zero", 3), ("4", "--zero", 0), ("2x2x2", "--ep", 2), ("dp=2,cp=2,tp=2,ep=4",), ("1x2x1",),
              ("2", "--grad-dtype", "bf16", "--precision", "bf16", "--reduce-dtype", "bf16")]
    low = None
    for mesh, *choices in meshes:
        program = compiled(folder, DEEPSEEK, mesh, "--moe-balance", "bias", "--moe-bias-rate", RATE, *choices)
        run = train(program, folder, *flags, "--steps", STEPS, "--lr", 0, "--weights", path)
        for layer in layers:
            got = run["param:" + name.format(layer)]
            if "bf16" in choices: # other scores, but the same kind of steps
                units = got.astype("f8") / RATE
                low = max(low or 0, float(np.max(np.abs(units - np.round(units)))))
                require(got.dtype == np.float32 and np.any(got), f"{mesh} {choices}: {got}")
                continue
            require(np.array_equal(got, bias[layer]), f"{mesh} {choices}, layer {layer}: {got}, numpy {bias[layer]}")
    return f"{moved} of {STEPS * len(layers) * EXPERTS} moves, {len(meshes)} meshes; bf16: {below(low, 1e-4, 'fraction of a step')}"


def metrics(program, folder, *flags):
    """Lines of --metrics of a run."""
    log = os.path.join(folder, "log.jsonl")
    call([program, *flags, "--metrics", log, "--force"])
    with open(log) as lines:
        return [json.loads(line) for line in lines]


def loads_of_rows(values, content, router, first, epsilon, squash, ids):
    """How many choices of each row take each expert, [layers, rows, experts]."""
    loads = []
    for layer in range(first, content["num_hidden_layers"]):
        _, logits = scored(values, ids, layer, f"model.layers.{layer}.{router}", epsilon)
        if squash:
            scores = 1 / (1 + np.exp(-logits))
            groups = chosen(np.sort(scores.reshape(*scores.shape[:-1], 4, 2), axis=-1).sum(axis=-1), 2)
            logits = np.where(np.repeat(groups, 2, axis=-1) > 0, scores, -1)
        loads.append(chosen(logits, CHOICES).sum(axis=1))
    return np.array(loads)


def dropped(folder, content, router, first, epsilon, squash, factor, meshes):
    """Metrics tell which part of all choices the capacity drops: of each step exactly what numpy counts, on every mesh."""
    values, path = weights(folder, content, still=True)
    ids, _, flags = rows(folder)
    flags += ["--weights", path, "--lr", 0, "--steps", STEPS]
    room = int(np.ceil(SEQ * CHOICES * factor / EXPERTS))
    loads = [loads_of_rows(values, content, router, first, epsilon, squash, ids[step]) for step in range(STEPS)]
    expected = [np.sum(np.maximum(own - room, 0)) / np.sum(own) for own in loads]
    require(len(set(expected)) > 1 and 0 < min(expected) < max(expected) < 1, f"numpy counts {expected}, which shows little")
    for mesh, *choices in meshes:
        lines = metrics(compiled(folder, content, mesh, "--moe-capacity", factor, *choices), folder, *flags)
        got = [line["moe_dropped"] for line in lines]
        require(got == expected, f"{mesh} {choices}: metrics say {got}, numpy {expected}")
        overflows = [line.get("moe_overflow") for line in lines]
        require(("--moe-budget" in choices) == (1 in overflows), f"{mesh} {choices}: moe_overflow is {overflows}")
    for choices in [], ["--moe-capacity", EXPERTS]:
        got = [line["moe_dropped"] for line in metrics(compiled(folder, content, "2", *choices), folder, *flags)]
        require(got == [0] * STEPS, f"{choices} drops nothing, metrics say {got}")
    return f"{len(meshes)} meshes, " + ", ".join(f"{part:.4f}" for part in expected)


def evaluated(folder, content, meshes):
    """An evaluation gives the cross entropy alone: with an auxiliary loss the same number as without."""
    _, path = weights(folder, content, still=False)
    tokens = os.path.join(folder, "tokens.bin")
    np.random.default_rng(8).integers(0, 96, 4 * ROWS * SEQ).astype("<u2").tofile(tokens)
    flags = ["--data", tokens, "--eval-data", tokens, "--weights", path, "--lr", 0, "--steps", 2]
    for mesh, *choices in meshes:
        found = {}
        for balance in (["none"], ["aux", "--moe-aux-loss", ALPHA]):
            program = compiled(folder, content, mesh, "--moe-balance", *balance, *choices)
            alone = metrics(program, folder, *flags[:-1], 0)
            found[balance[0]] = [line["loss"] for line in metrics(program, folder, *flags)], alone[0]["eval_loss"]
            require(metrics(program, folder, *flags)[-1]["eval_loss"] == alone[0]["eval_loss"], f"{mesh}: two evaluations differ")
        more = [aux - none for aux, none in zip(found["aux"][0], found["none"][0])]
        require(min(more) > 0.1, f"{mesh} {choices}: training losses {found} have no auxiliary loss")
        require(found["aux"][1] == found["none"][1], f"{mesh} {choices}: evaluated losses are {found['aux'][1]}, without aux {found['none'][1]}")
    return f"{len(meshes)} meshes, the same bits; training losses have {more[0]:.4f} more"


def trained_bits(folder):
    """Biases that move while weights learn have the same bits however data are shared out."""
    _, path = weights(folder, DEEPSEEK, still=False)
    _, _, flags = rows(folder)
    runs = []
    for mesh, *choices in [("1",), ("1", "--micro-batch", 4), ("2",), ("4",), ("8",)]:
        program = compiled(folder, DEEPSEEK, mesh, "--moe-balance", "bias", "--moe-bias-rate", RATE, *choices)
        runs.append(train(program, folder, *flags, "--steps", STEPS, "--lr", "1e-3", "--weights", path))
    names = [n for n in runs[0] if n.endswith("e_score_correction_bias") and n.startswith("param:")]
    require(len(names) == 3 and all(np.any(runs[0][n]) for n in names), f"no bias has moved: {names}")
    for run in runs[1:]:
        for name in names:
            require(np.array_equal(run[name], runs[0][name]), f"{name}: {run[name]}, one rank {runs[0][name]}")


def out_of_the_norm(folder):
    """The norm of gradients is that without balance; the bias has no weight decay."""
    values, path = weights(folder, DEEPSEEK, still=False)
    _, _, flags = rows(folder)
    runs = []
    for balance in (["none"], ["bias", "--moe-bias-rate", RATE]):
        log = os.path.join(folder, "log.jsonl")
        program = compiled(folder, DEEPSEEK, "2", "--moe-balance", *balance)
        call([program, *flags, "--steps", 1, "--weights", path, "--metrics", log, "--weight-decay", 0.5])
        with open(log) as f:
            runs.append(json.loads(f.readline())["grad_norm"])
        os.remove(log)
    require(runs[0] == runs[1], f"norms {runs}")


def saved(folder):
    """Biases are saved with the weights, and loaded with them."""
    _, path = weights(folder, DEEPSEEK, still=False)
    _, _, flags = rows(folder)
    program = compiled(folder, DEEPSEEK, "2x1x2", "--ep", 2, "--moe-balance", "bias", "--moe-bias-rate", RATE)
    kept = os.path.join(folder, "kept")
    left = train(program, folder, *flags, "--steps", 2, "--weights", path, "--save", kept)
    found = train(program, folder, *flags, "--steps", 0, "--weights", kept)
    names = [n for n in left if n.startswith("param:")]
    require(any(np.any(left[n]) for n in names if n.endswith("e_score_correction_bias")), "no bias has moved")
    require(all(np.array_equal(left[n], found[n]) for n in names), "saved weights are not those that are found")


def skipped(folder):
    """A step with a gradient that is not finite leaves biases as they are."""
    values, _ = weights(folder, DEEPSEEK, still=False)
    _, _, flags = rows(folder)
    values["lm_head.weight"][3, 0] = np.inf
    path = os.path.join(folder, "broken.safetensors")
    write_safetensors(path, {n: v.astype("<f4") for n, v in values.items()})
    program = compiled(folder, DEEPSEEK, "2", "--moe-balance", "bias", "--on-nonfinite", "skip")
    run = train(program, folder, *flags, "--steps", 1, "--weights", path)
    names = [n for n in run if n.startswith("param:") and n.endswith("e_score_correction_bias")]
    require(len(names) == 3 and not any(np.any(run[n]) for n in names), f"moved: {[run[n] for n in names]}")


def by_config(folder):
    """A config that asks for router losses gets them, with its factor, unless it is told otherwise."""
    ids, labels, flags = rows(folder)
    losses = {}
    asks = {**MIXTRAL, "output_router_logits": True, "router_aux_loss_coef": 0.25}
    for key, content, given in [("none", MIXTRAL, []), ("asks", asks, []), ("asks, none", asks, ["--moe-balance", "none"]),
                                ("given", MIXTRAL, ["--moe-balance", "aux", "--moe-aux-loss", 0.25]),
                                ("standard", MIXTRAL, ["--moe-balance", "aux"])]:
        program = os.path.join(folder, "program")
        done = compile_model(write_config(folder, content), program, "--seq", SEQ, "--global-batch", ROWS, *given)
        require(("auxiliary loss" in done.stderr) == (key == "asks"), f"{key}: {done.stderr}")
        losses[key] = train(program, folder, *flags, "--steps", 1, "--seed", 0)["loss"][0]
    require(losses["none"] == losses["asks, none"] and losses["asks"] == losses["given"], f"losses {losses}")
    shares = (losses["standard"] - losses["none"]) / (losses["asks"] - losses["none"])
    return below(abs(shares * 250 - 1), 1e-2, "factor 0.001 of a config that names none, by 0.25")


def low_types(folder, content, mesh, *flags):
    """In a low type the fp64 and type checks hold. Kernels round scores: a choice near a tie may be another one."""
    precision = [] if "--precision" in flags else ["--precision", "bf16"]
    done = call([LLMC, "verify", write_config(folder, content), "--mesh", mesh, "--seq", SEQ, *precision, *flags, "--json"], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr[-2000:]}")
    checks = [c for c in json.loads(done.stdout)["checks"] if c["name"].startswith(("fp64:", "types:", "static:"))]
    failed = [f"{c['name']} {c['value']} > {c['limit']} {c['subject']}" for c in checks if not c["passed"]]
    require(any(c["name"] == "types:states" for c in checks) and not failed, "\n".join(failed))
    return f"{len(checks)} checks"


def contradicted(folder):
    """Choices that IR was not written with are refused, each by name."""
    dump = os.path.join(folder, "dump.mlir")
    compile_model(write_config(folder, MIXTRAL), dump, "--mesh", "dp=2,ep=2", "--seq", SEQ, "--compile-to", "train")
    done = call([LLMC, "compile", dump, "-o", os.path.join(folder, "out"), "--moe-balance", "aux", "--moe-aux-loss", 0.1, "--moe-capacity", 1], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stderr}")
    for words in ["--moe-balance: asks for aux", "--moe-aux-loss: asks for 0.1", "--moe-capacity: asks for 1"]:
        require(words in done.stderr, f"'{words}' is not in: {done.stderr}")


def main():
    suite = Suite("balance")
    aux = ["--moe-balance", "aux", "--moe-aux-loss", ALPHA]
    bias = ["--moe-balance", "bias"]
    suite.run("auxiliary loss of mixtral by numpy", by_numpy, MIXTRAL, "block_sparse_moe.gate.weight", 0, 1e-5, False)
    suite.run("auxiliary loss of deepseek_v3 by numpy", by_numpy, DEEPSEEK, "mlp.gate.weight", 1, 1e-6, True)
    meshes = [("1", "--micro-batch", 2), ("1", "--micro-batch", 8), ("2",), ("dp=2,ep=2",), ("dp=2,cp=2,tp=2,ep=4",), ("1x2x1",),
              ("2x2x1", "--micro-batch", 2), ("1x1x4",), ("cp=2",), ("2x2x2", "--ep", 2, "--zero", 3)]
    suite.run("auxiliary loss of mixtral on meshes", on_meshes, MIXTRAL, aux, meshes)
    suite.run("auxiliary loss of deepseek_v3 on meshes", on_meshes, DEEPSEEK, aux, [("2x1x2", "--ep", 2), ("1x2x1", "--micro-batch", 2), ("cp=2",)])
    meshes = [("1",), ("1", "--micro-batch", 8), ("2", "--micro-batch", 2), ("cp=2",), ("1x1x4",), ("1x1x2", "--sequence-parallel", "off"),
              ("dp=2,ep=2",), ("dp=2,cp=2,tp=2,ep=8", "--recompute", "full"), ("1x2x1", "--virtual-stages", 2),
              ("2x2x2", "--ep", 4, "--zero", 3), ("4x1x1", "--ep", 4, "--moe-budget", 1), ("1x2x1", "--schedule", "zero-bubble"),
              ("2x1x2", "--ep", 2, "--moe-balance", "aux", "--moe-aux-loss", ALPHA), ("2x1x1", "--no-fusion")]
    suite.run("what a capacity drops of mixtral by numpy", dropped, MIXTRAL, "block_sparse_moe.gate.weight", 0, 1e-5, False, 1.25, meshes)
    suite.run("what a capacity drops of deepseek_v3 by numpy", dropped, DEEPSEEK, "mlp.gate.weight", 1, 1e-6, True, 1,
              [("1",), ("dp=2,cp=2,ep=4",), ("2x2x1", "--ep", 2, "--moe-balance", "bias", "--moe-bias-rate", 1e-9)])
    suite.run("evaluated loss with aux", evaluated, MIXTRAL,
              [("1",), ("2x2x2", "--ep", 2, "--zero", 3), ("1x2x1", "--schedule", "zero-bubble"), ("dp=2,ep=2", "--moe-budget", 1)])
    suite.run("biases by numpy, on meshes", biases)
    suite.run("biases while weights learn", trained_bits)
    suite.run("biases are no gradients", out_of_the_norm)
    suite.run("biases are saved", saved)
    suite.run("a skipped step moves no bias", skipped)
    suite.run("what the config asks for", by_config)
    for mesh, *flags in [("dp=2,ep=2",), ("dp=2,cp=2,tp=2,ep=4",), ("1x2x1",), ("1x2x1", "--virtual-stages", 2), ("1x2x1", "--schedule", "zero-bubble"),
                         ("2x1x2", "--recompute", "full"),
                         ("dp=2,ep=2", "--moe-capacity", 1), ("dp=2,ep=2", "--optimizer", "sgd", "--zero", 3), ("dp=2,ep=2", "--twin", "on")]:
        suite.run(f"mixtral with aux on {mesh} {' '.join(map(str, flags))}", proved, MIXTRAL, mesh, *aux, *flags)
    suite.run("qwen2_moe with aux on 2x1x2", proved, QWEN2, "2x1x2", *aux, "--ep", 2)
    for mesh, *flags in [("2x1x2", "--ep", 2), ("2x2x1", "--zero", 3), ("1x2x1", "--schedule", "zero-bubble"), ("dp=2,cp=2,ep=4",),
                         ("2x1x1", "--optimizer", "sgd")]:
        suite.run(f"deepseek_v3 with bias on {mesh} {' '.join(map(str, flags))}", proved, DEEPSEEK, mesh, *bias, *flags)
    suite.run("types of mixtral with aux in bf16", low_types, MIXTRAL, "2x1x1", *aux)
    suite.run("types of mixtral with aux in fp16 on 1x2x1", low_types, MIXTRAL, "1x2x1", *aux, "--precision", "fp16")
    suite.run("types of deepseek_v3 with bias in bf16", low_types, DEEPSEEK, "2x1x1", *bias, "--grad-dtype", "bf16", "--reduce-dtype", "bf16")
    for phase in ["raise", "train", "partition"]:
        suite.run(f"a dump after {phase} with aux", resumed, phase, MIXTRAL, *aux)
        suite.run(f"a dump after {phase} with bias", resumed, phase, DEEPSEEK, *bias)
    suite.run("IR written without a balance", contradicted)
    suite.run("balance without experts", refused, LLAMA, ["--moe-balance aux", "none is found"], "2", "--moe-balance", "aux")
    suite.run("bias without a correction bias", refused, MIXTRAL, ["--moe-balance bias", "e_score_correction_bias", "--moe-balance aux"], "2", *bias)
    suite.run("a factor without aux", refused, MIXTRAL, ["--moe-aux-loss", "--moe-balance aux"], "2", "--moe-aux-loss", 0.1)
    suite.run("a factor with bias", refused, DEEPSEEK, ["--moe-aux-loss", "--moe-balance aux"], "2", *bias, "--moe-aux-loss", 0.1)
    suite.run("a rate without bias", refused, DEEPSEEK, ["--moe-bias-rate", "--moe-balance bias"], "2", "--moe-bias-rate", 0.1)
    suite.run("a factor below 0", refused, MIXTRAL, ["--moe-aux-loss"], "2", "--moe-balance", "aux", "--moe-aux-loss", -1)
    suite.run("a rate below 0", refused, DEEPSEEK, ["--moe-bias-rate"], "2", *bias, "--moe-bias-rate", -1)
    suite.run("a config whose factor is 0", refused, {**MIXTRAL, "router_aux_loss_coef": 0}, ["give --moe-aux-loss"], "2", "--moe-balance", "aux")
    suite.run("a factor that is no number", refused, {**MIXTRAL, "router_aux_loss_coef": -2}, ["router_aux_loss_coef"], "2")
    suite.run("balance of an inference", refused, MIXTRAL, ["--moe-balance", "--infer"], "1", "--infer", "--moe-balance", "aux")
    suite.finish()


if __name__ == "__main__":
    main()
