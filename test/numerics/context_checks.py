"""Checks that both kinds of context parallelism pass."""
import json
import os

import numpy as np

from harness import (DATA, LLMC, below, call, compile_model, gradient_errors, inputs, loss_error, read_oracle, require,
                     train)

LOSS_LIMIT, GRADIENT_LIMIT = 1e-6, 2e-5
SEQ = 16


def config(model):
    """The path of a model of test/data by its name; a path stays."""
    return model if os.path.isabs(model) else os.path.join(DATA, model, "config.json")


def oracle(folder, model, mesh, *flags):
    data, program = os.path.join(DATA, model), os.path.join(folder, "program")
    tokens = np.load(os.path.join(data, "input_ids.npy"))
    compile_model(config(model), program, "--mesh", mesh, "--global-batch", len(tokens), "--seq", tokens.shape[1], *flags)
    dump = train(program, folder, *inputs(data), "--steps", 1)
    loss, gradients = read_oracle(data)
    got = {name: dump["grad:" + name] for name in gradients}
    worst, name = max((e, n) for n, e in gradient_errors(got, gradients).items())
    return ", ".join([below(loss_error(dump["loss"][0], loss), LOSS_LIMIT, "loss"),
                      below(worst, GRADIENT_LIMIT, f"worst gradient ({name})")])


def build(folder, model, mesh, *flags, name="program", check=True):
    program = os.path.join(folder, name)
    done = compile_model(config(model), program, "--mesh", mesh, "--seq", SEQ, *flags, check=check)
    return program, done


def verified(folder, model, mesh, cp, *flags):
    seq = flags if "--seq" in flags else ("--seq", SEQ, *flags)
    done = call([LLMC, "verify", config(model), "--mesh", mesh, "--cp", cp, "--json", *seq], check=False)
    require(done.returncode == 0, done.stderr[-1000:] + done.stdout[-1500:])
    report = json.loads(done.stdout)
    return f"{report['ranks']} ranks, {len(report['checks'])} checks"


def inference(folder, model, *flags):
    """Outputs come back in the user's order."""
    outputs, ids = [], np.random.default_rng(3).integers(0, 60, (2, SEQ))
    np.save(os.path.join(folder, "ids.npy"), ids)
    for name, choice in (("one", ()), ("many", ("--cp", 4, *flags))):
        program, place = os.path.join(folder, name), os.path.join(folder, name + ".out")
        compile_model(config(model), program, "--infer", "--dim", f"batch=2,sequence={SEQ}", *choice)
        call([program, "--input", "input_ids=" + os.path.join(folder, "ids.npy"), "--output", place])
        outputs.append(np.load(os.path.join(place, "logits.npy")))
    error = float(np.max(np.abs(outputs[0] - outputs[1])) / np.max(np.abs(outputs[0])))
    return below(error, 1e-5, "logits")
