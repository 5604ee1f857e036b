#!/usr/bin/env python3
"""Every numbered rule has a test that breaks it.

Rules of an op or attribute: "Rules: C1 ...; C2 ..." in its ODS description, or
"C1: ..." in a message of its verifier. The test is a section of a file under
test/dialects/DIALECT that has an expected-error, names the op, and names the
rule: in the expected message where the message carries the number, else in a
comment. Rules of a pass: the same words in its room; the test is in the room's
-invalid.mlir.
"""
import re

import tree

DECLARED = re.compile(r"(?:^|[;:.]|Rules|Errors|\bof)[:\s]*\b([A-Z]\d+)(?=:?\s+[^\s\d])(?!\s+to\s+[A-Z]?\d)")
LITERAL = re.compile(r'"([A-Z]\d+)(?::|")')
EXPECTED = re.compile(r"expected-(?:error|warning|remark)")
check = tree.Check("numbered rules")


def declared(description):
    """Rule numbers that a description introduces (not those it refers to)."""
    flat = re.sub(r"\s+", " ", description)
    return set(DECLARED.findall(flat))


def sections(paths):
    for path in paths:
        for section in re.split(r"^// -----.*$", tree.text(path), flags=re.M):
            if EXPECTED.search(section):
                yield section


def tested(rule, in_message, candidates):
    """Whether a section breaks `rule`."""
    word = re.compile(rf"\b{rule}\b")
    for section in candidates:
        if any(
            word.search(line)
            for line in section.splitlines()
            if EXPECTED.search(line) or (not in_message and line.lstrip().startswith("//"))
        ):
            return True
    return False


def definitions(source):
    """(C++ class, mnemonic, text) of every op and attribute of a .td file."""
    starts = list(re.finditer(r"^(?:def|class) (\w+)\b.*?(?=^(?:def|class|#endif|let|include) |\Z)", source, re.M | re.S))
    for start in starts:
        body = start.group(0)
        if not body.startswith("def "):
            continue
        mnemonic = re.search(r'^def \w+\s*:\s*\w*Op\w*<\s*"([\w.]+)"', body) or re.search(
            r'let mnemonic = "([\w.]+)"', body
        ) or re.search(r'^def \w+\s*:\s*\w+<\s*(?:\w+,\s*)?"([a-z][\w.]*)"', body)
        if mnemonic:
            yield start.group(1).split("_", 1)[-1], mnemonic.group(1), body


for dialect in ("graph", "parallel", "plan"):
    rules, literals, classes = {}, {}, {}
    for path in tree.matching(rf"dialects/{dialect}/.*\.td$"):
        for name, mnemonic, body in definitions(tree.text(path)):
            classes[name] = mnemonic
            described = re.search(r"let description = \[\{(.*?)\}\]", body, re.S)
            if described and "Rules" in described.group(1):
                part = described.group(1).split("Rules", 1)[1]
                rules.setdefault(mnemonic, {}).update({rule: path for rule in declared("Rules" + part)})
    free = {}
    for path in tree.matching(rf"dialects/{dialect}/.*\.cpp$"):
        # A rule belongs to the op whose verifier it stands in; those of shared
        # functions are looked for in the whole dialect.
        pieces = re.split(r"^(?=\S[^\n;]*\b(\w+)::verify\w*\()", tree.text(path), flags=re.M)
        owner = None
        for i, piece in enumerate(pieces):
            if i % 2:
                owner = piece
                continue
            end = re.search(r"^}", piece, re.M)
            inside = piece[: end.end()] if owner and end else ""
            mnemonic = classes.get(owner) or classes.get((owner or "").removesuffix("Attr"))
            if inside and mnemonic:
                for rule in LITERAL.findall(inside):
                    rules.setdefault(mnemonic, {}).setdefault(rule, path)
                    literals.setdefault(mnemonic, set()).add(rule)
            for rule in LITERAL.findall(piece[len(inside):] if mnemonic else piece):
                free.setdefault(rule, path)
    texts = list(sections(tree.matching(rf"test/dialects/{dialect}/.*\.mlir$")))
    for mnemonic, numbers in sorted(rules.items()):
        named = re.compile(rf"\b{dialect}\.{re.escape(mnemonic)}\b")
        mine = [section for section in texts if named.search(section)]
        for rule, path in sorted(numbers.items()):
            check.expect(
                tested(rule, rule in literals.get(mnemonic, ()), mine),
                path, f"rule {rule} of {dialect}.{mnemonic} has no test in test/dialects/{dialect}",
            )
    covered = {rule for numbers in rules.values() for rule in numbers}
    # A shared function's rule is already covered op by op, unless no op declares it.
    everywhere = texts + list(sections(tree.matching(r"test/passes/.*\.mlir$")))
    for rule, path in sorted(free.items()):
        if rule not in covered:
            check.expect(tested(rule, True, everywhere), path, f"rule {rule} of {dialect} has no test")

for folder in sorted(tree.folders()):
    match = re.fullmatch(r"passes/(\d+-[a-z]+)/([A-Z]\w*)", folder)
    if not match:
        continue
    phase, name = match.groups()
    inside = tree.matching(re.escape(folder) + r"/.*\.(td|cpp|h)$")
    literal = {rule for path in inside if not path.endswith(".td") for rule in LITERAL.findall(tree.text(path))}
    contract = set()
    for path in inside:
        if path.endswith(".td"):
            described = re.search(r"let description = \[\{(.*?)\}\]", tree.text(path), re.S)
            contract |= declared(described.group(1)) if described else set()
    stem = f"test/passes/{phase}/{tree.kebab(name)}"
    tests = list(sections(tree.matching(re.escape(stem) + r"(-[\w-]+)?\.mlir$")))
    for rule in sorted(literal | contract):
        check.expect(
            tested(rule, rule in literal, tests), folder, f"rule {rule} has no test in {stem}-invalid.mlir"
        )
        check.expect(rule in contract, f"{folder}/{name}.td", f"does not state rule {rule}, which its code reports")
check.finish()
