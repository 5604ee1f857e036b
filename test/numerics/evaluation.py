"""--eval-data on real meshes: the weights do not notice, the loss is that of a step."""
import json
import os

import numpy as np

from harness import DATA, Suite, call, compile_model, require

OWN = os.path.join(DATA, "gpt2")
CONFIG, TEXT = os.path.join(OWN, "config.json"), os.path.join(OWN, "text.bin")
SEQ, BATCH = 16, 8


def weights_of(folder, name):
    with open(os.path.join(folder, name, "model.safetensors"), "rb") as f:
        return f.read()


def lines_of(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def evaluated(folder, *flags):
    path = os.path.join(folder, "program")
    compile_model(CONFIG, path, "--seq", SEQ, "--global-batch", BATCH, *flags)
    other = os.path.join(folder, "other.bin")
    np.fromfile(TEXT, "<u2")[: 2 * BATCH * SEQ + 1].tofile(other)
    run = [path, "--data", TEXT, "--steps", 5, "--lr", "1e-2", "--seed", 3]
    call([*run, "--save", os.path.join(folder, "plain")])
    log = os.path.join(folder, "log.jsonl")
    # What watches the run does not see the evaluation.
    counts = os.path.join(folder, "counts.json")
    call([*run, "--save", os.path.join(folder, "with"), "--eval-data", other, "--eval-every", 2,
          "--metrics", log, "--profile", "--trace", os.path.join(folder, "trace.json"),
          "--count-collectives", counts])
    call([*run, "--count-collectives", counts + ".plain"])
    with open(counts) as a, open(counts + ".plain") as b:
        require(json.load(a) == json.load(b), "evaluation is counted")
    require(weights_of(folder, "plain") == weights_of(folder, "with"), "evaluation changed the weights")
    lines = lines_of(log)
    steps = [line["step"] for line in lines if "eval_loss" in line]
    require(steps == [2, 4, 5], f"evaluated after {steps}")
    # A fresh run on those rows that does not learn.
    again = os.path.join(folder, "again.jsonl")
    call([path, "--data", other, "--no-shuffle", "--steps", 2, "--lr", 0,
          "--weights", os.path.join(folder, "with"), "--metrics", again])
    losses = [line["loss"] for line in lines_of(again)]
    require(np.mean(losses) == lines[-1]["eval_loss"],
            f"eval_loss {lines[-1]['eval_loss']}, steps that do not learn have {losses}")
    require(lines[-1]["eval_loss"] < lines[1]["eval_loss"], "nothing was learnt")
    return f"loss {lines[-1]['eval_loss']:.5f}"


def several_files(folder, mesh_flags):
    """Which row stands where does not depend on the mesh."""
    parts = [os.path.join(folder, name) for name in ("a.bin", "b.bin")]
    tokens = np.fromfile(TEXT, "<u2")
    tokens[:2000].tofile(parts[0])
    tokens[2000:].tofile(parts[1])
    losses = []
    for number, flags in enumerate(mesh_flags):
        path, log = (os.path.join(folder, f"{number}{end}") for end in ("", ".jsonl"))
        compile_model(CONFIG, path, "--seq", SEQ, "--global-batch", BATCH, *flags)
        call([path, "--data", f"1:{parts[0]}", "--data", f"3:{parts[1]}", "--steps", 4,
              "--metrics", log])
        losses.append([line["loss"] for line in lines_of(log)])
    worst = np.max(np.abs(np.array(losses) / losses[0] - 1))
    require(worst < 1e-5, f"losses {losses}")
    return f"losses differ by {worst:.1e}"


suite = Suite("evaluation")
for flags in (["--mesh", "1"], ["--mesh", "2x2x2"], ["--mesh", "2x2x2", "--schedule", "gpipe"],
              ["--mesh", "1x1x4"]):
    suite.run(" ".join(flags[1:]), evaluated, *flags)
suite.run("several files", several_files, [["--mesh", "1"], ["--mesh", "2x2x2"]])
suite.finish()
