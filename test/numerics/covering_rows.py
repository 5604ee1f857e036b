"""Pairwise covering arrays of choices, and the proof of a row of one."""
import itertools
import json
import random

from harness import LLMC, Failure, call, require


def pairs(row):
    return {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(row, 2)}


def covering_array(choices, bound, allowed, count, seed):
    """Rows that each take the most pairs that no row before them has, of 600 drawn ones.

    `bound` names the choices that bind each other (two of them may exclude each other in every row); `allowed` tells whether
    a row of these may stand. Returns the rows, the pairs that stand in one, and those that may.
    """
    draw = random.Random(seed)

    def drawn():
        while True:
            row = {name: draw.choice(values) for name, values in choices.items()}
            if allowed(row):
                return row

    some = [dict(zip(bound, values)) for values in itertools.product(*(choices[name] for name in bound))]
    some = [row for row in some if allowed(row)]
    wanted = {((a, x), (b, y)) for a, b in itertools.combinations(choices, 2)
              for x in choices[a] for y in choices[b]
              if any(row.get(a, x) == x and row.get(b, y) == y for row in some)}
    total, rows = len(wanted), []
    while len(rows) < count:
        best, most = None, -1
        for _ in range(600):
            row = drawn()
            if len(pairs(row) & wanted) > most:
                best, most = row, len(pairs(row) & wanted)
        wanted -= pairs(best)
        rows.append(best)
    return rows, total - len(wanted), total


def prove(given, row, refusals):
    """Verifies what `given` asks for. A refusal must name a way out, and is added to `refusals`."""
    done = call([LLMC, "verify", *given, "--twin", "off", "--json"], check=False)
    if done.returncode == 1 and "llmc: error: " in done.stderr:
        reason = done.stderr[done.stderr.index("llmc: error: "):].strip()
        require(any(word in reason for word in ("valid", "use ", "choose", "nearest", "leave", "allow so many")), f"names no way out: {reason}")
        refusals.append(row)
        return "refused: " + reason.splitlines()[0]
    if done.returncode not in (0, 3):
        raise Failure(f"exit {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    failed = [c for c in report["checks"] if not c["passed"]]
    require(not failed and done.returncode == 0,
            "\n".join(f"{c['name']} {c['value']:.3e} > {c['limit']:.1e} {c['subject']}" for c in failed))
    return f"{report['ranks']} ranks, {len(report['checks'])} checks"


def run_rows(suite, prove_row, rows, covered, every, refusals):
    """Runs a test for each row, and one that few are refused and, in a full run, that all pairs stand in a row."""
    for at, chosen in enumerate(rows):
        suite.run(f"{at}: " + " ".join(f"{k} {v}" for k, v in chosen.items()), prove_row, chosen)

    def few_refused(folder):
        require(len(refusals) <= 0.15 * len(rows), f"{len(refusals)} of {len(rows)} refused")
        require(covered == every or not suite.full, f"{every - covered} pairs of choices stand in no row")
        return f"{len(refusals)} of {len(rows)}; {covered} of {every} pairs of choices stand in a row"

    if not suite.only:
        suite.run("few are refused", few_refused)
    suite.finish()
