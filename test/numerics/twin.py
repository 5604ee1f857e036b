"""Where a model does not fit, `llmc verify` runs its shrunk twin and says so."""
import json
import os
import time

from harness import DATA, LLMC, Suite, call, require

LARGE = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 48, "n_embd": 2048,
         "n_head": 32, "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new",
         "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "tie_word_embeddings": True}


def verify(model, *flags, timeout=600):
    done = call([LLMC, "verify", model, "--json", *flags], timeout=timeout, check=False)
    require(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def check_report(report, ranks, own):
    require(report["passed"], "all checks hold")
    require(report["ranks"] == ranks, f"ranks {report['ranks']}")
    twin = report["twin"]
    require(twin and twin["ranks"] == own and twin["isomorphic"], f"twin {twin}")
    names = [check["name"] for check in report["checks"]]
    for name in ("static:twin-isomorphic", "fp64:partition:gradients", "kernels:gradients"):
        require(name in names, f"{name} in {names}")
    return f"{twin['instructions']} instructions, {twin['reads']} reads compared"


def small(folder, model, mesh, rows, ranks, own):
    report = verify(os.path.join(DATA, model), "--mesh", mesh, "--global-batch", rows, "--twin", "on")
    return check_report(report, ranks, own)


def automatic(folder, fits):
    """A model that fits is run itself."""
    report = verify(os.path.join(DATA, "gpt2-tiny"), "--mesh", "2", "--global-batch", "4")
    require(report["twin"] is False, f"twin {report['twin']}")


def no_mutation(folder, flags):
    done = call([LLMC, "verify", os.path.join(DATA, "gpt2-tiny"), "--mesh", "2", "--global-batch", "4",
                 "--twin", "on", *flags], check=False)
    require(done.returncode == 1 and "error" in done.stderr, f"exit {done.returncode}: {done.stderr}")


def large(folder, layers, mesh, rows, ranks, own, limit):
    model = os.path.join(folder, "config.json")
    with open(model, "w") as f:
        json.dump({**LARGE, "n_layer": layers}, f)
    start = time.time()
    note = check_report(verify(model, "--mesh", mesh, "--global-batch", rows), ranks, own)
    seconds = time.time() - start
    require(seconds <= limit, f"{seconds:.0f} s, limit {limit}")
    return f"{seconds:.0f} s, {note}"


suite = Suite("twin")
suite.run("gpt2, mesh 2x2x2", small, "gpt2", "2x2x2", 8, 8, 8)
suite.run("gpt2 from ONNX, mesh 4x1x2", small, "gpt2/dynamo.onnx", "4x1x2", 8, 8, 4)
suite.run("gpt2, mesh 1x3x1", small, "gpt2", "1x3x1", 6, 3, 3)
suite.run("a model that fits", automatic, True)
suite.run("mutants of a twin are refused", no_mutation, ["--mutants", "1"])
suite.run("large model, 2 layers, mesh 4x2x8", large, 2, "4x2x8", 16, 64, 32, 90)
if suite.full:
    suite.run("2.5 B parameters, mesh 8x16x8", large, 48, "8x16x8", 128, 1024, 256, 180)
suite.finish()
