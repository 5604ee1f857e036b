#!/usr/bin/env python3
"""Installs into a new prefix and works from there: compiles, runs and inspects a model.

Nothing of the build folder may be needed: the prefix is moved before it is used.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("LLMC_BUILD", ROOT / "build"))
MODEL = "share/doc/llmc/examples/gpt2/model.onnx"
passed = failed = 0


def check(name, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED {name}\n{detail}")


def call(*command, cwd):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    status, out, err = call("cmake", "--install", BUILD, "--prefix", folder / "first", cwd=folder)
    check("cmake --install", status == 0, out + err)
    if status == 0:
        prefix = (folder / "first").rename(folder / "moved")
        programs = sorted(path.name for path in (prefix / "bin").iterdir())
        check("programs", programs == ["llmc", "llmc-gpu-check", "llmc-opt", "llmc-rt"], str(programs))
        for page in ("README.md", "LICENSE", "docs/README.md"):
            check(page, (prefix / "share/doc/llmc" / page).exists(), "is not installed")
        for program in programs:
            status, out, err = call(prefix / "bin" / program, "--help", cwd=folder)
            check(f"{program} --help", status == 0 and out, err)
        status, out, err = call(prefix / "bin/llmc", "compile", prefix / MODEL, "--mesh", "2",
                                "-o", "gpt2", cwd=folder)
        check("compile", status == 0, err)
        (folder / "tokens.bin").write_bytes(bytes(b % 251 if i % 2 == 0 else 0
                                                  for i, b in enumerate(range(8192))))
        status, out, err = call(folder / "gpt2", "--data", "tokens.bin", "--steps", "2", cwd=folder)
        check("train", status == 0 and "step 2/2" in out + err, out + err)
        status, out, err = call(prefix / "bin/llmc", "inspect", "gpt2", "--json", cwd=folder)
        check("inspect", status == 0 and json.loads(out)["ranks"] == 2, err)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
