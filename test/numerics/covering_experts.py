"""Choices of experts together: a pairwise covering array of meshes, --ep, --etp, capacity, balance and mixtures.

Each row is proved by `llmc verify`, or refused with the reason and what would do; at most 15 % may
be refused, and none may crash. 16 rows; --full: 60, in which all pairs stand that may stand together.
"""
import os

from covering_rows import covering_array, prove, run_rows
from harness import DATA, Suite

SEED = 18
ROWS, FULL_ROWS = 16, 60
RANKS = 16
CHOICES = {
    # They have 8 experts; routers of Mixtral and Qwen 2 have no bias to move.
    "model": ["mixtral", "deepseek_v3", "qwen2_moe"],
    "dp": [1, 2, 4],
    "pp": [1, 2],
    "tp": [1, 2],
    "cp": [1, 2],
    "ep": [1, 2, 4, 8],
    "etp": [1, 2],
    "moe-capacity": [None, 0.75, 1.5],
    "moe-balance": ["none", "aux", "bias"],
    "zero": [0, 1, 2, 3],
    "recompute": ["none", "selective", "full"],
    "schedule": ["1f1b", "gpipe", "zero-bubble"],
    "micro-batch": [1, 2],
    "dropout": [0, 0.1],
}
BOUND = ("model", "dp", "pp", "tp", "cp", "ep", "etp", "moe-balance", "schedule")


def allowed(row):
    """Leaves out what the options refuse: their refusals have tests of their own."""
    ranks = row["dp"] * row["cp"] * row["tp"]
    return (ranks * row["pp"] <= RANKS and ranks % (row["ep"] * row["etp"]) == 0 and row["etp"] <= row["tp"] and
            (row["pp"] > 1 or row["schedule"] != "zero-bubble") and
            (row["moe-balance"] != "bias" or row["model"] == "deepseek_v3"))


refusals = []


def prove_row(folder, row):
    flags = [f for name in CHOICES if name not in ("model", "dp", "pp", "tp") and row[name] is not None
             for f in (f"--{name}", row[name])]
    model = os.path.join(DATA, row["model"], "config.json")
    return prove([model, "--mesh", f"{row['dp']}x{row['pp']}x{row['tp']}", "--seq", 16, *flags], row, refusals)


suite = Suite("covering_experts")
run_rows(suite, prove_row, *covering_array(CHOICES, BOUND, allowed, FULL_ROWS if suite.full else ROWS, SEED), refusals)
