#!/usr/bin/env python3
"""Runs all checks of this folder and adds up their counts."""
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
passed = failed = 0
for path in sorted(here.glob("*.py")):
    if path.name in ("run.py", "tree.py"):
        continue
    done = subprocess.run([sys.executable, "-B", str(path)], capture_output=True, text=True)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.M)
    print(f"== {path.name}\n{done.stdout}{done.stderr}", end="")
    if counts and (done.returncode == 0) == (counts.group(2) == "0") and counts.group(1, 2) != ("0", "0"):
        passed, failed = passed + int(counts.group(1)), failed + int(counts.group(2))
    else:
        failed += 1
        print(f"{path.name}: exit {done.returncode}, and no counts that fit")
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
