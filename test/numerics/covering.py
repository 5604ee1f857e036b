"""Choices together: a pairwise covering array of meshes, forms of parallelism, precisions and models.

Each row is proved by `llmc verify`, or refused with the reason and what would do; at most 15 % may
be refused, and none may crash. 25 rows; --full: 100.
"""
import itertools
import json
import os
import random

from harness import DATA, LLMC, Failure, Suite, call, inspect, require

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
    "schedule": ["1f1b", "gpipe"],
    "precision": ["fp32", "bf16"],
    "micro-batch": [1, 2],
    "dropout": [0, 0.1],
}


def allowed(row):
    return row["dp"] * row["pp"] * row["tp"] * row["cp"] <= RANKS


def pairs(row):
    return {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(CHOICES, 2)}


def covering_array(count, seed):
    """Rows that each take the most pairs that no row before them has, of 60 drawn ones."""
    draw = random.Random(seed)
    wanted = {((a, x), (b, y)) for a, b in itertools.combinations(CHOICES, 2)
              for x in CHOICES[a] for y in CHOICES[b]}
    wanted = {p for p in wanted if not {k for k, _ in p} <= {"dp", "tp", "pp"} or p[0][1] * p[1][1] <= RANKS}
    total, rows = len(wanted), []
    while len(rows) < count:
        best, most = None, -1
        for _ in range(60):
            row = {name: draw.choice(values) for name, values in CHOICES.items()}
            if allowed(row) and len(pairs(row) & wanted) > most:
                best, most = row, len(pairs(row) & wanted)
        wanted -= pairs(best)
        rows.append(best)
    return rows, total - len(wanted), total


def model_of(folder, name):
    with open(os.path.join(DATA, name.split("-")[0], "config.json")) as f:
        content = json.load(f)
    content.update(MODELS[name])
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(content, f)
    return path


def limit_for(folder, given):
    """Bytes of an arena that force some of what selective recomputation drops."""
    arenas = []
    for kind in ("none", "selective"):
        program = os.path.join(folder, kind)
        done = call([LLMC, "compile", *[kind if flag == "auto" else flag for flag in given], "-o", program], check=False)
        if done.returncode == 1:  # It is refused whatever the limit.
            return 1 << 40
        arenas.append(max(stage["arena_bytes"] for stage in inspect(program)["stages"]))
    return sum(arenas) // 2


refusals = []


def prove(folder, row):
    flags = [f for name in CHOICES if name not in ("model", "dp", "pp", "tp") for f in (f"--{name}", row[name])]
    given = [model_of(folder, row["model"]), "--mesh", f"{row['dp']}x{row['pp']}x{row['tp']}", "--seq", 16, *flags]
    if row["recompute"] == "auto":
        given += ["--memory-limit", limit_for(folder, given)]
    done = call([LLMC, "verify", *given, "--twin", "off", "--json"], check=False)
    if done.returncode == 1 and "llmc: error: " in done.stderr:
        reason = done.stderr[done.stderr.index("llmc: error: "):].strip()
        require(any(word in reason for word in ("valid", "use ", "choose", "nearest", "leave")), f"names no way out: {reason}")
        refusals.append(row)
        return "refused: " + reason.splitlines()[0]
    if done.returncode not in (0, 3):
        raise Failure(f"exit {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    failed = [c for c in report["checks"] if not c["passed"]]
    require(not failed and done.returncode == 0,
            "\n".join(f"{c['name']} {c['value']:.3e} > {c['limit']:.1e} {c['subject']}" for c in failed))
    return f"{report['ranks']} ranks, {len(report['checks'])} checks"


suite = Suite("covering")
array, covered, every = covering_array(FULL_ROWS if suite.full else ROWS, SEED)
for at, chosen in enumerate(array):
    suite.run(f"{at}: " + " ".join(f"{k} {v}" for k, v in chosen.items()), prove, chosen)


def few_refused(folder):
    require(len(refusals) <= 0.15 * len(array), f"{len(refusals)} of {len(array)} refused")
    return f"{len(refusals)} of {len(array)}; {covered} of {every} pairs of choices stand in a row"


if not suite.only:
    suite.run("few are refused", few_refused)
suite.finish()
