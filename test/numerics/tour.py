"""The README's tour, in a copy of the tree as a fresh clone has it: every command runs as it is
written there, and what it prints has the shape that is quoted.

Numbers, names of parameters and widths of columns may differ; a line `...` stands for any lines, and
`...` at a line's end for its rest.
"""
import os
import re
import shutil
import subprocess

from harness import ROOT, Suite, call, require

# What makes the build and the packages that the tests are given.
NOT_RUN = re.compile(r"scripts/(build|demo|test|install|oracles)\.sh")
PYTHON = os.environ.get("LLMC_ORACLE_PYTHON", "")


def blocks(page):
    """Indented blocks of a page, or of its tour: lists of lines."""
    page = re.search(r"^## Five minutes\n.*?(?=^## )|\A# (?!llmc).*", page, re.M | re.S).group()
    page = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    found, lines = [], []
    for line in [*page.splitlines(), ""]:
        if line.startswith("    "):
            lines.append(line[4:])
        elif lines:
            found.append(lines)
            lines = []
    return found


def steps(page):
    """Commands with the output that the page quotes, None where it quotes none."""
    found = []
    for lines in blocks(page):
        # Commands alone, without a prompt; else a block goes on with the output before it.
        bare = bool(re.match(r"(build|scripts|\.)/", lines[0]))
        for line in lines:
            if bare or line.startswith("$ "):
                found.append([re.sub(r"\s+#.*", "", line[0 if bare else 2:]), None])
            elif found[-1][0].endswith("\\"):
                found[-1][0] = found[-1][0][:-1] + re.sub(r"\s+#.*", "", line.strip())
            else:
                found[-1][1] = [*(found[-1][1] or []), line]
    return [(command, output) for command, output in found if not NOT_RUN.match(command)]


def shape(line):
    line = re.sub(r"\b[A-Za-z_]\w*(\.\w+)+", "NAME", line)
    line = re.sub(r"[-+]?\d[\d,:]*(\.\d+)?(e[-+]?\d+)?", "N", line)
    return re.sub(r"\s+", " ", re.sub(r"\b[KMGT]iB\b", "iB", line)).strip()


def same(quoted, printed):
    quoted = shape(quoted)
    if quoted.endswith("..."):
        return shape(printed).startswith(quoted[:-3].rstrip())
    return quoted == shape(printed)


def matches(quoted, printed):
    """None, or what of the quoted lines is not printed. After each quoted line, `ends` holds after
    how many printed lines it may stand."""
    printed = [line for line in printed if line.strip()]
    ends, free = {0}, False
    for line in quoted:
        if line.strip() == "...":
            free = True
            continue
        starts = range(min(ends), len(printed)) if free else ends
        after = {i + 1 for i in starts if i < len(printed) and same(line, printed[i])}
        if not after:
            return f"{line!r}, but from there it prints {printed[min(ends):][:3]!r}"
        ends, free = after, False
    if free or len(printed) in ends:
        return None
    return f"no more, but it prints {printed[max(ends):][:3]!r}"


def clone(folder):
    """The tree's files as git knows them, beside the build that is tested."""
    listed = call(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=False)
    names = [name for name in listed.stdout.split("\0") if name] or ["README.md", "examples"]
    for name in names:
        source, aim = os.path.join(ROOT, name), os.path.join(folder, name)
        os.makedirs(os.path.dirname(aim), exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, aim)
        elif os.path.exists(source):
            shutil.copy2(source, aim)
    os.mkdir(os.path.join(folder, "build"))
    os.symlink(os.path.join(ROOT, "build", "bin"), os.path.join(folder, "build", "bin"))


def tour(folder, page):
    clone(folder)
    with open(os.path.join(folder, page)) as f:
        todo = steps(f.read())
    require(todo, f"{page} has no commands")
    for command, quoted in todo:
        if "build/oracles/bin/python" in command and not PYTHON:
            continue  # its Python is made for --full
        command = command.replace("build/oracles/bin/python", PYTHON)
        done = subprocess.run(["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=900)
        require(done.returncode == 0, f"$ {command}\nexit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        printed = done.stdout.splitlines()
        wrong = matches(quoted, printed) if quoted else None
        require(not wrong, f"$ {command}\n{page} quotes {wrong}")
    quotes = sum(quoted is not None for _, quoted in todo)
    return f"{len(todo)} commands, {quotes} with output"


suite = Suite("tour")
suite.run("README.md", tour, "README.md")
if PYTHON and suite.full:
    suite.run("examples/code/README.md", tour, "examples/code/README.md")
else:
    suite.skip("examples/code/README.md", "scripts/test.sh --full has what it needs, and minutes")
suite.finish()
