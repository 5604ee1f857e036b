#!/usr/bin/env python3
"""Fuzzes every reader with sanitizers: first the committed cases, then new bytes.
A case is a find that was fixed, or a small file to start from.

run.py [--seconds S] [--seed N] [--only READER] [--corpus DIR] [--no-build] [--full]
Without --seconds, each reader gets the number of inputs that took about ten seconds when
it was chosen, drawn from seed N = 1 with addresses fixed, so that a red test stays red;
with --seconds (--full: 60) the draw follows the clock. N = 0 draws another each time.
What a run finds stays in build-fuzz/finds/READER; once it is fixed, it belongs into
test/fuzz/cases/READER (make it small with -minimize_crash=1).
--corpus keeps the inputs that reached something new, for a longer run.
"""
import argparse
import base64
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build-fuzz"
DATA = ROOT / "test" / "data"
CASES = ROOT / "test" / "fuzz" / "cases"
SYMBOLIZER = pathlib.Path("/usr/lib/llvm-22/bin/llvm-symbolizer")
# Reader: seeds beside those that llmc-fuzz-seeds writes, options, inputs of a short run.
READERS = {
    "npy": (["gpt2-tiny/*.npy"], [], 100000),
    "safetensors": (["gpt2-tiny/weights.safetensors"], [], 20000),
    "plan": ([], [], 20000),
    "payload": ([], [], 100000),
    "tokens": ([], [], 25000),
    # Those of test size, with weights beside them; sanitizers take a millisecond for each tensor.
    "config": (["*/config.json"], ["-timeout=200"], 10000),
    "onnx": (["gpt2-tiny/*.onnx"], [], 4000),
    # Constants may have 2^26 elements, and a node several ops of them, which sanitizers watch one by one.
    "nodes": ([], ["-len_control=0", "-max_len=300", "-timeout=200"], 4000),
}


def fixed_addresses():
    """The command that turns address randomisation off, where it is allowed."""
    command = ["setarch", os.uname().machine, "-R"]
    works = shutil.which("setarch") and subprocess.run([*command, "true"],
                                                       stderr=subprocess.DEVNULL).returncode == 0
    return command if works else []


FIXED = fixed_addresses()


def found(folder):
    """The finds of a folder as text, for those who see only a log."""
    lines = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        text = base64.b64encode(data).decode() if len(data) <= 3000 else f"{len(data)} bytes"
        lines.append(f"{path.name}: {text}")
    return "\n".join(lines)


def build():
    """Compiles what is not up to date; the last lines of a failure."""
    done = subprocess.run([ROOT / "scripts" / "build.sh", "fuzz", "llmc-fuzz-all"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else "\n".join(done.stdout.splitlines()[-40:])


def call(reader, *arguments):
    environment = dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1")
    if SYMBOLIZER.exists():
        environment["ASAN_SYMBOLIZER_PATH"] = str(SYMBOLIZER)
    program = BUILD / "bin" / f"llmc-fuzz-{reader}"
    return subprocess.run([*FIXED, program, "-timeout=25", "-reload=0", "-rss_limit_mb=3000", "-malloc_limit_mb=2500",
                           *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")


def replay(reader):
    """Reads each committed case once."""
    folder = CASES / reader
    cases = sorted(folder.iterdir()) if folder.exists() else []
    if not cases:
        return None, ""
    done = call(reader, *cases)
    return done.returncode == 0, f"{len(cases)}" if done.returncode == 0 else done.stdout


def fuzz(reader, seconds, seed, corpus, seeds):
    patterns, options, runs = READERS[reader]
    own = seeds / reader
    own.mkdir(parents=True, exist_ok=True)
    for pattern in patterns:
        for path in sorted(DATA.glob(pattern)):
            if path.name == "config.json" and not any(path.parent.glob("*.safetensors")):
                continue
            shutil.copy(path, own / path.relative_to(DATA).as_posix().replace("/", "-"))
    finds = BUILD / "finds" / reader
    finds.mkdir(parents=True, exist_ok=True)
    corpus = corpus / reader
    corpus.mkdir(parents=True, exist_ok=True)
    limit = f"-max_total_time={seconds}" if seconds else f"-runs={runs}"
    done = call(reader, limit, f"-seed={seed}", "-print_final_stats=1",
                f"-artifact_prefix={finds}/", *options, corpus, own,
                *([CASES / reader] if (CASES / reader).exists() else []))
    count = re.search(r"number_of_executed_units:\s+(\d+)", done.stdout)
    if done.returncode != 0 or not count or int(count[1]) < 100:
        telling = [line for line in done.stdout.splitlines()
                   if not re.match(r"#\d|\s+NEW_FUNC|\s+#\d+ .*(fuzzer::|libc)", line)]
        return False, "\n".join(telling[-40:]) + "\n" + found(finds)
    reached = re.findall(r"cov: (\d+)", done.stdout)
    return True, f"{int(count[1]):,} inputs, {reached[-1] if reached else '?'} edges"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(READERS))
    parser.add_argument("--corpus", type=pathlib.Path)
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    seconds = arguments.seconds or (60 if arguments.full else None)
    passed = failed = 0

    def note(good, title, text):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"ok      {title}: {text}" if good else f"FAILED  {title}\n{text[-6000:]}", flush=True)

    problem = "" if arguments.no_build else build()
    if problem:
        note(False, "build", problem)
    with tempfile.TemporaryDirectory(prefix="llmc-fuzz-") as temporary:
        temporary = pathlib.Path(temporary)
        if not problem:
            subprocess.run([BUILD / "bin" / "llmc-fuzz-seeds", temporary / "seeds"], check=True)
        for reader in [] if problem else READERS:
            if arguments.only not in (None, reader):
                continue
            good, text = replay(reader)
            if good is not None:
                note(good, f"{reader}: cases", text)
            corpus = arguments.corpus or temporary / "corpus"
            good, text = fuzz(reader, seconds, arguments.seed, corpus, temporary / "seeds")
            note(good, f"{reader}: {seconds} s" if seconds else f"{reader}: drawn", text)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
