#!/usr/bin/env python3
"""Writes docs/passes: each pass with its contract, and IR before and after from its own lit test.

    pass-pages.py [--build DIR] [--out DIR] [--check]

--check writes nothing and fails where the pages differ from what would be written. The IR before is
the first case of the test (its first chunk; of several functions the first), without CHECK lines;
the IR after is what build/bin/llmc-opt makes of it with the flags of the test's first RUN line.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = 60  # of one picture


def kebab(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def field(source, pattern):
    match = re.search(pattern, source, re.S)
    return match.group(1) if match else ""


def function_end(lines, start):
    """The last line of the function that begins there: its brace has the same indentation."""
    indent = re.match(r"\s*", lines[start]).group(0)
    for i in range(start, len(lines)):
        if lines[i].rstrip() == indent + "}" or re.search(r"\{ return.*\}$", lines[i]):
            return i
    return len(lines) - 1


def first_case(test, cut):
    """The first chunk of a lit test, without CHECK lines; with `cut` its first function alone."""
    chunk = re.split(r"^// -----.*$", test, flags=re.M)[0]
    lines = [line for line in chunk.split("\n")
             if not re.match(r"\s*// *(RUN|[A-Z0-9_]+(-SAME|-NEXT|-NOT|-DAG|-LABEL|-COUNT-\d+)?):", line)]
    functions = [i for i, line in enumerate(lines) if re.match(r"\s*func\.func ", line)]
    others = set()
    for begin in functions[1:] if cut else []:
        end = function_end(lines, begin)
        while begin and re.match(r"\s*//", lines[begin - 1]):
            begin -= 1
        others.update(range(begin, end + 1))
    kept = "\n".join(line for i, line in enumerate(lines) if i not in others)
    return re.sub(r"\n{3,}", "\n\n", kept).strip("\n") + "\n"


def flags_of(test):
    run = field(test, r"^// RUN: llmc-opt ((?:[^|\n\\]|\\\n//)*)")
    words = shlex.split(run)
    return [word for word in words
            if word not in ("%s", "--split-input-file", "--verify-diagnostics")]


def after(llmc_opt, before, flags):
    done = subprocess.run([llmc_opt, "-", *flags], input=before, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def shown(ir):
    lines = ir.rstrip("\n").split("\n")
    if len(lines) > MOST_LINES:
        lines = lines[:MOST_LINES] + [f"// ... {len(lines) - MOST_LINES} more lines"]
    return ["```mlir", *lines, "```"]


def pass_section(path, llmc_opt):
    folder, phase = path.parent, path.parent.parent.name
    source, test_path = path.read_text(), f"test/passes/{phase}/{kebab(path.stem)}.mlir"
    test = (ROOT / test_path).read_text()
    flag, summary = field(source, r':\s*Pass<"([^"]+)"'), field(source, r'let summary = "([^"]*)"')
    here = folder.relative_to(ROOT)
    lines = [
        f"## {path.stem}", "", f"`--{flag}`: {summary}.", "",
        f"Contract: [{path.name}](../../{here}/{path.name}), code: [{here}](../../{here}), "
        f"test: [{test_path}](../../{test_path}).", "", "```text",
        *textwrap.dedent(field(source, r"let description = \[\{(.*?)\}\]")).strip("\n").rstrip().split("\n"),
        "```", "",
    ]
    before = first_case(test, cut=False)
    if before.count("\n") > MOST_LINES or not re.search(r"^module", before, re.M):
        before = first_case(test, cut=True)
    result = after(llmc_opt, before, flags_of(test))
    if not result:  # functions that belong together
        before = first_case(test, cut=False)
        result = after(llmc_opt, before, flags_of(test))
    if not result:
        raise SystemExit(f"{test_path}: llmc-opt refuses the first case of the test")
    gate = phase.split("-")[1] in path.stem.lower() and path.stem.startswith(("Verify", "Check"))
    lines += ["Before:" if not gate else "Accepted as it is:", "", *shown(before), ""]
    if not gate:
        lines += ["After:", "", *shown(result), ""]
    return lines


def pages(llmc_opt):
    for phase in sorted((ROOT / "passes").glob("[0-9]*-*")):
        lines = [f"# The passes of phase {phase.name}", "",
                 "Written by `scripts/pass-pages.py`, in the order in which they run; what the phase as a",
                 f"whole promises is in [{phase.name}.md](../{phase.name}.md).", ""]
        for path in re.findall(r'include "(passes/[^"]+/\w+\.td)"', (phase / "Passes.td").read_text()):
            lines += pass_section(ROOT / path, llmc_opt)
        yield f"{phase.name}.md", "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/passes")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = 0
    for name, text in pages(args.build / "bin/llmc-opt"):
        path = args.out / name
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale += 1
            print(f"{path}: is not what scripts/pass-pages.py writes; run it")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
