"""Small edits of dumped IR: each must be noticed, and the border named.

Nothing inside the compiler is switched: a dump is text, and an edit is one
substitution in it. Exit 3 is a wrong number (or a static check), exit 1 a rule of
the IR that the edit breaks.
"""
import json
import os
import re

from harness import DATA, LLMC, Suite, call, require

MODEL = os.path.join(DATA, "gpt2", "config.json")
FLAGS = ["--mesh", "2x2x2", "--seq", 8, "--global-batch", 8]


def replace(pattern, by, nth=0, after="", every=False):
    """Replaces the nth match (or every one) that follows the first match of `after`."""
    def edit(text):
        start = re.search(after, text).end() if after else 0
        matches = list(re.finditer(pattern, text[start:]))
        require(len(matches) > nth, f"nothing matches {pattern}")
        chosen = matches if every else matches[nth:nth + 1]
        for m in reversed(chosen):
            text = text[:start + m.start()] + m.expand(by) + text[start + m.end():]
        return text
    return edit


def drop_all_reduce(after, axis):
    """Removes an all-reduce; its users get what it would have reduced."""
    def edit(text):
        start = re.search(after, text).end()
        m = re.compile(rf'\n *(%\w+) = parallel\.all_reduce (%\w+) over \["{axis}"\][^\n]*').search(text, start)
        require(m, "no such all-reduce")
        end = text.index("\n  }", m.end())
        body = re.sub(re.escape(m[1]) + r"\b", m[2], text[m.end():end])
        return text[:m.start()] + body + text[end:]
    return edit


SUB = replace(r"graph\.sub (%\w+), (%\w+)( [^\n]*\((tensor<[^>]*>), \4\))", r"graph.sub \2, \1\3")
EDITS = {
    "shard": {
        "another ignored label": replace(r"dense<-100>", "dense<-3>", every=True),
        "operands of sub exchanged": SUB,
        "attention that sees the future": replace("causal = true", "causal = false"),
        "another epsilon": replace(r"eps = 1\.0+e-05", "eps = 1.0e-01"),
        "a cut moved to another dimension": replace(
            r'(graph\.sub [^\n]*?parallel\.in = \[#parallel\.sharding<\[)\{"dp"\}, \{\}', r'\1{}, {"dp"}'),
        "stages with other layers": replace(r"parallel\.layers = array<i64: 2, 2>", "parallel.layers = array<i64: 1, 2>"),
    },
    "partition": {
        "all-reduce after the embedding dropped": drop_all_reduce(r"@forward_0", "tp"),
        "all-reduce of a gradient dropped": drop_all_reduce(r"@update_0", "dp"),
        "all-reduce over other axes": replace(r'over \["tp"\]', 'over ["dp"]'),
        "another kind of reduction": replace(r"(all_reduce [^\n]*reduce_kind<)sum>", r"\1max>"),
        "another offset": replace(r'axis_offset \["tp"\] stride 129', 'axis_offset ["tp"] stride 128'),
        "layers of another stage": replace(r"array<i64: 2, 2>", "array<i64: 0, 2>", after=r"@forward_1"),
        "another residual": replace(r"parallel\.residual = 3 ", "parallel.residual = 4 ", after=r"@backward_0"),
        "operands of sub exchanged": SUB,
    },
    "schedule": {
        "a collective dropped": replace(r"\n *plan\.collective [^\n]*", "", after=r"plan\.procedure @forward"),
        "a collective over other axes": replace(r'over \["tp"\]', 'over ["dp"]'),
        "a product that forgets": replace(r"( into %\w+) accumulate", r"\1"),
        "another offset": replace(r"array<i64: 0, 0, 0, 129>", "array<i64: 0, 0, 0, 128>"),
        "slots on top of each other": replace(r"slot_stride = \d+", "slot_stride = 0", every=True),
        "a micro-batch twice": replace(r"#plan\.entry<@forward, 1, 1>", "#plan.entry<@forward, 0, 1>"),
        "no waits": replace(r"\n *plan\.wait [^\n]*", "", every=True),
        "an accumulator that is not zeroed": replace(r"\n *plan\.fill [^\n]*", "", after=r"plan\.procedure @begin"),
    },
}


def dump(folder, border, *more):
    path = os.path.join(folder, border + ".mlir")
    call([LLMC, "compile", MODEL, *FLAGS, *more, "--compile-to", border, "-o", path])
    return path


def untouched(folder, border):
    call([LLMC, "verify", dump(folder, border)])


def noticed(folder, border, edit):
    path = dump(folder, border)
    with open(path) as f:
        before = f.read()
    text = edit(before)
    require(text != before, "the edit changes nothing")
    with open(path, "w") as f:
        f.write(text)
    done = call([LLMC, "verify", path, "--json"], check=False)
    require(done.returncode in (1, 3), f"exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    if done.returncode == 1:
        require(f"phase boundary {border}" in done.stderr, f"the boundary is not named:\n{done.stderr}")
        return "refused: " + done.stderr.strip().splitlines()[0][-100:]
    report = json.loads(done.stdout)
    require(report["border"] == border, f"border {report['border']} is named")
    worst = next(c for c in report["checks"] if not c["passed"])
    return f"{worst['name']} {worst['value']:.1e}, {worst['subject']}"


def place_moved(folder, border):
    """A dump of a model with weights says where they lie in its file, which the file itself contradicts."""
    path = os.path.join(folder, border + ".mlir")
    model = os.path.join(DATA, "gpt2-tiny", "torchscript.onnx")
    call([LLMC, "compile", model, "--mesh", "1x1x2", "--seq", 8, "--compile-to", border, "-o", path])
    call([LLMC, "verify", path])
    with open(path) as f:
        text = f.read()
    moved = re.sub(r"file_offset = (\d+)", lambda m: f"file_offset = {int(m[1]) + 4}", text, count=1)
    require(moved != text, "no place is named")
    with open(path, "w") as f:
        f.write(moved)
    done = call([LLMC, "verify", path, "--json"], check=False)
    require(done.returncode == 3, f"exit {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    failed = [check["name"] for check in json.loads(done.stdout)["checks"] if not check["passed"]]
    require(failed == ["states:file"], f"fails {failed}")


REFUSED = {  # by llmc compile: where verify is not asked, nothing may be trained from these
    "shard": [
        ("a sharding of no dims", replace(r"(graph\.state @\w+ : tensor<\d+x[^\n]*parallel\.sharding = #parallel\.sharding<)\[[^\]]*\]", r"\1[]"),
         "'parallel.sharding' of 'tensor<"),
        ("micro-batches without end", replace(r"global_batch = 8 ", "global_batch = 9223372036854775807 "), "at most 131072 of them"),
        ("an unknown optimizer", replace(r'optimizer = "adamw"', 'optimizer = "zz"'), "optimizer adamw, sgd or none"),
    ],
    "partition": [
        ("layers without a count", replace(r"parallel\.layers = array<i64: 0, 2>", "parallel.layers = array<i64: 0>"), "are [first, count]"),
        ("a residual beyond numbers", replace(r"parallel\.residual = 3 ", "parallel.residual = 9223372036854775807 "), "is a number from 0"),
    ],
    "schedule": [
        ("a scalar that the host does not know", replace(r'#plan\.scalar<"lr">', '#plan.scalar<"learning_rate">'), "unknown scalar"),
        ("no loss", replace(r'#plan\.output<"loss">', '#plan.output<"lost">', every=True), 'no buffer is bound to #plan.output<"loss">'),
    ],
}


# Of states that every data-parallel rank has, and of the same in flat buffers.
STATES = {
    ("--zero", 0): [
        ("a role of another state", replace(r"(#plan\.state<@s\d+), parameter", r"\1, master"), "as master, its role is parameter"),
        ("rows cut for columns", replace(r'(#plan\.state<[^>]*dims = \[)\[\], \["tp"\]\]', r'\1["tp"], []]'), "cut as #parallel.sharding"),
        ("padding that is none", replace(r"(#plan\.state<[^>]*valid_shape = \[)\d+", r"\g<1>1"), "with valid_shape"),
    ],
    ("--zero", 1): [
        ("a role of another state", replace(r"(<state = <@s\d+), parameter", r"\1, master"), "as master, its role is parameter"),
        ("rows cut for columns", replace(r'(<state = <@s[^>]*dims = \[)\[\], \["tp"\]\]', r'\1["tp"], []]'), "cut as #parallel.sharding"),
        ("padding that is none", replace(r"(<state = <@s[^>]*valid_shape = \[)\d+", r"\g<1>1"), "with valid_shape"),
    ],
}


def refused(folder, border, edit, words, *more):
    path = dump(folder, border, *more)
    with open(path) as f:
        text = edit(f.read())
    with open(path, "w") as f:
        f.write(text)
    done = call([LLMC, "compile", path, "-o", os.path.join(folder, "out")], check=False)
    require(done.returncode == 1 and words in done.stderr, f"exit {done.returncode}: {done.stderr[-1500:]}")
    require(not os.path.exists(os.path.join(folder, "out")), "a program is there all the same")


def unskipped(folder):
    """A parameter that a skipped step changes: of IR too, verify takes up what only a low precision has."""
    path = dump(folder, "partition", "--precision", "fp16", "--zero", 2)
    call([LLMC, "verify", path])
    with open(path) as f:
        text = f.read()
    edited = re.sub(r"graph\.select (%\S+), (%new_param\S*), %\w+", r"graph.select \1, \2, \2", text, count=1)
    require(edited != text, "no weight is selected")
    with open(path, "w") as f:
        f.write(edited)
    done = call([LLMC, "verify", path, "--json"], check=False)
    failed = [check["name"] for check in json.loads(done.stdout)["checks"] if not check["passed"]]
    require(done.returncode == 3 and failed == ["updates:skip"], f"exit {done.returncode}, fails {failed}")


suite = Suite("edits")
suite.run("partition: a weight that a skipped step changes", unskipped)
for border, edits in REFUSED.items():
    for title, edit, words in edits:
        suite.run(f"{border}: {title} is refused", refused, border, edit, words)
for flags, edits in STATES.items():
    for title, edit, words in edits:
        suite.run(f"schedule: {title} is refused, stage {flags[1]} of ZeRO", refused, "schedule", edit, words, *flags)
suite.run("shard: a place in the file", place_moved, "shard")
suite.run("schedule: a place in the file", place_moved, "schedule")
for border, edits in EDITS.items():
    suite.run(f"{border}: untouched", untouched, border)
    for title, edit in edits.items():
        suite.run(f"{border}: {title}", noticed, border, edit)
suite.finish()
