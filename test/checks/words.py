#!/usr/bin/env python3
"""Words that mean something only where the code was written, not to its reader."""
import re

import tree

SELF = "test/checks/words.py"
FORBIDDEN = {
    r"(?<![\w.-])/work/": "a path of one machine",
    r"(?<![\w.$}-])/tmp/": "a fixed path in a shared folder; make a temporary one",
    r"(?<![\w.])/(?:home|root|Users)/\w": "a path of one machine",
    r"\b[Ii]ssues? #?\d+": "a number in a tracker that the reader does not have",
    r"\bDESIGN(?:\.md)?\b": "a document that is not in the repository",
    r"\b(?:brief|contracts|style|peers)\.md\b": "a document that is not in the repository",
    r"\b(?:this|the|next|previous|earlier|another|my) session\b": "talk about how the code was written",
    r"\b(?:other|another|different|several) helpers? (?:write|wrote|will|is|are)\b": "talk about how the code was written",
    r"\b(?:[Ii]ntegrator|CEO|co-?worker)\b": "talk about how the code was written",
    r"\b(?:deb\.debian\.org|(?:files\.)?pypi(?:\.org|thonhosted)|pythonhosted|registry\.npmjs|proxy\.golang|crates\.io)":
        "the host of a package registry",
    r"\bTODO(?!\([^)]+\))": "a TODO without an owner in brackets",
    r"\bFIXME\b|\bXXX\b": "a note to oneself",
}

check = tree.Check("words for insiders")
for name in tree.files():
    if name == SELF:
        continue
    raw = (tree.ROOT / name).read_bytes()
    if b"\0" in raw[:8192]:
        continue
    content = raw.decode(errors="replace")
    found = []
    for pattern, reason in FORBIDDEN.items():
        for match in re.finditer(pattern, content):
            line = content.count("\n", 0, match.start()) + 1
            found.append(f"line {line}: '{match.group(0)}' is {reason}")
    check.expect(not found, name, "; ".join(found[:5]))
check.finish()
