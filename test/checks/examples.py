#!/usr/bin/env python3
"""Every op of a dialect has an example in its ODS description, and a test runs it.

An example is the word "Example" and the code behind it: backticked pieces, or a block fenced by
```mlir. Attributes and enums may have one too. The code stands in a lit test under test/dialects
that expects no error; names of values and white space may differ. A class may give its ops one
description with `mnemonic` in it.
"""
import re

import tree

STRING = r'(?:\[\{.*?\}\]|"(?:[^"\\]|\\.)*")'
PIECE = rf"(?:{STRING}|\bmnemonic\b)"
DESCRIPTION = re.compile(rf"let description =\s*({PIECE}(?:\s*#?\s*{PIECE})*)\s*;", re.S)
START = re.compile(r"^(def|class) (\w+)(?:<[^{};]*?>)?\s*:\s*(\w+)<(.*?)(?=^(?:def|class|#endif) |\Z)", re.M | re.S)
EXAMPLE = re.compile(r"\bExamples?\b[^:`]*:\s*(```mlir\n.*?```|`[^`]+`(?:,\s*`[^`]+`)*)", re.S)
check = tree.Check("examples of ops")


def string(expression, mnemonic):
    """Returns the value of a TableGen string: its pieces joined, `mnemonic` replaced."""
    pieces = re.findall(PIECE, expression, re.S)
    return "".join(mnemonic if p == "mnemonic" else p[2:-2] if p[0] == "[" else p[1:-1] for p in pieces)


def normal(code):
    """Returns code without comments, names of values, and white space beside punctuation."""
    code = re.sub(r"^\s*//.*$", "", code, flags=re.M)
    code = re.sub(r"%[\w$.-]+(?:#\d+)?", "%", code)
    return re.sub(r"\s+", " ", re.sub(r"\s*([^\w\s])\s*", r"\1", code)).strip()


def examples(description):
    for found in EXAMPLE.findall(description):
        if found.startswith("```"):
            yield found.removeprefix("```mlir").removesuffix("```")
        else:
            yield from re.findall(r"`([^`]+)`", found)


def description(match, classes):
    """Returns the description of a definition or of its nearest class; of an enum, its arguments."""
    _, _, base, body = match.groups()
    mnemonic = re.match(r'"([\w.]+)"', body)
    found = DESCRIPTION.search(body)
    while not found and base in classes:
        found, base = DESCRIPTION.search(classes[base].group(4)), classes[base].group(3)
    text = found.group(1) if found else body.split(">;")[0]
    return string(text, mnemonic.group(1) if mnemonic else "")


def judge(where, symbol, mnemonic, codes):
    file = f"test/dialects/{mnemonic.split('.')[0]}/roundtrip.mlir"
    if symbol.endswith("Op"):
        named = any(re.search(rf"\b{re.escape(mnemonic)}\b", code) for code in codes)
        check.expect(named, where, f"{mnemonic} has no example; give its description 'Example:' and a line of {file}")
    for code in codes:
        check.expect(
            any(normal(code) in test for test in tests), where,
            f"the example of {symbol} is in no test; add it to {file}: {' '.join(code.split())}",
        )


tests = [normal(tree.text(name)) for name in tree.matching(r"test/dialects/.*\.mlir$") if "invalid" not in name]
for dialect in ("graph", "parallel", "plan"):
    files = tree.matching(rf"dialects/{dialect}/.*\.td$")
    found = [(name, match) for name in files for match in START.finditer(tree.text(name))]
    classes = {match.group(2): match for _, match in found if match.group(1) == "class"}
    for name, match in found:
        if match.group(1) == "def":
            line = tree.text(name).count("\n", 0, match.start()) + 1
            mnemonic = (re.match(r'"([\w.]+)"', match.group(4)) or [""])[0].strip('"')
            judge(f"{name}:{line}", match.group(2), f"{dialect}.{mnemonic}", list(examples(description(match, classes))))
check.finish()
