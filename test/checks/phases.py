#!/usr/bin/env python3
"""The phases have one order: folders, Phases.h, the build, the pipeline."""
import re

import tree

check = tree.Check("phases")
on_disk = sorted({m.group(1) for f in tree.folders() if (m := re.match(r"passes/(\d+-[a-z]+)$", f))})
names = [folder.split("-", 1)[1] for folder in on_disk]
check.expect(
    [int(folder.split("-")[0]) for folder in on_disk] == list(range(1, len(on_disk) + 1)),
    "passes", f"folders are not numbered from 1 on: {on_disk}",
)

header = "lib/options/Phases.h"
source = tree.text(header) if header in tree.files() else ""
spelt = re.search(r"phaseNames\s*=\s*\{(.*?)\}", source, re.S)
listed = re.findall(r'"([a-z]+)"', spelt.group(1)) if spelt else []
check.expect(listed[:1] == ["import"] and listed[1:] == names, header, f"lists {listed}, the folders are {names}")
enum = re.search(r"enum class Phase\s*\{([^}]*)\}", source)
members = re.findall(r"\w+", enum.group(1)) if enum else []
check.expect([m.lower() for m in members] == listed, header, f"enum {members} and names {listed} differ")

folders = re.findall(r"\d+-[a-z]+", tree.text("passes/CMakeLists.txt"))
check.expect(folders == on_disk, "passes/CMakeLists.txt", f"has {folders}, the folders are {on_disk}")

pipeline = "lib/pipeline/Pipeline.cpp"
cases = re.findall(r"case Phase::(\w+):", tree.text(pipeline)) if pipeline in tree.files() else []
check.expect(cases == members, pipeline, f"builds {cases}, expected the phases in order: {members}")

for folder in sorted(tree.folders()):
    if match := re.fullmatch(r"test/passes/([^/]+)", folder):
        check.expect(match.group(1) in on_disk, folder, "is no phase")
for folder in on_disk:
    for name in ("CMakeLists.txt", "Passes.td", "Passes.h", "Pipeline.h", "Pipeline.cpp"):
        check.expect(f"passes/{folder}/{name}" in tree.files(), f"passes/{folder}", f"has no {name}")
    passes = f"passes/{folder}/Passes.td"
    folders = re.findall(rf'include "passes/{folder}/(\w+)/', tree.text(passes)) if passes in tree.files() else []
    check.expect(
        folders and folders[-1].startswith("Verify"), passes, f"the phase ends in {folders[-1:]}, expected a Verify pass"
    )
check.finish()
