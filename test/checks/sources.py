#!/usr/bin/env python3
"""Every source is built, every script is used, every script is valid."""
import ast
import posixpath
import re
import subprocess

import tree

check = tree.Check("sources and scripts")
known = set(tree.files())

# A source that no CMakeLists.txt of its folder, or of one above, names or globs
# is dead; a name that no file has is a source that was never written.
builds = {name: re.sub(r"#.*", "", tree.text(name)) for name in known if name.endswith("CMakeLists.txt")}
for name in tree.matching(r"(dialects|lib|passes|runtime|test|tools)/.*\.(cpp|c)$"):
    built, folder, tail = False, posixpath.dirname(name), posixpath.basename(name)
    while folder and not built:
        source = builds.get(f"{folder}/CMakeLists.txt", "")
        globs = re.findall(r"[\w./*-]*\*[\w./*-]*\.cpp", source)
        exact = re.search(rf"(?<![\w/.-]){re.escape(tail)}(?![\w.-])", source)
        fits = any(
            re.fullmatch(re.escape(glob).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"), tail)
            or ("RECURSE" in source and glob.startswith("*.") and tail.endswith(glob[1:]))
            for glob in globs
        )
        built = bool(exact) or fits
        tail = posixpath.basename(folder) + "/" + tail
        folder = posixpath.dirname(folder)
    check.expect(built, name, "no CMakeLists.txt builds it")
for name, source in builds.items():
    for path in re.findall(r"(?<![\w/.{}$-])([\w/-]+\.(?:cpp|c))\b(?!\.)", source):
        full = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        check.expect(full in known, name, f"names {path}, which is not there")

for name in tree.matching(r".*\.py$"):
    try:
        ast.parse(tree.text(name), name)
        valid = ""
    except SyntaxError as error:
        valid = str(error)
    check.expect(not valid, name, f"is no valid Python: {valid}")
# A Python file under test/ is run by scripts/run-tests.py, by test/checks/run.py
# or by lit, or something mentions it: a forgotten one tests nothing.
everything = {name: tree.text(name) for name in known if re.search(r"\.(py|sh|txt|md|mlir|test|cmake|td|cpp|json)$|^\.ci/run$", name)}
for name in tree.matching(r"(test|scripts|examples|tools)/.*\.(py|sh)$"):
    base = posixpath.basename(name)
    stem = re.escape(posixpath.splitext(base)[0])
    entry = re.fullmatch(r"test/[^/]+/run[\w-]*\.(py|sh)", name) or base == "lit.cfg.py" or name.startswith("test/checks/")
    mention = re.compile(rf"(?<!\w){re.escape(base)}|\b(?:import|from)\s+(?:[\w., ]+[., ])?{stem}\b")
    listed = re.compile(rf"[\"']{stem}[\"']")  # in the list of a run*.py of its folder
    runners = [other for other in everything if re.fullmatch(rf"{re.escape(posixpath.dirname(name))}/run[\w-]*\.py", other)]
    check.expect(
        entry
        or any(other != name and mention.search(source) for other, source in everything.items())
        or any(listed.search(everything[other]) for other in runners),
        name, "nothing runs, imports or mentions it",
    )
for name in [*tree.matching(r".*\.sh$"), ".ci/run"]:
    check.expect(name in known, name, "is not there")
    if name in known:
        parsed = subprocess.run(["bash", "-n", str(tree.ROOT / name)], capture_output=True, text=True)
        check.expect(parsed.returncode == 0, name, parsed.stderr.strip())
        check.expect((tree.ROOT / name).stat().st_mode & 0o100, name, "is not executable")
check.finish()
