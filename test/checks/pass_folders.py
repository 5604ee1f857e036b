#!/usr/bin/env python3
"""One pass is one folder with one name in four spellings, and a written contract.

passes/N-phase/DoThing/{DoThing.td,DoThing.cpp}, flag llmc-do-thing,
test/passes/N-phase/do-thing.mlir, and do-thing-invalid.mlir if it reports errors.
"""
import re

import tree

EMITS = re.compile(r"\bemit(Op)?Error\s*\(|\.emit(Op)?Error\b")

check = tree.Check("folders of passes")
known = set(tree.files())
tested = {}
for folder in sorted(tree.folders()):
    match = re.fullmatch(r"passes/(\d+-[a-z]+)/([A-Z]\w*)", folder)
    if not match:
        continue
    phase, name = match.groups()
    td, cpp = f"{folder}/{name}.td", f"{folder}/{name}.cpp"
    lit = f"test/passes/{phase}/{tree.kebab(name)}.mlir"
    invalid = lit.replace(".mlir", "-invalid.mlir")
    flag = f"llmc-{tree.kebab(name)}"
    inside = tree.matching(re.escape(folder) + r"/.*\.cpp$")
    if td not in known and not any("GEN_PASS_DEF_" in tree.text(path) for path in inside):
        continue  # part of a phase, but no pass
    for path in (td, cpp, lit):
        check.expect(path in known, folder, f"has no {path}")
    if any(EMITS.search(tree.text(path)) for path in inside):
        check.expect(invalid in known, folder, f"emits errors but has no {invalid}")
    tested.update({lit: flag, invalid: flag})
    for path in (lit, invalid):
        if path in known:
            runs = [line for line in tree.lines(path) if "RUN:" in line]
            # The phase's own pipeline may be the only way to get there.
            check.expect(
                any(re.search(rf"{re.escape(flag)}(?![\w-])", line) for line in runs),
                path, f"no RUN line has --{flag}",
            )
    if lit in known:
        check.expect("FileCheck" in tree.text(lit), lit, "checks no output with FileCheck")
    if td not in known:
        continue
    source = tree.text(td)
    defined = re.findall(r"^def (\w+)\s*:\s*Pass<\"([^\"]+)\"", source, re.M)
    check.expect(
        defined == [(name, flag)], td, f"defines {defined}, expected one pass {name} with flag {flag}"
    )
    check.expect(re.search(r'let summary = "[^"]+"', source), td, "has no summary")
    description = re.search(r"let description = \[\{(.*?)\}\]", source, re.S)
    contract = description.group(1) if description else ""
    for word in ("Needs:", "Gives:", "Keeps:", "Example:"):
        check.expect(
            re.search(rf"^\s*{word}", contract, re.M), td, f"the description does not say {word}"
        )
    for example in re.findall(r"Example:\s*(\S+)", contract):
        check.expect(example == lit, td, f"the example is {example}, expected {lit}")
    included = tree.text(f"passes/{phase}/Passes.td") if f"passes/{phase}/Passes.td" in known else ""
    check.expect(f'include "{td}"' in included, f"passes/{phase}/Passes.td", f"does not include {td}")

# And back: a text test of a phase belongs to a room (aspects: do-thing-ASPECT.mlir).
for path in tree.matching(r"test/passes/[^/]+/[^/]+\.mlir$"):
    stem = path[: -len(".mlir")]
    owners = [lit[: -len(".mlir")] for lit in tested]
    check.expect(
        any(stem == owner or stem.startswith(owner + "-") for owner in owners),
        path, "no pass of this phase has this name",
    )
check.finish()
