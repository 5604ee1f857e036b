"""Every small fault of a plan is found by a check, or shown to change nothing.

A model of four layers on two meshes. An ordinary run takes a sample of the faults of
each kind, `--full` all of them.
"""
import json
import os

from harness import DATA, LLMC, Suite, below, call, require
from small import write_small

CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 32,
          "n_head": 4, "n_positions": 16, "vocab_size": 64, "activation_function": "gelu_new",
          "layer_norm_epsilon": 1e-5, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
          "tie_word_embeddings": True}
# Per mesh: rows of a step, four micro-batches of one row on each data-parallel rank.
MESHES = {"2x2x2": 8, "1x4x2": 4, "1x2x2": 4}
SAMPLE = 150
# Kinds that a check must see at work; even the sample has all of their faults.
CRITICAL = ["drop", "group", "wait", "peer", "overlap", "launch", "product", "fill", "move"]
suite = Suite("mutation")


def mutants_of(folder, mesh, *flags):
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(CONFIG, f)
    done = call([LLMC, "verify", path, "--mesh", mesh, "--seq", "8", "--global-batch",
                 MESHES[mesh], "--json", *flags], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr}")
    report = json.loads(done.stdout)
    return done.returncode, report["passed"], report["mutants"]


def check_sum(mutants):
    killed = sum(mutants["killed_by"].values())
    require(killed == mutants["killed"], f"{killed} killed by somebody, {mutants['killed']} in all")
    rest = mutants["total"] - mutants["killed"] - mutants["equivalent"]
    require(rest == len(mutants["survivors"]), "killed, equivalent and survivors are not all")


def check_inference(folder):
    """Of a run that goes on from past tokens: nothing is summed over micro-batches."""
    model = os.path.join(DATA, "models", "llama", "optimum-18-past", "model.onnx")
    done = call([LLMC, "verify", model, "--infer", "--mesh", "2x2x2", "--dim",
                 "batch_size=2,sequence_length=3,past_sequence_length=2", "--mutants",
                 10**6 if suite.full else SAMPLE, "--json"], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr}")
    mutants = json.loads(done.stdout)["mutants"]
    check_sum(mutants)
    require(not mutants["survivors"], "survivors: " + json.dumps(mutants["survivors"], indent=1))
    require(done.returncode == 0, "no survivor, but not passed")
    for kind in ("drop", "group", "wait", "peer"):
        require(sum(mutants["faults"][kind]["killed_by"].values()) > 0, f"no fault '{kind}' was killed")
    return f"{mutants['killed']} of {mutants['total']} found, {mutants['equivalent']} change nothing"


def check_mesh(folder, mesh):
    flags = ["--mutate"] if suite.full else ["--mutants", SAMPLE]
    # Numbers alone miss a second gather of what is still there: one of the meshes has such gathers.
    flags += ["--sequence-parallel", "off"] if mesh == "1x4x2" else []
    code, passed, mutants = mutants_of(folder, mesh, *flags)
    check_sum(mutants)
    require(not mutants["survivors"], "survivors: " + json.dumps(mutants["survivors"], indent=1))
    require(code == 0 and passed, "no survivor, but not passed")
    if suite.full:
        require(mutants["total"] == mutants["listed"], "not all mutants were looked at")
    faults = mutants["faults"]
    always = {"drop", "group", "kind", "wait", "scale", "peer", "exchange", "overlap", "invert",
              "launch", "product", "fill", "move", "operands"}
    # Those of shared-out states, of groups, of what stands behind a receive and of several chunks.
    require(always <= set(faults) <= always | {"flat", "torn", "late", "pool"}, f"faults are {sorted(faults)}")
    for kind in CRITICAL:
        require(faults[kind]["total"] > 0, f"no fault '{kind}'")
        require(sum(faults[kind]["killed_by"].values()) > 0, f"no fault '{kind}' was killed")
    other = sum(f["equivalent"] for kind, f in faults.items() if kind not in ("wait", "invert", "torn"))
    below(other / mutants["total"], 0.02, "share of equivalents other than waits, inversions and groups")
    alone = mutants["numbers_only"]
    total, killed = (sum(f[key] for f in alone.values()) for key in ("total", "killed"))
    require(set(alone) == {"drop", "group", "scale"}, f"numbers alone look at {sorted(alone)}")
    require(killed >= 0.8 * total, f"numbers alone kill {killed} of {total}")
    return (f"{mutants['killed']} of {mutants['total']} killed, {mutants['equivalent']} equivalent, "
            f"by numbers alone {killed} of {total}; {mutants['killed_by']}")


def check_without(folder, checker):
    """With a checker off, what it alone had found survives or is found by others: never is it
    called equivalent. Both runs look at the same faults."""
    flags = ["--mutants", 60 if suite.full else 12]
    _, _, on = mutants_of(folder, "1x2x2", *flags)
    code, _, off = mutants_of(folder, "1x2x2", *flags, "--without", checker)
    check_sum(off)
    require(checker not in off["killed_by"], f"{checker} found something though it was off")
    require(on["total"] == off["total"], "not the same faults")
    require((code == 3) == bool(off["survivors"]), f"exit {code}, {len(off['survivors'])} survive")
    lost = on["killed_by"].get(checker, 0)
    # What these find, a checker that looks before them finds in such plans, too.
    require(lost > 0 or checker in ("conservation", "memory"), f"{checker} finds nothing even when it is on")
    for kind, fault in on["faults"].items():
        require(fault["equivalent"] == off["faults"][kind]["equivalent"],
                f"without {checker}: {fault['equivalent']} of kind '{kind}' were equivalent, now "
                f"{off['faults'][kind]['equivalent']}")
    return (f"of its {lost}, {len(off['survivors']) - len(on['survivors'])} survive, others find "
            f"{off['killed'] - on['killed'] + lost}")


def check_refusals(folder):
    for flags, code, word in ((["x.mlir"], 1, "dump"), (["x", "--after", "train"], 2, "--after"),
                              (["--draws", "2"], 2, "--draws")):
        done = call([LLMC, "verify", *flags, "--mutate"], check=False)
        require(done.returncode == code and word in done.stderr,
                f"{flags}: exit {done.returncode}: {done.stderr}")


def check_mixture(folder):
    """Of a mixture whose ranks lack room for rows: what is lost is counted."""
    model = write_small(folder, "mixtral")
    done = call([LLMC, "verify", model, "--mesh", "4x1x1", "--ep", 4, "--moe-budget", 1, "--seq", 8, "--mutants",
                 10**6 if suite.full else 30, "--json"], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr}")
    mutants = json.loads(done.stdout)["mutants"]
    check_sum(mutants)
    require(not mutants["survivors"], "survivors: " + json.dumps(mutants["survivors"], indent=1))
    require(done.returncode == 0, "no survivor, but not passed")
    return f"{mutants['killed']} of {mutants['total']} found, {mutants['equivalent']} change nothing"


for mesh in ("2x2x2", "1x4x2"):
    suite.run(f"faults on {mesh}", check_mesh, mesh)
suite.run("faults of an inference", check_inference)
suite.run("faults of a mixture without room", check_mixture)
for checker in ("bounds", "collectives", "launch-order", "happens-before", "tensors", "updates", "conservation"):
    suite.run(f"without {checker}", check_without, checker)
suite.run("refusals", check_refusals)
suite.finish()
