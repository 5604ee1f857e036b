"""Deep pipelines are the same training: every schedule and division of layers, beside all other choices.

Loss and gradients are PyTorch's in float64, those of deeper.py for models of more layers; `llmc verify`
proves the same plans with weights of all layers drawn. --full: every schedule with every other choice.
"""
import itertools
import os

import numpy as np

from context_checks import GRADIENT_LIMIT, LOSS_LIMIT, SEQ, verified
from deeper import deepen, write_config
from harness import Suite, below, compile_model, gradient_errors, inspect, loss_error, require, train

RING, HEADS = ("--cp", 2, "--cp-kind", "ring"), ("--cp", 2, "--cp-kind", "heads")
V2, V3 = ("--virtual-stages", 2), ("--virtual-stages", 3)
GPIPE, ONE, ZERO_BUBBLE = ("--schedule", "gpipe"), ("--schedule", "1f1b"), ("--schedule", "zero-bubble")
NO_SEQUENCE = ("--sequence-parallel", "off")


def value_of(flags, name, default):
    return flags[flags.index(name) + 1] if name in flags else default


def trained(folder, model, layers, mesh, *flags):
    """A step is the oracle's; what it was asked for is what it does."""
    dp, pp, _ = map(int, mesh.split("x"))
    chunks = value_of(flags, "--virtual-stages", 1)
    unit = dp * value_of(flags, "--micro-batch", 1) * (pp if chunks > 1 else 1)
    path, rows_flags, (rows, seq), loss, gradients = deepen(folder, model, layers, unit)
    program = os.path.join(folder, "program")
    compile_model(path, program, "--mesh", mesh, "--seq", seq, "--global-batch", rows, *flags)
    plan = inspect(program)
    schedule = value_of(flags, "--schedule", "interleaved" if chunks > 1 else "1f1b")
    require((plan["schedule"], plan["model"]["layers"]) == (schedule, layers), f"{plan['schedule']}, {plan['model']}")
    require([len(s["chunks"]) for s in plan["stages"]] == pp * [chunks], f"chunks of {plan['stages']}")
    given = value_of(flags, "--stages", "auto")
    require(given in ("auto", ",".join(map(str, division(plan)))), f"--stages {given} became {division(plan)}")
    dump = train(program, folder, *rows_flags, "--steps", 1)
    got = {name: dump["grad:" + name] for name in gradients}
    worst, name = max((e, n) for n, e in gradient_errors(got, gradients).items())
    return ", ".join([f"layers {division(plan)}", below(loss_error(dump["loss"][0], loss), LOSS_LIMIT, "loss"),
                      below(worst, GRADIENT_LIMIT, f"worst gradient ({name})")])


def division(plan):
    """Layers of each virtual stage in the order of the model: chunk by chunk through all stages."""
    virtual = [stage["chunks"][c] for c in range(len(plan["stages"][0]["chunks"])) for stage in plan["stages"]]
    counts, after = [], 0
    for chunk in virtual:
        require(chunk["first_layer"] == after, f"a chunk begins with layer {chunk['first_layer']}, not {after}")
        counts.append(chunk["last_layer"] + 1 - after)
        after = chunk["last_layer"] + 1
    require(after == plan["model"]["layers"], f"{after} layers of {plan['model']['layers']} are divided")
    return counts


def proved(folder, model, layers, mesh, *flags):
    """The same plan with weights drawn, in double and with kernels."""
    others = [flag for i, flag in enumerate(flags) if "--cp" not in flags[max(i - 1, 0):i + 1]]
    return verified(folder, write_config(folder, model, layers), mesh, value_of(flags, "--cp", 1), *others)


def resumed(folder, border, *flags):
    """What goes on from a dump becomes the same plan."""
    path, dump, programs = write_config(folder, "gpt2", 4), os.path.join(folder, "dump.mlir"), []
    compile_model(path, dump, "--mesh", "1x2x2", "--seq", SEQ, *flags, "--compile-to", border)
    for name, model, choices in [("whole", path, ("--mesh", "1x2x2", "--seq", SEQ, *flags)), ("resumed", dump, ())]:
        compile_model(model, os.path.join(folder, name), *choices)
        programs.append(inspect(os.path.join(folder, name)))
    for key in ("schedule", "stages", "table", "sends", "collectives", "memory", "instructions"):
        require(programs[0][key] == programs[1][key], f"{key} are {programs[1][key]}, expected {programs[0][key]}")


#===-- Stages that are balanced ------------------------------------------------===#

def flops(content, head, tokens):
    """Multiplications and additions of a token in a layer and in the head, times `head`."""
    d = content["n_embd"]
    attention = 2 * 2 * tokens * d / 2  # counts the half of the keys that rows see
    return 2 * 12 * d * d + attention, 2 * d * content["vocab_size"] * head


def best_division(layers, stages, layer, head):
    """The division whose largest stage is least, by trying all; then the most even, with more layers early."""
    def divisions(left, places):
        if places == 1:
            yield (left,)
            return
        for taken in range(0 if places == stages else 1, left + 1):
            for rest in divisions(left - taken, places - 1):
                yield (taken, *rest)

    def price(division):
        loads = [count * layer for count in division]
        loads[-1] += head
        return round(max(loads)), round(sum(load * load for load in loads)), [-count for count in division]
    return list(min(divisions(layers, stages), key=price))


def balanced(folder, layers, width, vocabulary, mesh, *flags):
    """`auto` finds what a search of all divisions finds, and would find with a head a tenth more or less."""
    content = {"n_embd": width, "n_head": 2, "n_positions": SEQ, "vocab_size": vocabulary}
    path, program = write_config(folder, "gpt2", layers, **content), os.path.join(folder, "program")
    compile_model(path, program, "--mesh", mesh, "--seq", SEQ, "--weights", "random", *flags)
    got = division(inspect(program))
    for factor in (0.9, 1, 1.1):
        expected = best_division(layers, len(got), *flops(content, factor, SEQ))
        require(got == expected, f"layers {got}, expected {expected}")
    return f"layers {got}"


#===-- Combinations -----------------------------------------------------------===#

# Lists models, their layers, meshes and choices. GPT-2, Gemma 2 and BERT have tied tables, Llama has not.
CASES = [
    # Interleaves chunks of one layer and of several.
    ("gpt2", 4, "1x2x1", *V2),
    ("gpt2", 6, "1x2x1", *V3),
    ("gpt2", 7, "1x3x1", *V2),
    ("gpt2", 10, "1x3x1", *V3),
    ("gpt2", 8, "1x4x1", *V2),
    ("gpt2", 12, "1x4x1", *V3),
    ("gemma2", 5, "1x2x1", *V2),
    ("llama", 4, "1x2x2", *V2),
    ("llama", 4, "1x2x2", *V2, *NO_SEQUENCE),
    ("llama", 6, "1x3x1", *V2, *RING),
    ("llama", 4, "1x2x1", *V2, *HEADS),
    ("gpt2", 4, "2x2x1", *V2, "--zero", 0),
    ("llama", 6, "2x2x1", *V3, "--zero", 1, "--recompute", "selective"),
    ("gpt2", 4, "2x2x1", *V2, "--zero", 2, "--recompute", "full"),
    ("gpt2", 8, "2x4x2", *V2, "--zero", 3),
    # Computes gradients of weights apart; also of fewer micro-batches than there are stages, and of one.
    ("gpt2", 4, "1x2x1", *ZERO_BUBBLE),
    ("gpt2", 7, "1x3x1", *ZERO_BUBBLE),
    ("gpt2", 4, "1x4x1", *ZERO_BUBBLE),
    ("gpt2", 4, "1x4x1", *ZERO_BUBBLE, "--micro-batch", 4),
    ("gpt2", 4, "1x2x1", *ZERO_BUBBLE, "--micro-batch", 8),
    ("gemma2", 5, "1x4x1", *ZERO_BUBBLE),
    ("bert", 2, "1x2x1", *ZERO_BUBBLE),
    ("llama", 4, "1x4x2", *ZERO_BUBBLE),
    ("llama", 4, "1x2x2", *ZERO_BUBBLE, *NO_SEQUENCE, "--recompute", "selective"),
    ("llama", 3, "1x3x1", *ZERO_BUBBLE, *RING),
    ("llama", 2, "1x2x1", *ZERO_BUBBLE, *HEADS),
    ("gpt2", 4, "2x2x1", *ZERO_BUBBLE, "--zero", 0),
    ("llama", 4, "2x2x1", *ZERO_BUBBLE, "--zero", 1),
    ("gpt2", 4, "2x2x1", *ZERO_BUBBLE, "--zero", 2, "--recompute", "full"),
    ("gpt2", 4, "2x2x2", *ZERO_BUBBLE, "--zero", 3),
    # Divides unevenly: a stage begins inside of the period of windows, or has the embedding or the head alone.
    ("gpt2", 7, "1x3x1", *GPIPE),
    ("gemma2", 5, "1x4x1", *ONE),
    ("gemma2", 5, "2x4x1", *GPIPE, "--zero", 3),
    ("gpt2", 7, "1x3x1", "--stages", "3,2,2"),
    ("gpt2", 7, "1x3x1", "--stages", "1,2,4", *ZERO_BUBBLE),
    ("gpt2", 7, "1x4x1", "--stages", "0,4,3,0"),
    ("gpt2", 7, "1x4x1", "--stages", "0,4,3,0", *ZERO_BUBBLE),
    ("gpt2", 7, "1x2x2", "--stages", "0,4,3,0", *V2),
    ("llama", 2, "1x2x1", "--stages", "0,1,1,0", *V2),
    ("bert", 2, "2x2x1", "--stages", "0,1,1,0", *V2),
]
# Lists what has limits of its own or no oracle of PyTorch's, and a few of the others.
PROVED = [
    ("llama", 4, "1x2x2", *V2, "--precision", "bf16"),
    ("gemma2", 5, "2x2x1", *V2, "--precision", "bf16", "--zero", 3),
    ("llama", 4, "2x2x2", *ZERO_BUBBLE, "--precision", "bf16", "--zero", 2),
    ("gemma2", 5, "1x4x1", *ZERO_BUBBLE, "--precision", "bf16", "--recompute", "full"),
    ("gpt2", 4, "1x2x1", *V2, "--dropout", 0.1),
    ("gpt2", 4, "1x2x1", *ZERO_BUBBLE, "--dropout", 0.1, "--recompute", "full"),
    # Drops the same elements wherever a stage begins, inside of the period of windows too.
    ("gemma2", 5, "1x2x1", "--stages", "3,2", "--dropout", 0.1),
    # Has buckets of gradients for one optimizer alone: the other shares its sums out.
    ("gpt2", 4, "2x2x1", "--optimizer", "sgd", "--twin", "on"),
    ("gpt2", 4, "1x2x2", *V2, "--twin", "on"),
    ("gpt2", 4, "1x2x2", *ZERO_BUBBLE, "--twin", "on"),
    ("gpt2", 6, "1x3x2", *V2, "--interleavings", 4),
    ("gpt2", 4, "1x4x1", *ZERO_BUBBLE, "--interleavings", 4),
    ("gpt2", 10, "1x3x1", *V3),
    ("gpt2", 12, "1x4x1", *V3),
    ("llama", 6, "1x3x1", *V2, *RING),
    ("gpt2", 8, "2x4x2", *V2, "--zero", 3),
    ("gpt2", 7, "1x3x1", *ZERO_BUBBLE),
    ("gpt2", 4, "1x4x1", *ZERO_BUBBLE, "--micro-batch", 2, "--global-batch", 6),
    ("llama", 3, "1x3x1", *ZERO_BUBBLE, *RING),
    ("gpt2", 4, "2x2x2", *ZERO_BUBBLE, "--zero", 3),
    ("gpt2", 7, "1x3x1", "--stages", "3,2,2"),
    ("gpt2", 7, "1x4x1", "--stages", "0,4,3,0"),
    ("llama", 2, "1x2x1", "--stages", "0,1,1,0", *V2),
    ("gemma2", 5, "1x4x1", *ONE),
]
OTHERS = {"": (), "tp": (), "tp, whole rows": NO_SEQUENCE, "ring": RING, "heads": HEADS,
          **{f"zero {z}": ("--zero", z) for z in range(4)},
          **{f"recompute {kind}": ("--recompute", kind) for kind in ("selective", "full")}}


def every_case():
    for model, p, way, other in itertools.product(("gpt2", "llama", "gemma2"), (2, 3, 4),
                                                  (GPIPE, ONE, ZERO_BUBBLE, V2, V3), OTHERS):
        mesh = f"{2 if 'zero' in other else 1}x{p}x{2 if 'tp' in other else 1}"
        layers = p * value_of(way, "--virtual-stages", 1) + 1
        yield (model, max(layers, 4), mesh, *way, *OTHERS[other])


suite = Suite("pipelines")
for model, layers, mesh, *flags in dict.fromkeys([*CASES, *every_case()]) if suite.full else CASES:
    suite.run(f"{model}, {layers} layers on {mesh} {' '.join(map(str, flags))}", trained, model, layers, mesh, *flags)
for model, layers, mesh, *flags in dict.fromkeys([*PROVED, *CASES, *every_case()]) if suite.full else PROVED:
    suite.run(f"verified, {model}, {layers} layers on {mesh} {' '.join(map(str, flags))}", proved, model, layers, mesh,
              *flags)
for flags in [V2, ZERO_BUBBLE, ("--stages", "0,4")]:
    for border in ("shard", "partition", "schedule"):
        suite.run(f"by way of a dump after {border} {' '.join(map(str, flags))}", resumed, border, *flags)
# Gives the head the work of two and a half layers, which is that of nearly three or of a stage, or next to none.
for layers, vocabulary, mesh, *flags in [(12, 1950, "1x3x1"), (13, 1950, "1x4x1"), (13, 1950, "1x2x1", *V2),
                                         (9, 1950, "1x4x1"), (15, 1950, "1x2x1", *V3), (8, 50, "1x4x1")]:
    suite.run(f"balanced, {layers} layers and {vocabulary:,} words on {mesh} {' '.join(map(str, flags))}", balanced,
              layers, 64, vocabulary, mesh, *flags)
suite.finish()
