"""Quantised checkpoints train as the same weights stored as F32 do, to the bit."""
import json
import os
import shutil
import struct
import tempfile

import numpy as np

from harness import DATA, LLMC, Suite, call, compile_model, inspect, read_safetensors, require, train

TEXT = os.path.join(DATA, "gpt2", "text.bin")
CONFIG = {"model_type": "llama", "hidden_size": 96, "intermediate_size": 160, "vocab_size": 272,
          "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
          "max_position_embeddings": 64}
HIDDEN, INNER, KV = 96, 160, 48
FLAGS = ["--seq", 16, "--global-batch", 4]
FP8 = {"quant_method": "fp8", "weight_block_size": [64, 32]}  # edges of 32 rows


def shapes():
    """Name -> shape, of what is quantised and of what is not."""
    plain = {"model.embed_tokens.weight": [272, HIDDEN], "lm_head.weight": [272, HIDDEN],
             "model.norm.weight": [HIDDEN]}
    matrices = {}
    for layer in range(2):
        at = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            plain[at + name + ".weight"] = [HIDDEN]
        for name, shape in {"self_attn.q_proj": [HIDDEN, HIDDEN], "self_attn.k_proj": [KV, HIDDEN],
                            "self_attn.v_proj": [KV, HIDDEN], "self_attn.o_proj": [HIDDEN, HIDDEN],
                            "mlp.gate_proj": [INNER, HIDDEN], "mlp.up_proj": [INNER, HIDDEN],
                            "mlp.down_proj": [HIDDEN, INNER]}.items():
            matrices[at + name + ".weight"] = shape
    return plain, matrices


def write(path, tensors):
    """Name -> (type of safetensors, array of the bytes' own type)."""
    header, at, body = {}, 0, b""
    for name, (kind, value) in tensors.items():
        data = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)


def checkpoint(folder, name, tensors, quantization=None, files=1):
    """A folder as Hugging Face's, in one file or in several with an index."""
    place = os.path.join(folder, name)
    os.makedirs(place)
    with open(os.path.join(place, "config.json"), "w") as f:
        json.dump(dict(CONFIG, quantization_config=quantization) if quantization else CONFIG, f)
    if files == 1:
        write(os.path.join(place, "model.safetensors"), tensors)
        return place
    names, where = sorted(tensors), {}
    for part in range(files):  # scales lie in another file than what they scale
        own = {n: tensors[n] for n in names[part::files]}
        write(os.path.join(place, f"part-{part}.safetensors"), own)
        where.update({n: f"part-{part}.safetensors" for n in own})
    with open(os.path.join(place, "model.safetensors.index.json"), "w") as f:
        json.dump({"weight_map": where}, f)
    return place


def small_floats(bits, mantissa, bias, nan):
    """What each code means, by the definition of a float."""
    out = []
    for code in range(1 << bits):
        exponent = (code >> mantissa) % (1 << (bits - 1 - mantissa))
        fraction = code % (1 << mantissa) / (1 << mantissa)
        value = (1 + fraction if exponent else fraction) * 2.0 ** (max(exponent, 1) - bias)
        out.append(np.nan if nan(code) else -value if code >> (bits - 1) else value)
    return np.array(out, np.float32)


E4M3 = small_floats(8, 3, 7, lambda code: code & 127 == 127)
E2M1 = small_floats(4, 1, 1, lambda code: False)


def bfloat(values):
    """The bits of floats cut to BF16, and what they are as floats."""
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def drawn_plain(random):
    """Tensors as they are stored, and as F32."""
    stored, floats = {}, {}
    for name, shape in shapes()[0].items():
        bits, value = bfloat(random.normal(0, 0.02, shape) + (len(shape) == 1))
        stored[name], floats[name] = ("BF16", bits), ("F32", value)
    return stored, floats


def spread(scales, rows, columns, shape):
    return np.repeat(np.repeat(scales, rows, 0), columns, 1)[:shape[0], :shape[1]]


def drawn_fp8(seed, rows=64, columns=32, scale="_scale_inv", kind="F32", grid=None):
    random = np.random.default_rng(seed)
    stored, floats = drawn_plain(random)
    for name, shape in shapes()[1].items():
        codes = random.integers(0, 256, shape).astype(np.uint8)
        codes[codes & 127 == 127] = 1
        high, wide = rows or shape[0], columns or shape[1]
        scales = random.uniform(1e-4, 3e-4, [-(-shape[0] // high), -(-shape[1] // wide)])
        bits, values = bfloat(scales) if kind == "BF16" else (scales.astype(np.float32),) * 2
        stored[name] = ("F8_E4M3", codes)
        stored[name + scale] = (kind, bits.reshape(bits.shape if grid is None else grid))
        floats[name] = ("F32", E4M3[codes] * spread(values, high, wide, shape))
    return stored, floats


def drawn_mxfp4(seed):
    random = np.random.default_rng(seed)
    stored, floats = drawn_plain(random)
    for name, (rows, columns) in shapes()[1].items():
        codes = random.integers(0, 256, [rows, columns // 32, 16]).astype(np.uint8)
        scales = random.integers(118, 124, [rows, columns // 32]).astype(np.uint8)
        stored[name + "_blocks"], stored[name + "_scales"] = ("U8", codes), ("U8", scales)
        pairs = np.stack([E2M1[codes & 15], E2M1[codes >> 4]], -1).reshape(rows, columns // 32, 32)
        values = pairs * np.exp2(scales.astype(np.float32) - 127)[..., None]
        floats[name] = ("F32", values.reshape(rows, columns).astype(np.float32))
    return stored, floats


SHARED = tempfile.TemporaryDirectory(prefix="llmc-")


def bare(mesh="1"):
    """A program that was compiled without weights, once for each mesh."""
    path = os.path.join(SHARED.name, mesh)
    if not os.path.exists(path):
        config = os.path.join(SHARED.name, "config.json")
        with open(config, "w") as f:
            json.dump(CONFIG, f)
        compile_model(config, path, *FLAGS, "--mesh", mesh)
    return path


def require_same(a, b):
    require(a.keys() == b.keys() and len(a) > 20, "other tensors")
    for name, value in a.items():
        require(np.isfinite(value).all() and np.array_equal(value, b[name]), f"{name} differs")


DRAWS = {"fp8 in blocks": (FP8, lambda: drawn_fp8(1), 1),
         "fp8, bf16 scales in other files": (FP8, lambda: drawn_fp8(2, kind="BF16"), 3),
         "fp8, a scale a tensor": (dict(FP8, weight_block_size=None),
                                   lambda: drawn_fp8(3, 0, 0, "_scale", grid=[]), 1),
         "fp8, a scale a row": (FP8, lambda: drawn_fp8(4, 1, 0), 1),
         "mxfp4": ({"quant_method": "mxfp4"}, lambda: drawn_mxfp4(5), 2)}


def equals_floats(folder, mesh, quantization, draw, files):
    """Known when the model is compiled, or found by a program that starts."""
    stored, floats = draw()
    quantised = checkpoint(folder, "quantised", stored, quantization, files)
    program = os.path.join(folder, "program")
    done = compile_model(quantised, program, *FLAGS, "--mesh", mesh)
    require("not read" not in done.stderr and "quantization" not in done.stderr, done.stderr)
    flags = ["--data", TEXT, "--steps", 1]
    expected = train(bare(mesh), folder, *flags, "--weights", checkpoint(folder, "plain", floats))
    require_same(train(program, folder, *flags), expected)
    require_same(train(bare(mesh), folder, *flags, "--weights", quantised), expected)
    return f"loss {expected['loss'][0]:.4f}"


def saved_as_plain(folder):
    """Saved weights are F32, and so does their config say."""
    place = checkpoint(folder, "quantised", drawn_fp8(6)[0], FP8)
    program, saved = os.path.join(folder, "program"), os.path.join(folder, "saved")
    compile_model(place, program, *FLAGS)
    out = call([program, "--data", TEXT, "--steps", 1, "--save", saved]).stdout
    require("14 of them dequantised" in out, out)
    with open(os.path.join(saved, "config.json")) as f:
        require(json.load(f) == CONFIG, "another config")
    require_same(train(program, folder, "--data", TEXT, "--steps", 0, "--weights", saved),
                 train(program, folder, "--data", TEXT, "--steps", 0, "--weights",
                       os.path.join(saved, "model.safetensors")))
    said = inspect(program)["parameter_types"]
    name = "model.layers.0.mlp.up_proj.weight"
    require(said[name] == "F8_E4M3, F32 scales of 64x32" and said["lm_head.weight"] == "BF16", said)
    require(inspect(place)["parameter_types"] == said, "the model says something else")


NAME = "model.layers.1.mlp.up_proj.weight"


def edited(tensors, **changes):
    out = dict(tensors)
    for suffix, value in changes.items():
        name = NAME + suffix.removeprefix("own")
        out.pop(name) if value is None else out.update({name: value})
    return out


def hostile():
    """Title -> (tensors, quantization_config, words of the message)."""
    fp8, mxfp4 = drawn_fp8(7)[0], drawn_mxfp4(8)[0]
    ones = lambda *shape: np.ones(shape, np.float32)
    mx = {"quant_method": "mxfp4"}
    return {
        "fp8 without scales": (edited(fp8, _scale_inv=None), FP8, [NAME + "_scale_inv', are missing"]),
        "fp8 without scales and config": (edited(fp8, _scale_inv=None), None, ["are missing"]),
        "fp8 scales of another shape": (edited(fp8, _scale_inv=("F32", ones(3, 2))), FP8,
                                        ["[3, 2]", "[160, 96], in blocks of 64x32"]),
        "fp8 scales that say no block": (edited(fp8, _scale_inv=("F32", ones(7, 3))), None,
                                         ["does not say in which blocks"]),
        "fp8 scales of whole numbers": (edited(fp8, _scale_inv=("I32", ones(3, 3).astype(np.int32))),
                                        FP8, ["_scale_inv' holds I32"]),
        "scales of plain numbers": (edited(fp8, own=("F32", ones(160, 96))), FP8, ["holds F32, but has scales"]),
        "bytes as weights": (edited(fp8, own=("U8", np.zeros([160, 96], np.uint8))), FP8, ["holds U8"]),
        "a block of one size": (fp8, dict(FP8, weight_block_size=[64]), ["two whole numbers", "[64]"]),
        "mxfp4 without scales": (edited(mxfp4, _scales=None), mx, [NAME + "_scales', are missing"]),
        "mxfp4 scales of another shape": (edited(mxfp4, _scales=("U8", np.zeros([160, 2], np.uint8))),
                                          mx, ["[160, 2], expected U8 of [160, 3]"]),
        "mxfp4 scales of floats": (edited(mxfp4, _scales=("F32", ones(160, 3))), mx, ["holds F32"]),
        "mxfp4 blocks of another shape": (edited(mxfp4, _blocks=("U8", np.zeros([160, 48], np.uint8))),
                                          mx, ["expected U8 of [160, 3, 16]"]),
        "another method": (fp8, {"quant_method": "gptq", "bits": 4}, ["gptq", "--weights random"]),
        "no method": (fp8, {"bits": 4}, ["unnamed method", "--weights random"]),
    }


def refused(folder, tensors, quantization, words):
    """When a model is compiled, and when a program starts."""
    place = checkpoint(folder, "bad", tensors, quantization)
    for command in ([LLMC, "compile", place, "-o", os.path.join(folder, "out"), *FLAGS],
                    [bare(), "--data", TEXT, "--weights", place, "--steps", 1]):
        done = call(command, check=False)
        require(done.returncode == 1 and done.stderr.count("error:") == 1, done.stderr)
        for word in words:
            require(word in done.stderr, f"no '{word}' in: {done.stderr}")


def unread(folder):
    """Tensors that nothing reads are counted and named, once, not those that are known."""
    tensors, floats = drawn_fp8(9)
    tensors = dict(tensors, **{f"extra.{i}": ("F32", np.zeros([2], np.float32)) for i in range(7)})
    place = checkpoint(folder, "more", tensors, FP8)
    program = os.path.join(folder, "program")
    done = compile_model(place, program, *FLAGS)
    words = "7 tensors are not read: 'extra.0', 'extra.1', 'extra.2', 'extra.3', 'extra.4', ..."
    require(done.stderr.count(words) == 1, done.stderr)
    done = call([program, "--data", TEXT, "--steps", 1, "--weights", place])
    require(done.stdout.count(words) == 1, done.stdout)
    done = call([program, "--data", TEXT, "--steps", 1, "--weights", checkpoint(folder, "plain", floats)])
    require("not read" not in done.stdout + done.stderr, done.stdout)


def plain_float8(folder):
    """8-bit floats that nobody scaled are numbers as others are."""
    stored, floats = drawn_fp8(10)
    for name in shapes()[1]:
        del stored[name + "_scale_inv"]
        stored[name] = ("F8_E4M3", stored[name][1] & 0x9F)  # of small exponents
        floats[name] = ("F32", E4M3[stored[name][1]])
    program = os.path.join(folder, "program")
    said = compile_model(checkpoint(folder, "stored", stored), program, *FLAGS).stderr
    require("8-bit floats without scales" in said, said)
    plain = checkpoint(folder, "plain", floats)
    require_same(train(program, folder, "--data", TEXT, "--steps", 1),
                 train(program, folder, "--data", TEXT, "--steps", 1, "--weights", plain))


def two_files(folder):
    """A tensor of two files is the one that an index names, and of none without an index. A folder with an
    index of other files beside model.safetensors is two models: its readers do not agree which."""
    tensors = drawn_fp8(11)[1]
    place, program = checkpoint(folder, "two", tensors), os.path.join(folder, "program")
    compile_model(place, program, *FLAGS)
    file = os.path.join(place, "model.safetensors")
    run = [program, "--data", TEXT, "--steps", 1, "--weights", place]
    shutil.copy(file, os.path.join(place, "other.safetensors"))
    done = call(run, check=False)
    require(done.returncode == 1 and "and no model.safetensors.index.json says which counts" in done.stderr, done.stderr)
    with open(file + ".index.json", "w") as f:
        json.dump({"weight_map": dict.fromkeys(tensors, "other.safetensors")}, f)
    done = call(run, check=False)
    require(done.returncode == 1 and "two models" in done.stderr, done.stderr)
    for one in (file, file + ".index.json"):
        call(run[:-1] + [one])


def loops(folder):
    """A link to itself is no folder, and no crash."""
    loop = os.path.join(folder, "loop")
    os.symlink(loop, loop)
    for weights in (loop, os.path.join(loop, "model.safetensors")):
        done = call([bare(), "--data", TEXT, "--steps", 1, "--weights", weights], check=False)
        require(done.returncode == 1 and "symbolic links" in done.stderr and
                "filesystem error" not in done.stderr, done.stderr)


def transposed(folder):
    """An export's names of which the file holds the transpose, plain or quantised."""
    model, data = os.path.join(DATA, "exports", "qwen3", "dynamo.onnx"), os.path.join(folder, "data.bin")
    np.random.default_rng(0).integers(0, 26, 4096).astype(np.uint16).tofile(data)
    own, saved = os.path.join(folder, "own"), os.path.join(folder, "saved")
    compile_model(model, own, "--seq", 8)
    run = ["--data", data, "--steps", 1]
    call([own, *run, "--save", saved])
    tensors = {n: ("F32", v) for n, v in read_safetensors(os.path.join(saved, "model.safetensors")).items()}
    turned = "model.model.layers.0.self_attn.q_proj.weight"
    require(tensors[turned][1].shape == (8, 8), "another model")
    codes = np.arange(64, dtype=np.uint8).reshape(8, 8)
    scales = np.arange(1, 9, dtype=np.float32).reshape(2, 4) / 64  # blocks of 4x2, as the file has them
    quantised = dict(tensors, **{turned: ("F8_E4M3", codes), turned + "_scale_inv": ("F32", scales)})
    floats = dict(tensors, **{turned: ("F32", E4M3[codes] * spread(scales, 4, 2, [8, 8]))})
    dumps = []
    for name, given in {"quantised": quantised, "floats": floats}.items():
        path, program = os.path.join(folder, name + ".safetensors"), os.path.join(folder, name)
        write(path, given)
        compile_model(model, program, "--seq", 8, "--weights", path)
        dumps += [train(program, folder, *run), train(own, folder, *run, "--weights", path)]
    for other in dumps[1:]:
        require_same(dumps[0], other)


suite = Suite("quantized")
for title, (quantization, draw, files) in DRAWS.items():
    for mesh in ("1", "2x2x2") if title in ("fp8 in blocks", "mxfp4") else ("2x2x2",):
        suite.run(f"{title} on {mesh}", equals_floats, mesh, quantization, draw, files)
suite.run("names that hold the transpose", transposed)
suite.run("saved as plain numbers", saved_as_plain)
suite.run("tensors that nothing reads", unread)
suite.run("8-bit floats without scales", plain_float8)
suite.run("a tensor of two files", two_files)
suite.run("a link to itself", loops)
for title, (tensors, quantization, words) in hostile().items():
    suite.run(title, refused, tensors, quantization, words)
suite.finish()
