#!/usr/bin/env python3
"""Files that pages name exist.

A name in backticks that ends like a file of ours (`Mesh.cpp`, `Annotations.{h,cpp}`, `simt/Simt.h`) is a path from the
root, a path from the page's own folder, or, without a folder, the name of some file.
"""
import posixpath
import re

import tree

NAMED = re.compile(r"`([\w/-][\w/.-]*(?:\{[\w,]+\})?)`")
SUFFIXES = (".h", ".cpp", ".td", ".py", ".sh", ".mlir", ".fbs", ".md")
check = tree.Check("files that pages name")
known = set(tree.files())
names = {posixpath.basename(name) for name in known}


def spelt_out(text):
    """Yields each of `Mesh.{h,cpp}`."""
    found = re.fullmatch(r"(.*)\{([\w,]+)\}", text)
    yield from (found.group(1) + end for end in found.group(2).split(",")) if found else [text]


for page in tree.matching(r".*\.md$"):
    here = posixpath.dirname(page)
    for number, line in enumerate(tree.lines(page), 1):
        for match in NAMED.finditer(line):
            for name in spelt_out(match.group(1)):
                if not name.endswith(SUFFIXES) or "NAME" in name or "FILE" in name:
                    continue
                there = name in known or posixpath.normpath(posixpath.join(here, name)) in known
                check.expect(there or ("/" not in name and name in names), f"{page}:{number}", f"names {name}, which is not there")
check.finish()
