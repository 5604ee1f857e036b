"""Fifty steps on real text beside PyTorch: same weights, same rows, same rule."""
import json
import os

from harness import DATA, Failure, Suite, compile_model, require, train


def check(folder, curve, mesh):
    own = os.path.join(DATA, "gpt2")
    program = os.path.join(folder, "program")
    compile_model(os.path.join(own, "config.json"), program, "--mesh", mesh,
                  "--global-batch", curve["global_batch"], "--seq", curve["sequence"],
                  "--optimizer", curve["optimizer"])
    dump = train(program, folder, "--data", os.path.join(own, curve["data"]), "--no-shuffle",
                 "--steps", len(curve["loss"]), "--lr", curve["lr"])
    early = late = 0.0
    for step, (got, expected) in enumerate(zip(dump["loss"], curve["loss"])):
        error = abs(got - expected) / expected
        if step < 10:
            early = max(early, error)
        late = error
    require(len(dump["loss"]) == len(curve["loss"]), "the number of steps differs")
    require(early <= 1e-5, f"steps 1-10 differ by {early:.2e}, limit 1e-5")
    require(late <= 1e-3, f"step {len(curve['loss'])} differs by {late:.2e}, limit 1e-3")
    return f"steps 1-10 {early:.1e}, last {late:.1e}, loss {dump['loss'][0]:.3f} -> {dump['loss'][-1]:.3f}"


suite = Suite("trainer")
with open(os.path.join(DATA, "gpt2", "curves.json")) as f:
    curves = json.load(f)
if not curves:
    raise Failure("no curves")
for curve in curves:
    suite.run(f"{curve['optimizer']} lr {curve['lr']}", check, curve, "1")
suite.run("adamw on 2x2x2", check, curves[0], "2x2x2")
suite.finish()
