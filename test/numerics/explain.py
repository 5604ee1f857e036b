"""Every collective and message of a program is explained: by a name that exists, with inspect's figures."""
import json
import math
import os

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require

STEP = {"loss", "token count", "clip"}  # what the step itself computes
ITEM = {"f32": 4, "f64": 8, "i64": 8, "i32": 4, "i1": 1}


def explain(program, *name):
    return json.loads(call([LLMC, "explain", program, *name, "--json"]).stdout)


def build(folder, model, mesh="2x2x2", *flags):
    program = os.path.join(folder, "program")
    compile_model(os.path.join(DATA, model), program, "--mesh", mesh, "--seq", 16, "--global-batch", 16,
                  *flags)
    return program


def same(listed, inspected, keys):
    pick = lambda entries: [[e[k] for k in keys] for e in entries]
    require(pick(listed) == pick(inspected), f"{pick(listed)} explained, {pick(inspected)} inspected")


def check_collective(program, known, entry, source):
    name, answer = entry["name"], explain(program, entry["name"])
    for key in ["kind", "axes", "stage", "phase", "bytes", "per_step"]:
        require(answer[key] == entry[key], f"{name}: {key} is {answer[key]}, inspect says {entry[key]}")
    require(answer["step_bytes"] == entry["bytes"] * entry["per_step"], f"{name}: bytes a step")
    why = answer["why"]
    for node in why["nodes"] or [why["node"]]:
        if node in known["parameters"] or node in STEP:
            continue
        require(source is None or node.encode() in source, f"{name}: {node} is not in the file")
        if node not in known["nodes"]:
            known["nodes"][node] = explain(program, node)
        require(known["nodes"][node]["ops"], f"{name}: no op of the model is {node}")
    require(why["tactic"] and why["rule"] and why["partition"], f"{name}: an empty reason: {why}")
    require(answer["alternatives"], f"{name}: no word on alternatives")
    held = sum(math.prod(t["local_shape"]) * ITEM[t["dtype"]] for t in answer["tensors"])
    if answer["kind"] == "all_reduce" and answer["tensors"]:
        require(held == entry["bytes"], f"{name}: tensors of {held} bytes, moved are {entry['bytes']}")
    text = call([LLMC, "explain", program, name]).stdout
    for word in [name, why["node"], f"{entry['bytes']:,}", why["rule"]]:
        require(word in text, f"{name}: the text does not say '{word}':\n{text}")


def collectives(folder, model, *flags):
    program = build(folder, model, "2x2x2", *flags)
    plan, listed = inspect(program), explain(program)
    same(listed["collectives"], plan["collectives"],
         ["name", "kind", "axes", "stage", "phase", "bytes", "per_step"])
    same(listed["sends"], plan["sends"], ["name", "bytes", "per_step"])
    names = [c["name"] for c in listed["collectives"] + listed["sends"]]
    require(len(set(names)) == len(names), f"names are not unique: {names}")
    source = None
    if model.endswith(".onnx"):
        with open(os.path.join(DATA, model), "rb") as f:
            source = f.read()
    known = {"parameters": set(plan["parameters"]), "nodes": {}}
    for entry in plan["collectives"]:
        check_collective(program, known, entry, source)
    text = call([LLMC, "explain", program]).stdout
    total = sum(c["bytes"] * c["per_step"] for c in plan["collectives"] + plan["sends"])
    require(f"{total:,} bytes a step" in text, f"the list does not add up to {total:,}")
    for send in plan["sends"]:
        answer = explain(program, send["name"])
        held = sum(t["bytes"] for t in answer["tensors"])
        require(held == send["bytes"], f"{send['name']}: tensors of {held} bytes, sent are {send['bytes']}")
        require(all(t["name"] for t in answer["tensors"]), f"{send['name']}: a tensor without a name")
    return f"{len(names)} explained"


def parameters(folder, model, zero):
    """What ranks hold of each parameter is what inspect counts."""
    program = build(folder, model, "2x2x2", "--zero", zero)
    plan, total = inspect(program), 0
    for name in plan["parameters"]:
        answer = explain(program, name)
        require(answer["what"] == "parameter" and answer["states"] and answer["read_by"], f"{name}: {answer}")
        total += sum(s["bytes"] for s in answer["states"])
        cut = any("/tp" in s["layout"] for s in answer["states"])
        require(cut == any(c["axis"] == "tp" for c in answer["cuts"]), f"{name}: {answer['cuts']}, {answer['states']}")
    own = 2 * 4 * len(plan["stages"])  # sums of the loss and of tokens
    # The padding of a bucket of each class and layer, and halves that were rounded up.
    padding = 64 * 4 * len(plan["parameters"]) if zero else 0
    require(-padding <= plan["state_bytes"] - total <= own + padding,
            f"{total} bytes, inspect counts {plan['state_bytes']}")
    for stage, memory in zip(plan["stages"], plan["memory"]):
        kinds = {k: v for k, v in memory.items() if k not in ["stage", "arena_bytes"]}
        require(sum(kinds.values()) == stage["arena_bytes"] == memory["arena_bytes"], f"{memory} of {stage}")
    states = sum(m["weights"] + m["gradients"] + m["optimizer"] for m in plan["memory"])
    require(states == plan["state_bytes"], f"{states} bytes of states in the arenas, {plan['state_bytes']} expected")


def stages_of_zero(folder, model, *flags):
    """What other stages are said to keep and move is what their programs keep and move."""
    # SGD keeps nothing that stage 1 could share out: it is stage 0.
    stages = {0, 2, 3} if "sgd" in flags else {0, 1, 2, 3}
    kept, moved, padding, said = {}, {}, {}, {}
    for zero in sorted(stages):
        program = build(folder, model, "2x1x2", "--zero", zero, *flags)
        plan = inspect(program)
        memory = plan["memory"][0]
        kept[zero] = sum(memory.get(part, 0) for part in ("weights", "masters", "gradients", "optimizer"))
        if zero < 2:  # later stages have parts on their way of a layer or two alone
            kept[zero] += memory["communication"]
        large = [c for c in plan["collectives"] if "dp" in c["axes"] and c["bytes"] > 64]
        moved[zero] = sum(c["bytes"] * c["per_step"] for c in large)
        padding[zero] = 2 * 64 * sum(c["per_step"] for c in large)  # up to 64 bytes of each rank a bucket
        for c in (large[0], large[-1]):
            answer = explain(program, c["name"])
            held = sum(t["bytes"] for t in answer["tensors"])
            # A bucket has padding up to 64 bytes of each rank.
            require(zero == 0 or held <= c["bytes"] <= held + 2 * 64,
                    f"{c['name']}: tensors of {held} bytes, {c['bytes']} are moved")
            said[zero] = {a["name"]: a for a in answer["alternatives"]}
    for zero, others in said.items():
        proposed = {int(name.split()[1]) for name in others if name.startswith("zero ")}
        require(proposed == stages - {zero}, f"stage {zero} proposes {sorted(others)}")
        for other in proposed:
            told, change = others[f"zero {other}"], kept[other] - kept[zero]
            require(abs(told["memory_bytes"] - change) <= 0.01 * kept[0],
                    f"stage {zero}: {told['text']}, but states change by {change}")
            # A bucket that backward reads in part, as of norms and their biases, is gathered whole.
            require(0 <= moved[other] - told["step_bytes"] <= padding[other] + 0.01 * moved[other],
                    f"stage {zero}: {told['text']}, but stage {other} moves {moved[other]}")
    return f"keeps {list(kept.values())}, moves {list(moved.values())}"


def schedules(folder, mesh, *flags):
    """What another schedule would change is what it changes: all counts, and activations about."""
    program = build(folder, "gpt2/config.json", mesh, *flags)
    said, now = explain(program, "schedule"), inspect(program)
    facts = lambda plan: [plan["bubble"], sum(s["per_step"] for s in plan["sends"]), [s["in_flight"] for s in plan["stages"]]]
    told = lambda entry: [entry["bubble"], entry["messages"], entry["in_flight"]]
    require(told(said) == facts(now), f"{told(said)} said, {facts(now)} inspected")
    require(said["activations"] == [m["activations"] for m in now["memory"]], f"{said['activations']}, {now['memory']}")
    text, worst, count = call([LLMC, "explain", program, "schedule"]).stdout, 1, 0
    for other in said["alternatives"]:
        require(other["flags"] in text and other["text"] in text, f"the text lacks {other}")
        if not other["possible"]:
            require("it needs" in other["text"], other["text"])
            continue
        built = inspect(build(folder, "gpt2/config.json", mesh, *other["flags"].split()))
        require(told(other) == facts(built), f"{other['flags']}: {told(other)} said, {facts(built)} built")
        got = max(m["activations"] for m in built["memory"])
        if "at most" in other["text"] or other["schedule"] == "zero-bubble":
            continue  # bounds, or what leaves out the cotangents of W
        worst = max(worst, got / max(other["activations"]), max(other["activations"]) / got)
        count += 1
    require(worst <= 1.35, f"activations are {worst:.2f} times what was said")
    require(said["name"] == "schedule" and len(said["alternatives"]) >= 3, f"{said}")
    return f"{len(said['alternatives'])} others; activations of {count} within a factor of {worst:.2f}"


def nodes(folder):
    program = build(folder, "gpt2/config.json")
    kinds = {c["source"]["op"] for c in inspect(program)["collectives"]}
    attention = explain(program, "attention")
    forward = [n for n in attention["nodes"] if not n["backward"]]
    require(forward and all("heads" == c["rule"] for n in forward for c in n["cuts"] if c["axis"] == "tp"),
            f"{attention} {kinds}")
    name = forward[0]["names"][-1]
    answer = explain(program, name)
    require(any(i["phase"] == "forward" for i in answer["instructions"]) and
            any(i["phase"] == "backward" for i in answer["instructions"]), f"{answer['instructions']}")
    require(sum(s["bytes"] for s in answer["saved"]) > 0, f"nothing of {name} is kept: {answer['saved']}")
    text = call([LLMC, "explain", program, name]).stdout
    for word in [f"layer {answer['ops'][0]['layer']}", "heads", "kept for the backward pass"]:
        require(word in text, f"the text does not say '{word}':\n{text}")


def refused(arguments, *words):
    done = call([LLMC, "explain", *arguments], check=False)
    require(done.returncode == 1, f"exit {done.returncode}: {done.stderr[-500:]}")
    for word in ["error: ", *words]:
        require(word in done.stderr, f"the message does not say '{word}': {done.stderr[-500:]}")


def refusals(folder):
    program = build(folder, "gpt2/config.json")
    name = inspect(program)["collectives"][0]["name"]
    refused([program, name[:-1] + "?"], "nearest names", name)
    refused([os.path.join(DATA, "gpt2/config.json")], "explain takes a program")
    with open(program, "r+b") as f:
        f.seek(-2000, os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-2000, os.SEEK_END)
        f.write(bytes([byte ^ 1]))
    refused([program], "checksum")


suite = Suite("explain")
for model in ["gpt2/config.json", "gpt2/dynamo.onnx", "llama/config.json", "bert/config.json"]:
    suite.run(f"collectives and messages, {model}", collectives, model)
# Checks that a stage which sends twice in one direction names both messages, and what a stage without layers says.
for flags in [("--virtual-stages", 2), ("--schedule", "zero-bubble"), ("--stages", "0,4")]:
    suite.run(f"collectives and messages, {' '.join(map(str, flags))}", collectives, "gpt2/config.json", *flags)
for model, zero in [("gpt2/dynamo.onnx", 0), ("llama/config.json", 0), ("gpt2/dynamo.onnx", 3)]:
    suite.run(f"parameters and memory, {model}, stage {zero} of ZeRO", parameters, model, zero)
# Backward reads no table of positions, and no embedding that is untied.
for model, *flags in [("gpt2/config.json",), ("llama/config.json", "--sequence-parallel", "off"),
                      ("gpt2/config.json", "--optimizer", "sgd")]:
    suite.run(f"stages of ZeRO, {' '.join([model, *flags])}", stages_of_zero, model, *flags)
for mesh, *flags in [("1x2x1",), ("2x2x2", "--virtual-stages", 2), ("1x4x1", "--schedule", "zero-bubble"),
                     ("1x2x1", "--schedule", "gpipe")]:
    suite.run(f"schedules, {' '.join(map(str, [mesh, *flags]))}", schedules, mesh, *flags)
suite.run("a node and a kind", nodes)
suite.run("refusals", refusals)
suite.finish()
