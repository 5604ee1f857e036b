#!/usr/bin/env python3
"""The README's map is the tree: every folder has its line, every path exists.

Also: paths in backticks in any page exist, and links lead somewhere.
"""
import itertools
import posixpath
import re

import tree

check = tree.Check("maps and paths in the documents")
known, folders = set(tree.files()), tree.folders()
TOP = {name.split("/")[0] for name in known}


def expand(path):
    """lib/{onnx,huggingface} -> both."""
    parts = re.split(r"\{([^{}]*)\}", path)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


readme = tree.text("README.md") if "README.md" in known else ""
check.expect(readme, "README.md", "is not there")
section = re.search(r"^## The map\n(.*?)(?=^## |\Z)", readme, re.M | re.S)
check.expect(section, "README.md", 'has no section "The map"')
if section:
    named = set()
    for row in re.findall(r"^\|([^|]*)\|", section.group(1), re.M):
        for path in re.findall(r"`([^`]+)`", row):
            named.update(option.rstrip("/") for option in expand(path))
    for path in sorted(named):
        check.expect(path in folders, "README.md", f"the map names {path}, which is no folder")
    for folder in sorted(folders):
        top, _, rest = folder.partition("/")
        deep = top in ("dialects", "passes", "lib", "tools")
        if (not rest or (deep and "/" not in rest)) and not (deep and not rest):
            check.expect(folder in named, "README.md", f"the map does not name {folder}")

for page in tree.matching(r".*\.md$"):
    source = re.sub(r"^```.*?^```", "", tree.text(page), flags=re.M | re.S)
    here = posixpath.dirname(page)
    for target in re.findall(r"\]\(([^)#\s]+)", source):
        if "://" not in target:
            path = posixpath.normpath(posixpath.join(here, target))
            check.expect(path in known or path in folders, page, f"links to {target}, which is not there")
    for quoted in set(re.findall(r"`([\w./{},-]+)`", source)):
        if "/" not in quoted or quoted.split("/")[0] not in TOP:
            continue
        for path in expand(quoted.rstrip("/")):
            if re.search(r"\b[A-Z]{3,}\b(?!\.md)", posixpath.dirname(path) + "/"):
                continue  # a placeholder
            check.expect(
                path in known or path in folders or f"{path}.h" in known or path.endswith(".inc"),
                page, f"names {path}, which is not there",
            )
check.finish()
