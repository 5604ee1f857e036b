"""Draws hostile command lines: each begins as a valid one and is broken in one or two ways."""
import dataclasses
import os

from files import FILES, LLMC, damage, disguise, edited_config, edited_tensors, runtime_bytes, special

NUMBERS = ["", " ", "-1", "0", "-0", "+3", "1.5", "0x10", "1e400", "nan", "inf", "-inf", " 1", "1 ", "1,", "1x", "x1", "\uff11",
           "99999999999999999999", "9223372036854775808", "-9223372036854775809", "--", "%s%n", "1" * 5000, "1e", "one",
           b"\xff\xfe1", "null", "1;2", "1\n2", "2147483648", "1_000"]
# Values that are valid but take for ever, or all memory of the machine.
SLOW = {"--steps": {"2147483648"}, "--repeat": {"2147483648"}, "--interleavings": {"2147483648"}}

SEVERAL = ("--input", "--data", "--dim")  # flags that may be given again


@dataclasses.dataclass
class Case:
    argv: list
    outputs: list                    # paths that the command may write
    notes: list = dataclasses.field(default_factory=list)
    refused: bool = False            # whether it must be refused; else it may be valid
    usage: bool = False              # whether the exit status must be 2


@dataclasses.dataclass
class Line:
    """A command line in pieces: [flag, value or None, role]. Roles: in (a file that is read), out,
    number, word."""
    program: list
    positional: list                 # [[value, role]]
    flags: list

    def argv(self):
        words = self.program + [value for value, _ in self.positional]
        for flag, value, _ in self.flags:
            words += [flag] if value is None else [flag, value]
        return words


def some(rng, items):
    return [list(item) for item in items if rng.random() < 0.4]


def compile_line(rng):
    model = rng.choice(["config.json", "model.onnx"])
    mesh = rng.choice(["1", "2", "1x2x1", "dp=2,tp=1"])
    return Line([LLMC, "compile"], [[model, "in"]], [
        ["-o", "out", "out"], ["--mesh", mesh, "word"], ["--seq", "8", "number"],
        *some(rng, [("--global-batch", "8", "number"), ("--micro-batch", "1", "number"),
                    ("--schedule", "gpipe", "word"), ("--optimizer", "sgd", "word"), ("--tie", "off", "word"),
                    ("--raise", "off", "word"), ("--zero", "0", "number"), ("--cp", "1", "number"),
                    ("--weights", "weights.safetensors" if model == "config.json" else "random", "in"),
                    ("--dump-phases", "phases", "out"), ("--precision", "fp32", "word")]),
        *([["--compile-to", rng.choice(["raise", "train", "shard"]), "word"]] if rng.random() < 0.7 else [])])


def from_line(rng):
    return Line([LLMC, "compile"], [["sharded.mlir", "in"]], [
        ["-o", "out", "out"], ["--compile-from", "shard", "word"], ["--compile-to", "partition", "word"],
        *some(rng, [("--mesh", "2", "word"), ("--seq", "8", "number")])])


def inspect_line(rng):
    file = rng.choice(["config.json", "model.onnx", "train.bin", "run.bin"])
    return Line([LLMC, "inspect"], [[file, "in"]], some(rng, [("--json", None, "flag")]))


def explain_line(rng):
    return Line([LLMC, "explain"], [[rng.choice(["train.bin", "run.bin"]), "in"],
                                    *([["matmul", "word"]] if rng.random() < 0.5 else [])],
                some(rng, [("--json", None, "flag")]))


def report_line(rng):
    return Line([LLMC, "report"], [["train.bin", "in"]], [
        ["--gpu", "cpu", "word"], ["-o", "page.html", "out"],
        *some(rng, [("--json", None, "flag"), ("--gpus-per-node", "2", "number"), ("--nic-gbytes", "2.5", "number")])])


def verify_line(rng):
    return Line([LLMC, "verify"], [[rng.choice(["config.json", "model.onnx"]), "in"]], [
        ["--mesh", "2", "word"], ["--seq", "8", "number"], ["--after", rng.choice(["raise", "train"]), "word"],
        *some(rng, [("--seed", "1", "number"), ("--json", None, "flag"), ("--mutants", "1", "number"),
                    ("--interleavings", "1", "number"), ("--twin", "off", "word")])])


def train_line(rng):
    data = rng.choice([[["--data", "tokens.bin", "in"]],
                       [["--input", "input_ids=ids.npy", "array"], ["--input", "labels=labels.npy", "array"]]])
    return Line(["./train.bin"], [], [
        *data, ["--steps", "2", "number"],
        *some(rng, [("--seed", "1", "number"), ("--lr", "1e-3", "number"), ("--warmup", "1", "number"),
                    ("--clip", "0.5", "number"), ("--beta1", "0.9", "number"), ("--eps", "1e-8", "number"),
                    ("--lr-schedule", "cosine", "word"), ("--min-lr", "1e-5", "number"),
                    ("--weights", "weights.safetensors", "in"), ("--metrics", "metrics.jsonl", "out"),
                    ("--dump", "dump.safetensors", "out"), ("--save", "saved", "out"), ("--workers", "1", "number"),
                    ("--threads", "1", "number"), ("--trace", "trace.json", "out"), ("--trace-steps", "1:2", "number"),
                    ("--profile", None, "flag"), ("--no-pin", None, "flag"), ("--cpu", "avx2", "word")])])


def run_line(rng):
    return Line(["./run.bin"], [], [
        ["--input", "input_ids=ids.npy", "array"], ["--output", "results", "out"],
        *some(rng, [("--repeat", "2", "number"), ("--weights", "weights.safetensors", "in"), ("--seed", "1", "number"),
                    ("--trace", "trace.json", "out"), ("--profile", None, "flag"), ("--threads", "1", "number")])])


LINES = [compile_line, compile_line, from_line, inspect_line, explain_line, report_line, verify_line, train_line, train_line, train_line,
         run_line, run_line]


# Each change breaks a line in place and returns a note, or None where it does not apply.

def misspelt(rng, case, line, folder):
    flags = [f for f in line.flags if f[0].startswith("--")]
    if not flags:
        return None
    flag = rng.choice(flags)
    word, at = flag[0], rng.randrange(2, len(flag[0]))
    flag[0] = rng.choice([word[:at] + word[at + 1:], word[:at] + word[at] + word[at:], word[:at] + "x" + word[at + 1:],
                          word.upper(), word.replace("--", "\u2013"), word + "s"])
    if flag[0] == word:
        return None
    # Without its hyphens it is a name, or another argument.
    case.refused, case.usage = True, flag[0].startswith("--")
    return f"{word} misspelt"


def repeated(rng, case, line, folder):
    flags = [f for f in line.flags if f[1] is not None and f[0] not in SEVERAL]
    if not flags:
        return None
    flag = rng.choice(flags)
    line.flags.insert(rng.randrange(len(line.flags) + 1), [flag[0], flag[1] + "0" if rng.random() < 0.7 else flag[1], flag[2]])
    if line.flags.count(flag) < 2:
        case.refused = True
    if flag[2] == "out":
        case.outputs.append(flag[1] + "0")
    return f"{flag[0]} twice"


def contradiction(rng, case, line, folder):
    more = {"compile": [["--train", "--infer"], ["--mesh", "4", "--dp", "2"], ["--mesh", "dp=2,dp=3"]],
            "verify": [["--mesh", "2", "--tp", "3"]]}.get(line.program[-1])
    if line.program[0] == "./train.bin":
        more = [["--data", "tokens.bin", "--input", "input_ids=ids.npy"], ["--output", "results"],
                ["--min-lr", "1", "--lr", "0.1"], ["--resume", "saved", "--weights", "random"]]
    elif line.program[0] == "./run.bin":
        more = [["--data", "tokens.bin"], ["--lr", "1"], ["--steps", "3"]]
    if not more:
        return None
    words = rng.choice(more)
    case.refused = words[0] != "--min-lr"
    line.flags += [[word, None, "word"] for word in words]
    return "contradicts: " + " ".join(words)


def number(rng, case, line, folder):
    flags = [f for f in line.flags if f[2] in ("number", "word") and f[1] is not None]
    if not flags:
        return None
    flag = rng.choice(flags)
    flag[1] = rng.choice([n for n in NUMBERS if n not in SLOW.get(flag[0], ())])
    return f"{flag[0]} is {flag[1][:30]!r}"


def no_value(rng, case, line, folder):
    flags = [f for f in line.flags if f[1] is not None]
    if not flags:
        return None
    flag = rng.choice(flags)
    line.flags.remove(flag)
    line.flags.append([flag[0], None, flag[2]])
    case.refused = case.usage = True
    return f"{flag[0]} without its value"


def positional(rng, case, line, folder):
    kind = rng.choice(["none", "more", "empty", "dash", "dashes", "garbage"])
    if kind == "none" and line.positional:
        line.positional.clear()
    elif kind == "more":
        line.positional += [["more", "word"], ["yet-more", "word"]]
    elif kind == "empty":
        line.positional.append(["", "word"])
    else:
        line.positional.append([{"dash": "-", "dashes": "--", "none": "-"}.get(kind) or
                                bytes(rng.randrange(1, 256) for _ in range(rng.randrange(1, 40))), "word"])
    # To explain, any word is a name that it does not know.
    case.refused = True
    return f"arguments: {kind}"


def command(rng, case, line, folder):
    if line.program[0] != LLMC:
        return None
    word = rng.choice(["", "Compile", "compil", "inspectt", "-", "--", "plan", "trace", b"\xff", "x" * 4000])
    line.program[1] = word
    case.refused = True
    return f"command {word[:20]!r}"


def readable(line):
    """The places of a line that name a file to read."""
    return [p for p in line.positional if p[1] == "in"] + [f for f in line.flags if f[2] in ("in", "array")]


def name_of(place):
    """The file that a place names, and the text before it (`input_ids=`)."""
    value = place[0] if len(place) == 2 else place[1]
    prefix, _, file = value.rpartition("=") if isinstance(value, str) else ("", "", value)
    return file, prefix + "=" if prefix else ""


def set_name(place, path, prefix):
    place[0 if len(place) == 2 else 1] = prefix.encode() + path if isinstance(path, bytes) else prefix + path


def damaged(rng, case, line, folder):
    places = [p for p in readable(line) if name_of(p)[0] in FILES]
    itself = line.program[0] in ("./train.bin", "./run.bin")
    if itself and rng.random() < 0.3:
        places = [None]
    if not places:
        return None
    place = rng.choice(places)
    file, prefix = (line.program[0][2:], "") if place is None else name_of(place)
    with open(os.path.join(folder, file), "rb") as f:
        content = f.read()
    program = file in ("train.bin", "run.bin")
    # What comes before the payload of a program that is started is for the system to load.
    content, note = damage(rng, content, runtime_bytes() if program and (place is None or rng.random() < 0.7) else 0)
    if file == "config.json" and rng.random() < 0.7:
        content, note = edited_config(rng)
    if file == "weights.safetensors" and rng.random() < 0.7:
        content, note = edited_tensors(rng, folder)
    bad = "bad-" + file
    with open(os.path.join(folder, bad), "wb") as f:
        f.write(content)
    if place is None:
        os.chmod(os.path.join(folder, bad), 0o755)
        line.program[0] = "./" + bad
        case.refused = True
    else:
        set_name(place, bad, prefix)
    return f"{file} damaged: {note}"


def pick(rng, places):
    """One of the places, with its file and what precedes that in its word; Nones where there is none."""
    if not places:
        return None, None, None
    place = rng.choice(places)
    return place, *name_of(place)


def exchanged(rng, case, line, folder):
    place, file, prefix = pick(rng, readable(line))
    if place is None:
        return None
    other = rng.choice([name for name in FILES if name != file])
    set_name(place, other, prefix)
    return f"{other} in place of {file}"


def disguised(rng, case, line, folder):
    place, file, prefix = pick(rng, [p for p in readable(line) if name_of(p)[0] in FILES])
    if place is None:
        return None
    path, same = disguise(rng, folder, file)
    set_name(place, path, prefix)
    case.refused |= not same
    return f"{file} by {path[:40]!r}"


def no_file(rng, case, line, folder):
    place, file, prefix = pick(rng, readable(line))
    if place is None:
        return None
    path = special(rng, folder)
    set_name(place, path, prefix)
    case.refused = True
    return f"{path} in place of {file}"


def writes_input(rng, case, line, folder):
    outs, ins = [f for f in line.flags if f[2] == "out"], [p for p in readable(line) if name_of(p)[0] in FILES]
    if not outs or not ins and line.program[0] == LLMC:
        return None
    flag = rng.choice(outs)
    files = [name_of(p)[0] for p in ins] + [line.program[0][2:]] * (line.program[0] != LLMC)
    file = rng.choice(files)
    path, same = disguise(rng, folder, file)
    if not same or isinstance(path, bytes):  # a copy
        return None
    flag[1] = path
    case.refused = True
    return f"{flag[0]} writes {file} by {path[:40]!r}"


def writes_elsewhere(rng, case, line, folder):
    outs = [f for f in line.flags if f[2] == "out"]
    if not outs:
        return None
    flag = rng.choice(outs)
    kind = rng.choice(["folder", "nowhere", "full", "long", "loop", "through", "empty"])
    if kind == "folder":
        os.makedirs(os.path.join(folder, "a-folder"), exist_ok=True)
        with open(os.path.join(folder, "a-folder", "kept"), "w") as f:
            f.write("kept")
    if kind == "loop" and not os.path.lexists(os.path.join(folder, "loop")):
        os.symlink("loop", os.path.join(folder, "loop"))
    flag[1] = {"folder": "a-folder", "nowhere": "no/such/folder/out", "full": "/dev/full", "long": "n" * 300,
               "through": "tokens.bin/out", "loop": "loop", "empty": ""}[kind]
    folders = flag[0] in ("--output", "--save", "--dump-phases")
    case.refused |= not (folders and kind in ("folder", "nowhere"))
    if folders:
        case.outputs += ["a-folder", "no"]
    return f"{flag[0]} is {kind}"


def garbage(rng, case, line, folder):
    for _ in range(rng.randrange(1, 4)):
        word = bytes(rng.randrange(1, 256) for _ in range(rng.randrange(1, 60)))
        line.flags.insert(rng.randrange(len(line.flags) + 1), [rng.choice([b"", b"--"]) + word, None, "word"])
    case.refused = True
    return "garbage"


CHANGES = [misspelt, misspelt, repeated, repeated, contradiction, number, number, number, number, no_value, positional,
           command, damaged, damaged, damaged, damaged, damaged, exchanged, exchanged, disguised, disguised, no_file,
           writes_input, writes_input, writes_input, writes_elsewhere, writes_elsewhere, garbage]


def draw(rng, folder):
    """One case, with the files that it needs in `folder`."""
    line = rng.choice(LINES)(rng)
    case = Case([], [f[1] for f in line.flags if f[2] == "out"])
    # A second change could mend the first (a flag given again); what must be refused stays alone.
    for _ in range(rng.choice([1, 1, 2])):
        if case.refused:
            break
        note = None
        while note is None:
            note = rng.choice(CHANGES)(rng, case, line, folder)
        case.notes.append(note)
    case.argv = line.argv()
    return case
