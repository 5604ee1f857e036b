"""--memory-limit: what a rank's arena may take, and what --recompute auto computes again to stay below.

The arenas are those of the compiled program. Within the limit the choice is the cheapest: it is
compared with all others in test/passes/5-schedule/KeptSetTest.cpp; here it is proved and measured.
"""
import json
import os
import re

import numpy as np

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require, train

LIMITS = 10


def build(folder, model, mesh, *flags, check=True):
    program = os.path.join(folder, "program")
    done = compile_model(os.path.join(DATA, model, "config.json"), program, "--mesh", mesh, "--seq", 16, *flags, check=check)
    return program, done


def arena(program):
    return max(stage["arena_bytes"] for stage in inspect(program)["stages"])


def redone(program):
    """FLOPs of a micro-batch that run again on all stages."""
    answer = json.loads(call([LLMC, "explain", program, "--json"]).stdout)
    return sum(one["flops"] * one["layers"] for one in answer["recomputed"] if not one["kept"])


def bounds(folder, model, mesh, *flags):
    """The arena if all is kept, and the smallest that the refusal of a small limit names."""
    most = arena(build(folder, model, mesh, *flags)[0])
    _, done = build(folder, model, mesh, "--recompute", "auto", "--memory-limit", 1, *flags, check=False)
    found = [int(n) for n in re.findall(r"takes (\d+) bytes in the smallest form that was found, whatever it computes again; allow so many", done.stderr)]
    require(done.returncode == 1 and len(found) == int(mesh[2]), f"names a size for each stage: {done.stderr}")
    return max(found), most


def ten_limits(folder, model, mesh, *flags):
    least, most = bounds(folder, model, mesh, *flags)
    require(least < 0.9 * most, f"from {least} to {most} bytes")
    work = []
    for i in range(LIMITS):
        limit = least + (most - least) * i // (LIMITS - 1)
        program, _ = build(folder, model, mesh, "--recompute", "auto", "--memory-limit", limit, *flags)
        require(arena(program) <= limit, f"limit {limit}: the arena takes {arena(program)} bytes")
        plan = inspect(program)
        require((plan["recompute"], plan["memory_limit"]) == ("auto", limit), "inspect names the choice")
        work.append(redone(program))
    require(work[-1] == 0, f"all may be kept, and {work[-1]} FLOPs run again")
    # The arena follows what is kept nearly, so that a search of a few runs comes near the cheapest.
    require(work[0] > 0 and all(a >= 0.95 * b for a, b in zip(work, work[1:])), f"more memory, more work: {work}")
    return f"{least:,} to {most:,} bytes, {work[0]:,.0f} FLOPs to none"


def same_bits(folder, model, mesh, *flags):
    least, most = bounds(folder, model, mesh, *flags)
    tokens, dumps = os.path.join(folder, "tokens.bin"), []
    np.random.default_rng(16).integers(0, 50, 1000).astype("<u2").tofile(tokens)
    for choice in [(), ("--recompute", "auto", "--memory-limit", (2 * least + most) // 3)]:
        program, _ = build(folder, model, mesh, "--no-fusion", *choice, *flags)
        place = os.path.join(folder, f"run{len(dumps)}")
        os.makedirs(place)
        dumps.append(train(program, place, "--data", tokens, "--steps", 2, "--seed", 1))
    require(redone(program) > 0, "nothing runs again")
    for name, value in dumps[0].items():
        require(value.tobytes() == dumps[1][name].tobytes(), f"{name} differs")
    return f"{len(dumps[0])} tensors"


def verified(folder, model, mesh, *flags):
    """Also by a smaller model, which keeps the same values though its limit would allow all."""
    least, most = bounds(folder, model, mesh, "--micro-batch", 2)
    done = call([LLMC, "verify", os.path.join(DATA, model, "config.json"), "--mesh", mesh, "--seq", 16, "--recompute",
                 "auto", "--memory-limit", (2 * least + most) // 3, "--micro-batch", 2, "--json", *flags], check=False)
    require(done.returncode == 0, done.stderr[-1000:] + done.stdout[-1000:])
    return f"{len(json.loads(done.stdout)['checks'])} checks"


def phases(folder):
    """A dump is compiled on to the same program."""
    least, most = bounds(folder, "gpt2", "1x2x1")
    flags = ["--recompute", "auto", "--memory-limit", (least + most) // 2]
    whole, _ = build(folder, "gpt2", "1x2x1", *flags)
    dump, resumed = os.path.join(folder, "partition.mlir"), os.path.join(folder, "resumed")
    call([LLMC, "compile", os.path.join(DATA, "gpt2", "config.json"), "--mesh", "1x2x1", "--seq", 16, *flags,
          "--compile-to", "partition", "-o", dump])
    call([LLMC, "compile", dump, "-o", resumed])
    require((arena(whole), redone(whole)) == (arena(resumed), redone(resumed)), "the resumed program chose otherwise")
    require(redone(whole) > 0, "nothing runs again")


def refused(folder):
    _, done = build(folder, "gpt2", "1x1x1", "--recompute", "auto", check=False)
    require(done.returncode == 1 and "give the bytes" in done.stderr, done.stderr)
    most = arena(build(folder, "gpt2", "1x2x1")[0])
    _, done = build(folder, "gpt2", "1x2x1", "--memory-limit", most - 1, check=False)
    require(done.returncode == 1 and "stage 0" in done.stderr and "--recompute auto" in done.stderr, done.stderr)
    program, _ = build(folder, "gpt2", "1x2x1", "--memory-limit", most)
    require(arena(program) == most, "a limit that allows it changes nothing")
    _, done = build(folder, "gpt2", "1x1x1", "--infer", "--dim", "batch=1", "--memory-limit", 1000, check=False)
    require(done.returncode == 1 and "--dim" in done.stderr and "--recompute" not in done.stderr, done.stderr)
    for bad in ["0", "-1", "1e9", "all", str(1 << 60)]:
        _, done = build(folder, "gpt2", "1x1x1", "--memory-limit", bad, check=False)
        require(done.returncode in (1, 2) and "--memory-limit" in done.stderr, f"{bad}: {done.stderr}")


suite = Suite("memory")
suite.run("ten limits, gpt2 on 1x1x1", ten_limits, "gpt2", "1x1x1", "--micro-batch", 8)
suite.run("ten limits, llama on 1x2x2", ten_limits, "llama", "1x2x2", "--micro-batch", 2)
suite.run("same bits, gpt2 on 1x2x2", same_bits, "gpt2", "1x2x2")
suite.run("same bits, gemma2 on 2x1x2 in bf16, zero 3", same_bits, "gemma2", "2x1x2", "--precision", "bf16", "--zero", 3)
suite.run("verified, llama on 1x2x2", verified, "llama", "1x2x2")
suite.run("verified by a smaller model, gpt2 on 2x2x2", verified, "gpt2", "2x2x2", "--twin", "on")
suite.run("a dump goes on", phases)
suite.run("refusals", refused)
suite.finish()
