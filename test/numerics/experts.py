"""Mixtures of experts: the same training on every mesh, counted exchanges, limits, refusals.

Plans are verified (`llmc verify`): N ranks in double precision give the loss, gradients and updated weights of one
rank, and so do the kernels. What is exchanged is counted in the plan and while running. A router's weights are drawn
ten times as large as the others, so that no choice is near a tie.
"""
import collections
import json
import os
import re

import numpy as np

from harness import LLMC, Suite, call, compile_model, inspect, require, train, write_safetensors

SEQ, EXPERTS, CHOICES, LAYERS, WIDTH = 16, 8, 2, 3, 32
MIXTRAL = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 96, "hidden_size": WIDTH,
    "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_local_experts": EXPERTS, "num_experts_per_tok": CHOICES, "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
QWEN2 = {
    "model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "vocab_size": 96, "hidden_size": WIDTH,
    "intermediate_size": 48, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24, "num_hidden_layers": LAYERS,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": EXPERTS, "num_experts_per_tok": CHOICES,
    "max_position_embeddings": 64, "initializer_range": 0.2,
}
DEEPSEEK = {
    "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 96, "hidden_size": WIDTH,
    "intermediate_size": 48, "moe_intermediate_size": 16, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 8, "n_routed_experts": EXPERTS, "n_shared_experts": 1, "num_experts_per_tok": CHOICES, "n_group": 4,
    "topk_group": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True,
    "max_position_embeddings": 64, "initializer_range": 0.2,
}


def write_config(folder, content, **changes):
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump({**content, **changes}, f)
    return path


def write_tokens(folder, count=4096):
    path = os.path.join(folder, "tokens.bin")
    np.random.default_rng(3).integers(0, MIXTRAL["vocab_size"], count).astype("<u2").tofile(path)
    return path


def proved(folder, content, mesh, *flags):
    done = call([LLMC, "verify", write_config(folder, content), "--mesh", mesh, "--seq", SEQ, *flags, "--json"], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    failed = [f"{c['name']} {c['value']} > {c['limit']} {c['subject']}" for c in report["checks"] if not c["passed"]]
    require(done.returncode == 0 and not failed, "\n".join(failed))
    worst = max(c["value"] for c in report["checks"] if c["name"].startswith("fp64:"))
    return f"{len(report['checks'])} checks, largest fp64 error {worst:.1e}"


def exchanges(plan, phase=None):
    """(stage, phase) -> calls of a micro-batch that move rows between the ranks of ep, by their bytes."""
    found = collections.Counter()
    for c in plan["collectives"]:
        if c["kind"] == "all_to_all" and c["phase"] == (phase or c["phase"]):
            found[c["stage"], c["phase"], c["bytes"]] += c["per_step"] / plan["micro_batches"]
    return found


def counted(folder, mesh, ranks, *flags):
    """Forward and backward each send rows twice a layer; forward sends numbers of experts and counts ahead."""
    program = os.path.join(folder, "program")
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", mesh, "--seq", SEQ, *flags)
    plan = inspect(program)
    experts = MIXTRAL["num_local_experts"]
    said = {"experts": experts, "local_experts": experts // ranks, "budget": min(2, ranks), "budget_most": ranks, "capacity": 0}
    require(plan["experts"] == said, f"inspect says {plan['experts']}, expected {said}")
    stages = {s["stage"]: s["last_layer"] - s["first_layer"] + 1 for s in plan["stages"]}
    tokens = SEQ // (plan["mesh"]["cp"] * plan["mesh"]["tp"] if "tp" in mesh or plan["mesh"]["tp"] > 1 else plan["mesh"]["cp"])
    for stage, layers in stages.items():
        by_phase = collections.defaultdict(collections.Counter)
        for (s, phase, size), calls in exchanges(plan).items():
            if s == stage:
                by_phase[phase][size] += calls
        sizes = {"forward": 2, "backward": 2}
        for phase, rows in sizes.items():
            moved = sum(n for size, n in by_phase[phase].items() if size >= tokens * CHOICES * WIDTH * 4)
            require(moved == rows * layers, f"stage {stage}: {phase} moves rows {moved} times, expected {rows * layers}: {dict(by_phase[phase])}")
        small = sorted((size, n) for size, n in by_phase["forward"].items() if size < tokens * CHOICES * WIDTH * 4)
        require(small == [(8 * ranks, layers), (8 * tokens * CHOICES, layers)], f"stage {stage}: counts and numbers {small}")
        require(len([s for s in by_phase["backward"] if s < tokens * CHOICES * WIDTH * 4]) == 0, f"backward sends counts: {dict(by_phase['backward'])}")


def last_backward(folder, *flags):
    """The last backward, which starts the sums of gradients, has its instructions in the order of the others."""
    dump = os.path.join(folder, "plan.mlir")
    compile_model(write_config(folder, MIXTRAL), dump, "--mesh", "dp=4,ep=2", "--seq", SEQ, *flags, "--compile-to", "schedule")
    orders = {}
    with open(dump) as f:
        for line in f:
            if started := re.match(r" *plan.procedure @(\w+)", line):
                order = orders[started[1]] = []
            elif re.match(r" *plan.(matmul|grouped_matmul|launch|collective) ", line) and "stream = 2" not in line:
                order.append(re.sub(r"%\d+", "%", re.split(r" attributes | \{", line.strip())[0]))
    backward, last = orders["backward"], orders["backward_last"]
    require(sum("exchange_rows" in line for line in backward) >= 4, f"{len(backward)} instructions exchange no rows")
    moved = [line for line in last if "all_reduce" not in line]
    require(moved == [line for line in backward if "all_reduce" not in line], "the last backward has another order than the others")
    return f"{len(last)} instructions"


def groups_of_experts(folder):
    """No collective of an expert's gradient or state leaves the ranks that hold the same experts."""
    program = os.path.join(folder, "program")
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", "dp=4,ep=2", "--seq", SEQ)
    plan = inspect(program)
    axes = {tuple(c["axes"]) for c in plan["collectives"] if c["phase"] != "forward" and "experts" in json.dumps(c["origin"]) and c["bytes"] > 4 and c["kind"] in ("all_reduce", "reduce_scatter", "all_gather")}
    require(axes == {("edp",)}, f"sums and gathers of experts run over {axes}")


def trained(folder, content, mesh, *flags, seed=0, steps=1, check=True):
    program = os.path.join(folder, "p" + "".join(ch if ch.isalnum() else "_" for ch in mesh + "_".join(map(str, flags))))
    compile_model(write_config(folder, content), program, "--mesh", mesh, "--seq", SEQ, "--global-batch", 8, *flags)
    return train(program, folder, "--data", write_tokens(folder), "--steps", steps, "--seed", seed, check=check), program


def capacity(folder):
    """The same rows are left out on every mesh, and other losses come of it than without a limit."""
    base, _ = trained(folder, MIXTRAL, "dp=1", "--moe-capacity", 1)
    free, _ = trained(folder, MIXTRAL, "dp=1")
    require(abs(base["loss"][0] - free["loss"][0]) > 1e-3, "a capacity of 1 changes nothing")
    worst = 0.0
    for mesh in ["dp=2,ep=2", "dp=8,ep=8", "dp=2", "cp=2", "cp=2,ep=2", "tp=2,ep=2", "dp=2,cp=2,tp=2,ep=8"]:
        other, _ = trained(folder, MIXTRAL, mesh, "--moe-capacity", 1)
        error = abs(other["loss"][0] - base["loss"][0]) / base["loss"][0]
        require(error < 1e-6, f"{mesh}: loss {other['loss'][0]}, one rank {base['loss'][0]}")
        for name in base:
            if name.startswith("grad:"):
                size = max(np.linalg.norm(base[name]), 1e-3)
                worst = max(worst, float(np.linalg.norm(other[name] - base[name]) / size))
    require(worst < 2e-5, f"gradients differ by {worst}")
    return f"gradients within {worst:.1e}"


def one_expert(folder, mesh, chosen):
    """Weights with which every token takes the experts `chosen` first: a router of one direction of the embedding."""
    initial, program = trained(folder, MIXTRAL, mesh, steps=0)
    weights = {n[len("param:"):]: v.copy() for n, v in initial.items() if n.startswith("param:")}
    for name, value in weights.items():
        if name.endswith("block_sparse_moe.gate.weight"):
            value[...] = 0
            value[chosen, 0] = 100.0
        if name == "model.embed_tokens.weight":
            value[:, 0] = 5.0
        if name.endswith(("o_proj.weight", "w2.weight")):
            value[0, :] = 0
        if name.endswith("layernorm.weight") or name == "model.norm.weight":
            value[...] = 1
    path = os.path.join(folder, "hostile.safetensors")
    write_safetensors(path, weights)
    return path


def hostile(folder, chosen):
    """All tokens to some experts: the same loss and gradients as one rank, whichever rank has them."""
    weights = one_expert(folder, "dp=1", chosen)
    runs = {}
    for mesh in ["dp=1", "dp=2,ep=2", "dp=4,ep=4", "tp=2,ep=2"]:
        program = os.path.join(folder, "program")
        compile_model(write_config(folder, MIXTRAL), program, "--mesh", mesh, "--seq", SEQ, "--global-batch", 8)
        runs[mesh] = train(program, folder, "--data", write_tokens(folder), "--steps", 2, "--weights", weights)
    base = runs["dp=1"]
    for mesh, run in runs.items():
        require(np.allclose(run["loss"], base["loss"], rtol=1e-6), f"{mesh}: losses {run['loss']}, one rank {base['loss']}")
        for name in base:
            if name.startswith("grad:"):
                size = max(float(np.linalg.norm(base[name])), 1e-3)
                error = float(np.linalg.norm(run[name] - base[name])) / size
                require(error < 2e-5, f"{mesh}: {name} differs by {error}")
    idle = [n for n in base if "experts.5." in n and n.startswith("grad:") and np.any(base[n])]
    require(5 in chosen or not idle, f"experts that no token takes have gradients: {idle}")


def retried(folder, content, steps, mesh, *flags):
    """A step without room is taken back and run again: all is as with room from the start, bit for bit."""
    model, data, runs = write_config(folder, content), write_tokens(folder), {}
    weights = ["--weights", one_expert(folder, "dp=1", [6, 7])] if content is MIXTRAL and "bf16" not in flags else []
    for budget in (1, 8):
        program = os.path.join(folder, f"program{budget}")
        compile_model(model, program, "--mesh", mesh, "--seq", SEQ, "--moe-budget", budget, *flags)
        metrics, dump, counts = (os.path.join(folder, f"{name}{budget}") for name in ("metrics", "dump", "counts"))
        call([program, "--data", data, "--steps", steps, "--lr", "1e-2", "--metrics", metrics, "--dump", dump,
              "--eval-data", data, "--eval-batches", 2, "--count-collectives", counts, "--isolate-arenas", *weights])
        with open(metrics) as lines:
            lines = [json.loads(line) for line in lines]
        with open(dump, "rb") as file:
            runs[budget] = [line.get("moe_overflow") for line in lines], [(line["loss"], line["grad_norm"], line.get("eval_loss")) for line in lines], file.read(), inspect(program)
    require(runs[1][0] == [1] * steps and runs[8][0] == [None] * steps, f"metrics say {runs[1][0]} and {runs[8][0]}")
    require(runs[1][1] == runs[8][1], f"losses are {runs[1][1]}, with room {runs[8][1]}")
    require(runs[1][2] == runs[8][2], "gradients or weights differ from those with room")
    retry, experts = runs[1][3]["retry"], runs[1][3]["experts"]
    arenas = [max(s["arena_bytes"] for s in runs[budget][3]["stages"]) for budget in (1, 8)]
    require(retry["budget"] == experts["budget_most"] > experts["budget"] == 1, f"inspect says {retry} and {experts}")
    require(retry["arena_bytes"] >= arenas[1] > arenas[0], f"arenas are {arenas}, that for retries {retry}")
    require(runs[8][3]["retry"] is None, f"room for all needs no retry: {runs[8][3]['retry']}")


def has_room(folder, experts, choices, ep, budget):
    """Slots are whole: a budget below the most may hold all rows, and then nothing is counted or run again."""
    program, model = os.path.join(folder, "program"), write_config(folder, MIXTRAL, num_local_experts=experts, num_experts_per_tok=choices, num_hidden_layers=1)
    compile_model(model, program, "--mesh", f"dp={ep},ep={ep}", "--seq", SEQ, "--moe-budget", budget)
    plan = inspect(program)
    most = ep * min(choices, experts // ep) / choices
    require(budget < most, "the test needs a budget below the most")
    require(plan["retry"] is None, f"inspect says {plan['retry']}")
    require(plan["experts"]["budget"] == plan["experts"]["budget_most"] == most, f"inspect says {plan['experts']}")
    metrics = os.path.join(folder, "metrics")
    call([program, "--data", write_tokens(folder), "--steps", 1, "--metrics", metrics])
    with open(metrics) as lines:
        require("moe_overflow" not in json.loads(lines.readline()), "metrics count steps without room")


def sometimes_retried(folder):
    """Steps with and without room take turns, in one run."""
    model, data, losses = write_config(folder, MIXTRAL), write_tokens(folder), {}
    for budget in (2, 4):
        program, metrics = os.path.join(folder, f"program{budget}"), os.path.join(folder, f"metrics{budget}")
        compile_model(model, program, "--mesh", "dp=2,tp=2,ep=4", "--seq", SEQ, "--micro-batch", 2, "--moe-budget", budget)
        call([program, "--data", data, "--steps", 24, "--metrics", metrics, "--count-collectives", os.path.join(folder, f"counts{budget}")])
        with open(metrics) as lines:
            lines = [json.loads(line) for line in lines]
        losses[budget] = [(line["loss"], line["grad_norm"]) for line in lines]
        if budget == 2:
            taken = [line["moe_overflow"] for line in lines]
    require(0 < sum(taken) < len(taken), f"of {len(taken)} steps {sum(taken)} ran again: the test needs both kinds")
    require(losses[2] == losses[4], f"losses are {losses[2]}, with room {losses[4]}")
    return f"{sum(taken)} of {len(taken)} steps ran again"


def loads(folder):
    """Metrics tell the largest load by the average: of all tokens to two of 8 experts it is 4, on every mesh."""
    model, data, weights = write_config(folder, MIXTRAL), write_tokens(folder), one_expert(folder, "dp=1", [1, 6])
    for mesh in ["dp=1", "dp=2,tp=2,ep=4", "dp=2,pp=2,tp=2,ep=2,etp=2"]:
        program, found = os.path.join(folder, "program"), []
        compile_model(model, program, "--mesh", mesh, "--seq", SEQ)
        for name, flags in [("chosen", ["--weights", weights]), ("own", [])]:
            metrics = os.path.join(folder, mesh.replace(",", "-") + name)
            call([program, "--data", data, "--steps", 1, "--metrics", metrics, *flags])
            with open(metrics) as lines:
                found.append(json.loads(lines.readline())["moe_load_max"])
        require(found[0] == 4 and 1 <= found[1] < 4, f"{mesh}: largest loads are {found}")


def overflow(folder):
    """Without a plan for retries the run ends before the weights change, and names the budget that has room for all."""
    weights = one_expert(folder, "dp=1", [6])
    program, saved, dump = (os.path.join(folder, name) for name in ("program", "saved", "dump.mlir"))
    compile_model(write_config(folder, MIXTRAL), dump, "--mesh", "dp=4,ep=4", "--seq", SEQ, "--moe-budget", 1, "--compile-to", "train")
    done = call([LLMC, "compile", dump, "-o", program])
    require("no plan for retries" in done.stderr, f"compiling such IR says {done.stderr}")
    plan = inspect(program)
    require([plan["experts"][key] for key in ("budget", "budget_most")] == [1, 4], f"inspect says {plan['experts']}")
    require(plan["retry"] is None, f"inspect says {plan['retry']}")
    data = write_tokens(folder)
    done = call([program, "--data", data, "--steps", 3, "--weights", weights, "--save", saved, "--metrics", os.path.join(folder, "m")], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stdout}")
    for words in ["step 1", "found no room", "--moe-budget", "4 has room for all", "the weights stay as they were"]:
        require(words in done.stderr, f"'{words}' is not in: {done.stderr}")
    require(not os.path.exists(os.path.join(saved, "model.safetensors")), "what no step has changed is not saved")
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", "dp=4,ep=4", "--seq", SEQ, "--moe-budget", 4)
    call([program, "--data", data, "--steps", 3, "--weights", weights])
    require(max(s["arena_bytes"] for s in plan["stages"]) < max(s["arena_bytes"] for s in inspect(program)["stages"]), "a smaller budget takes less memory")


def resumed(folder, phase, content=MIXTRAL, *choices):
    """What was written after a phase compiles on, to the program that one compilation gives."""
    dump, parts, whole = (os.path.join(folder, name) for name in ("dump.mlir", "parts", "whole"))
    flags = ["--mesh", "dp=2,tp=2,ep=4", "--seq", SEQ, "--moe-budget", 4 if phase != "raise" else 1, *choices]
    compile_model(write_config(folder, content), dump, *flags, "--compile-to", phase)
    call([LLMC, "compile", dump, "-o", parts])
    compile_model(write_config(folder, content), whole, *flags)
    # Leaves out the flags that a compilation of a model records, which one of IR has not.
    nothing, edit = os.path.join(folder, "nothing"), os.path.join(os.path.dirname(LLMC), "llmc-plan-edit")
    open(nothing, "w").close()
    for program in (parts, whole):
        call([edit, program, program + ".bare", "request", nothing])
    with open(parts + ".bare", "rb") as a, open(whole + ".bare", "rb") as b:
        require(a.read() == b.read(), "the programs differ")


def unlike_oracle(folder, content, words, *flags):
    """Trainings that other software does not do are not compared with it: nothing runs."""
    done = call([LLMC, "verify", write_config(folder, content), "--seq", SEQ, "--oracle", "/bin/false", *flags], check=False)
    require(done.returncode == 1 and not done.stdout, f"exit {done.returncode}: {done.stdout}")
    for word in ["--oracle compares with transformers", *words]:
        require(word in done.stderr, f"'{word}' is not in: {done.stderr}")


def interleaved(folder):
    """An interleaving runs one plan: its message says so, and which budget needs no other."""
    program = os.path.join(folder, "program")
    weights = one_expert(folder, "dp=1", [6, 7])
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", "dp=2,ep=2", "--seq", SEQ, "--moe-budget", 1)
    done = call([program, "--data", write_tokens(folder), "--steps", 1, "--weights", weights, "--interleaving", 3], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stdout}")
    for words in ["found no room", "2 has room for all", "--interleaving runs one plan", "nothing was written"]:
        require(words in done.stderr, f"'{words}' is not in: {done.stderr}")
    require("stay as they were" not in done.stderr, f"an interleaving asks after the weights have changed: {done.stderr}")


def refused(folder, content, words, mesh, *flags):
    done = compile_model(write_config(folder, content), os.path.join(folder, "p"), "--mesh", mesh, "--seq", SEQ, *flags, check=False)
    require(done.returncode in (1, 2) and done.stderr, f"exit {done.returncode}: {done.stderr}")
    for word in words:
        require(word in done.stderr, f"'{word}' is not in: {done.stderr}")
    require(not re.search(r"\b[A-Z][0-9]+: ", done.stderr), f"a user does not know the rules of passes by number: {done.stderr}")


def main():
    suite = Suite("experts")
    meshes = [("dp=2,ep=2",), ("dp=2,tp=2,ep=4",), ("dp=2,tp=2,ep=2,etp=2",), ("dp=2,cp=2,tp=2,ep=8",), ("2x2x2", "--ep", 2),
              ("2x2x2", "--ep", 4, "--zero", 3), ("4x1x1", "--ep", 2, "--zero", 0), ("4x1x1", "--ep", 2, "--zero", 1),
              ("4x1x1", "--ep", 2, "--zero", 3), ("1x1x2",), ("1x2x1", "--virtual-stages", 2)]
    for mesh, *flags in meshes:
        suite.run(f"mixtral on {mesh} {' '.join(map(str, flags))}", proved, MIXTRAL, mesh, *flags)
    for mesh, *flags in [("dp=2,ep=2", "--no-fusion"), ("dp=2,tp=2,ep=2,etp=2", "--no-fusion"), ("dp=2,ep=2", "--twin", "on"),
                         ("2x1x2", "--ep", 2, "--dropout", 0.1), ("2x1x2", "--ep", 2, "--recompute", "full"),
                         ("2x2x1", "--ep", 2, "--virtual-stages", 2, "--recompute", "selective"),
                         ("4x1x1", "--ep", 4, "--moe-capacity", 1.25), ("4x1x1", "--ep", 4, "--moe-budget", 1), ("1x2x1", "--schedule", "zero-bubble")]:
        suite.run(f"mixtral on {mesh} {' '.join(map(str, flags))}", proved, MIXTRAL, mesh, *flags)
    for mesh, *flags in [("2x1x2", "--ep", 2), ("dp=2,ep=2", "--zero", 2), ("2x2x1", "--ep", 2)]:
        suite.run(f"qwen2_moe on {mesh} {' '.join(map(str, flags))}", proved, QWEN2, mesh, *flags)
    for mesh, *flags in [("1x1x2",), ("2x1x2", "--ep", 4), ("2x2x1", "--ep", 2), ("dp=2,cp=2,ep=4",)]:
        suite.run(f"deepseek_v3 on {mesh} {' '.join(map(str, flags))}", proved, DEEPSEEK, mesh, *flags)
    suite.run("exchanges of dp=2,ep=2", counted, "dp=2,ep=2", 2)
    suite.run("order of the last backward", last_backward)
    suite.run("order of the last backward of two micro-batches", last_backward, "--global-batch", 16)
    suite.run("exchanges of dp=2,tp=2,ep=4", counted, "dp=2,tp=2,ep=4", 4)
    suite.run("exchanges of 2x2x2,ep=2", counted, "dp=2,pp=2,tp=2,ep=2", 2)
    suite.run("groups of experts", groups_of_experts)
    suite.run("capacity on every mesh", capacity)
    suite.run("all tokens to two experts of one rank", hostile, [6, 7])
    suite.run("all tokens to experts of two ranks", hostile, [1, 6])
    suite.run("no room", overflow)
    suite.run("ep that does not divide experts", refused, MIXTRAL, ["8 experts", "ep = 3", "1 2 4 8"], "dp=3", "--ep", 3)
    suite.run("ep that does not divide ranks", refused, MIXTRAL, ["ep 4", "valid sizes of ep are 1 2"], "dp=2", "--ep", 4)
    suite.run("ep of a model without experts", refused, {"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}, ["no mixture of experts"], "dp=2", "--ep", 2)
    suite.run("ep over ranks with the same tokens", refused, MIXTRAL, ["--sequence-parallel on"], "tp=2", "--ep", 2, "--sequence-parallel", "off")
    suite.run("a budget without other ranks", refused, MIXTRAL, ["--moe-budget", "ep is 1"], "dp=2", "--moe-budget", 2)
    suite.run("a capacity without experts", refused, {"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}, ["--moe-capacity", "none is found"], "dp=2", "--moe-capacity", 1)
    for content, steps, mesh, *flags in [
            (MIXTRAL, 3, "dp=4,ep=4"), (MIXTRAL, 2, "2x2x2", "--ep", 4, "--zero", 3), (MIXTRAL, 2, "dp=2,cp=2,tp=2,ep=8", "--recompute", "full"),
            (MIXTRAL, 2, "2x2x1", "--ep", 2, "--virtual-stages", 2), (DEEPSEEK, 3, "4x1x1", "--ep", 4, "--precision", "bf16", "--zero", 1)]:
        suite.run(f"retries on {mesh} {' '.join(map(str, flags))}", retried, content, steps, mesh, *flags)
    for experts, choices, ep, budget in [(4, 3, 2, 1.1), (6, 2, 2, 1.9), (6, 2, 3, 2.9), (6, 4, 3, 1.4), (6, 5, 2, 1.1), (8, 2, 4, 3.9), (8, 3, 4, 2.57), (4, 1, 4, 3.5)]:
        suite.run(f"room for all {choices} of {experts} experts with ep={ep} and {budget}", has_room, experts, choices, ep, budget)
    suite.run("a budget below the most that has room for all", proved, {**MIXTRAL, "num_local_experts": 4, "num_experts_per_tok": 3}, "dp=2,ep=2", "--moe-budget", 1.1)
    suite.run("loads of experts", loads)
    suite.run("some steps run again", sometimes_retried)
    for phase in ["raise", "train", "shard", "partition", "schedule"]:
        suite.run(f"a dump after {phase}", resumed, phase)
    suite.run("no room in an interleaving", interleaved)
    for content, words, *flags in [(MIXTRAL, ["leave out --moe-capacity"], "--moe-capacity", 1), (MIXTRAL, ["leave out --dropout"], "--dropout", 0.1),
                                   (DEEPSEEK, ["leave out --moe-balance bias"], "--moe-balance", "bias"),
                                   (MIXTRAL, ["auxiliary loss", "--moe-balance none"], "--moe-balance", "aux", "--moe-aux-loss", 0.01),
                                   ({**MIXTRAL, "output_router_logits": True, "router_aux_loss_coef": 0.02}, ["auxiliary loss", "--moe-balance none"])]:
        suite.run(f"an oracle of {content['model_type']} {' '.join(map(str, flags)) or 'with its own auxiliary loss'}", unlike_oracle, content, words, *flags)
    suite.run("a budget below 1", refused, MIXTRAL, ["--moe-budget", "at least 1"], "dp=2", "--ep", 2, "--moe-budget", 0.5)
    suite.finish()


if __name__ == "__main__":
    main()
