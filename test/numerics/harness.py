"""What the end-to-end tests share: compiling, running, reading results, errors.

Python 3 and numpy only. Errors are those of the project's definition: of a
tensor g against g* it is |g - g*| / max(|g*|, 1e-3 |all gradients*|) in L2 norms
(a key bias has an exactly zero gradient); of a loss it is relative.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import traceback

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.environ.get("LLMC", os.path.join(ROOT, "build", "bin", "llmc"))
DATA = os.path.join(ROOT, "test", "data")
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


def read_safetensors(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        body = f.read()
    result = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        low, high = entry["data_offsets"]
        result[name] = np.frombuffer(body[low:high], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return result


def write_safetensors(path, tensors, kinds=None):
    """Writes arrays; `kinds` names element types where numpy has none of the name (BF16 of uint16)."""
    header, at, body = {}, 0, b""
    for name, value in tensors.items():
        value = np.ascontiguousarray(value)
        kind = kinds[name] if kinds else next(k for k, v in TYPES.items() if np.dtype(v) == value.dtype)
        header[name] = {"dtype": kind, "shape": list(value.shape),
                        "data_offsets": [at, at + value.nbytes]}
        at += value.nbytes
        body += value.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


class Failure(Exception):
    pass


def call(arguments, timeout=600, check=True, **kwargs):
    done = subprocess.run([str(a) for a in arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout, **kwargs)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(map(str, arguments))}\nexit {done.returncode}\n"
                      f"{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done


def compile_model(model, out, *flags, check=True):
    return call([LLMC, "compile", model, "-o", out, *flags], check=check)


def train(program, folder, *flags, check=True):
    """Runs a program; returns its dump (a dict of arrays) if it was asked for by `dump`."""
    dump = os.path.join(folder, os.path.basename(program) + ".dump.safetensors")
    call([program, "--dump", dump, *flags], check=check)
    return read_safetensors(dump)


def inspect(path):
    return json.loads(call([LLMC, "inspect", path, "--json"]).stdout)


def loss_error(loss, expected):
    return abs(float(loss) - float(expected)) / abs(float(expected))


def gradient_errors(got, expected):
    """Name -> error, for every tensor of `expected`."""
    total = np.sqrt(sum(float(np.sum(np.square(g, dtype=np.float64))) for g in expected.values()))
    errors = {}
    for name, reference in expected.items():
        if name not in got:
            raise Failure(f"no gradient for {name}; there are {sorted(got)[:8]} ...")
        if got[name].shape != reference.shape:
            raise Failure(f"{name} has shape {got[name].shape}, expected {reference.shape}")
        difference = np.linalg.norm((got[name].astype(np.float64) - reference).ravel())
        size = np.linalg.norm(reference.astype(np.float64).ravel())
        # What is exactly zero is a sum of terms that cancel but for their roundings (queries
        # that see one key alone); 2e-5 of it are 3 roundings of a term.
        size = max(size, 1e-3 * total) if size > 1e-12 * total else 1e-2 * total
        errors[name] = difference / size
    return errors


class Suite:
    """Counts checks; a failed one prints why and the run goes on."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped = name, 0, 0, 0
        self.only = sys.argv[1] if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
        self.full = "--full" in sys.argv

    def run(self, title, test, *arguments):
        if self.only and self.only not in title:
            return
        try:
            with tempfile.TemporaryDirectory(prefix="llmc-") as folder:
                note = test(folder, *arguments)
            self.passed += 1
            print(f"ok      {self.name}: {title}" + (f": {note}" if note else ""), flush=True)
        except Exception as error:  # noqa: BLE001 - every failure is a result
            self.failed += 1
            print(f"FAILED  {self.name}: {title}", flush=True)
            print("        " + str(error).replace("\n", "\n        "))
            if not isinstance(error, (Failure, AssertionError)):
                traceback.print_exc()

    def skip(self, title, why):
        if not self.only or self.only in title:
            self.skipped += 1
            print(f"skipped {self.name}: {title}: {why}", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(1 if self.failed else 0)


def require(condition, message):
    if not condition:
        raise Failure(message)


def below(value, limit, what):
    require(value <= limit, f"{what} is {value:.3e}, limit {limit:.1e}")
    return f"{what} {value:.1e}"


def read_oracle(folder):
    """Loss and gradients that PyTorch computed in float64, by parameter name."""
    data = np.load(os.path.join(folder, "oracle.npz"))
    gradients = {name[len("grad."):]: data[name] for name in data.files if name.startswith("grad.")}
    return float(data["loss"]), gradients


def inputs(folder):
    return ["--input", "input_ids=" + os.path.join(folder, "input_ids.npy"),
            "--input", "labels=" + os.path.join(folder, "labels.npy")]
