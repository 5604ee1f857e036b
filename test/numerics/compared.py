"""llmc compare: what differs between two programs is what inspect says of each, what it costs what trace says."""
import json
import os

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require


def build(folder, name, *flags, model="llama"):
    program = os.path.join(folder, name)
    compile_model(os.path.join(DATA, model, "config.json"), program, "--weights", "random", "--seq", 32, *flags)
    return program


def compare(*words):
    return json.loads(call([LLMC, "compare", *words, "--json"]).stdout)


def found(answer, what):
    return next((d["values"] for d in answer["differences"] if d["what"] == what), None)


def totals(plan):
    """Calls and bytes of a step by kind, axes and phase."""
    sums = {}
    for c in plan["collectives"] + [dict(s, kind="send", axes=[s["axis"]]) for s in plan["sends"]]:
        key = c["kind"], " x ".join(c["axes"]), c["phase"]
        calls, size = sums.get(key, (0, 0))
        sums[key] = calls + c["per_step"], size + c["bytes"] * c["per_step"]
    return sums


def differences(folder, flags, expected):
    base = ["--dp", 2, "--tp", 2, "--global-batch", 16]
    a, b = build(folder, "a", *base), build(folder, "b", *(flags if "--dp" in flags else [*base, *flags]))
    answer, plans = compare(a, b), [inspect(a), inspect(b)]
    require(answer["same_model"] and not answer["identical"] and "cost" not in answer, f"{answer}")
    for what, values in expected.items():
        require(found(answer, what) == values, f"{what}: {found(answer, what)}, expected {values}")
    for what, of in [("kernels", lambda p: len(p["kernels"])), ("bytes of states, all stages", lambda p: p["state_bytes"]),
                     ("bytes of the largest arena", lambda p: max(s["arena_bytes"] for s in p["stages"])),
                     ("micro-batches", lambda p: p["micro_batches"]), ("instructions: launch", lambda p: p["instructions"]["launch"])]:
        wanted = [of(p) for p in plans]
        require(found(answer, what) == (wanted if wanted[0] != wanted[1] else None), f"{what}: {found(answer, what)}, {wanted} inspected")
    first, second = map(totals, plans)
    wanted = {k: [list(first.get(k, (0, 0))), list(second.get(k, (0, 0)))] for k in {*first, *second} if first.get(k) != second.get(k)}
    got = {(c["kind"], c["axes"], c["phase"]): [list(pair) for pair in zip(c["calls"], c["step_bytes"])] for c in answer["collectives"]}
    require(got == wanted, f"{got}, {wanted} inspected")
    text = call([LLMC, "compare", a, b]).stdout
    for word in ["what differs", *(f"{kind} over" for kind, _, _ in wanted), *answer["words"]]:
        require(word in text, f"the text does not say '{word}':\n{text}")


def costs(folder):
    a = build(folder, "a", "--dp", 2, "--tp", 2, "--global-batch", 16)
    for flags, part in [(["--dp", 2, "--tp", 2, "--zero", 3], "dp"), (["--dp", 4], "tp"), (["--dp", 2, "--pp", 2], "bubble"),
                        (["--dp", 2, "--cp", 2], "cp")]:
        b = build(folder, "b", *flags, "--global-batch", 16)
        cost = compare(a, b, "--gpu", "h100")["cost"]
        traced = [json.loads(call([LLMC, "trace", p, "--gpu", "h100", "--json"]).stdout) for p in (a, b)]
        steps = [t["step_time_s"] for t in traced]
        require(cost["step_s"] == steps and abs(cost["difference_s"] - (steps[1] - steps[0])) < 1e-12, f"{cost}, {steps} traced")
        for side in 0, 1:
            whole = sum(p["seconds"][side] for p in cost["parts"])
            require(abs(whole - steps[side]) < 1e-7, f"parts of {whole} s, a step of {steps[side]} s")
        require(any(p["part"] == part and abs(p["difference_s"]) > 1e-6 for p in cost["parts"]), f"{flags}: {cost['parts']}")
    words = call([LLMC, "compare", a, b, "--gpu", "h100"]).stdout
    require("On h100 B is" in words and "seconds of a step on h100" in words, words)


def equal(folder):
    """Programs of equal choices have no difference, however they are asked for."""
    a = build(folder, "a", "--mesh", "2x1x2")
    b = build(folder, "b", "--tp", 2, "--dp", 2, "-q", "--zero", 1)
    for words in ([a, a], [a, b], [a, b, "--gpu", "h100"]):
        require(compare(*words)["identical"], f"{compare(*words)}")
        require("There is no difference." in call([LLMC, "compare", *words]).stdout, "the text does not say so")
    c = build(folder, "c", "--mesh", "2x1x2", "--no-fusion")
    require(not compare(a, c)["identical"], "kernels of other ops are no difference")


def models(folder):
    a, b = build(folder, "a", "--tp", 2), build(folder, "b", "--tp", 2, model="gpt2")
    answer = compare(a, b, "--gpu", "h100")
    require(not answer["same_model"] and "different models" in answer["words"][0], f"{answer['words']}")


def refusals(folder):
    a = build(folder, "a", "--tp", 2)
    infer = os.path.join(folder, "infer")
    compile_model(os.path.join(DATA, "gpt2", "config.json"), infer, "--infer", "--dim", "batch=1,sequence=4", "--weights", "random")
    require(not compare(a, infer)["identical"], "a training is an inference")
    damaged = os.path.join(folder, "damaged")
    with open(a, "rb") as f:
        content = bytearray(f.read())
    content[-3000] ^= 1
    with open(damaged, "wb") as f:
        f.write(content)
    for words, code, said in [([a], 2, "a second program"), ([a, a, a], 2, "more than two programs"), ([], 2, "needs two programs"),
                              ([a, "/none"], 1, "/none"), ([a, __file__], 1, "compare takes two programs"),
                              ([a, damaged], 1, "is damaged"), ([a, infer, "--gpu", "h100"], 1, "--infer"),
                              ([a, a, "--gpu", "h10"], 1, "did you mean 'h100'"), ([a, a, "--tp", "2"], 2, "--tp belongs to")]:
        done = call([LLMC, "compare", *words], check=False)
        require(done.returncode == code and said in done.stderr and "llmc: error: " in done.stderr, f"{words}: {done.returncode} {done.stderr}")


suite = Suite("compared")
for flags, expected in [
        (["--zero", 3], {"zero": [1, 3], "mesh": None}),
        (["--micro-batch", 2], {"rows of a micro-batch": [1, 2], "micro-batches": [8, 4]}),
        (["--recompute", "full"], {"recompute": ["none", "full"]}),
        (["--sequence-parallel", "off"], {"sequence parallelism": ["on", "off"]}),
        (["--dp", 2, "--pp", 2, "--global-batch", 16, "--schedule", "zero-bubble"],
         {"mesh": ["dp 2 x pp 1 x tp 2", "dp 2 x pp 2 x tp 1"], "layers of stages": ["0-1", "0-0 | 1-1"], "schedule": ["1f1b", "zero-bubble"]}),
        (["--dp", 2, "--cp", 2, "--global-batch", 16], {"cp kind": ["none", "ring"]}),
        (["--optimizer", "sgd", "--precision", "bf16"], {"optimizer": ["adamw", "sgd"]})]:
    suite.run("differences, " + " ".join(map(str, flags)), differences, flags, expected)
suite.run("costs", costs)
suite.run("no difference", equal)
suite.run("different models", models)
suite.run("refusals", refusals)
suite.finish()
