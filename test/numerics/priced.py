"""What explain says on a cluster: prices of collectives, and fixes whose commands do what they promise."""
import json
import os
import shlex
import shutil

from harness import DATA, LLMC, Suite, call, compile_model, inspect, require

GPT2 = os.path.join(DATA, "gpt2", "config.json")
# Leaves one micro-batch to each rank, so that none can be made larger: another choice must come first.
PLANS = {
    "tp 2": ("gpt2", "--tp", 2, "--seq", 64, "--global-batch", 1),
    "tp 2, dp 2, zero 3": ("llama", "--tp", 2, "--dp", 2, "--zero", 3, "--seq", 64, "--global-batch", 2),
    "pp 2": ("gpt2", "--pp", 2, "--seq", 64, "--global-batch", 4),
    "cp 2": ("gpt2", "--cp", 2, "--seq", 64, "--global-batch", 2),
    "ep 2": ("mixtral", "--dp", 2, "--ep", 2, "--seq", 32, "--global-batch", 2),
}
UNPLANNED = {"--weights": 2, "-o": 2, "llmc": 1, "compile": 1}  # words of a compilation that llmc plan does not take


def explain(program, *words, gpu="h100"):
    return json.loads(call([LLMC, "explain", program, *words, "--gpu", gpu, "--json"]).stdout)


def build(folder, name):
    model, *flags = PLANS[name]
    program = os.path.join(folder, "program")
    compile_model(os.path.join(DATA, model, "config.json"), program, "--weights", "random", *flags)
    return program


def entries(answer):
    return answer["collectives"] + answer["sends"]


def predicted(command):
    """What llmc plan says of a command of llmc compile: seconds of a step, bytes at the peak."""
    words, kept = shlex.split(command), []
    while words:
        skipped = UNPLANNED.get(words[0], 0)
        kept += [] if skipped else words[:1]
        words = words[max(1, skipped):]
    chosen = json.loads(call([LLMC, "plan", *kept, "--precision", "fp32", "--recompute", "none", "--json"]).stdout)["chosen"]
    return chosen["step_time_s"], chosen["memory_bytes"]["peak"]


def apply(fix):
    words = shlex.split(fix["command"])
    require(words[:2] == ["llmc", "compile"], f"no command of llmc compile: {fix['command']}")
    call([LLMC, *words[1:], "-q"])
    return words[words.index("-o") + 1]


def kinds(plan):
    """Kind, axes and phase of everything that is moved."""
    return ({(c["kind"], tuple(c["axes"]), c["phase"]) for c in plan["collectives"]} |
            {("send", (s["axis"],), s["phase"]) for s in plan["sends"]})


def close(got, want, what, size):
    require(abs(got - want) <= 0.01 * size, f"{what}: {got:.6g}, and {want:.6g} was said")


def applied(folder, name):
    """The first fix of a collective, applied: it is gone, and the step changes as stated."""
    program = build(folder, name)
    listed = sorted(entries(explain(program)), key=lambda e: -e["exposed_s"])
    for entry in listed:
        answer = explain(program, entry["name"])
        first = answer["fixes"][0] if answer["fixes"] else {"removes": []}
        if entry["name"] in first["removes"]:
            break
    else:
        require(False, f"no first fix removes anything of {[e['name'] for e in listed]}")
    axes = [entry["axes"][0]] if "to_stage" in entry else entry["axes"]
    before, after = kinds(inspect(program)), kinds(inspect(apply(first)))
    it = entry["kind"], tuple(axes), entry["phase"]
    require(it in before and it not in after, f"{it} of {entry['name']} stays with {first['command']}: {after}")
    model, *flags = PLANS[name]
    own = " ".join(["llmc compile", os.path.join(DATA, model, "config.json"), *map(str, flags), "--gpu h100 -o x"])
    (step, peak), (step_then, peak_then) = predicted(own), predicted(first["command"])
    close(step, answer["prediction"]["step_s"], "the step", step)
    close(peak, answer["prediction"]["peak_bytes"], "the peak", peak)
    close(step - step_then, first["saves_s"], "what is saved", abs(first["saves_s"]))
    close(peak_then - peak, first["memory_bytes"], "the change of memory", max(abs(first["memory_bytes"]), 1))
    text = call([LLMC, "explain", program, entry["name"], "--gpu", "h100"]).stdout
    for word in [first["command"], "then there is none", "of which compute waits", f"{first['flag']} {first['value']}"]:
        require(word in text, f"the text does not say '{word}':\n{text}")
    return f"{entry['name']}: {first['flag']} {first['value']} saves {1e3 * first['saves_s']:.3f} ms of {1e3 * step:.3f}"


def removed(folder, name):
    """What fixes are said to remove is gone from the programs that their commands make."""
    answer, count = explain(build(folder, name)), 0
    kind = {e["name"]: e["kind"] for e in entries(answer)}
    for fix in answer["fixes"][:6]:
        plan = inspect(apply(fix))
        left = {(c["name"], c["kind"]) for c in plan["collectives"]} | {(s["name"], "send") for s in plan["sends"]}
        still = [gone for gone in fix["removes"] if (gone, kind[gone]) in left]
        require(not still, f"{fix['changes']} leaves {still}")
        count += len(fix["removes"])
    require(answer["fixes"] == sorted(answer["fixes"], key=lambda f: -f["saves_s"]), "the order of fixes")
    return f"{count} removed by {len(answer['fixes'])} fixes"


def prices(folder):
    program = os.path.join(folder, "program")
    compile_model(GPT2, program, "--mesh", "2x2x2", "--seq", 64, "--zero", 3, "--weights", "random")
    answer = explain(program)
    step = answer["prediction"]["simulated_step_s"]
    traced = json.loads(call([LLMC, "trace", program, "--gpu", "h100", "--json"]).stdout)
    require(traced["step_time_s"] == step, f"{step} s a step, llmc trace says {traced['step_time_s']}")
    for e in entries(answer):
        require(e["time_s"] > 0 and abs(e["time_s"] * e["per_step"] - e["step_s"]) <= 1e-6 * e["step_s"], f"{e}")
        require(0 <= e["exposed_s"] <= 1.1 * e["step_s"] + 1e-9 and abs(e["share"] * step - e["exposed_s"]) < 1e-12, f"{e}")
    # What ranks wait for in all is what the collectives of their stages are charged, but for second ends of messages.
    waits = sum(sum(r["exposed_s"].values()) for r in traced["ranks"])
    charged = sum(e["exposed_s"] for e in entries(answer))
    require(0.9 * charged <= waits <= 1.1 * charged, f"ranks wait {waits} s, collectives are charged {charged} s")
    alone = os.path.join(folder, "alone")  # of one stage, whose ranks wait for nothing that is not listed
    compile_model(GPT2, alone, "--mesh", "2x1x2", "--seq", 64, "--zero", 3, "--weights", "random")
    charged = sum(e["exposed_s"] for e in entries(explain(alone)))
    rank = json.loads(call([LLMC, "trace", alone, "--gpu", "h100", "--json"]).stdout)["ranks"][0]
    require(abs(sum(rank["exposed_s"].values()) - charged) <= 1e-9, f"{rank} waits, collectives are charged {charged} s")
    slow = explain(program, gpu="a100-40g")
    require(slow["prediction"]["cluster"] == "a100-40g" and slow["prediction"]["simulated_step_s"] > step, "another card")
    one = explain(program, answer["collectives"][0]["name"])
    require(one["time_s"] == answer["collectives"][0]["time_s"] and one["alternatives"], f"{one}")
    require(any("saves_s" in a for a in one["alternatives"]), f"no alternative has a price: {one['alternatives']}")
    plain = json.loads(call([LLMC, "explain", program, "--json"]).stdout)
    require("prediction" not in plain and "fixes" not in plain and "time_s" not in plain["collectives"][0], "prices without a cluster")


def choices(folder):
    """A command keeps what the program was compiled with."""
    program = os.path.join(folder, "program")
    given = ["--precision", "bf16", "--grad-dtype", "bf16", "--optimizer", "sgd", "--dropout", "0.1", "--tie", "off",
             "--gather-ahead", "2", "--recompute", "full", "--stages", "2,2", "--zero", "3", "--no-fusion"]
    compile_model(GPT2, program, "--mesh", "2x2x2", "--seq", 64, "--weights", "random", *given)
    for fix in explain(program)["fixes"]:
        words = shlex.split(fix["command"])
        for flag, value in zip(given[:-1:2], given[1::2]):
            if flag in fix["changes"] or flag == "--stages":
                continue
            require(words[words.index(flag) + 1] == value, f"{flag} {value} is not in {fix['command']}")
        require("--no-fusion" in words and ("--stages" in words) == ("--pp" not in fix["changes"] and
                                                                     "--virtual-stages" not in fix["changes"]), fix["command"])


def without_model(folder):
    model, program = os.path.join(folder, "config.json"), os.path.join(folder, "program")
    shutil.copy(GPT2, model)
    compile_model(model, program, "--tp", 2, "--seq", 16, "--weights", "random")
    os.remove(model)
    answer = explain(program)
    require(answer["fixes"] == [] and model in answer["no_fixes"] and answer["collectives"][0]["time_s"] > 0, f"{answer}")
    require(model in call([LLMC, "explain", program, "--gpu", "h100"]).stdout, "the text does not name the model")
    shutil.copy(GPT2, model)
    dump = os.path.join(folder, "dump.mlir")
    compile_model(model, dump, "--tp", 2, "--seq", 16, "--compile-to", "train")
    compile_model(dump, program)
    require("does not record" in explain(program)["no_fixes"], "a program of IR has fixes")
    require("does not record" in call([LLMC, "explain", program, "--gpu", "h100"]).stdout, "the text does not say why")


def schedules(folder):
    """What other schedules save is what their fixes for messages save."""
    program = build(folder, "pp 2")
    answer, sends = explain(program, "schedule"), [e for e in explain(program)["sends"]]
    fixes = {f["value"]: f["saves_s"] for f in explain(program, sends[0]["name"])["fixes"] if f["flag"] == "--schedule"}
    other = next(a for a in answer["alternatives"] if a["schedule"] == "zero-bubble")
    require(other["saves_s"] == fixes["zero-bubble"] and "fixes" not in answer, f"{other}, {fixes}")
    require("of a step\n" in call([LLMC, "explain", program, "schedule", "--gpu", "h100"]).stdout, "no price in the text")


def measured(folder):
    """On processors that were measured plans are simulated, the changed ones too."""
    cluster, program = os.path.join(folder, "machine.json"), os.path.join(folder, "program")
    call([LLMC, "calibrate", "--quick", "-q", "-o", cluster])
    compile_model(GPT2, program, "--tp", 2, "--seq", 16, "--global-batch", 4, "--weights", "random")
    answer = json.loads(call([LLMC, "explain", program, "--cluster", cluster, "--json"]).stdout)
    require(answer["prediction"]["step_s"] == answer["prediction"]["simulated_step_s"], f"{answer['prediction']}")
    fix = next(f for f in answer["fixes"] if f["flag"] == "--sequence-parallel")
    then = json.loads(call([LLMC, "trace", apply(fix), "--cluster", cluster, "--json"]).stdout)
    close(then["step_time_s"], fix["step_s"], "the step then", fix["step_s"])
    close(then["process_peak"], fix["peak_bytes"], "the peak then", fix["peak_bytes"])


def refused(folder):
    program = os.path.join(folder, "program")
    compile_model(GPT2, program, "--tp", 2, "--infer", "--dim", "batch=1,sequence=8", "--weights", "random")
    for flags, code, word in [(["--gpu", "h100"], 1, "--infer"), (["--gpu", "h10"], 1, "did you mean 'h100'"),
                              (["--cluster", "/none.json"], 1, "/none.json"), (["--gpu"], 2, "--gpu needs a value"),
                              (["--nic-gbytes", "5"], 1, "needs an accelerator")]:
        done = call([LLMC, "explain", program, *flags], check=False)
        require(done.returncode == code and word in done.stderr and "llmc: error: " in done.stderr, f"{flags}: {done.stderr}")


def damaged(folder):
    """A record of flags that is none is refused, one of other flags is named."""
    program, other, record = (os.path.join(folder, name) for name in ("program", "other", "record"))
    compile_model(GPT2, program, "--tp", 2, "--seq", 16, "--weights", "random")
    edit = os.path.join(os.path.dirname(LLMC), "llmc-plan-edit")
    for text, code, word in [("{", 1, "no list of flags"), ("[[1]]", 1, "no list of flags"), ("[[]]", 1, "no list of flags"),
                             ('[["--nonsense", "1"]]', 0, "--nonsense 1"), ('[["--help"]]', 0, "--help")]:
        with open(record, "w") as f:
            f.write(text)
        call([edit, program, other, "request", record])
        done = call([LLMC, "explain", other, "--gpu", "h100"], check=False)
        require(done.returncode == code and word in done.stdout + done.stderr, f"{text}: {done.returncode} {done.stderr}")


suite = Suite("priced")
suite.run("prices", prices)
for name in PLANS:
    suite.run(f"the first fix, {name}", applied, name)
for name in PLANS:
    suite.run(f"what fixes remove, {name}", removed, name)
suite.run("all choices in a command", choices)
suite.run("schedules", schedules)
suite.run("measured processors", measured)
suite.run("a model that is gone, and IR", without_model)
suite.run("refusals", refused)
suite.run("damaged records", damaged)
suite.finish()
