"""The plans that llmc plan and llmc compile find, beside all plans of a space, and what levers do.

    search.py [NAME] [--full] [--draws N] [--seed S]

Every plan of a drawn space is predicted by a call of its own, with all choices given; the search must choose one that is as
fast as the fastest of these. Of those that fit some are drawn, built and simulated, beside what is predicted of them.
"""
import concurrent.futures
import itertools
import json
import os
import random
import re
import shlex
import sys
import time

from harness import DATA, LLMC, Suite, call, require

FULL = "--full" in sys.argv
LLAMA_70B = os.path.join(os.path.dirname(os.path.dirname(DATA)), "examples", "llama-3.1-70b", "config.json")


def option(name, standard):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else standard


def divisors(n):
    return [i for i in range(1, n + 1) if n % i == 0]


def write(folder, model):
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(model, f)
    return path


def words(flags):
    return [str(word) for flag, value in flags.items() for word in ("--" + flag, value)]


def plan(path, flags):
    """The object that is printed, and whether the plan fits; nothing of a plan that is refused."""
    done = call([LLMC, "plan", path, "--json", "-q", *words({"simulate": "off", **flags})], check=False)
    return (json.loads(done.stdout), done.returncode == 0) if done.stdout else (None, False)


def llama(draw, width, layers, tokens):
    heads = width // 128
    model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_attention_heads": heads,
             "num_key_value_heads": min(heads, 8), "num_hidden_layers": layers, "intermediate_size": draw.choice([2, 3, 4]) * width,
             "vocab_size": draw.choice([16000, 32000, 50257, 128000]), "max_position_embeddings": tokens,
             "tie_word_embeddings": draw.choice([True, False]), "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 1e4}
    return model


def draw_case(draw):
    """A model, a cluster, what is fixed, and the values of what is free."""
    tokens, layers = draw.choice([512, 1024, 2048]), draw.choice([4, 5, 6, 8])
    model = llama(draw, draw.choice([1024, 2048, 4096, 8192]), layers, tokens)
    gpus = draw.choice([2, 4, 4, 8, 8, 16, 64])
    experts = draw.choice([0, 0, 4])
    if experts:
        # Draws sizes of ep between the ends, whose tables are interpolated.
        experts = draw.choice([4, 16 if gpus <= 16 else 4])
        model.update({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": experts,
                      "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0})
    fixed = {"gpu": draw.choice(["a100-40g", "a100-80g", "h100", "b200"]), "seq": tokens, "global-batch": draw.choice([gpus, 2 * gpus, 4 * gpus])}
    free = {"micro-batch": None, "zero": [0, 1, 2, 3], "recompute": ["none", "selective", "full"], "sequence-parallel": ["on", "off"],
            "schedule": None}
    # Leaves so many choices free that all plans are predicted in some seconds.
    for name in draw.sample(sorted(free), 2 if FULL else 4 if gpus > 8 else 3):
        del free[name]
        fixed[name] = {"micro-batch": 1, "zero": draw.choice([0, 1, 3]), "recompute": draw.choice(["none", "selective", "full"]),
                       "sequence-parallel": "on", "schedule": "1f1b"}[name]
    return model, gpus, experts, fixed, free


def schedules(free, pp, layers):
    """The orders of a number of stages, with their chunks where these interleave."""
    if pp == 1:
        return [{}]
    if "schedule" not in free:
        return [{"schedule": "1f1b"}]
    several = range(2, (layers + 2) // pp + 1)
    return [{"schedule": order} for order in ("1f1b", "gpipe", "zero-bubble")] + [
        {"schedule": "interleaved", "virtual-stages": v} for v in several]


def all_plans(model, gpus, experts, fixed, free):
    layers, tokens, rows = model["num_hidden_layers"], fixed["seq"], fixed["global-batch"]
    for pp, tp, cp in itertools.product(divisors(gpus), repeat=3):
        if gpus % (pp * tp * cp) or tp > 8 or (cp > 1 and tokens // cp < 512) or pp > layers + 2:
            continue
        dp = gpus // (pp * tp * cp)
        if rows % dp:
            continue
        for ep in divisors(experts) if experts else [1]:
            for etp in divisors(tp) if ep > 1 else [None]:
                if ep > 1 and (dp * cp * tp) % (ep * etp):
                    continue
                for micro in divisors(rows // dp) if "micro-batch" in free else [1]:
                    if (rows // dp) % micro:
                        continue
                    mesh = {"dp": dp, "pp": pp, "tp": tp, "cp": cp, "ep": ep, "micro-batch": micro}
                    if etp:
                        mesh["etp"] = etp
                    for order in schedules(free, pp, layers):
                        for zero in free.get("zero", [fixed.get("zero")]) if dp * cp > 1 else [0]:
                            for kept in free.get("recompute", [fixed.get("recompute")]):
                                for sequence in free.get("sequence-parallel", ["on"]) if tp > 1 else ["on"]:
                                    if sequence == "off" and ep > 1 and etp < tp:
                                        continue
                                    yield {**mesh, **order, "zero": zero, "recompute": kept, "sequence-parallel": sequence}


def as_fast_as_all(folder, number, seed, notes):
    draw = random.Random(seed * 1000 + number)
    model, gpus, experts, fixed, free = draw_case(draw)
    path = write(folder, model)
    given = {flag: fixed[flag] for flag in ("gpu", "seq", "global-batch")}
    chosen, found = plan(path, {**fixed, "gpus": gpus, "mesh": "auto"})
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = list(all_plans(model, gpus, experts, fixed, free))
        answers = list(pool.map(lambda choices: plan(path, {**given, **choices}), plans))
    steps = [(answer["chosen"]["step_time_s"], choices) for (answer, fits), choices in zip(answers, plans) if fits]
    require(bool(steps) == found, f"{len(steps)} of {len(plans)} plans fit, and the search says {found}")
    if not steps:
        notes.append(f"none of {len(plans)} plans fits, {fixed}")
        return 0, []
    best, choices = min(steps, key=lambda one: one[0])
    step = chosen["chosen"]["step_time_s"]
    notes.append(f"{len(plans):4} plans, {len(steps):4} fit, best {best:.5g} s, found {step:.5g} s; {gpus} x {given['gpu']}, "
                 + chosen["chosen"]["command"].split("--mesh")[1])
    require(step <= best * 1.001, f"found {step} s by {chosen['chosen']['command']}, and {best} s has {choices}; fixed {fixed}")
    require(step >= best * 0.999, f"found {step} s, and no plan is faster than {best} s")
    errors = simulate_some(path, given, [choices for _, choices in steps], random.Random(number))
    notes.append(f"     {len(errors)} simulated, at most {100 * max(map(abs, errors)):.1f} %")
    return len(plans), errors


def simulate_some(path, given, fitting, draw):
    """Builds and simulates drawn plans, each of which takes what its table predicts; returns how far they are apart."""
    drawn = draw.sample(fitting, min(len(fitting), 50 if FULL else 5))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda choices: plan(path, {**given, **choices, "simulate": "on"})[0]["chosen"], drawn))
    errors = []
    for answer, choices in zip(answers, drawn):
        require(answer["simulated_step_s"], f"{choices} is not simulated: {answer.get('not_simulated')}")
        errors.append(answer["step_time_s"] / answer["simulated_step_s"] - 1)
        require(abs(errors[-1]) <= 0.03,
                f"{answer['step_time_s']} s are predicted of {given} {choices}, {answer['simulated_step_s']} s simulated: {100 * errors[-1]:+.1f} %")
    return errors


def brute_force(folder):
    """Compares the choice with that of all plans, and some of these with their simulation."""
    notes, plans, draws, errors = [], 0, option("--draws", 40 if FULL else 6), []
    try:
        for number in range(draws):
            more, apart = as_fast_as_all(folder, number, option("--seed", 1), notes)
            plans += more
            errors += apart
    finally:
        if FULL or "--draws" in sys.argv:
            print("\n".join("    " + note for note in notes))
    sizes = sorted(map(abs, errors))
    require(sizes and sum(sizes) / len(sizes) <= 0.01, f"tables are {100 * sum(sizes) / max(1, len(sizes)):.2f} % from plans on average")
    return f"{draws} spaces, {plans} plans; {len(sizes)} simulated, {sum(size <= 0.03 for size in sizes)} of them within 3 %, " \
           f"{100 * sum(sizes) / len(sizes):.2f} % on average, at most {100 * sizes[-1]:.2f} %"


def simulated(folder):
    """Builds plans that were found, and simulates them."""
    errors, seen = [], option("--draws", 50 if FULL else 5)
    for number in range(200):
        draw = random.Random(9000 + number)
        model, gpus, experts, fixed, free = draw_case(draw)
        if gpus > 8 or experts or model["hidden_size"] > 2048: # takes what is built in a second
            continue
        path, out = write(folder, model), os.path.join(folder, "program")
        chosen, found = plan(path, {**fixed, "gpus": gpus, "mesh": "auto"})
        if not found:
            continue
        flags = words({flag.lstrip("-"): value for flag, value in chosen["chosen"]["flags"].items()})
        call([LLMC, "compile", path, "-o", out, "--weights", "random", "-q", "--seq", fixed["seq"], "--precision", "bf16", *flags])
        step = json.loads(call([LLMC, "trace", out, "--gpu", fixed["gpu"], "--json"]).stdout)["step_time_s"]
        errors.append(abs(chosen["chosen"]["step_time_s"] / step - 1))
        # Of all plans those are found whose table is too fast.
        require(errors[-1] <= 0.04, f"{chosen['chosen']['step_time_s']} s of {chosen['chosen']['command']} is simulated as {step} s")
        if len(errors) == seen:
            break
    mean = sum(errors) / len(errors)
    require(mean <= 0.03, f"steps differ by {100 * mean:.1f} % on average")
    within = sum(error <= 0.03 for error in errors)
    return f"{len(errors)} plans, {within} of them within 3 %, {100 * mean:.2f} % on average, at most {100 * max(errors):.2f} %"


# Mixtures whose experts fill all ranks of several nodes, whose tp ranks have the same tokens, whose ranks wait for weights and
# gradients of stage 3 of ZeRO alike, and whose layers compute while the one before them exchanges what it computes again; and a
# dense model (no experts) that gathers weights ahead from where it gathers the last of the head.
HIDDEN = [(64, 1024, 6, 1024, 2, {"dp": 8, "tp": 4, "ep": 8, "etp": 4, "zero": 1, "micro-batch": 2}),
          (16, 2048, 6, 1024, 4, {"dp": 2, "tp": 4, "ep": 2, "etp": 4, "zero": 1, "micro-batch": 2, "sequence-parallel": "off"}),
          (8, 2048, 6, 1024, 2, {"dp": 2, "ep": 1, "zero": 3, "micro-batch": 1}),
          (16, 1024, 5, 512, 2, {"dp": 2, "pp": 2, "tp": 2, "ep": 2, "etp": 2, "zero": 2, "micro-batch": 1, "sequence-parallel": "off",
                                 "recompute": "full", "gpu": "b200"}),
          (0, 2048, 4, 1024, 0, {"dp": 2, "pp": 4, "zero": 3, "micro-batch": 1, "recompute": "selective", "gpu": "a100-40g"})]


def hidden(folder):
    """Simulates plans, each beside what its table predicts."""
    errors = []
    for experts, width, layers, tokens, copies, mesh in HIDDEN:
        model = llama(random.Random(experts), width, layers, tokens)
        if experts:
            model.update({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": experts,
                          "num_experts_per_tok": copies, "router_aux_loss_coef": 0.0})
        flags = {"gpu": "h100", "seq": tokens, "global-batch": 16 * mesh["dp"], "recompute": "none", "simulate": "on", **mesh}
        chosen = plan(write(folder, model), flags)[0]["chosen"]
        errors.append(chosen["step_time_s"] / chosen["simulated_step_s"] - 1)
        require(abs(errors[-1]) <= 0.03, f"{flags}: {chosen['step_time_s']} s are predicted, {chosen['simulated_step_s']} s simulated")
    return ", ".join(f"{100 * error:+.1f} %" for error in errors)


def compiled(folder):
    """Compiles what was found: llmc compile chooses as llmc plan does."""
    path = write(folder, llama(random.Random(1), 1024, 4, 512))
    out = os.path.join(folder, "program")
    cluster = ["--gpu", "h100", "--gpus", "4", "--global-batch", "16"]
    done = call([LLMC, "compile", path, "-o", out, "--weights", "random", "--mesh", "auto", *cluster])
    found = json.loads(call([LLMC, "plan", path, "--json", *cluster]).stdout)["chosen"]
    mesh = json.loads(call([LLMC, "inspect", out, "--json"]).stdout)["mesh"]
    require(all(mesh[axis] == size for axis, size in found["mesh"].items()), f"{mesh}, and {found['mesh']} is found")
    require("found --mesh" in done.stderr, done.stderr[-400:])
    return shlex.join(f"{k}={v}" for k, v in mesh.items())


LACKS = [{"gpu": "h100", "mesh": "8x1x8", "recompute": "none"}, {"gpu": "a100-40g", "mesh": "1x8x8", "micro-batch": 4, "recompute": "none"},
         {"gpu": "h100", "mesh": "16x2x4", "zero": 0}, {"gpu": "a100-80g", "mesh": "4x4x4", "recompute": "none", "micro-batch": 2},
         {"gpu": "h100", "mesh": "dp=4,tp=4,cp=2", "zero": 1, "recompute": "selective"}, {"gpu": "h100", "mesh": "8x4x2", "schedule": "gpipe", "global-batch": 512},
         {"gpu": "h200", "mesh": "2x1x4"}, {"gpu": "b200", "mesh": "4x2x2", "zero": 0}]


def levers(folder):
    """Applies the first lever of plans that do not fit."""
    fitted = 0
    applied = 0
    for flags in LACKS if not FULL else [{"seq": tokens, **flags} for tokens in (4096, 8192, 2048) for flags in LACKS]:
        asked, fits = plan(LLAMA_70B, {"seq": 4096, **flags})
        if fits and flags.get("seq") == 2048: # half the tokens may fit
            continue
        applied += 1
        require(asked and not fits and asked["chosen"] is None and asked["levers"], f"{flags} fits, or has no levers")
        lever = asked["levers"][0]
        command = shlex.split(lever["command"])
        require(command[:2] == ["llmc", "plan"], lever["command"])
        done = call([LLMC, *command[1:], "--json"], check=False)
        changed = json.loads(done.stdout)
        require((done.returncode == 0) == lever["fits"], f"{lever['command']}: exit {done.returncode}, and the lever says {lever['fits']}")
        now, before = changed["chosen"] or changed["asked"], asked["asked"]
        saved = before["memory_bytes"]["peak"] - now["memory_bytes"]["peak"]
        cost = now["step_time_s"] - before["step_time_s"]
        require(abs(saved - lever["saves_bytes"]) <= 0.01 * abs(saved), f"{lever}: saves {saved}")
        require(abs(cost - lever["costs_s"]) <= 0.01 * before["step_time_s"], f"{lever}: costs {cost}")
        fitted += lever["fits"]
    return f"{fitted} of {applied} first levers fit"


def large(folder):
    """Finds plans for thousands of accelerators; the times that it takes are those of bench/cost/search.py."""
    model = llama(random.Random(0), 16384, 126, 8192)
    model.update({"intermediate_size": 53248, "vocab_size": 128256, "tie_word_embeddings": False})
    path = write(folder, model)
    begin = time.time()
    found, fits = plan(path, {"gpu": "h100", "gpus": 1024, "global-batch": 512, "seq": 8192})
    require(fits and len(found["alternatives"]) == 4, "not five plans are found")
    meshes = {json.dumps(one["mesh"]) for one in [found["chosen"], *found["alternatives"]]}
    require(len(meshes) == 5, "runners-up are of the same mesh")
    losses = [one["loses_s"] for one in found["alternatives"]]
    require(losses == sorted(losses) and losses[0] >= 0, f"runners-up lose {losses}")
    published, _ = plan(path, {"gpu": "h100", "dp": 8, "pp": 16, "tp": 8, "global-batch": 512, "seq": 8192})
    require(published["chosen"]["step_time_s"] >= found["chosen"]["step_time_s"] * 0.999, "tp 8 x pp 16 is faster than what is found")
    return f"{found['search']['candidates']} plans in {found['search']['seconds']:.1f} s ({time.time() - begin:.1f} in all)"


def fixed_and_auto(folder):
    """Leaves open what is auto alone."""
    path = write(folder, llama(random.Random(2), 2048, 6, 1024))
    base = {"gpu": "h100", "dp": 4, "tp": 2, "global-batch": 32, "seq": 1024, "recompute": "none"}
    found, fits = plan(path, {**base, "zero": "auto"})
    steps = [plan(path, {**base, "zero": zero})[0]["chosen"]["step_time_s"] for zero in range(4)]
    require(fits and abs(found["chosen"]["step_time_s"] / min(steps) - 1) < 1e-3, f"{found['chosen']['step_time_s']} of {steps}")
    found, _ = plan(path, {"gpu": "h100", "gpus": 16, "tp": 4, "mesh": "auto", "micro-batch": 2, "global-batch": 32})
    require(found["chosen"]["mesh"]["tp"] == 4 and found["chosen"]["micro_batch"] == 2, "what is given is changed")
    # Leaves tokens whole that tp does not divide.
    few = {"gpu": "h100", "gpus": 8, "seq": 1023, "global-batch": 1}
    found, whole = plan(path, few)[0]["chosen"], plan(path, {**few, "sequence-parallel": "off"})[0]["chosen"]
    require(found["mesh"]["tp"] > 1 and found["step_time_s"] == whole["step_time_s"] and found["sequence_parallel"] == "off",
            f"{found['command']} takes {found['step_time_s']} s, and with whole tokens {whole['step_time_s']}")
    dollars, _ = plan(path, {"gpu": "h100", "gpus": 16, "global-batch": 32, "objective": "tokens_per_dollar", "dollars-per-gpu-hour": 2})
    whole, _ = plan(path, {"gpu": "h100", "gpus": 16, "global-batch": 32})
    require(dollars["chosen"]["tokens_per_s_per_gpu"] >= whole["chosen"]["tokens_per_s_per_gpu"], "fewer accelerators are dearer")


def refuses(folder):
    """Says what is missing, or too much."""
    path = write(folder, llama(random.Random(3), 1024, 4, 512))
    for flags, text in (({"mesh": "auto", "gpu": "h100"}, "--gpus N"), ({"gpu": "h100", "gpus": 8, "tp": 3, "pp": "auto"}, "do not divide"),
                        ({"gpu": "h100", "gpus": 8, "global-batch": 7, "dp": 8, "tp": "auto"}, "no plan")):
        done = call([LLMC, "plan", path, *words(flags)], check=False)
        require(done.returncode == 1 and text in done.stderr, f"{flags}: exit {done.returncode}, {done.stderr[-400:]}")
    done = call([LLMC, "verify", path, "--mesh", "auto"], check=False)
    require(done.returncode == 1 and re.search("llmc plan", done.stderr), done.stderr[-300:])
    done = call([LLMC, "compile", path, "--mesh", "auto", "-o", os.path.join(folder, "o")], check=False)
    require(done.returncode == 1 and "--gpu" in done.stderr, done.stderr[-300:])


suite = Suite("search")
suite.run("is as fast as all plans", brute_force)
suite.run("agrees with simulated plans", simulated)
suite.run("plans whose collectives are hidden agree with simulated ones", hidden)
suite.run("compiles what was found", compiled)
suite.run("levers do as they say", levers)
suite.run("thousands of accelerators", large)
suite.run("fixed and auto", fixed_and_auto)
suite.run("refuses", refuses)
suite.finish()
