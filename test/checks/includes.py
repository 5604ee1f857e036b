#!/usr/bin/env python3
"""The floors: who stands below never includes who stands above.

  lib/support < planfile < schedules < cost  the ground, and runtime/ on its first two
  dialects/graph < parallel < plan           on the ground
  passes/N-phase                             on the dialects; phases never see each other
  lib/{onnx,huggingface,pipeline,...}        on the passes
  tools                                      on all of these; on runtime only lib/verify, lib/simulate,
                                             lib/calibrate and tools/llmc-gpu-check
The ground and the runtime know no header of MLIR, LLVM or lld. No folder includes one that includes it.
"""
import posixpath
import re

import tree

INCLUDE = re.compile(r'^\s*(?:#\s*include|include)\s*([<"])([^>"]+)[>"]', re.M)
COMPILER_HEADERS = ("mlir/", "mlir-c/", "llvm/", "llvm-c/", "lld/")
GROUND = ["lib/support", "lib/planfile", "lib/schedules", "lib/cost"]
DIALECTS = ["dialects/graph", "dialects/parallel", "dialects/plan"]
TOP = ("cmake", "dialects", "lib", "passes", "runtime", "test", "tools")


def folder_of(path):
    """The unit that arrows are about: lib/onnx, passes/3-shard, runtime, tools."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in ("lib", "dialects", "passes", "test", "tools") else parts[0]


def floor(place):
    if place in GROUND:
        return 0
    return {"dialects": 1, "passes": 2, "lib": 3, "tools": 4, "test": 5}.get(place.split("/")[0], 9)


def allowed(here, there):
    if here == there or here.startswith("test/") or here == "test":
        return True
    if here == "runtime":
        return there in GROUND[:2]
    if there == "runtime":  # runs plans to prove, or to time them
        return here in ("lib/verify", "lib/simulate", "lib/calibrate", "tools/llmc-gpu-check")
    if there.startswith("test"):
        return False
    if here in GROUND:
        return there in GROUND[: GROUND.index(here)]
    if here in DIALECTS and there in DIALECTS:
        return DIALECTS.index(there) < DIALECTS.index(here)
    if here.startswith("passes/") and there.startswith("passes/"):
        return False
    return floor(there) <= floor(here)


def circles(arrows):
    """Groups of folders that reach each other: what no order of reading can begin with (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(here):
        index[here] = low[here] = len(index)
        stack.append(here)
        for there in arrows.get(here, ()):
            if there not in index:
                visit(there)
            if there in stack:
                low[here] = min(low[here], low[there])
        if low[here] == index[here]:
            group = stack[stack.index(here):]
            del stack[stack.index(here):]
            found.append(group)

    for here in sorted(arrows):
        if here not in index:
            visit(here)
    return [sorted(group) for group in found if len(group) > 1]


check = tree.Check("include arrows")
arrows = {}
for name in tree.matching(r"(dialects|lib|passes|runtime|test|tools)/.*\.(h|cpp|td)$"):
    here = folder_of(name)
    source = tree.text(name)
    code = tree.blank_comments_and_strings(source, strings=False)
    for match in INCLUDE.finditer(code):
        where = f"{name}:{code.count(chr(10), 0, match.start(2)) + 1}"
        target = match.group(2)
        if target.startswith(COMPILER_HEADERS):
            check.expect(
                here not in GROUND and here != "runtime",
                where, f"{here} knows no MLIR, LLVM or lld, but includes {target}",
            )
            continue
        first = target.split("/")[0]
        if first in TOP and "/" in target:
            there = folder_of(target)
        elif match.group(1) == '"' and (tree.ROOT / posixpath.dirname(name) / target).exists():
            there = folder_of(posixpath.normpath(posixpath.join(posixpath.dirname(name), target)))
        else:
            continue  # the system's, or generated beside its own folder
        if name.endswith((".h", ".cpp")) and not name.startswith("test/") and target in tree.files():
            folders = posixpath.dirname(name), posixpath.dirname(target)
            if folders[0] != folders[1]:
                arrows.setdefault(folders[0], set()).add(folders[1])
        check.expect(allowed(here, there), where, f"{here} includes {target}, which it does not stand on")

check.expect(not circles(arrows), "folders", f"include each other: {circles(arrows)}")

# A source file includes the header of its own name first, so that each header
# is once read with nothing before it.
for name in tree.matching(r"(dialects|lib|passes|runtime|tools)/.*\.cpp$"):
    header = name[: -len(".cpp")] + ".h"
    if header in tree.files():
        found = [target for _, target in INCLUDE.findall(tree.text(name))]
        check.expect(found and found[0] == header, name, f"first include is {found[:1]}, expected {header}")

# Guards are the path: LLMC_LIB_SUPPORT_FILE_H; numbers of phases stay in folder names.
for name in tree.matching(r"(dialects|lib|passes|runtime|test|tools)/.*\.h$"):
    guard = "LLMC_" + re.sub(r"[^A-Z0-9]", "_", re.sub(r"/\d+-", "/", name).upper())
    check.expect(
        re.search(rf"^#ifndef {guard}\n#define {guard}$", tree.text(name), re.M),
        name, f"include guard is not {guard}",
    )
check.finish()
