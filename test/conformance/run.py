#!/usr/bin/env python3
"""Ops of ONNX and com.microsoft: import, evaluate, compare with stored outputs.

usage: run.py [--full] [--update] [--only TEXT]

The node tests of ONNX are those of one release, taken from its wheel with pip into
build/ once; without it (no network) they count as skipped. passed.txt lists the cases that
pass; a name that is lost fails, --update writes the list anew. A fixed sample of them
is also compiled and run.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("LLMC_BUILD", HERE.parent.parent / "build"))
RELEASE = "onnx==1.22.0"  # the last that holds the data of the node tests
INSIDE = "onnx/backend/test/data/node/"
LIST = HERE / "passed.txt"
SAMPLE, SEED = 150, 5  # cases that also run as compiled programs
OWN = HERE / "cases"  # ops of com.microsoft, by make_cases.py


def fetch():
    """The folder of the cases, or None and why not."""
    given = os.environ.get("LLMC_NODE_CASES")
    if given:
        return pathlib.Path(given), ""
    folder = BUILD / "node-cases"
    if (folder / "complete").exists():
        return folder / INSIDE, ""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
           "--disable-pip-version-check", "-d", str(folder), RELEASE]
    # Any platform's wheel has the data.
    pip[4:4] = ["--python-version", "3.12", "--platform", "manylinux_2_28_x86_64",
                "--platform", "manylinux2014_x86_64"]
    try:
        done = subprocess.run(pip, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    wheels = sorted(folder.glob("onnx-*.whl"))
    if done.returncode or not wheels:
        return None, (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder, [n for n in wheel.namelist() if n.startswith(INSIDE)])
    wheels[0].unlink()
    (folder / "complete").touch()
    return folder / INSIDE, ""


def run(words):
    """Runs llmc-node-cases; its exit code, and how many passed and failed."""
    process = subprocess.Popen([str(BUILD / "bin" / "llmc-node-cases"), *words],
                               stdout=subprocess.PIPE, text=True)
    last = ""
    for last in process.stdout:
        print(last, end="", flush=True)
    counts = re.match(r"(\d+) passed, (\d+) failed$", last)
    code = process.wait()
    if not counts and "--update" not in words:
        return code or 1, (0, 1)  # it crashed
    return code, tuple(map(int, counts.groups())) if counts else (0, 0)


def run_own():
    """Runs our own cases, those of large numbers also as compiled programs: only these compute in
    32 bits, where a large number may overflow."""
    code, own = run([str(OWN)])
    large_code, large = run([str(OWN), "--only", "_large", "--kernels", "100"])
    return code or large_code, (own[0] + large[0], own[1] + large[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all cases as compiled programs too, not a sample")
    parser.add_argument("--update", action="store_true", help="write passed.txt anew")
    parser.add_argument("--only", default="", help="cases whose folder contains this")
    arguments = parser.parse_args()
    cases, problem = fetch()
    if cases is None:
        listed = sum(1 for line in LIST.read_text().splitlines() if line)
        code, own = run_own()
        print(f"{RELEASE} could not be downloaded ({problem}): its cases are skipped")
        print(f"{own[0]} passed, {own[1]} failed, {listed} skipped")
        return code
    if arguments.only:
        return run([str(cases), str(OWN), "--only", arguments.only, "--verbose"])[0]
    code, own = run_own()
    compiled = ["--kernels", str(100000 if arguments.full else SAMPLE), "--seed", str(SEED)]
    suite = run([str(cases), "--list", str(LIST)] + (["--update"] if arguments.update else compiled))
    if arguments.update:
        return suite[0]
    passed, failed = (a + b for a, b in zip(own, suite[1]))
    print(f"{passed} passed, {failed} failed")
    return code or suite[0]


if __name__ == "__main__":
    sys.exit(main())
