"""Choices together: a pairwise covering array of meshes, forms of parallelism, precisions and models.

Each row is proved by `llmc verify`, or refused with the reason and what would do; at most 15 % may
be refused, and none may crash. 25 rows; --full: 100, in which all pairs stand that may stand together.
"""
import os

from covering_rows import covering_array, prove, run_rows
from deeper import depth_name, read_config, write_config
from harness import LLMC, Suite, call, inspect

SEED = 16
ROWS, FULL_ROWS = 25, 100
RANKS = 16
# Models differ in tied tables, kv heads (Gemma 2 and Qwen 3 have one, Llama two), windows, norms.
MODELS = {"gpt2": {}, "llama": {}, "gemma2": {}, "bert": {}, "qwen3": {},
          "llama-tied": {"tie_word_embeddings": True}, "gpt2-untied": {"tie_word_embeddings": False}}
CHOICES = {
    "model": list(MODELS),
    "dp": [1, 2, 4],
    "pp": [1, 2],
    "tp": [1, 2, 4],
    "cp": [1, 2, 4],
    "cp-kind": ["ring", "heads"],
    "zero": [0, 1, 2, 3],
    "sequence-parallel": ["on", "off"],
    "recompute": ["none", "selective", "full", "auto"],
    "schedule": ["1f1b", "gpipe", "interleaved", "zero-bubble"],
    "virtual-stages": [1, 2, 3],
    "stages": ["auto", "explicit"],
    "precision": ["fp32", "bf16"],
    "micro-batch": [1, 2],
    "dropout": [0, 0.1],
}


# Names the choices that bind each other: two of them may exclude each other in every row.
BOUND = ("dp", "pp", "tp", "cp", "schedule", "virtual-stages")


def allowed(row):
    interleaves = row["schedule"] == "interleaved"
    return (row["dp"] * row["pp"] * row["tp"] * row["cp"] <= RANKS and interleaves == (row["virtual-stages"] > 1) and
            (row["pp"] > 1 or row["schedule"] not in ("interleaved", "zero-bubble")))


def layers_of(row):
    """A model has its own layers, or one less than virtual stages, of which one has an end of the model alone."""
    content = read_config(row["model"].split("-")[0])
    return max(content[depth_name(content)], row["pp"] * row["virtual-stages"] - 1)


def stages_of(row):
    """Explicit stages give the last one most, the first one only what is left; none is what `auto` gives."""
    count, layers = row["pp"] * row["virtual-stages"], layers_of(row)
    if row["stages"] == "auto" or count == 1:
        return str(layers) if row["stages"] == "explicit" else "auto"
    first = 1 if layers > count else 0
    return ",".join(map(str, [first, *[1] * (count - 2), layers - first - (count - 2)]))


def model_of(folder, row):
    return write_config(folder, row["model"].split("-")[0], layers_of(row), **MODELS[row["model"]])


def limit_for(folder, given):
    """Bytes of an arena that force some of what selective recomputation drops."""
    arenas = []
    for kind in ("none", "selective"):
        program = os.path.join(folder, kind)
        choices = [kind if before == "--recompute" else flag for before, flag in zip(["", *given], given)]
        done = call([LLMC, "compile", *choices, "-o", program], check=False)
        if done.returncode == 1:  # It is refused whatever the limit.
            return 1 << 40
        arenas.append(max(stage["arena_bytes"] for stage in inspect(program)["stages"]))
    return sum(arenas) // 2


refusals = []


def prove_row(folder, row):
    choices = {**row, "stages": stages_of(row)}
    flags = [f for name in CHOICES if name not in ("model", "dp", "pp", "tp") for f in (f"--{name}", choices[name])]
    given = [model_of(folder, row), "--mesh", f"{row['dp']}x{row['pp']}x{row['tp']}", "--seq", 16, *flags]
    if row["recompute"] == "auto":
        given += ["--memory-limit", limit_for(folder, given)]
    return prove(given, row, refusals)


suite = Suite("covering")
run_rows(suite, prove_row, *covering_array(CHOICES, BOUND, allowed, FULL_ROWS if suite.full else ROWS, SEED), refusals)
