"""What the checks share: the files of the repository, and how a check reports.

`check.expect(holds, where, message)` judges one line, function or file. A test is one file (or
folder) before one check, however many things in it are judged.
Files are those that git tracks or would track; without git, all but build trees.
"""
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@functools.cache
def files():
    """Repository-relative paths, sorted."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True
    )
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        skipped = re.compile(r"^(build|build-[^/]*|\.git)/|(^|/)__pycache__/")
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        names = [name for name in names if not skipped.search(name)]
    return sorted(name for name in set(names) if (ROOT / name).is_file())


def matching(pattern):
    """Files whose path matches the regular expression from its first character."""
    return [name for name in files() if re.match(pattern, name)]


@functools.cache
def text(name):
    return (ROOT / name).read_text(errors="replace")


def lines(name):
    return text(name).splitlines()


@functools.cache
def folders():
    """Every folder that holds a file of the repository."""
    return {str(parent) for name in files() for parent in pathlib.PurePath(name).parents} - {"."}


def kebab(name):
    """InsertReshards -> insert-reshards."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def blank_comments_and_strings(source, strings=True):
    """C++ source of the same length and lines, with what is no code made blank."""
    pattern = re.compile(
        r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")"""
        r"""|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')""",
        re.S,
    )

    def blank(match):
        if match.group("comment") is None and not strings:
            return match.group(0)
        return re.sub(r"[^\n]", " ", match.group(0))

    return pattern.sub(blank, source)


class Check:
    def __init__(self, title):
        self.title, self.failures, self.warnings = title, [], []
        self.judged, self.failed = set(), set()  # files

    def expect(self, holds, where, message):
        file = str(where).split(":")[0]
        self.judged.add(file)
        if not holds:
            self.failed.add(file)
            self.failures.append(f"{where}: {message}")

    def warn(self, where, message):
        self.warnings.append(f"{where}: warning: {message}")

    def finish(self):
        for message in self.warnings + self.failures:
            print(message)
        print(f"{self.title}")
        print(f"{len(self.judged) - len(self.failed)} passed, {len(self.failed)} failed")
        sys.exit(1 if self.failed or not self.judged else 0)
