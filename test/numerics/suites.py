"""Runs suites one after the other; prints every check, then the sum."""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def run(suites):
    total = [0, 0, 0]
    for suite in suites:
        begin = time.monotonic()
        done = subprocess.run([sys.executable, os.path.join(HERE, suite + ".py"), *sys.argv[1:]],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        lines = done.stdout.splitlines()
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1] if lines else "")
        print("\n".join(lines[:-1] if counts else lines))
        print(f"{suite}: {time.monotonic() - begin:.0f} s", flush=True)
        if counts:
            total = [a + int(b) for a, b in zip(total, counts.groups())]
        else:
            print(f"FAILED  {suite}: ended without a count (exit {done.returncode})")
            total[1] += 1
    print("%d passed, %d failed, %d skipped" % tuple(total))
    sys.exit(1 if total[1] else 0)
