#!/usr/bin/env python3
"""Pages of llmc report and llmc plan --report: what they say is what --json says, and a browser draws it.

    run.py [NAME] [--pictures DIR]

Makes pages of four plans, and of a prediction. Without Chromium what needs a browser is skipped. --pictures also takes
pictures of each page at both widths.
"""
import html.parser
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "numerics"))
from harness import DATA, LLMC, ROOT, Suite, call, compile_model, require  # noqa: E402

import browser  # noqa: E402
import picture  # noqa: E402

GPT2 = os.path.join(ROOT, "examples", "gpt2", "model.onnx")
LLAMA_70B = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "intermediate_size": 28672,
             "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
             "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False,
             "hidden_act": "silu"}
WIDTHS = (1280, 390)
MOST_BYTES, MOST_SECONDS = 5 << 20, 3.0


def llama(folder):
    path = os.path.join(folder, "llama-3.1-70b")
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(LLAMA_70B, f)
    return os.path.join(path, "config.json")


# name -> model, flags of compile, flags of report
PLANS = {
    "gpt2": (lambda folder: GPT2, ["--mesh", "2x2x2"], ["--gpu", "cpu"]),
    "llama": (llama, ["--mesh", "8x16x8", "--precision", "bf16", "--weights", "random", "--seq", 4096, "--global-batch", 512],
              ["--gpu", "h100"]),
    "mixtral": (lambda folder: os.path.join(DATA, "mixtral", "config.json"), ["--mesh", "4x2x2", "--ep", 4, "--seq", 32],
                ["--gpu", "h100", "--gpus-per-node", 4]),
    "interleaved": (lambda folder: os.path.join(DATA, "gpt2", "config.json"),
                    ["--mesh", "2x2x2", "--seq", 32, "--schedule", "interleaved", "--virtual-stages", 2], ["--gpu", "b200"]),
}


# Plans of other forms, of which only the documents are looked at.
OTHERS = {
    "zero-bubble": (lambda folder: os.path.join(DATA, "gpt2", "config.json"),
                    ["--mesh", "2x4x1", "--seq", 32, "--schedule", "zero-bubble"], ["--gpu", "h100"]),
    "ring": (lambda folder: os.path.join(DATA, "llama", "config.json"),
             ["--mesh", "2x2x1", "--cp", 2, "--seq", 32, "--zero", 3, "--precision", "bf16", "--recompute", "full"], ["--gpu", "gb200"]),
    "one": (lambda folder: os.path.join(DATA, "gpt2", "config.json"), ["--mesh", "1", "--seq", 16], ["--gpu", "cpu"]),
}


class Made:
    """A program, its document and its page."""

    def __init__(self, folder, name):
        model, flags, self.cluster = {**PLANS, **OTHERS}[name]
        self.name, self.program, self.page = name, os.path.join(folder, name), os.path.join(folder, name + ".html")
        compile_model(model(folder), self.program, *flags, "-q")
        extra = self.measure(folder) if name == "gpt2" else []
        start = time.monotonic()
        done = call([LLMC, "report", self.program, *self.cluster, *extra, "-o", self.page, "--json"])
        self.seconds = time.monotonic() - start
        self.document = json.loads(done.stdout)

    def measure(self, folder):
        tokens, trace, metrics = (os.path.join(folder, n) for n in ("tokens.bin", "run.trace.json", "run.jsonl"))
        with open(os.path.join(ROOT, "examples", "gpt2", "text.txt"), "rb") as f, open(tokens, "wb") as out:
            out.write(b"".join(bytes([byte, 0]) for byte in f.read()))
        call([self.program, "--data", tokens, "--steps", 6, "--trace", trace, "--metrics", metrics])
        return ["--measured", trace, "--metrics", metrics]


class Inside(html.parser.HTMLParser):
    """Counts elements, and keeps the text of the document's element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=False)
        self.tags, self.scripts, self.inside, self.document = {}, [], False, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.scripts += [value for name, value in attributes if name in ("src", "href", "srcset", "data", "action")]
        self.inside = dict(attributes).get("id") == "document"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.document += data


def at(document, path):
    for key in path.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


# ---- documents


def near(a, b, what, error=1e-9):
    require(abs(a - b) <= error * max(1e-12, abs(a), abs(b)), f"{what}: {a} and {b}")


def same_inside(folder, made):
    """The page holds the document of --json, is small enough and names nothing outside of itself."""
    with open(made.page, encoding="utf-8") as f:
        text = f.read()
    inside = Inside(text)
    require(json.loads(inside.document) == made.document, "the page holds another document than --json prints")
    require(len(text.encode()) <= MOST_BYTES, f"{len(text.encode())} bytes")
    require(inside.scripts == [], f"loads {inside.scripts}")
    require("default-src 'none'" in text, "no policy forbids to load something")
    require(made.seconds < 10, f"took {made.seconds:.1f} s")
    return f"{len(text.encode()):,} bytes in {made.seconds:.2f} s"


def unpacked(timeline, lane):
    """Events of a lane, as lib/page/Events.h tells: (op, begin, end, entry) in units."""
    runs, found, waits = timeline["runs"][lane], [], None
    for entry, block, time_ in zip(runs[0::3], runs[1::3], runs[2::3]):
        numbers = timeline["blocks"][block]
        for op, gap, length in zip(numbers[0::3], numbers[1::3], numbers[2::3]):
            begin, end = time_ + gap, time_ + gap + length
            name, kind = timeline["ops"][op][:2]
            if waits and (name, entry) == waits[:2] and timeline["kinds"][kind] != "wait":  # the second part of one event
                found.pop()
                begin = waits[2]
            waits = (name, entry, begin) if timeline["kinds"][kind] == "wait" and timeline["strings"][name] != "wait" else None
            found.append((op, begin, end, entry))
            time_ += gap + length
    return found


def like_the_trace(folder, made):
    """Events are those of llmc trace for the ranks that stand for their stages, to within what the page says."""
    trace, document = os.path.join(folder, "trace.json"), made.document
    forecast = json.loads(call([LLMC, "trace", made.program, *made.cluster, "-o", trace, "--json"]).stdout)
    timeline = document["timeline"]
    near(forecast["step_time_s"], document["step"]["seconds"], "seconds of a step")
    by_rank = {rank["rank"]: rank for rank in forecast["ranks"]}
    for stage in document["stages"]:
        rank = by_rank[stage["rank"]]
        for key in ("stage", "compute_s", "idle_s", "exposed_s"):
            require(rank[key] == stage[key], f"{key} of stage {stage['stage']}")
        near(stage["compute_s"] + stage["idle_s"] + sum(stage["exposed_s"].values()) + stage["other_s"], forecast["step_time_s"],
             "parts of a step", 1e-6)
    ranks = {stage["rank"] for stage in document["stages"]}
    unit, slack = timeline["unit_s"], (timeline["tolerance"] + 1) * timeline["unit_s"]
    expected = {}
    with open(trace) as f:
        for event in json.load(f)["traceEvents"]:
            if event["ph"] == "X" and event["pid"] in ranks and event["cat"] not in ("schedule", "record") and \
                    (event["cat"] != "wait" or event["tid"] == 0):
                expected.setdefault((event["pid"], event["tid"]), []).append(
                    (event["ts"] * 1e-6, event["dur"] * 1e-6, event["name"], event["args"]["entry"]))
    count = 0
    for lane, place in enumerate(timeline["lanes"]):
        events, want = unpacked(timeline, lane), expected[place["rank"], place["stream"]]
        want = [event for event in want if event[1] > unit / 2 + 1e-12]
        got = [event for event in events if event[2] > event[1]]
        count += sum(len(timeline["blocks"][block]) // 3 for block in timeline["runs"][lane][1::3])
        require(abs(len(got) - len(want)) <= 0.02 * len(want), f"lane {place}: {len(got)} events, the trace has {len(want)}")
        if len(got) == len(want):
            for (op, begin, end, entry), (ts, dur, name, row) in zip(got, sorted(want, key=lambda e: e[0])):
                require(abs(begin * unit - ts) <= slack + 1e-9 and abs((end - begin) * unit - dur) <= 2 * slack, f"{name} at {ts}")
    require(count == timeline["events"], f"{count} events, it says {timeline['events']}")
    return f"{count:,} events to within {slack:.1e} s"


def memory_adds_up(folder, made):
    for memory, plan in zip(made.document["memory"], json.loads(call([LLMC, "inspect", made.program, "--json"]).stdout)["memory"]):
        kinds = dict(memory["kinds"])
        require(all(plan[kind] == size for kind, size in kinds.items()), "kinds differ from those of llmc inspect")
        require(sum(kinds.values()) == memory["arena_bytes"] == plan["arena_bytes"], "kinds do not fill the arena")
        curve, peak = memory["curve"], memory["peak"]
        require(len(curve["seconds"]) == len(curve["activations"]) == len(curve["workspace"]) > 1, "columns differ")
        require(curve["seconds"] == sorted(curve["seconds"]), "time goes back")
        alive = [a + w + memory["states_bytes"] for a, w in zip(curve["activations"], curve["workspace"])]
        require(max(alive) == peak["bytes"] <= memory["arena_bytes"], f"the peak is {max(alive)}, it says {peak['bytes']}")
        require(peak["at_s"] == curve["seconds"][alive.index(max(alive))], "the peak is elsewhere")
        require(max(curve["activations"]) <= kinds["activations"] and curve["activations"][-1] == 0, "activations")
        require(peak["activations"] > 0.9 * kinds["activations"], "activations never fill their slots")
        require(peak["text"].startswith(f"Stage {memory['stage']} peaks"), peak["text"])


def traffic_is_explained(folder, made):
    """Rows are all that explain lists; their exposed times are those of the ranks."""
    document = made.document
    listed = json.loads(call([LLMC, "explain", made.program, "--json"]).stdout)
    every = {one["name"]: one for one in listed["collectives"] + listed["sends"]}
    require(sum(row["members"] for row in document["traffic"]) == len(every), "rows leave something out")
    for row in document["traffic"]:
        one = every[row["name"]]
        for key in ("kind", "axes", "phase", "bytes", "pattern"):
            require(one[key] == row[key], f"{key} of {row['name']}")
        require(row["why"]["partition"] and row["overlap"], f"nothing explains {row['name']}")
        require(row["calls"] > 0 and row["step_s"] > 0, f"{row['name']} never runs")
        near(row["each_s"] * row["calls"], row["step_s"], row["name"], 1e-6)
        rings = 2 if row["kind"] == "shift" else 1  # what a rank receives of a ring is exposed, too
        require(row["exposed_s"] <= rings * (row["step_s"] + row["wait_s"]) + 1e-9, f"more of {row['name']} is exposed than there is")
    for axes in {axes for stage in document["stages"] for axes in stage["exposed_s"]}:
        most = max(stage["exposed_s"].get(axes, 0) for stage in document["stages"])
        rows = [row["exposed_s"] for row in document["traffic"] if " ".join(row["axes"]) == axes]
        require(max(rows, default=0) <= most + 1e-9, f"a row of {axes} is exposed longer than a rank")
        require(sum(rows) >= most * 0.999, f"rows of {axes} have {sum(rows)} s of {most} s")


def measured_is_read(folder, made):
    trace, metrics = made.document["measured"]["trace"], made.document["measured"]["metrics"]
    require(trace["step"] in [one["step"] for one in trace["steps"]] and len(trace["steps"]) == 3, "steps of the trace")
    require(len(trace["stages"]) == 2 and trace["traffic"], "stages of the trace")
    for stage in trace["stages"]:
        for key, streams in (("compute_s", 1), ("communication_s", 4)):
            require(0 < stage["measured"][key] <= streams * trace["seconds"] * 1.01, f"{key}: {stage}")
    require(all(len(rows) >= 5 * 17 for rows in trace["entries"]), "rows of the schedule are missing")
    require(metrics["steps"] == 6 and metrics["fastest_s"] <= metrics["median_s"] <= metrics["slowest_s"], f"{metrics}")


def like_itself(folder, made):
    """The forecast's own trace, taken for a measured one, is what the forecast says."""
    trace = os.path.join(folder, "trace.json")
    call([LLMC, "trace", made.program, *made.cluster, "-o", trace])
    document = json.loads(call([LLMC, "report", made.program, *made.cluster, "--measured", trace, "--json"]).stdout)
    measured, unit = document["measured"]["trace"], document["timeline"]["unit_s"]
    require(abs(measured["seconds"] - document["step"]["seconds"]) <= 2e-9, "seconds of a step")  # of accelerators
    for stage in measured["stages"]:
        for key, seconds in stage["measured"].items():
            near(seconds, stage["predicted"][key], f"{key} of stage {stage['stage']}", 1e-6)
    require(len(measured["traffic"]) == len(document["traffic"]), "traffic is missing")
    for row in measured["traffic"]:
        near(row["measured_s"], row["predicted_s"], document["traffic"][row["group"]]["name"], 1e-6)
        require(row["calls"] == document["traffic"][row["group"]]["calls"], "calls")
    for rows, forecast in zip(measured["entries"], document["timeline"]["entries"]):
        want = {tuple(forecast[i:i + 3]): forecast[i + 3:i + 5] for i in range(0, len(forecast), 5) if forecast[i + 4] > 0 and forecast[i]}
        got = {tuple(rows[i:i + 3]): rows[i + 3:i + 5] for i in range(0, len(rows), 5) if rows[i]}
        require(set(got) == set(want), "rows of the schedule differ")
        for row, (begin, end) in got.items():
            require(abs(begin - want[row][0]) * unit <= 2e-6 and abs(end - want[row][1]) * unit <= 2e-6, f"{row}: {begin} {end} {want[row]}")


# ---- refusals


def refused(arguments, *words):
    done = call([LLMC, *arguments], check=False, errors="replace")
    require(done.returncode in (1, 2), f"{arguments}: exit {done.returncode}: {done.stderr}")
    require(done.stderr.startswith("llmc: error: ") and done.stdout == "", f"{arguments}: {done.stderr}")
    for word in words:
        require(word in done.stderr, f"{arguments}: no '{word}' in {done.stderr}")
    return done


def bad_files(folder, made, other):
    """Files that are no trace or no metrics: one message each, and no page."""
    page, path = os.path.join(folder, "page.html"), os.path.join(folder, "file")
    base = ["report", made.program, *made.cluster, "-o", page]
    event = {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 1, "cat": "matmul", "name": "x", "args": {"step": 1, "entry": 0, "instruction": 0}}
    traces = [b"", b"{", b"[]", b"null", b"3", b'{"traceEvents": 1}', b'{"traceEvents": []}', b"[1, null, [], {}]", b"\xff\xfe\0",
              b"[" * 5000, b'[{"ph": "X"}]']
    for change in ({"pid": -1}, {"pid": 1e300}, {"pid": "0"}, {"args": 1}, {"args": {"step": {}}}, {"dur": -1}, {"ts": None},
                   {"args": {"step": 1, "entry": 1e12, "instruction": -5}}, {"cat": 7}, {"cat": "launch", "args": {"step": 1}}):
        traces.append(json.dumps([{**event, **change}]).encode())
    for trace in traces:
        with open(path, "wb") as f:
            f.write(trace)
        refused([*base, "--measured", path], path)
    for metrics in (b"", b"x\n", b"{}\n", b'{"step": 0, "step_time_s": 1}\n', b'{"step": 1}\n', b'{"step": "1", "step_time_s": 1}\n', b"{\n{\n", b"\xff\n\n"):
        with open(path, "wb") as f:
            f.write(metrics)
        refused([*base, "--metrics", path], path)
    with open(path, "w") as f:
        f.write('{"step": 1, "step_time_s": 0.5}\n\n{"step": 2, "step_time_s": 0.25}\n{"step": 3, "st')
    read = json.loads(call([LLMC, "report", made.program, *made.cluster, "--metrics", path, "--json"]).stdout)["measured"]
    require(read["metrics"]["median_s"] == 0.25 and read["trace"] is None, "a run that was killed leaves half a line")
    for where in (os.path.join(folder, "none"), folder):
        refused([*base, "--measured", where], where)
        refused([*base, "--metrics", where], where)
    with open(path, "w") as f:
        json.dump({"traceEvents": [{**event, "cat": "record", "args": {"step": 1, "entry": 3, "instruction": 2}}]}, f)
    refused([*base, "--measured", path], "of this program")
    require(not os.path.exists(page), "a page was written beside an error")


def bad_lines(folder, made):
    """Command lines, and outputs that would replace what is read."""
    page = os.path.join(folder, "page.html")
    refused(["report"], "needs a program")
    require(refused(["report", made.program, "--gpu", "cpu"], "-o FILE", "--json").returncode == 2, "exit")
    refused(["report", made.program, "-o", page], "--gpu", "--cluster")
    refused(["report", made.program, "--gpu", "cpuu", "-o", page], "cpu")
    refused(["report", GPT2, "--gpu", "cpu", "-o", page], "report takes a program")
    refused(["report", os.path.join(folder, "none"), "--gpu", "cpu", "-o", page], "none")
    refused(["trace", made.program, "--gpu", "cpu", "--measured", page], "belongs to llmc report")
    refused(["report", made.program, "--gpu", "cpu", "-o", os.path.join(folder, "no", "page.html")], "-o")
    metrics = os.path.join(folder, "metrics.jsonl")
    with open(metrics, "w") as f:
        f.write('{"step": 1, "step_time_s": 0.5}\n')
    link = os.path.join(folder, "link")
    os.symlink(made.program, link)
    for flags, output in ((["--metrics", metrics], metrics), (["--measured", metrics], metrics), ([], made.program), ([], link)):
        with open(output, "rb") as f:
            before = f.read()
        refused(["report", made.program, "--gpu", "cpu", *flags, "-o", output], "-o")
        with open(output, "rb") as f:
            require(f.read() == before, f"{output} was replaced")
    infer = os.path.join(folder, "infer")
    compile_model(GPT2, infer, "--infer", "--dim", "batch=1", "--dim", "sequence=4", "-q")
    refused(["report", infer, "--gpu", "cpu", "-o", page], "--infer")
    config = llama(folder)
    with open(config) as f:
        before = f.read()
    refused(["plan", config, "--gpu", "h100", "--mesh", "8x4x8", "--report", config], "--report")
    with open(config) as f:
        require(f.read() == before, "the model was replaced")


HOSTILE = [b"</script><img>\"", b"<!--<script>'&\\", b"\xe2\x80\xa8\xe2\x80\xa9<b>&lt;\x00"[:15].ljust(15, b"x"), b"\xff\xfe</title>\x80<svg>"[:15]]


def hostile_program(folder, number):
    """The example with a node of each layer named by someone who wants to break out of the page."""
    with open(GPT2, "rb") as f:
        model = f.read()
    require(model.count(b"node_layer_norm") > 3, "the example has other names")
    path, out = os.path.join(folder, "<img src=x onerror=llmc.fail(1)>.onnx"), os.path.join(folder, "program")
    with open(path, "wb") as f:
        f.write(model.replace(b"node_layer_norm", HOSTILE[number]))
    compile_model(path, out, "--mesh", "1x2x2", "-q")
    return out


def hostile_names(folder):
    """Names stay text: the page has as many elements as any other, and the document says the same as --json."""
    tags = None
    for number in range(len(HOSTILE)):
        program, page = hostile_program(folder, number), os.path.join(folder, "page.html")
        printed = call([LLMC, "report", program, "--gpu", "cpu", "-o", page, "--json"]).stdout
        with open(page, encoding="utf-8") as f:  # all of it is UTF-8
            text = f.read()
        inside = Inside(text)
        require(json.loads(inside.document) == json.loads(printed), f"{HOSTILE[number]}: another document")
        require(HOSTILE[number].decode(errors="replace")[:4] in "".join(json.loads(printed)["timeline"]["strings"]), f"{HOSTILE[number]}: the name is lost")
        for wrong in "<>&\u2028\u2029":
            require(wrong not in inside.document, f"{HOSTILE[number]}: the page holds a bare {wrong!r}")
        tags = tags or inside.tags
        require(json.loads(printed)["model"]["name"].startswith("<img src"), "the name of the file is lost")
        require(inside.tags == tags, f"{HOSTILE[number]}: elements {inside.tags}, else {tags}")


# ---- in a browser


SECONDS = {"s": 1, "ms": 1e-3, "\u00b5s": 1e-6}
BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
SHORT = {"": 1, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def value_of(text, form):
    """What a number that is shown says."""
    number, _, unit = text.replace(",", "").partition(" ")
    units = {"seconds": SECONDS, "bytes": BYTES, "short": SHORT, "percent": {"%": 0.01}}.get(form, {"": 1})
    return float(number) * units[unit]


def numbers_match(page, document):
    shown = page.evaluate("[...document.querySelectorAll('[data-path]')].map((e) => [e.dataset.path, e.dataset.value, e.dataset.format, e.textContent])")
    for path, value, form, text in shown:
        want = at(document, path)
        require(json.loads(value) == want, f"{path}: the page has {value}, --json {want}")
        slack = 0.0006 if form == "percent" else 0.0051 * abs(want)
        require(abs(value_of(text, form) - want) <= slack, f"{path}: shows '{text}' for {want}")
    return len(shown)


def no_errors(page):
    require(page.errors == [], f"errors: {page.errors}")
    kept = page.evaluate("document.documentElement.dataset.errors")
    require(kept == "[]", f"errors: {kept}")


def opens(folder, made, page, pictures):
    """Draws itself at both widths, light and dark, without an error; numbers are those of --json."""
    slowest, count = 0, 0
    for width in WIDTHS:
        for dark in (False, True):
            page.resize(width)
            page.dark(dark)
            slowest = max(slowest, page.open(made.page))
            no_errors(page)
            require(all(url.startswith(("file://", "data:")) for url in page.requests) and len(page.requests) == 1, f"asked for {page.requests}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            require(wide <= width, f"{wide} pixels wide in a window of {width}")
            count = numbers_match(page, made.document)
            if pictures and not dark:
                take(page, os.path.join(pictures, f"report-{made.name}-{width}.png"))
    require(count > 15, f"shows {count} numbers")
    require(slowest <= MOST_SECONDS, f"took {slowest:.1f} s")
    return f"{count} numbers, open in {slowest:.2f} s"


def take(page, path):
    """Takes a picture of the page, of few colours: it is to be kept."""
    page.picture(path)
    picture.shrink(path)


def box_of(page, selector):
    return page.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'start'}});"
                         "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")


def answers(folder, made, page):
    """Zooms, moves, tells what is under the mouse, opens the reason of a collective, follows another axis."""
    page.resize(1280)
    page.dark(False)
    page.open(made.page)
    page.evaluate("document.querySelector('#timeline .tools button').click()")
    left, top, width, _ = box_of(page, "#timeline .u-over")
    tips = set()
    for part in range(1, 60):
        page.mouse("mouseMoved", left + width * part / 60, top + 6 + 5 * (part % 12))
        tips.add(page.evaluate("document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').innerText"))
    require(any("forward" in tip for tip in tips) and any("micro-batch" in tip for tip in tips), f"tips: {tips}")
    require(any(name in tip for tip in tips for name in made.document["timeline"]["strings"]), f"no tip names an instruction: {tips}")
    view = "(() => { const s = document.querySelector('#timeline .plot'); return JSON.stringify(llmc.shown && llmc.shown()); })()"
    step = made.document["step"]["seconds"]
    if made.document["measured"]:  # whose step may take longer
        step = max(step, made.document["measured"]["trace"]["seconds"])
    require(json.loads(page.evaluate(view)) == [0, step], "the whole step is not what is shown first")
    page.drag(left + width * 0.25, left + width * 0.5, top + 10)
    begin, end = json.loads(page.evaluate(view))
    near(begin, 0.25 * step, "a drag zooms to its begin", 0.02)
    near(end, 0.5 * step, "a drag zooms to its end", 0.02)
    page.mouse("mouseWheel", left + width / 2, top + 10, deltaX=0, deltaY=-100, modifiers=2)
    after = json.loads(page.evaluate(view))
    require(after[1] - after[0] < end - begin, "the wheel does not zoom")
    page.evaluate("document.querySelector('#memory [aria-label=\"show the whole step\"]').click()")
    require(json.loads(page.evaluate(view)) == [0, step], "the way back is lost")
    page.evaluate("document.querySelector('#traffic button.open').click()")
    reason = page.evaluate("document.querySelector('#traffic tr.more:not([hidden])').innerText")
    require(made.document["traffic"][0]["why"]["partition"] in reason, f"the reason is {reason}")
    for alternative in made.document["traffic"][0]["alternatives"]:
        require(alternative["text"] in reason, f"the reason lacks {alternative}")
    page.evaluate("document.querySelectorAll('#mesh .tools button')[0].click()")
    said = page.evaluate("document.querySelector('#mesh .readout').innerText")
    require(f"Its {made.document['mesh']['axes'][0]['name']} group" in said, said)
    no_errors(page)


def hostile_in_browser(folder, page):
    for number in range(len(HOSTILE)):
        program, path = hostile_program(folder, number), os.path.join(folder, "page.html")
        document = json.loads(call([LLMC, "report", program, "--gpu", "cpu", "-o", path, "--json"]).stdout)
        page.open(path)
        no_errors(page)
        numbers_match(page, document)
        page.evaluate("for (const b of document.querySelectorAll('#traffic button.open')) b.click()")
        require(page.evaluate("document.querySelectorAll('img, svg, b > b, #page script').length") == 0, "a name became an element")
        require(len(page.requests) == 1, f"asked for {page.requests}")


def predicted(folder, page, pictures):
    """A page of llmc plan: with runners-up as soon as the prediction has some."""
    path, prediction = os.path.join(folder, "plan.html"), None
    prediction = json.loads(call([LLMC, "plan", llama(folder), "--gpu", "h100", "--mesh", "4x4x8", "--virtual-stages", 5, "--seq", 8192, "--global-batch", 128,
                                  "--report", path, "--json"]).stdout)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    document = json.loads(Inside(text).document)
    require(document["kind"] == "prediction" and len(document["schedule"]) == 4 and len(document["schedule"][0]) == 5 * 2 * 5 * 32 and document["prediction"] == prediction, "the page holds another prediction")
    if not page:
        return
    chosen = prediction["chosen"]
    other = {**chosen, "step_time_s": chosen["step_time_s"] * 1.25, "mesh": {**chosen["mesh"], "tp": 4, "dp": 8}}
    more = {**document, "prediction": {**prediction, "alternatives": [other, {"mesh": {"dp": 1}}],
                                       "rejected": [{"mesh": {"dp": 1, "pp": 1, "tp": 1}, "reason": "stage 0 needs <b>too much</b>"}]}}
    again = os.path.join(folder, "more.html")
    with open(again, "w", encoding="utf-8") as f:
        f.write(text.replace(Inside(text).document, json.dumps(more).replace("<", "\\u003c")))
    for file, holds in ((path, document), (again, more)):
        for width in WIDTHS:
            page.resize(width)
            page.open(file)
            no_errors(page)
            require(numbers_match(page, holds) > 20, "few numbers")
            require(page.evaluate("document.documentElement.scrollWidth") <= width, f"too wide for {width}")
            if pictures:
                take(page, os.path.join(pictures, f"plan-{os.path.basename(file)[:-5]}-{width}.png"))
    require("25.0 %" in page.evaluate("document.querySelector('#alternatives').innerText"), "no runner-up")
    require("<b>too much</b>" in page.evaluate("document.querySelector('#rejected').innerText"), "no reason")


def main():
    pictures = None
    if "--pictures" in sys.argv:
        at_ = sys.argv.index("--pictures")
        pictures = sys.argv[at_ + 1]
        del sys.argv[at_:at_ + 2]
    suite = Suite("page")
    import tempfile
    with tempfile.TemporaryDirectory(prefix="llmc-page-") as folder:
        made = {}
        for name in [*PLANS, *OTHERS]:
            made[name] = Made(folder, name)
            suite.run(f"{name}: holds the document", same_inside, made[name])
            suite.run(f"{name}: events", like_the_trace, made[name])
            suite.run(f"{name}: memory", memory_adds_up, made[name])
            suite.run(f"{name}: traffic", traffic_is_explained, made[name])
        suite.run("measured", measured_is_read, made["gpt2"])
        for name in ("llama", "interleaved", *OTHERS):
            suite.run(f"{name}: measured like itself", like_itself, made[name])
        suite.run("bad files", bad_files, made["gpt2"], made["interleaved"])
        suite.run("bad lines", bad_lines, made["gpt2"])
        suite.run("hostile names", hostile_names)
        if not browser.CHROMIUM:
            suite.run("prediction", predicted, None, None)
            for title in [f"{name}: browser" for name in PLANS] + ["hostile names: browser"]:
                suite.skip(title, "there is no chromium")
            suite.finish()
        with browser.Browser() as page:
            for name in PLANS:
                suite.run(f"{name}: browser", opens, made[name], page, pictures)
            suite.run("gpt2: answers", answers, made["gpt2"], page)
            suite.run("llama: answers", answers, made["llama"], page)
            suite.run("hostile names: browser", hostile_in_browser, page)
            suite.run("prediction", predicted, page, pictures)
    suite.finish()


if __name__ == "__main__":
    main()
