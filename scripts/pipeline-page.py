#!/usr/bin/env python3
"""Writes the passes in pipeline order, with their contracts: pipeline-page.py OUT.md"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent


def field(source, pattern):
    match = re.search(pattern, source, re.S)
    return match.group(1) if match else ""


def page():
    lines = ["# The pipeline", "", "Made from the `.td` files of `passes/`, in the order in which passes run."]
    for phase in sorted((ROOT / "passes").glob("[0-9]*-*")):
        lines += ["", f"## {phase.name}"]
        order = re.findall(r'include "(passes/[^"]+/\w+\.td)"', (phase / "Passes.td").read_text())
        for path in order:
            source = (ROOT / path).read_text()
            flag = field(source, r':\s*Pass<"([^"]+)"')
            lines += [
                "", f"### `--{flag}`", "", field(source, r'let summary = "([^"]*)"'), "", "```",
                textwrap.dedent(field(source, r"let description = \[\{(.*?)\}\]")).strip("\n").rstrip(), "```",
            ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pathlib.Path(sys.argv[1]).write_text(page())
