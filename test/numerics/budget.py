"""llmc budget: what compute buys by the scaling laws, as published, and what it refuses.

The tables of the papers are held by test/budget; here the command is, from its flags to its JSON.
"""
import itertools
import json
import math
import random

from harness import LLMC, Suite, call, require

LAWS = ["6ND", "kaplan", "chinchilla-1", "chinchilla-2", "chinchilla-3", "besiroglu"]


def budget(*flags):
    def refuse(name):
        raise ValueError(f"{name} is no JSON")
    return json.loads(call([LLMC, "budget", "--json", *map(str, flags)]).stdout, parse_constant=refuse)


def row(law, *flags):
    return next(one for one in budget(*flags)["results"] if one["law"] == law)


def near(got, want, share):
    require(abs(got / want - 1) <= share, f"{got} is not {want}")


def refused(folder, flags, code, *words):
    """Holds one refusal: as many errors as there are words in a list, each with its word."""
    done = call([LLMC, "budget", *flags], check=False)
    require(done.returncode == code, f"exit {done.returncode}, expected {code}: {done.stderr[-500:]}")
    lines = done.stderr.splitlines()
    require(done.stdout == "" and all(line.startswith("llmc: error: ") for line in lines), f"{done.stdout} {done.stderr}")
    for word in words:
        require(word in done.stderr, f"the message does not say '{word}': {done.stderr[-800:]}")
    return lines[0][:150]


def numbers(folder):
    one = row("6ND", "--flops", "1e21")
    near(one["params"], 2.9e9, 0.01)
    near(one["tokens"], 58e9, 0.01)
    require(one["loss"] is None and one["days"] is None, str(one))
    near(row("6ND", "--params", "70B", "--tokens", "2T")["flops"], 8.4e23, 1e-9)
    run = ["--gpu", "h100", "--gpus", 512, "--days", 90, "--mfu", 0.4]
    near(row("6ND", *run)["flops"], 1.575e24, 0.001)
    near(row("6ND", *run)["params"], 114.6e9, 0.001)
    near(row("6ND", *run, "--params", "30B")["tokens"], 8.75e12, 0.001)
    near(row("chinchilla-1", "--flops", "5.76e23")["params"], 67e9, 0.02)
    near(row("kaplan", "--flops", "1e21")["params"], 4.68e9, 0.002)
    near(row("chinchilla-3", "--params", "70B", "--tokens", "1.4T")["loss"],
         1.69 + 406.4 / 70e9**0.34 + 410.7 / 1.4e12**0.28, 1e-9)
    near(row("besiroglu", "--params", "70B", "--tokens", "1.4T")["loss"],
         1.8172 + 482.01 / 70e9**0.3478 + 2085.43 / 1.4e12**0.3658, 1e-9)
    near(row("kaplan", "--params", "1.5B", "--tokens", "22B")["loss"],
         ((6.4e13 / 1.5e9) ** (0.076 / 0.103) + 1.8e13 / 22e9) ** 0.103, 1e-9)


def keys(folder):
    out = budget("--flops", "1e21", "--inference-tokens", "1T")
    require([one["law"] for one in out["results"]] == [*LAWS, "sardana"], str(out))
    for one in out["results"]:
        require(one["source"] and (one["loss"] is None) == (one["loss_source"] is None), str(one))
        near(one["flops"], 6 * one["params"] * one["tokens"], 1e-9)
        near(one["total_flops"], one["flops"] + 2e12 * one["params"], 1e-9)
    least = out["results"][-1]
    require(0 < least["saved"] < 1 and least["params"] < out["results"][4]["params"] * 1.5, str(least))
    text = call([LLMC, "budget", "--flops", "1e21"]).stdout
    for word in [*LAWS, "tokens/param", "Hoffmann et al., 2022", "Table A3"]:
        require(word in text, f"the text does not say '{word}': {text}")


def any_that_determine(folder):
    """Holds that of quantities that fit each other any may be left out, and comes out again."""
    flops = 512 * 90 * 86400 * 989e12 * 0.4
    given = {"--gpus": 512, "--days": 90, "--mfu": 0.4, "--flops": flops, "--dollars-per-gpu-hour": 2,
             "--dollars": 512 * 90 * 24 * 2}
    for kept in itertools.combinations(given, 4):
        done = call([LLMC, "budget", "--json", "--gpu", "h100", *(str(w) for k in kept for w in (k, given[k]))], check=False)
        require(done.returncode in (0, 1), done.stderr)
        if done.returncode == 0:
            one = json.loads(done.stdout)["results"][0]
            for flag, key in [("--gpus", "gpus"), ("--days", "days"), ("--mfu", "mfu"), ("--flops", "flops"),
                              ("--dollars", "dollars"), ("--dollars-per-gpu-hour", "dollars_per_gpu_hour")]:
                if one[key] is not None:
                    near(one[key], given[flag], 1e-9)
    near(row("6ND", "--params", "70B", "--tokens", "2T", "--gpu", "a100-80g", "--gpus", 1024, "--mfu", 0.4)["days"], 76, 0.01)
    near(row("6ND", "--flops", flops, "--gpu", "h100", "--precision", "fp8", "--mfu", 0.4)["gpu_hours"],
         512 * 90 * 24 * 989 / 1979, 1e-9)


def failures(folder):
    out = budget("--mtbf-hours", 24, "--checkpoint-seconds", 300)
    require(out["results"] == [], str(out))
    near(out["cadence_s"]["young"], math.sqrt(2 * 300 * 86400), 1e-12)
    share = 300 / (2 * 86400)
    daly = math.sqrt(2 * 300 * 86400) * (1 + math.sqrt(share) / 3 + share / 9) - 300
    near(out["cadence_s"]["daly"], daly, 1e-12)
    near(out["goodput"], daly / (86400 * math.expm1((daly + 300) / 86400)), 1e-9)
    slower = budget("--mtbf-hours", 24, "--checkpoint-seconds", 300, "--restart-seconds", 600, "--flops", "1e21")
    near(slower["goodput"], out["goodput"] * math.exp(-600 / 86400), 1e-9)
    require(budget("--mtbf-hours", "0.01", "--checkpoint-seconds", 100)["cadence_s"]["daly"] == 36, "not the MTBF")
    long = row("6ND", "--mtbf-hours", 24, "--checkpoint-seconds", 300, "--flops", "1e21", "--gpu", "h100", "--gpus", 8, "--mfu", 0.5)
    near(long["wall_days"] * out["goodput"], long["days"], 1e-9)


def drawn(folder):
    """Gives drawn flags drawn values: an answer without nan, or errors in lines of one form."""
    draw = random.Random(1)
    wrong = ["0", "-1", "nan", "inf", "1e400", "1e-400", "x", "7BB", "1e308T", "", "B"]
    flags = {"--flops": ["1e9", "1e21", "1e40"], "--params": ["1", "7B", "1e24"], "--tokens": ["1", "2T", "1e24"],
             "--days": ["1e-6", "90", "1e9"], "--dollars": ["0.001", "1M", "1e18"], "--gpus": ["1", "512", "2147483648"],
             "--dollars-per-gpu-hour": ["1e-6", "2", "1e9"], "--mfu": ["1e-9", "0.4", "1"],
             "--inference-tokens": ["1", "2T", "1e24"], "--mtbf-hours": ["1e-6", "24", "1e9"],
             "--checkpoint-seconds": ["1e-6", "300", "1e9"], "--restart-seconds": ["0", "60", "1e9"]}
    answers = 0
    for _ in range(600):
        words = [f"{flag}={draw.choice(flags[flag] if draw.random() < 0.95 else wrong)}"
                 for flag in draw.sample(list(flags), draw.randint(1, 5))]
        if draw.random() < 0.3:
            words.append("--gpu=" + draw.choice(["h100", "cpu", "b200"]))
        done = call([LLMC, "budget", "--json", *words], check=False, timeout=20)
        if done.returncode == 0:
            answers += 1
            require("nan" not in done.stdout and "inf" not in done.stdout.replace("inference", ""), f"{words}: {done.stdout}")
            json.loads(done.stdout)
        else:
            lines = done.stderr.splitlines()
            require(done.returncode in (1, 2) and lines and len(set(lines)) == len(lines) and done.stdout == ""
                    and all(line.startswith("llmc: error: ") for line in lines), f"{words}: {done.returncode} {done.stderr}")
    require(answers > 30, f"only {answers} were answered")
    return f"{answers} answered"


suite = Suite("budget")
suite.run("numbers", numbers)
suite.run("its JSON and its table", keys)
suite.run("any flags that determine the rest", any_that_determine)
suite.run("failures and checkpoints", failures)
suite.run("drawn command lines", drawn)
for flags, code, words in [
        ([], 1, ["--flops", "--params", "--gpu, --mfu, --gpus and --days", "--dollars-per-gpu-hour"]),
        (["--gpu", "h100", "--gpus", "512", "--days", "90"], 1, ["here --mfu is missing"]),
        (["--dollars", "1M", "--gpu", "h100"], 1, ["here --mfu and --dollars-per-gpu-hour are missing"]),
        (["--flops", "1e21", "--params", "70B", "--tokens", "2T"], 1, ["1e+21", "8.4e+23", "leave one of these flags out"]),
        (["--gpu", "h100", "--gpus", "512", "--days", "90", "--mfu", "0.4", "--flops", "1e21"], 1, ["1e+21", "1.57501e+24"]),
        (["--gpus", "512", "--days", "90", "--dollars", "1M", "--dollars-per-gpu-hour", "2", "--flops", "1e21"], 1,
         ["1e+06 dollars", "2.21184e+06"]),
        (["--flops", "1e21", "--gpu", "h100"], 1, ["--gpu alone", "give --mfu"]),
        (["--flops", "1e21", "--mfu", "0.4"], 1, ["--mfu alone", "give --gpu"]),
        (["--flops", "1e21", "--gpus", "8"], 1, ["--gpus alone", "give --days"]),
        (["--flops", "1e26", "--gpu", "h100", "--gpus", "8", "--days", "1"], 1, ["an MFU of 146285", "none is above 1"]),
        (["--flops", "1e9", "--tokens", "1e24"], 1, ["fewer than one of params"]),
        (["--flops", "1e21", "--gpu", "h1000", "--mfu", "0.4"], 1, ["--gpu h1000", "did you mean 'h100'", "gb300"]),
        (["--flops", "1e21", "--gpu", "a100-80g", "--mfu", "0.4", "--precision", "fp8"], 1, ["a100-80g has no products in fp8"]),
        (["--flops", "1e21", "--mtbf-hours", "4"], 1, ["give --checkpoint-seconds too"]),
        (["--flops", "1e21", "--checkpoint-seconds", "60"], 1, ["give --mtbf-hours too"]),
        (["--flops", "1e21", "--restart-seconds", "60"], 2, ["--restart-seconds is for --mtbf-hours"]),
        (["--flops", "0"], 2, ["--flops needs a number from 1e+09 to 1e+40", "got '0'"]),
        (["--flops", "1e400"], 2, ["got '1e400'"]),
        (["--params", "-1", "--tokens", "nan", "--mfu", "1.5", "--gpus", "0", "--days", "inf"], 2,
         ["--params needs", "--tokens needs", "--mfu needs a share", "got '1.5'", "--gpus needs a whole number", "got 'inf'"]),
        (["--mfu", "40"], 2, ["0.4 is 40 %"]),
        (["--flops", "1e21", "--precision", "int8"], 2, ["--precision is one of", "int8"]),
        (["model", "--flops", "1e21"], 2, ["leave out 'model'"]),
        (["--flops", "1e21", "--tp", "2"], 2, ["--tp belongs to llmc"]),
        (["--flop", "1e21"], 2, ["did you mean '--flops'"])]:
    suite.run("refused: " + " ".join(flags), refused, flags, code, *words)
suite.finish()
