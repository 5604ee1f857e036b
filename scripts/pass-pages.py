#!/usr/bin/env python3
"""Writes docs/passes: each pass with its contract, and IR before and after from its own lit test.

    pass-pages.py [--build DIR] [--out DIR] [--check]

--check writes nothing and fails where the pages differ from what would be written. The IR before is
the first case of the test (its first chunk; of several functions the first), without CHECK lines;
the IR after is what build/bin/llmc-opt makes of it with the flags of the first RUN line of the pass,
with the aliases of the test and with long lines broken. A pass that only checks is shown with what
it accepts and with the first case that its -invalid test says it refuses.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = 90  # of one picture
MOST_COLUMNS = 110
# What a line is never broken inside of, and before what it is best broken.
STRONG = (" -> ", " : (", " attributes ", " {")
TOKEN = (r'"[^"]*"|array<[^>]*>|tensor<[^>]*>|#[\w.]+<(?:[^<>]|<[^<>]*>)*>'
         r"|, | -> | : \(| attributes |(?<=\]) \{|.")


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
    if cut and len(functions) > 1:  # what follows the first one, but for the end of its module
        lines = lines[:function_end(lines, functions[0]) + 1] + ["}"] * lines_begin(lines, "module")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


def lines_begin(lines, word):
    """Whether a line begins with that word."""
    return any(line.startswith(word) for line in lines)


def is_cut(before):
    """Whether the first function of a case says enough: it is too long, or one of several cases."""
    first = re.search(r"func\.func @(\w+)", before)
    alone = first and not re.match(r"(forward|backward|micro|update)", first.group(1))
    return alone or before.count("\n") > MOST_LINES


def flags_of(test, flag):
    """The flags of the test's first RUN line that runs the pass (or, failing that, of its first)."""
    runs = re.findall(r"^// RUN: llmc-opt ((?:[^|\n\\]|\\\n//)*)", test, re.M)
    run = next((run for run in runs if re.search(rf"--{flag}(?![\w-])", run)), runs[0])
    words = shlex.split(run)
    return [word for word in words
            if word not in ("%s", "--split-input-file", "--verify-diagnostics")]


def after(llmc_opt, before, flags):
    done = subprocess.run([llmc_opt, "-", *flags], input=before, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def with_aliases(ir, before):
    """`ir` with the aliases that `before` defines, those that are used defined in front."""
    used = []
    for name, value in re.findall(r"^(#\w+) = (.+)$", before, re.M):
        plain = re.sub(r"\s+", "", value)
        shorter = re.sub(r"#[\w.]+<(?:[^<>]|<[^<>]*>)*>",
                         lambda m: name if re.sub(r"\s+", "", m.group(0)) == plain else m.group(0), ir)
        if shorter != ir:
            used.append(f"{name} = {value}\n")
        ir = shorter
    return "".join(used) + ir


def broken(line):
    """A long line as several, broken between arguments, attributes and types."""
    if len(line) <= MOST_COLUMNS or line.lstrip().startswith("//"):
        return [line]
    indent = re.match(r"\s*", line).group(0) + "    "
    pieces = [""]
    for token in re.findall(TOKEN, line):
        if token in STRONG:
            pieces += [token]
        else:
            pieces[-1] += token
            pieces += [""] if token == ", " else []
    found, row = [], []
    for piece in pieces:
        room = MOST_COLUMNS - (len(indent) if found else 0)
        if row and len("".join(row) + piece.rstrip()) > room:
            at = max((i for i, part in enumerate(row) if part.startswith(STRONG)), default=0)
            at = at if len("".join(row[:at])) > 45 else len(row)
            found.append("".join(row[:at]))
            row = row[at:]
        row.append(piece)
    found.append("".join(row))
    return [(indent if i else "") + (text.strip() if i else text.rstrip())
            for i, text in enumerate(found) if text.strip()]


def shown(ir):
    lines = [part for line in ir.rstrip("\n").split("\n") for part in broken(line)]
    if len(lines) > MOST_LINES:
        lines = lines[:MOST_LINES] + [f"// ... {len(lines) - MOST_LINES} more lines"]
    return ["```mlir", *lines, "```"]


def refused(phase, stem):
    """The first case of the -invalid test, with its message."""
    test = ROOT / f"test/passes/{phase}/{kebab(stem)}-invalid.mlir"
    if not test.exists():
        return []
    chunks = [chunk for chunk in re.split(r"^// -----.*$", test.read_text(), flags=re.M)
              if "expected-error" in chunk]
    if not chunks:
        return []
    kept = [line for line in chunks[0].strip("\n").split("\n") if not re.match(r"// *RUN:", line)]
    return ["Refused, with the message behind `expected-error`:", "",
            *shown("\n".join(kept).strip("\n")), ""]


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
    if is_cut(before):
        before = first_case(test, cut=True)
    result = after(llmc_opt, before, flags_of(test, flag))
    if not result:  # functions that belong together
        before = first_case(test, cut=False)
        result = after(llmc_opt, before, flags_of(test, flag))
    if not result:
        raise SystemExit(f"{test_path}: llmc-opt refuses the first case of the test")
    gate = phase.split("-")[1] in path.stem.lower() and path.stem.startswith(("Verify", "Check"))
    lines += ["Before:" if not gate else "Accepted as it is:", "", *shown(before), ""]
    if not gate:
        lines += ["After:", "", *shown(with_aliases(result, before)), ""]
    else:
        lines += refused(phase, path.stem)
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
