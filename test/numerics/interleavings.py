"""Whoever is fast, the bits are the same; and a broken plan is found out.

Programs run with --interleaving SEED: streams and ranks in an order drawn from
the seed, transfers late, bytes poisoned while they hold no value. Broken plans
are made by llmc-plan-edit, which stands beside llmc, and run --unchecked where
the executor shall find what the checkers found.
"""
import os
import re

from harness import (DATA, LLMC, Failure, Suite, call, compile_model, require)

EDIT = os.path.join(os.path.dirname(LLMC), "llmc-plan-edit")
MODEL = os.path.join(DATA, "gpt2")
TEXT = os.path.join(DATA, "gpt2", "text.bin")
TRIES = 200  # within which the executor must find a planted fault


def compiled(folder, mesh, rows, *flags):
    program = os.path.join(folder, "program")
    compile_model(MODEL, program, "--mesh", mesh, "--global-batch", rows, "--seq", 16, *flags)
    return program


def step(program, *flags, steps=1, check=False):
    return call([program, "--data", TEXT, "--seed", 7, "--steps", steps, *flags], check=check)


def dump(program, folder, *flags):
    path = os.path.join(folder, "dump.safetensors")
    step(program, "--dump", path, *flags, steps=2, check=True)
    with open(path, "rb") as f:
        return f.read()


def equal_bits(folder, mesh, rows, count, *flags):
    program = compiled(folder, mesh, rows, *flags)
    expected = dump(program, folder)
    for seed in range(count):
        require(dump(program, folder, "--interleaving", seed) == expected,
                f"seed {seed}: other bits than in order")
    return f"{count} orders"


def instructions(program):
    """(stage, procedure, index) and text of each instruction."""
    lines = call([EDIT, program]).stdout.splitlines()
    parsed = [re.fullmatch(r"(\d+) (\S+) (\d+) (stream \d+: .*)", line) for line in lines]
    require(parsed and all(parsed), "llmc-plan-edit lists instructions")
    return [((p[1], p[2], p[3]), p[4]) for p in parsed]


def edited(program, *edit):
    broken = program + ".broken"
    call([EDIT, program, broken, *edit])
    return broken


def error_of(done):
    return done.stderr if done.returncode else ""


def first_fault(program, tries=TRIES):
    """Seed and message of the first run that fails, or None."""
    for seed in range(tries):
        message = error_of(step(program, "--unchecked", "--interleaving", seed))
        if message:
            return seed, message
    return None


def lost_waits(folder, *flags):
    program = compiled(folder, "2x2x2", 8, *flags)
    waits = [site for site, text in instructions(program) if ": wait for event" in text]
    require(len(waits) >= 8, f"the plan has {len(waits)} waits")
    needed, worst, later = 0, 0, 0
    for site in waits:
        broken = edited(program, "remove", *site)
        checker = error_of(step(broken))
        found = first_fault(broken, TRIES if checker or suite.full else TRIES // 10)
        where = " ".join(site)
        if not checker:
            # Another path orders the same: then no order may find anything.
            require(not found, f"without the wait {where} the checkers pass, but {found}")
            continue
        require("happens-before: stage " + site[0] in checker, f"{where}: {checker}")
        if not found and all("next step" in line for line in checker.splitlines() if "arena byte" in line):
            later += 1  # a step of this executor ends when all of its streams have
            continue
        require(found, f"{TRIES} orders without the wait {where} find nothing")
        require("a wait is missing: arena bytes" in found[1] and "at rank" in found[1], found[1])
        needed, worst = needed + 1, max(worst, found[0] + 1)
    require(needed >= 4 and later <= 2, f"{later} are for the next step alone, only {needed} waits of {len(waits)} matter")
    return f"{needed} of {len(waits)} waits matter, each found within {worst} runs; {later} for the next step alone"


def over_stages(program):
    """Sites of two neighbouring collectives of stage 1 over other groups that join stages."""
    sites = [(site, re.search(r"all_reduce over (\S+)", text)) for site, text in instructions(program)]
    sites = [(site, group[1]) for site, group in sites if group and "pp" in group[1] and site[0] == "1"]
    for (a, first), (b, second) in zip(sites, sites[1:]):
        if a[:2] == b[:2] and first != second:
            return a, b
    raise Failure("no two collectives over stages follow each other")


def inverted(folder):
    program = compiled(folder, "2x2x2", 8, "--sequence-parallel", "off")
    first, second = over_stages(program)
    broken = edited(program, "swap", *first, second[2])
    checker = error_of(step(broken))
    require(f"launch-order: stage 0, procedure {first[1]}, instruction {first[2]}" in checker, checker)
    for flags in (["--interleaving", 1], []):
        report = error_of(step(broken, "--unchecked", *flags))
        require("all ranks are blocked" in report, report)
        for rank in range(8):
            require(re.search(rf"rank {rank} \(stage [01]\), stream \d+: collective, instruction "
                              rf"{first[2]} of '{first[1]}'.*; waits for rank \d", report), report)


def unmatched(folder):
    """One stage leaves a collective out; the others wait at theirs, or at a later one of
    the same group, having met what was not meant for them."""
    program = compiled(folder, "2x2x2", 8, "--sequence-parallel", "off")
    for site in over_stages(program):
        broken = edited(program, "remove", "0", *site[1:])
        checker = error_of(step(broken))
        require(f"collectives: stage 1, procedure {site[1]}, instruction" in checker, checker)
        report = error_of(step(broken, "--unchecked"))
        require("all ranks are blocked" in report or "collectives do not match" in report, report)
        named = re.search(rf"rank \d+ \(stage 1\), stream \d+: collective, instruction (\d+) of "
                          rf"'{site[1]}'", report)
        require(named and int(named[1]) >= int(site[2]), report)
        # Where nobody else writes the result, its reader comes first.
        require(first_fault(broken)[0] == 0, "the first order finds it")


suite = Suite("interleavings")
many = 200 if suite.full else 20
suite.run("mesh 2x2x2", equal_bits, "2x2x2", 8, many)
for mesh, rows in [("1x4x2", 8), ("4x2", 8), ("1x3x1", 6)]:
    suite.run(f"mesh {mesh}", equal_bits, mesh, rows, many // 5)
# Orders messages around a ring of stages, and slots of several pools.
for mesh, flags in [("2x2x2", ("--virtual-stages", 2)), ("1x4x1", ("--schedule", "zero-bubble"))]:
    suite.run(f"mesh {mesh} {' '.join(map(str, flags))}", equal_bits, mesh, 8, 200, *flags)
suite.run("lost waits", lost_waits, "--sequence-parallel", "off")
if suite.full:  # Three times as many waits.
    suite.run("lost waits of shared sequences", lost_waits)
suite.run("inverted launch order", inverted)
suite.run("unmatched collective", unmatched)
suite.finish()
