#!/usr/bin/env python3
"""The pages: links and anchors lead somewhere, IR in docs/ is valid, generated pages are up to date.

A block of IR in docs/*.md begins with the line `// llmc-opt: FLAGS` and is given to llmc-opt with
these flags (none: it must parse and verify); a fragment that is no module begins with `// part`.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LLMC_BUILD", ROOT / "build"))
passed = failed = 0


def check(name, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED {name}\n{detail}")


def pages():
    """Every page that git tracks or would track; without git, all but those of build trees."""
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z", "*.md"], cwd=ROOT,
                          capture_output=True, text=True)
    names = done.stdout.split("\0") if done.returncode == 0 else [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md")
        if not path.relative_to(ROOT).parts[0].startswith("build")]
    return sorted(ROOT / name for name in set(names) if name and (ROOT / name).is_file())


def prose(path):
    """The text of a page without blocks of code and without inline code."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = 1
        while name in found:
            name, count = re.sub(r"-\d+$", "", name) + f"-{count}", count + 1
        found.add(name)
    return found


def broken_links(path):
    """What is wrong with the links of a page, a line each."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        place, _, anchor = target.partition("#")
        file = (path.parent / place).resolve() if place else path
        if not file.exists():
            yield f"{target} is not there"
        elif file.is_relative_to(ROOT) is False:
            yield f"{target} lies outside of the repository"
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file)):
            yield f"{target}: there is no such heading"


def check_ir(path):
    """Gives each block of IR of a page to llmc-opt."""
    for number, block in enumerate(re.findall(r"^```mlir\n(.*?)^```", path.read_text(), re.M | re.S), 1):
        name = f"{path.relative_to(ROOT)}, IR {number}"
        if block.startswith("// part"):
            continue
        flags = re.match(r"// llmc-opt:(.*)\n", block)
        check(f"{name}: begins with // llmc-opt: FLAGS or // part", flags, block.split("\n")[0])
        if flags:
            done = subprocess.run([BUILD / "bin/llmc-opt", "-", *flags.group(1).split()], input=block,
                                  capture_output=True, text=True)
            check(name, done.returncode == 0, done.stderr)


def main():
    for path in pages():
        found = list(broken_links(path))
        check(f"links of {path.relative_to(ROOT)}", not found, "\n".join(found))
    for path in sorted((ROOT / "docs").glob("*.md")):
        check_ir(path)
    done = subprocess.run([sys.executable, "-B", ROOT / "scripts/pass-pages.py", "--check", "--build", BUILD],
                          capture_output=True, text=True)
    check("generated pages are what scripts/pass-pages.py writes", done.returncode == 0,
          done.stdout + done.stderr)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
