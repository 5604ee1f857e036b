#!/usr/bin/env python3
"""Headers name their tests, and the tests that comments name exist.

Comments of each header of the compiler, the runtime and the tools name a path under test/ (bench/ for what only
benchmarks use). Each such path in a comment of a .h, .cpp or .td file exists; what follows it in a list is a
file of the same folder ("test/import/Folding.cpp, Infer.cpp"); names of tests and functions behind a file, in
brackets, are in that file ("test/runtime/ExecutorTest.cpp (Blocked)").
"""
import fnmatch
import re

import tree

PATH = re.compile(r"(?<![\w/.-])(?:test|bench)/[\w./*-]*")
BEHIND = re.compile(r"\s*(?:\(([^()]*)\))?(?:,? and|,)?\s*(?=([\w*-]+\.(?:cpp|h|py|mlir))(?![\w/]))|\s*\(([^()]*)\)")
COMMENT = re.compile(r'(?:[^"/]|"(?:\\.|[^"\\])*"|/(?!/))*(//+)(.*)')
NAME = re.compile(r"@\w+|[A-Z][a-z]\w*|[a-z]\w*_\w+")  # Blocked, @grouped, said_once: no words of prose
check = tree.Check("tests that comments name")
known, folders = set(tree.files()), tree.folders()


def comments(name):
    """Yields (line, text) of each run of lines with comments; a comment behind code begins its own."""
    text, first, column = "", 0, -1
    for number, line in enumerate(tree.lines(name), 1):
        match = COMMENT.match(line)
        at = match.start(1) if match else -1
        if text and at != column:
            yield first, text
            text = ""
        if match:
            first = first if text else number
            text += " " + match.group(2).strip()
        column = at
    if text:
        yield first, text


def found(path):
    """Returns the files or folders that a path or a pattern with * stands for."""
    if "*" in path:
        return [name for name in known if fnmatch.fnmatchcase(name, path) and name.count("/") == path.count("/")]
    return [path] if path in known or path.rstrip("/") in folders else []


def judge(where, path, aside):
    """Checks one path and the names in brackets behind it; returns whether the path exists."""
    files = found(path)
    check.expect(files, where, f"names {path}, which is not there")
    for word in re.split(r"[\s,:]+", aside or ""):
        if NAME.fullmatch(word) and files and all(file in known for file in files):
            check.expect(any(word in tree.text(file) for file in files), where, f"names {word}, which {path} does not have")
    return bool(files)


for name in tree.matching(r".*\.(h|cpp|td)$"):
    named = 0
    for line, text in comments(name):
        for match in PATH.finditer(text):
            path, at = match.group(0).rstrip(".-"), match.start() + len(match.group(0).rstrip(".-"))
            while path:
                behind = BEHIND.match(text, at)
                named += judge(f"{name}:{line}", path, behind and (behind.group(1) or behind.group(3)))
                sibling = behind and behind.group(2)
                path, at = (path.rpartition("/")[0] + "/" + sibling, behind.end() + len(sibling)) if sibling else ("", 0)
    if re.match(r"(dialects|lib|passes|runtime|tools)/.*\.h$", name):
        check.expect(named, name, "no comment names the test that fails if this is wrong: // Test: test/AREA/FILE.")
check.finish()
