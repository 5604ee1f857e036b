#!/usr/bin/env python3
"""Nothing decides by the name of an axis.

Passes, checkers, reports and the runtime ask a mesh for a role (lib/planfile/MeshAxes.h);
one table of names says how users spell it. A string literal that is such a name anywhere
else is a comparison, or an axis made up without the mesh.
"""
import re

import tree

TABLE = "lib/planfile/MeshAxes.cpp"
NAME = re.compile(r'"(?:dp|pp|tp|cp|ep|etp|edp)[01]?"')
check = tree.Check("axes by their roles")

for path in tree.matching(r"(?:dialects|passes|lib|runtime|tools)/.*\.(?:cpp|h)$"):
    code = tree.blank_comments_and_strings(tree.text(path), strings=False)
    found = [number for number, line in enumerate(code.splitlines(), 1) if NAME.search(line)]
    if path == TABLE:
        check.expect(bool(found), path, "holds no table of the names")
    else:
        check.expect(not found, path, f"line {found[:1]} names an axis: ask the mesh for its role")
check.finish()
