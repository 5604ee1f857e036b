"""A folder of small valid files, and ways to damage or disguise one."""
import json
import os
import shutil
import socket
import struct
import subprocess

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.environ.get("LLMC", os.path.join(ROOT, "build", "bin", "llmc"))
CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 64,
          "n_positions": 16, "architectures": ["GPT2LMHeadModel"]}
FILES = ["config.json", "model.onnx", "train.bin", "run.bin", "tokens.bin", "ids.npy", "labels.npy",
         "weights.safetensors", "sharded.mlir"]


def llmc(folder, *arguments):
    done = subprocess.run([LLMC, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"llmc {' '.join(arguments)}: {done.stderr}")


def make(folder):
    """The valid files: `train.bin` trains, `run.bin` runs the same model."""
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(CONFIG, f)
    shutil.copy(os.path.join(ROOT, "test", "data", "models", "gpt2", "dynamo-18", "model.onnx"), folder)
    random = np.random.default_rng(1)
    random.integers(0, 64, 2000).astype("<u2").tofile(os.path.join(folder, "tokens.bin"))
    for name in ("ids", "labels"):
        np.save(os.path.join(folder, name + ".npy"), random.integers(0, 64, (2, 8)))
    llmc(folder, "compile", "config.json", "-o", "train.bin", "--seq", "8", "--global-batch", "2")
    llmc(folder, "compile", "config.json", "-o", "run.bin", "--infer", "--dim", "batch=2,sequence=8")
    llmc(folder, "compile", "config.json", "-o", "sharded.mlir", "--seq", "8", "--mesh", "2", "--compile-to", "shard")
    subprocess.run(["./train.bin", "--data", "tokens.bin", "--steps", "0", "--save", "saved"], cwd=folder,
                   check=True, capture_output=True)
    shutil.move(os.path.join(folder, "saved", "model.safetensors"), os.path.join(folder, "weights.safetensors"))
    shutil.rmtree(os.path.join(folder, "saved"))
    return folder


def runtime_bytes():
    """Of a program, what the system loads; behind it lies what a program must check by itself."""
    return os.path.getsize(os.path.join(os.path.dirname(LLMC), "llmc-rt"))


def damage(rng, content, start=0):
    """One drawn damage to bytes from `start` on, and its name."""
    body = bytearray(content[start:])
    at = rng.randrange(len(body))
    kind = rng.choice(["cut", "cut", "flip", "flip", "zeros", "garbage", "longer", "head", "number"])
    if kind == "cut":
        del body[at:]
    elif kind == "flip":
        for _ in range(rng.choice([1, 5, 50])):
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        body[at:at + 64] = bytes(len(body[at:at + 64]))
    elif kind == "garbage":
        body[at:at + 200] = rng.randbytes(len(body[at:at + 200]))
    elif kind == "longer":
        body += rng.randbytes(rng.choice([1, 3, 1000]))
    elif kind == "head":
        body[:min(16, len(body))] = rng.randbytes(min(16, len(body)))
    elif kind == "number":
        value = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1])
        body[at:at + 8] = struct.pack("<Q", value)[:len(body[at:at + 8])]
    return bytes(content[:start] + body), kind


def edited_config(rng):
    """A config with a field that is missing, of another type, or absurd."""
    config = dict(CONFIG)
    field = rng.choice(list(config))
    value = rng.choice([None, "", "x", -1, 0, 1.5, 1e308, 2**31, 2**63, 2**70, [], {}, True, [1, 2], "gpt\u00fc", "DROP"])
    config[field] = value
    if value == "DROP":
        del config[field]
    text = json.dumps(config)
    if rng.random() < 0.2:
        text = text.replace('"n_layer"', '"n_head": 3, "n_layer"') + rng.choice(["", "x", "}"])
    return text.encode(), f"{field}: {value!r}"


def edited_tensors(rng, folder):
    """A safetensors file whose header says what its bytes are not."""
    with open(os.path.join(folder, "weights.safetensors"), "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header, body = json.loads(f.read(size)), f.read()
    names = [name for name in header if name != "__metadata__"]
    name, other = rng.sample(names, 2)
    kind = rng.choice(["overlap", "shape", "dtype", "outside", "backwards", "dropped", "negative", "type"])
    if kind == "overlap":
        header[name]["data_offsets"] = header[other]["data_offsets"]
        header[name]["shape"] = header[other]["shape"]
    elif kind == "shape":
        header[name]["shape"] = [2**40, 2**40]
    elif kind == "dtype":
        header[name]["dtype"] = rng.choice(["F33", "I64", ""])
    elif kind == "outside":
        header[name]["data_offsets"] = [len(body), len(body) + 64]
    elif kind == "backwards":
        header[name]["data_offsets"].reverse()
    elif kind == "negative":
        header[name]["data_offsets"] = [-4, 60]
    elif kind == "type":
        header[name] = rng.choice([None, 1, "x", [], {}])
    else:
        del header[name]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body, f"{kind} of {name}"


def disguise(rng, folder, name):
    """Another way to name a valid file; some lead to it, some to nothing. Returns the path and
    whether it is that file."""
    kind = rng.choice(["dot", "symlink", "hardlink", "folder-link", "loop", "broken", "through", "missing", "folder",
                       "long", "bytes"])
    new = f"{len(os.listdir(folder))}-{name}"  # of no file that is there
    link = os.path.join(folder, new)
    if kind == "dot":
        return "./././" + name, True
    if kind == "symlink":
        os.symlink(name, link)
        return new, True
    if kind == "hardlink":
        os.link(os.path.join(folder, name), link)
        return new, True
    if kind == "folder-link":
        os.symlink(".", link)
        return f"{new}/{new}/{name}", True
    if kind == "loop":
        os.symlink(new, link)
        return new, False
    if kind == "broken":
        os.symlink("nowhere", link)
        return new, False
    if kind == "folder":
        os.mkdir(link)
        return new, False
    if kind == "bytes":
        path = b"na\xffme " + new.encode()
        shutil.copy(os.path.join(folder, name), os.path.join(os.fsencode(folder), path))
        return path, True
    return {"through": name + "/x", "missing": "no-such-" + name, "long": "n" * 300}[kind], False


def special(rng, folder):
    """What is no file: returns a path."""
    kind = rng.choice(["fifo", "socket", "null", "full", "folder"])
    name = f"special-{len(os.listdir(folder))}"
    path = os.path.join(folder, name)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
    elif kind == "folder":
        os.mkdir(path)
    return {"null": "/dev/null", "full": "/dev/full"}.get(kind, name)
