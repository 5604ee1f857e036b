"""The step and the memory that llmc plan composes from a table, beside the simulated plan of the same choices.

    simulated.py [NAME] [--full] [--draws N] [--seed S]

Draws models as large as a machine of the tests can compile for, meshes and choices of all forms, on accelerators.
"""
import json
import os
import random
import statistics
import sys
import tempfile

from harness import LLMC, Suite, call, require


def option(name, standard):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else standard


def draw_case(draw):
    heads = draw.choice([8, 16])
    width, layers, tokens = heads * 128, draw.choice([4, 6, 8]), draw.choice([1024, 2048, 4096])
    model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_attention_heads": heads,
             "num_key_value_heads": draw.choice([heads, 8]), "num_hidden_layers": layers,
             "intermediate_size": draw.choice([2, 3, 4]) * width, "vocab_size": draw.choice([16000, 32000, 64000]),
             "max_position_embeddings": tokens, "tie_word_embeddings": False, "hidden_act": "silu", "rms_norm_eps": 1e-5,
             "rope_theta": 10000.0}
    flags = {"dp": draw.choice([1, 1, 2, 4]), "pp": draw.choice([1, 1, 2, 4]), "tp": draw.choice([1, 1, 2, 4]),
             "cp": draw.choice([1, 1, 1, 2]), "micro-batch": draw.choice([1, 1, 2]), "precision": "bf16",
             "recompute": draw.choice(["none", "none", "full"]), "seq": tokens}
    if flags["dp"] > 1:
        flags["zero"] = draw.choice([0, 1, 2, 3])
    if flags["pp"] > 1:
        flags["schedule"] = draw.choice(["1f1b", "1f1b", "gpipe", "zero-bubble"])
    return model, flags, draw.choice(["a100-80g", "h100", "b200"])


def compare(folder, model, flags, gpu):
    """Seconds and bytes of the table, and those of the simulated plan."""
    path, out = os.path.join(folder, "config.json"), os.path.join(folder, "program")
    with open(path, "w") as f:
        json.dump(model, f)
    words = [str(word) for flag, value in flags.items() for word in ("--" + flag, value)]
    table = json.loads(call([LLMC, "plan", path, "--gpu", gpu, "--json", *words]).stdout)["chosen"]
    call([LLMC, "compile", path, "-o", out, "--weights", "random", "-q", *words])
    plan = json.loads(call([LLMC, "trace", out, "--gpu", gpu, "--json"]).stdout)
    return (table["step_time_s"], table["memory_bytes"]["peak"]), (plan["step_time_s"], plan["arena_bytes"])


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    place = [0] * len(values)
    for number, i in enumerate(order):
        place[i] = number
    return place


def agree(folder, draws, seed, notes):
    tables, simulations, memory = [], [], []
    for number in range(draws):
        model, flags, gpu = draw_case(random.Random(seed * 100_000 + number))
        (table, peak), (simulated, arena) = compare(folder, model, flags, gpu)
        memory.append(peak / arena - 1)
        tables.append(table)
        simulations.append(simulated)
        notes.append(f"{100 * (table / simulated - 1):+5.1f} %  {simulated:.4f} s  memory {100 * memory[-1]:+5.1f} %  {gpu} " +
                     " ".join(f"{k}={v}" for k, v in flags.items()) + f" width={model['hidden_size']}")
    errors = [abs(t / s - 1) for t, s in zip(tables, simulations)]
    first, second = ranks(tables), ranks(simulations)
    n = len(first)
    rank = 1 - 6 * sum((x - y) ** 2 for x, y in zip(first, second)) / (n * (n * n - 1))
    note = f"{n} draws: {100 * statistics.mean(errors):.1f} % on average, {100 * max(errors):.1f} % at most, rank {rank:.3f}; " \
           f"memory {100 * statistics.mean(map(abs, memory)):.1f} % on average, {100 * max(map(abs, memory)):.1f} % at most"
    # Twice what was measured over 200 draws but for the rank: 3 % and 0.98 are asked for.
    require(statistics.mean(errors) < 0.012 and max(errors) < 0.07 and rank > 0.96 and max(map(abs, memory)) < 0.001,
            note + "\n" + "\n".join(notes))
    return note


def tied(folder):
    """Waits for the whole gradient of an embedding that is the head as well: it is summed after all layers."""
    errors = []
    model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "num_attention_heads": 8,
             "num_key_value_heads": 8, "num_hidden_layers": 4, "intermediate_size": 2048, "vocab_size": 64000,
             "max_position_embeddings": 1024, "tie_word_embeddings": True, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    for zero in (0, 1, 2, 3):
        (table, _), (plan, _) = compare(folder, model, {"dp": 8, "micro-batch": 4, "global-batch": 32, "precision": "bf16", "seq": 1024,
                                                        "recompute": "full", "zero": zero}, "h100")
        errors.append(table / plan - 1)
        require(abs(errors[-1]) <= 0.03, f"zero {zero}: {table} s of the table, {plan} s of the plan")
    return ", ".join(f"{100 * error:+.1f} %" for error in errors)


suite = Suite("simulated")
lines = []
suite.run("steps of the table and of the plan", agree, option("--draws", 60 if suite.full else 8), option("--seed", 1), lines)
suite.run("tied embeddings", tied)
if suite.full or "--draws" in sys.argv:
    print("\n".join(lines))
suite.finish()
