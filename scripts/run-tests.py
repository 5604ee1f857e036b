#!/usr/bin/env python3
"""Runs every test of a built tree, two at a time, and adds up their counts.

A unit is one program whose output ends in "N passed, N failed[, N skipped]":
  cpp    what CMake registers with add_test, and any build/bin/llmc-*-tests
  lit    test/**/*.mlir
  checks test/checks/run.py
  AREA   test/AREA/run*.py and run*.sh; one named run-alone* has the machine to
         itself, because it measures time or memory
A unit that crashes, runs out of time or runs no test is one failure.
--full is passed on to run*.py and run*.sh, and multiplies the --draws of C++ tests.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLVM_BIN = pathlib.Path("/usr/lib/llvm-22/bin")
COUNTS = re.compile(r"^(?:\w+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
PYTHON = "/usr/bin/python3"  # the one that has Debian's numpy
JOBS = 2
FULL_DRAWS = 20


@dataclasses.dataclass
class Unit:
    name: str
    command: list
    alone: bool = False


@dataclasses.dataclass
class Result:
    unit: Unit
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    output: str = ""


def telling_lines(lines, most=100, tail=30):
    """What failed, with the lines that explain it, and the end."""
    chosen = set(range(max(0, len(lines) - tail), len(lines)))
    for i, line in enumerate(lines):
        if (line.startswith("FAILED") or line.endswith(": Failure")) and len(chosen) < most + tail:
            chosen.update(range(i, min(i + 6, len(lines))))
    return [lines[i] for i in sorted(chosen)]


def cpp_units(build, full):
    """The registered tests with their arguments, then programs nobody registered."""
    listing = subprocess.run(
        ["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True
    )
    units, programs = [], set()
    for test in json.loads(listing.stdout)["tests"]:
        command = list(test.get("command") or [str(build / "bin" / "not-built")])
        programs.add(pathlib.Path(command[0]).name)
        if full and "--draws" in command:
            at = command.index("--draws") + 1
            command[at] = str(int(command[at]) * FULL_DRAWS)
        units.append(Unit("cpp/" + test["name"], command))
    for path in sorted((build / "bin").glob("llmc-*-tests")):
        if path.name not in programs:
            units.append(Unit("cpp/" + path.name, [str(path)]))
    return units


def script_units(full):
    units = []
    for path in sorted([*ROOT.glob("test/*/run*.py"), *ROOT.glob("test/*/run*.sh")]):
        command = [PYTHON if path.suffix == ".py" else "bash", str(path)]
        area, stem = path.parent.name, path.stem
        name = area if stem == "run" else f"{area}/{stem.removeprefix('run-')}"
        alone = stem.startswith("run-alone")
        units.append(Unit(name, command + (["--full"] if full else []), alone))
    return units


def lit_unit(build):
    report = build / "test-logs" / "lit.json"
    return Unit(
        "lit",
        [PYTHON, str(LLVM_BIN / "lit"), "-v", "-j", str(JOBS), "-o", str(report),
         "-D", f"build={build}", str(ROOT / "test")],
        alone=True,
    )


def lit_counts(report):
    codes = [test["code"] for test in json.loads(report.read_text())["tests"]]
    skipped = sum(code in ("UNSUPPORTED", "SKIPPED", "EXCLUDED") for code in codes)
    passed = sum(code in ("PASS", "XFAIL", "FLAKYPASS") for code in codes)
    return passed, len(codes) - passed - skipped, skipped


def run(unit, build, limit):
    start = time.monotonic()
    log = build / "test-logs" / (unit.name.replace("/", "-") + ".log")
    result = Result(unit)
    code = None
    environment = dict(os.environ, LLMC_BUILD=str(build), PYTHONDONTWRITEBYTECODE="1",
                       LLMC_KERNEL_CACHE=str(build / "kernel-cache"))
    with open(log, "w") as out:
        try:
            process = subprocess.Popen(
                unit.command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True, env=environment,
            )
            try:
                code = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                result.note = f"stopped after {limit} s"
        except OSError as error:
            out.write(f"{error}\n")
            result.note = f"did not start: {error.strerror}"
    result.seconds = time.monotonic() - start
    result.output = log.read_text(errors="replace")
    judge(result, code, build)
    return result


def judge(result, code, build):
    """Fills in the counts; whatever contradicts itself becomes a failure."""
    counts = None
    if result.unit.name == "lit":
        report = build / "test-logs" / "lit.json"
        if code is not None and report.exists():
            counts = lit_counts(report)
    else:
        lines = [line.strip() for line in result.output.splitlines() if line.strip()]
        match = COUNTS.match(lines[-1]) if lines else None
        if match:
            counts = tuple(int(number or 0) for number in match.groups())
    if counts:
        result.passed, result.failed, result.skipped = counts
    if not result.note:
        if counts is None:
            result.note = f"exit {code}, and its last line has no counts"
        elif code != 0 and not result.failed:
            result.note = f"exit {code}, though no test failed"
        elif code == 0 and result.failed:
            result.note = "exit 0, though tests failed"
        elif not any(counts):
            result.note = "ran no test"
    if result.note and not result.failed:
        result.failed += 1


def show(result):
    mark = "FAIL" if result.failed else "ok"
    print(f"{mark:4}  {result.unit.name:34} {result.passed:6} passed {result.failed:4} failed"
          f" {result.skipped:4} skipped {result.seconds:7.1f} s  {result.note}".rstrip(), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", help="only units whose name matches this pattern")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--limit", type=int, default=0, help="seconds for one unit")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    limit = arguments.limit or (7200 if arguments.full else 2400)
    (build / "test-logs").mkdir(parents=True, exist_ok=True)
    (build / "test-logs" / "lit.json").unlink(missing_ok=True)
    shutil.rmtree(build / "kernel-cache", ignore_errors=True)

    # Scripts take longest: they begin first, so that two streams end together.
    units = [lit_unit(build), *script_units(arguments.full), *cpp_units(build, arguments.full)]
    units = [unit for unit in units if re.search(arguments.only, unit.name)]
    start, results = time.monotonic(), []

    def finish(result):
        results.append(result)
        show(result)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        jobs = [pool.submit(run, unit, build, limit) for unit in units if not unit.alone]
        for job in concurrent.futures.as_completed(jobs):
            finish(job.result())
    for unit in units:
        if unit.alone:
            finish(run(unit, build, limit))

    broken = [result for result in results if result.failed]
    for result in broken:
        telling = "\n".join(telling_lines(result.output.splitlines()))
        print(f"\n---- {result.unit.name}: {' '.join(map(str, result.unit.command))}\n{telling}")
    print("\ntime by group:")
    groups = {}
    for result in results:
        group = result.unit.name.split("/")[0]
        groups[group] = groups.get(group, 0.0) + result.seconds
    for group, seconds in sorted(groups.items(), key=lambda item: -item[1]):
        print(f"  {group:20} {seconds:7.1f} s")
    print(f"  {'all, two at a time':20} {time.monotonic() - start:7.1f} s")
    if broken:
        print("failed: " + " ".join(result.unit.name for result in broken))
    passed, failed, skipped = (
        sum(getattr(result, what) for result in results) for what in ("passed", "failed", "skipped")
    )
    if not results:
        print("no unit matches")
        failed = 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
