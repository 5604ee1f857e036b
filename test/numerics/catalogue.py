"""The fault catalogue: the default `verify` finds every named fault of a compiler that changes
the loss or a gradient by more than 1e-3. Prints which check finds what.

An ordinary run plants every fourth fault, `--full` all of them.
"""
import os
import shutil

from harness import DATA, LLMC, Suite, call, require
from small import SMALL, write_small

CATALOGUE = os.path.join(os.path.dirname(LLMC), "llmc-catalogue")
suite = Suite("catalogue")


def check(folder):
    for name in SMALL:
        write_small(folder, name)
    shutil.copy(os.path.join(DATA, "gpt2-tiny", "torchscript.onnx"), os.path.join(folder, "tiny.onnx"))
    flags = [] if suite.full else ["--every", 4]
    done = call([CATALOGUE, folder, *flags], check=False, timeout=36000)
    require(done.returncode in (0, 1), f"exit {done.returncode}: {done.stderr[-2000:]}")
    print(done.stdout)
    missed = [line for line in done.stdout.splitlines() if line.startswith("MISSED")]
    require(done.returncode == 0 and not missed, "\n".join(missed))
    return done.stdout.splitlines()[-1]


suite.run("every fault is found", check)
suite.finish()
