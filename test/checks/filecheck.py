#!/usr/bin/env python3
"""Text tests that check nothing: dead FileCheck and diagnostic directives."""
import re

import tree

SUFFIXES = ("", "-NEXT", "-SAME", "-NOT", "-DAG", "-LABEL", "-EMPTY", "-COUNT")
check = tree.Check("text tests")
for name in tree.matching(r"test/.*\.(mlir|test)$"):
    if name.startswith("test/data/"):
        continue
    source = tree.text(name)
    runs, joined = [], ""
    for line in re.findall(r"RUN:\s*(.*)", source):
        joined += line[:-1] if line.endswith("\\") else line
        if not line.endswith("\\"):
            runs.append(joined)
            joined = ""
    check.expect(runs, name, "has no RUN line")
    commands = " ; ".join(runs)
    prefixes = set()
    for call in re.findall(r"FileCheck[^|;&]*", commands):
        given = re.findall(r"--?check-prefix(?:es)?[= ](\S+)", call)
        prefixes.update(p for group in given for p in group.split(",")) if given else prefixes.add("CHECK")
    words = prefixes | {"CHECK"}
    used = set()
    for number, line in enumerate(source.splitlines(), 1):
        where = f"{name}:{number}"
        comment = re.match(r"\s*(?://|#)\s*(.*)", line)
        if not comment or "RUN:" in line:
            continue
        # What begins like a directive must be one, to the letter.
        begins = re.match(r"([A-Z][A-Z0-9_]*(?:-[A-Z0-9_]+)*)((?:\{[A-Z]+\})?)(\s*:)?", comment.group(1))
        if not begins:
            continue
        token, colon = begins.group(1), begins.group(3) == ":"
        prefix = next((p for p in sorted(words, key=len, reverse=True) if token == p or token.startswith(p + "-")), None)
        if prefix is None:
            near = re.match(r"(CHEK|CHCK|CHECKS|CEHCK|CHECK[A-Z_]+)(-|$)", token)
            check.expect(not near, where, f"{token} is no directive") if near else None
            continue
        if token == prefix and not colon:
            # "CHECK that ..." is prose only if it has no pattern.
            check.expect(not re.search(r"%|\[\[|\{\{", line), where, f"{token} has no colon, so it checks nothing")
            continue
        suffix = re.sub(r"^-COUNT-\d+$", "-COUNT", token[len(prefix):])
        check.expect(suffix in SUFFIXES, where, f"{token} is no directive")
        check.expect(colon, where, f"{token} has no colon, so it checks nothing")
        check.expect(prefix in prefixes, where, f"{token}: no RUN line looks for {prefix}")
        used.add(prefix)
    for prefix in sorted(prefixes):
        check.expect(prefix in used, name, f"a RUN line looks for {prefix}, and there is none")
    verifies = "verify-diagnostics" in commands
    expects = re.search(r"expected-(error|warning|note|remark)", source)
    if verifies or expects:
        check.expect(verifies, name, "has expected diagnostics, but no RUN line verifies them")
        check.expect(expects, name, "verifies diagnostics, but expects none")
check.finish()
