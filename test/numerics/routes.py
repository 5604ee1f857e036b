"""Routes of tokens to experts, as --dump has them: the same on every mesh, and what ranks send to each other follows
from them, row by row."""
import collections
import json
import os
import re

import numpy as np

from experts import CHOICES, DEEPSEEK, EXPERTS, LAYERS, MIXTRAL, SEQ, one_expert, write_config, write_tokens
from harness import Suite, call, compile_model, inspect, require, train

BATCH = 8
GATES = {"mixtral": [f"route:model.layers.{i}.block_sparse_moe.gate" for i in range(LAYERS)],
         "deepseek": [f"route:model.layers.{i}.mlp.gate" for i in range(1, DEEPSEEK["num_hidden_layers"])]}


def routes_of(folder, content, mesh, *flags, steps=2, weights=None, counts=None):
    program = os.path.join(folder, "program")
    compile_model(write_config(folder, content), program, "--mesh", mesh, "--seq", SEQ, "--global-batch", BATCH, *flags)
    run = ["--data", write_tokens(folder), "--steps", steps]
    run += ["--weights", weights] if weights else []
    run += ["--count-collectives", counts] if counts else []
    dump = train(program, folder, *run)
    return {name: value for name, value in dump.items() if name.startswith("route:")}, program


def checked(routes, gates, dropped):
    """Each token takes different experts; -1 stands where a limit dropped one."""
    require(sorted(routes) == sorted(gates), f"routes of {sorted(routes)}, expected {gates}")
    for name, value in routes.items():
        require(value.dtype == np.int32 and value.shape == (BATCH, SEQ, CHOICES), f"{name} is {value.dtype} {value.shape}")
        require(value.min() >= (-1 if dropped else 0) and value.max() < EXPERTS, f"{name} has {value.min()} to {value.max()}")
        pairs = np.sort(value.reshape(-1, CHOICES), axis=1)
        twice = (pairs[:, 1:] == pairs[:, :-1]) & (pairs[:, 1:] >= 0)
        require(not twice.any(), f"{name}: a token takes an expert twice")


def same(folder, model, meshes, *flags):
    content, dropped = {"mixtral": MIXTRAL, "deepseek": DEEPSEEK}[model], "--moe-capacity" in flags
    base, _ = routes_of(folder, content, "1", "--micro-batch", BATCH, *flags)
    checked(base, GATES[model], dropped)
    lost = sum(int((value < 0).sum()) for value in base.values())
    require((lost > 0) == dropped, f"{lost} choices are dropped")
    for mesh, *own in meshes:
        other, _ = routes_of(folder, content, mesh, *own, *flags)
        checked(other, GATES[model], dropped)
        for name in base:
            differ = int((base[name] != other[name]).sum())
            require(differ == 0, f"{mesh} {own}: {name} differs in {differ} choices")
    if dropped:
        most = -(-SEQ * CHOICES * int(flags[flags.index("--moe-capacity") + 1]) // EXPERTS)
        for name, value in base.items():
            for row in value:
                taken = np.bincount(row[row >= 0], minlength=EXPERTS)
                require(taken.max() == most, f"{name}: an expert takes {taken.max()} tokens of a row, {most} are allowed")
    return f"{len(base) * BATCH * SEQ * CHOICES} choices on {len(meshes) + 1} meshes, {lost} dropped"


def homes(plan):
    """The rank of ep, [rows, tokens], at which each token is when it chooses."""
    dp, cp, tp = (plan["mesh"][name] for name in ("dp", "cp", "tp"))
    order = list(range(SEQ))
    if cp > 1:  # two blocks a rank, an early one and a late one
        blocks = np.split(np.arange(SEQ), 2 * cp)
        order = np.concatenate([np.concatenate([blocks[r], blocks[2 * cp - 1 - r]]) for r in range(cp)])
    place = np.empty(SEQ, int)
    place[order] = np.arange(SEQ) // (SEQ // (cp * tp))
    part = np.arange(BATCH) // plan["micro_batch"] % dp
    return (part[:, None] * cp * tp + place[None, :]) % plan["mesh"]["ep"]


def carried(folder, mesh, ep):
    """Between ranks go exactly the rows whose experts are elsewhere, each (token, expert) pair once each way."""
    counts = os.path.join(folder, "counts")
    routes, program = routes_of(folder, MIXTRAL, mesh, "--moe-budget", ep, steps=1, counts=counts)
    plan = inspect(program)
    at = homes(plan)[:, :, None]
    expected = {}
    for name, value in routes.items():
        layer = int(re.search(r"layers\.(\d+)\.", name).group(1))
        expected[layer] = int((value // (EXPERTS // ep) != at).sum())
    moved = collections.Counter()
    with open(counts) as f:
        for c in json.load(f)["collectives"]:
            if "rows" in c:
                require(c["kind"] == "all_to_all", f"rows of an {c['kind']}")
                layer = int(re.search(r"layers\.(\d+)\.", c["origin"]["nodes"][0]).group(1))
                moved[layer, c["phase"]] += c["rows"]
    for layer, rows in expected.items():
        require(0 < rows < BATCH * SEQ * CHOICES, f"layer {layer} sends {rows} rows, so it tests nothing")
        # Forward sends the experts' numbers and the rows there, and the rows back; backward both ways of rows.
        for phase, times in [("forward", 3), ("backward", 2)]:
            require(moved[layer, phase] == times * rows,
                    f"layer {layer}: {phase} moves {moved[layer, phase]} rows, the routes say {times} x {rows}")
    require(len(moved) == 2 * LAYERS, f"rows are moved in {sorted(moved)}")
    return f"{sum(expected.values())} of {LAYERS * BATCH * SEQ * CHOICES} rows go to other ranks"


def of_the_attempt_that_counted(folder):
    """A step whose rows found no room is run again: dumped is what that took."""
    weights = one_expert(folder, "dp=1", [6, 7])
    given = [routes_of(folder, MIXTRAL, "dp=4,ep=4", "--moe-budget", budget, weights=weights)[0] for budget in (1, 4)]
    for name in GATES["mixtral"]:
        require(set(np.unique(given[0][name])) == {6, 7}, f"{name} has {np.unique(given[0][name])}")
        require(np.array_equal(given[0][name], given[1][name]), f"{name} differs from that with room")


def not_of_an_evaluation(folder):
    """An evaluation after the last step leaves its routes as they are."""
    program = os.path.join(folder, "program")
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", "dp=2,ep=2", "--seq", SEQ, "--global-batch", BATCH)
    data, other, dumps = write_tokens(folder), os.path.join(folder, "other.bin"), []
    np.random.default_rng(9).integers(0, MIXTRAL["vocab_size"], 2048).astype("<u2").tofile(other)
    for flags in [[], ["--eval-data", other, "--eval-batches", 1, "--eval-every", 1]]:
        dumps.append(train(program, folder, "--data", data, "--steps", 2, *flags))
    for name in GATES["mixtral"]:
        require(np.array_equal(dumps[0][name], dumps[1][name]), f"{name} is that of the evaluation")


def loads(folder, mesh, *flags):
    """moe_load_max counts the rows of the whole step, all micro-batches and ranks, in the layer where it is largest."""
    program, metrics = os.path.join(folder, "program"), os.path.join(folder, "metrics")
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", mesh, "--seq", SEQ, "--global-batch", BATCH, *flags)
    data, found = write_tokens(folder), []
    for seed in range(3):
        dump = train(program, folder, "--data", data, "--steps", 1, "--seed", seed, "--metrics", f"{metrics}{seed}")
        loads = []
        for name, value in dump.items():
            if name.startswith("route:"):
                rows = np.bincount(value[value >= 0], minlength=EXPERTS)
                loads.append(rows.max() * EXPERTS / rows.sum())
        with open(f"{metrics}{seed}") as lines:
            found.append(json.loads(lines.readline())["moe_load_max"])
        require(abs(found[-1] - max(loads)) < 1e-9, f"metrics say {found[-1]}, the routes of layers {loads}")
    return f"largest loads {found}"


def loads_without_dump(folder):
    """Counting needs no --dump, and an evaluation adds nothing."""
    program, metrics, data, found = os.path.join(folder, "program"), os.path.join(folder, "metrics"), write_tokens(folder), []
    compile_model(write_config(folder, MIXTRAL), program, "--mesh", "dp=2,ep=2", "--seq", SEQ, "--global-batch", BATCH)
    for at, flags in enumerate([["--dump", os.path.join(folder, "dump")], ["--eval-data", data, "--eval-batches", 1, "--eval-every", 1]]):
        call([program, "--data", data, "--steps", 3, "--metrics", f"{metrics}{at}", *flags])
        with open(f"{metrics}{at}") as lines:
            found.append([json.loads(line)["moe_load_max"] for line in lines])
    require(found[0] == found[1], f"with --dump {found[0]}, without {found[1]}")


def none(folder):
    """Without a step there are no routes, and without experts none either."""
    routes, _ = routes_of(folder, MIXTRAL, "1", steps=0)
    require(not routes, f"no step has {sorted(routes)}")


def main():
    suite = Suite("routes")
    meshes = [("2",), ("dp=2,ep=2",), ("dp=8,ep=8",), ("cp=2",), ("dp=2,cp=2,tp=2,ep=8",), ("dp=2,tp=2,ep=2,etp=2", "--micro-batch", 2),
              ("2x2x2", "--ep", 4, "--zero", 3), ("2x2x1", "--ep", 2, "--virtual-stages", 2, "--recompute", "full"),
              ("1x2x1", "--schedule", "zero-bubble", "--micro-batch", 2), ("1x1x2",), ("cp=2,tp=2", "--cp-kind", "heads")]
    suite.run("mixtral on every mesh", same, "mixtral", meshes)
    suite.run("deepseek_v3 on every mesh", same, "deepseek", meshes[:2] + meshes[3:6])
    suite.run("mixtral of a capacity of 1 on every mesh", same, "mixtral", [("dp=2,ep=2",), ("dp=8,ep=8",), ("cp=2",), ("dp=2,cp=2,tp=2,ep=8",), ("2x2x1", "--ep", 2)], "--moe-capacity", "1")
    suite.run("deepseek_v3 of a capacity of 1", same, "deepseek", [("dp=2,ep=2",), ("cp=2,ep=2",)], "--moe-capacity", "1")
    for mesh, ep in [("dp=2,ep=2", 2), ("dp=2,tp=2,ep=4", 4), ("dp=2,cp=2,tp=2,ep=8", 8), ("dp=2,pp=2,cp=2,ep=4", 4)]:
        suite.run(f"rows that {mesh} sends", carried, mesh, ep)
    suite.run("the attempt that counted", of_the_attempt_that_counted)
    suite.run("an evaluation after the step", not_of_an_evaluation)
    for mesh, *flags in [("1",), ("dp=2,ep=2",), ("dp=2,pp=2,ep=2",), ("dp=2,ep=2", "--schedule", "gpipe"), ("dp=2,tp=2,ep=2,etp=2", "--micro-batch", 2),
                         ("cp=2,tp=2", "--moe-capacity", "1"), ("dp=4,ep=4", "--moe-budget", 1), ("1x2x1", "--virtual-stages", 2, "--recompute", "full")]:
        suite.run(f"loads of {mesh} {' '.join(map(str, flags))}", loads, mesh, *flags)
    suite.run("loads without a dump", loads_without_dump)
    suite.run("no step", none)
    suite.finish()


if __name__ == "__main__":
    main()
