"""Hostile command lines and files: llmc and what it compiles refuse them, or do what they ask.

Whatever is asked: an end in time, exit status 0, 1 or 2, a clear message where it is not 0, said
once, no crash, no word of the compiler's inside, inputs as they were, nothing left behind.
    run.py [--draws N] [--seed S] [--only DRAW] [--keep] [--full]
"""
import argparse
import hashlib
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from draws import draw
from files import FILES, make

LIMIT_S = 60  # a loaded machine compiles in seconds
MEMORY = 16 << 30
MESSAGES = 8
INSIDE = re.compile(r"assert|LLVM ERROR|terminate called|bad_alloc|std::|bug of llmc|Stack dump|UNREACHABLE|what\(\)|"
                    r"PLEASE submit|Sanitizer|core dumped|\.cpp:\d+", re.IGNORECASE)
ERROR = re.compile(rb"^[^\n]*?: error: ", re.MULTILINE)


def snapshot(folder):
    """Path -> what it is: a file's hash, a link's aim, else its kind."""
    found = {}
    root = os.fsencode(folder)
    for place, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode & 0o170000
            if mode == 0o120000:
                what = os.readlink(path)
            elif mode == 0o100000:
                with open(path, "rb") as f:
                    what = hashlib.blake2b(f.read()).digest()
            else:
                what = mode
            found[os.path.relpath(path, root)] = what
    return found


def allowed(path, outputs):
    """Whether a new path is an output, or in one."""
    for output in outputs:
        output = os.path.normpath(os.fsencode(output))
        if path == output or path.startswith(output + b"/") or output.startswith(path + b"/"):
            return True
    return False


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(case, folder):
    process = subprocess.Popen([os.fsencode(a) if isinstance(a, str) else a for a in case.argv], cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=limits, start_new_session=True)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, b"", b""


def judge(case, before, after, code, out, err):
    """What is wrong, as sentences."""
    wrong = []
    if code is None:
        return [f"did not end within {LIMIT_S} s"]
    if code not in (0, 1, 2):
        wrong.append(f"ended with status {code}" + (f" ({signal.Signals(-code).name})" if code < 0 else ""))
    if case.refused and code == 0:
        wrong.append("was not refused")
    if case.usage and code == 1:
        wrong.append("ended with status 1; a malformed command line is 2")
    text = err.decode(errors="replace")
    inside = INSIDE.search(text) or INSIDE.search(out.decode(errors="replace"))
    if inside:
        wrong.append(f"says '{inside.group()}'")
    if code:
        lines = [line for line in text.splitlines() if line.strip()]
        # Every problem of a kind is said at once, each of them once.
        if not 1 <= len(ERROR.findall(err)) <= MESSAGES:
            wrong.append(f"has {len(ERROR.findall(err))} messages")
        for line in sorted(set(lines)):
            if len(line) > 20 and lines.count(line) > 1:
                wrong.append(f"says {lines.count(line)} times: {line[:80]}")
        if len(text) > 20000:
            wrong.append(f"writes {len(text)} characters of messages")
        if case.argv[0].startswith("./") and not re.search(rb"^\S+: error: ", err, re.MULTILINE):
            wrong.append("has no message that begins with the program's name")
    for path, what in before.items():
        if path not in after:
            wrong.append(f"removed {path.decode(errors='replace')}")
        elif after[path] != what:
            wrong.append(f"changed {path.decode(errors='replace')}")
    for path in after.keys() - before.keys():
        if not allowed(path, case.outputs):
            wrong.append(f"left {path.decode(errors='replace')} behind")
    return wrong


def shell(argv):
    return " ".join(shlex.quote(a) if isinstance(a, str) else "$'" + "".join(f"\\x{b:02x}" for b in a) + "'" for a in argv)


def check(base, seed, number, keep):
    """One draw in a folder of its own; returns whether all is well."""
    folder = tempfile.mkdtemp(prefix="llmc-hostile-")
    try:
        for name in FILES:
            shutil.copy2(os.path.join(base, name), folder)
        case = draw(random.Random(f"{seed}:{number}"), folder)
        before = snapshot(folder)
        code, out, err = run(case, folder)
        wrong = judge(case, before, snapshot(folder), code, out, err)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if wrong:
        print(f"FAILED  draw {number} of seed {seed}: {'; '.join(case.notes)}")
        print(f"        {shell(case.argv)[:1000]}")
        for sentence in wrong:
            print(f"        {sentence}")
        print(f"        exit {code}: " + err.decode(errors="replace")[:600].replace("\n", "\n        "))
        if keep:
            print(f"        kept in {folder}")
    elif keep:
        print(f"ok      draw {number}: {'; '.join(case.notes)}: {shell(case.argv)[:300]}: exit {code}: "
              + err.decode(errors="replace")[:300])
    sys.stdout.flush()
    return not wrong, code


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=0, help="[200; 2000 with --full]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one draw by its number")
    parser.add_argument("--keep", action="store_true", help="keep the folders, print every draw")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    draws = arguments.draws or (2000 if arguments.full else 200)
    numbers = range(draws) if arguments.only is None else [arguments.only]
    passed, refused = 0, 0
    with tempfile.TemporaryDirectory(prefix="llmc-hostile-") as base:
        make(base)
        for number in numbers:
            well, code = check(base, arguments.seed, number, arguments.keep)
            passed, refused = passed + well, refused + (code != 0)
    print(f"ok      seed {arguments.seed}: {passed} of {len(numbers)} draws, {refused} refused")
    print(f"{passed} passed, {len(numbers) - passed} failed, 0 skipped")
    sys.exit(1 if passed < len(numbers) else 0)


main()
