"""Bad input is refused: exit code, one message, the rule and the valid values."""
import json
import os
import shutil

import numpy as np

from harness import (DATA, LLMC, Suite, call, compile_model, read_safetensors, require,
                     write_safetensors)

OWN = os.path.join(DATA, "gpt2")
CONFIG = os.path.join(OWN, "config.json")
DYNAMO = os.path.join(OWN, "dynamo.onnx")
TEXT = os.path.join(OWN, "text.bin")


def refused(done, code, *words):
    text = done.stderr
    require(done.returncode == code, f"exit {done.returncode}, expected {code}: {text[-500:]}")
    require("error: " in text, f"no error on stderr: {text[-500:]}")
    for word in words:
        require(word in text, f"the message does not say '{word}': {text[-800:]}")
    return text.strip().splitlines()[-1][:150]


def compile_refused(folder, model, flags, words, code=1):
    return refused(compile_model(model, os.path.join(folder, "out"), *flags, check=False), code, *words)


def program(folder, *flags):
    path = os.path.join(folder, "program")
    compile_model(CONFIG, path, "--seq", 16, "--global-batch", 4, *flags)
    return path


def run_refused(folder, flags, words, mesh="1", code=1):
    path = program(folder, "--mesh", mesh)
    return refused(call([path, *flags], check=False), code, "program: error:", *words)


def truncated(folder):
    path = os.path.join(folder, "model.onnx")
    with open(DYNAMO, "rb") as f:
        content = f.read()
    with open(path, "wb") as f:
        f.write(content[:len(content) // 2])
    return compile_refused(folder, path, [], ["model.onnx"])


def external_missing(folder):
    import onnx_lite
    path = os.path.join(folder, "model.onnx")
    onnx_lite.with_external_data(DYNAMO, path, "weights.bin")
    return compile_refused(folder, path, [], ["weights.bin"])


def unknown_ops(folder):
    import onnx_lite
    path = os.path.join(folder, "model.onnx")
    names = onnx_lite.with_unknown_ops(DYNAMO, path, 2)
    return compile_refused(folder, path, [], names)


def bad_token(folder):
    tokens = np.fromfile(TEXT, "<u2")
    tokens[1000] = 60000
    path = os.path.join(folder, "tokens.bin")
    tokens.tofile(path)
    return run_refused(folder, ["--data", path, "--no-shuffle", "--steps", 40], ["60000", "row", "position"])


def short_data(folder):
    path = os.path.join(folder, "tokens.bin")
    np.zeros(20, "<u2").tofile(path)
    return run_refused(folder, ["--data", path, "--steps", 1], ["tokens.bin"])


def wrong_weights(folder):
    weights = dict(read_safetensors(os.path.join(OWN, "weights.safetensors")))
    name = next(n for n in weights if n.endswith("wpe.weight"))
    weights[name] = np.ascontiguousarray(weights[name][:-1])
    path = os.path.join(folder, "weights.safetensors")
    write_safetensors(path, weights)
    return run_refused(folder, ["--data", TEXT, "--steps", 1, "--weights", path], ["wpe.weight", str(weights[name].shape[0])])


def flipped_bit(folder):
    path = program(folder)
    size = os.path.getsize(path)
    runtime = os.path.getsize(os.path.join(os.path.dirname(LLMC), "llmc-rt"))
    for at in [runtime + 100, (runtime + size) // 2, size - 60]:
        bad = os.path.join(folder, "bad")
        shutil.copy(path, bad)
        with open(bad, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 4]))
        message = refused(call([bad, "--data", TEXT, "--steps", "1"], check=False), 1, "bad: error:")
    return message


def too_large(folder):
    config = os.path.join(folder, "config.json")
    with open(CONFIG) as f:
        content = json.load(f)
    content.update(n_layer=18, n_embd=8192, n_head=16)
    with open(config, "w") as f:
        json.dump(content, f)
    path = os.path.join(folder, "program")
    compile_model(config, path, "--mesh", "8", "--seq", 16, "--weights", "random")
    return refused(call([path, "--data", TEXT, "--steps", "1"], check=False), 1, "program: error:", "free")


def inference(folder, inputs, words, code=1):
    """Arrays that do not fit a program of batch 2, sequence 4 and 257 words."""
    path = os.path.join(folder, "program")
    compile_model(CONFIG, path, "--infer", "--dim", "batch=2,sequence=4", "--mesh", "2x1x1")
    flags = ["--output", os.path.join(folder, "results")]
    for name, value in inputs.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        flags += ["--input", f"{name}={folder}/{name}.npy"]
    message = refused(call([path, *flags], check=False), code, "program: error:", *words)
    require(not os.path.exists(os.path.join(folder, "results")), "an output was begun")
    return message


suite = Suite("refusals")
for title, model, flags, words in [
        ("more stages than layers", CONFIG, ["--mesh", "1x8x1"], ["8", "4", "layer"]),
        ("heads not divisible", CONFIG, ["--mesh", "1x1x3"], ["heads", "3", "valid"]),
        ("global batch not divisible", CONFIG, ["--mesh", "4", "--global-batch", "6"], ["6", "4", "8"]),
        ("sequence longer than the table, config", CONFIG, ["--seq", "100000"], ["100000"]),
        ("sequence longer than the table, ONNX", DYNAMO, ["--seq", "100000"], ["100000"]),
        ("missing file", os.path.join(OWN, "no-such.onnx"), [], ["no-such.onnx"]),
        ("missing config", os.path.join(OWN, "nothing", "config.json"), [], ["nothing"])]:
    suite.run(title, compile_refused, model, flags, words)
suite.run("truncated file", truncated)
suite.run("external data missing", external_missing)
suite.run("unknown ops, all at once", unknown_ops)
suite.run("output not writable", lambda folder: refused(
    compile_model(CONFIG, os.path.join(folder, "none", "out"), check=False), 1, "none"))
for flags in [["--zero", "1"], ["--zero", "3"], ["--sequence-parallel", "on"], ["--cp", "2"], ["--ep", "2"],
              ["--etp", "2"],
              ["--recompute", "full"], ["--virtual-stages", "2"], ["--precision", "bf16"],
              ["--schedule", "interleaved"], ["--schedule", "zero-bubble"], ["--target", "cuda"],
              ["--mesh", "auto"]]:
    suite.run("not built yet: " + " ".join(flags), compile_refused, CONFIG, flags,
              [flags[0], flags[1], "not built yet"])
for name in ("cp", "ep", "etp"):
    suite.run(f"not built yet: {name} in --mesh", compile_refused, CONFIG, ["--mesh", f"dp=4,tp=2,{name}=2"],
              [f"--{name} 2 is not built yet; use --{name} 1"])
suite.run("mesh: products that do not agree, all at once", compile_refused, CONFIG,
          ["--mesh", "dp=2,tp=2,ep=3"],
          ["--ep 3 is not built yet", "ep 3 x etp 1 does not agree with dp 2 x cp 1 x tp 2 = 4 ranks of a stage",
           "valid sizes of ep are 1 2 4"])
suite.run("mesh: no such etp", compile_refused, CONFIG, ["--mesh", "dp=2,tp=3,etp=4"],
          ["--etp 4 is not built yet", "valid sizes of etp are 1 3 6"])
suite.run("mesh: edp follows", compile_refused, CONFIG, ["--mesh", "dp=2,tp=2,edp=2"], ["edp is 4 there"])
suite.run("mesh: no such axis", compile_refused, CONFIG, ["--mesh", "dp=2,sp=2"],
          ["unknown axis 'sp'; axes are dp, pp, tp, cp, ep, etp, edp"], 2)
suite.run("mesh: all axes named", lambda folder: compile_model(
    CONFIG, os.path.join(folder, "out"), "--seq", 16, "--mesh", "dp=2,pp=1,tp=2,cp=1,ep=1,etp=1,edp=4") and None)
suite.run("not built yet: llmc plan", lambda folder: refused(
    call([LLMC, "plan", CONFIG, "--gpu", "h100", "--gpus", "8"], check=False), 1, "plan", "not built yet"))
for flags, words in [
        (["--global-batch", "4"], ["--global-batch is for training", "--dim"]),
        (["--micro-batch", "2", "--optimizer", "sgd"], ["--micro-batch", "--optimizer is for training"]),
        (["--schedule", "gpipe"], ["--schedule is for training"]),
        (["--dim", "batch=3,sequence=4", "--mesh", "2"], ["3", "2", "4"])]:
    suite.run("inference: " + " ".join(flags), compile_refused, CONFIG, ["--infer", *flags], words)
suite.run("inference: a dimension without a size", compile_refused, DYNAMO, ["--infer"],
          ["batch", "sequence", "--dim"])
suite.run("inference and training", compile_refused, CONFIG, ["--infer", "--train"],
          ["--train and --infer exclude"], 2)
ids = np.zeros((2, 4), np.int64)
for title, inputs, words in [
        ("no array", {}, ["input_ids", "int64 [2, 4]"]),
        ("an array of another shape", {"input_ids": ids[:, :3]}, ["[2, 3]", "[2, 4]"]),
        ("an unknown name and a fraction", {"input_ids": ids + 0.5, "mask": ids},
         ["2 problems", "no such input", "0.5", "row 0, position 0"]),
        ("a token outside the vocabulary", {"input_ids": ids + np.arange(4) * 99},
         ["row 0, position 3", "297", "257 rows"])]:
    suite.run("inference: " + title, inference, inputs, words)
# A command line is understood as a whole or not at all: exit 2 and one line a problem.
COMPILE = ["compile", CONFIG, "-o", "out"]
for line, words in [
        ([*COMPILE, "--mesh", "2xx2"], ["2xx2"]),
        ([*COMPILE, "--mesh", "2x"], ["2x"]),
        ([*COMPILE, "--mesh", "dp=2,"], ["dp=2,"]),
        ([*COMPILE, "--mesh", "dp=2,dp=4"], ["dp is given twice"]),
        ([*COMPILE, "--mesh", "2", "--dp", "4"], ["--mesh 2 and --dp both give the size of dp"]),
        ([*COMPILE, "--tp", "4", "--mesh", "dp=2,tp=4"], ["--mesh and --tp both give the size of tp"]),
        ([*COMPILE, "--mesh", "dq=2"], ["unknown axis 'dq'", "did you mean 'dp'"]),
        ([*COMPILE, "--seq", "16", "--seq", "32"], ["--seq is given twice, 16 and 32"]),
        ([*COMPILE, "--seq", "16", "--seq=16"], ["--seq is given twice"]),
        ([*COMPILE, "--output", "other"], ["--output is given twice, out and other"]),
        ([*COMPILE, "--dim", "batch=2", "--dim", "batch=3"], ["batch is given twice"]),
        ([*COMPILE, "--dim", "batch=2,"], ["needs name=value, got ''"]),
        ([*COMPILE, "--cuda-kernels", "sm_81"], ["got 'sm_81'", "did you mean 'sm_80'"]),
        ([*COMPILE, "--fast", "1"], ["unknown option '--fast'"]),
        ([*COMPILE, "--schdule", "gpipe"], ["unknown option '--schdule'", "did you mean '--schedule'"]),
        ([*COMPILE, "--schedule", "gpip"], ["1f1b, gpipe, got 'gpip'", "did you mean 'gpipe'"]),
        ([*COMPILE, "--zero", "7"], ["--zero is 0, got '7'"]),
        ([*COMPILE, "--dropout", "much"], ["--dropout needs a rate", "much"]),
        ([*COMPILE, "--json"], ["--json belongs to llmc inspect, explain, verify"]),
        ([*COMPILE, "--interleavings", "2"], ["--interleavings belongs to llmc verify"]),
        ([*COMPILE, "--seed", "2"], ["--seed belongs to the program that is made"]),
        ([*COMPILE, "--train=yes"], ["--train takes no value"]),
        ([*COMPILE, "--mesh", "--seq", "16"], ["--mesh needs a value"]),
        ([*COMPILE, "--mesh="], ["--mesh needs a value"]),
        ([*COMPILE, ""], ["an empty word"]),
        ([*COMPILE, "--global-batch", "5000000000"], ["--global-batch needs a whole number"]),
        ([*COMPILE, "--seq", "3.5", "--mesh", "x"], ["got '3.5'", "got 'x'"]),
        (["compile", CONFIG], ["needs -o OUT"]),
        (["inspect", CONFIG, "--mesh", "2"], ["--mesh belongs to llmc compile, verify"]),
        (["verify", CONFIG, "--dump-phases", "phases"], ["--dump-phases belongs to llmc compile"]),
        (["verify", CONFIG, "--after", "shard", "--interleavings", "2"], ["leave one out"]),
        (["verify", "--draws", "1", CONFIG, "--mesh", "2"], ["leave out '", "leave out --mesh"]),
        (["compil", CONFIG], ["unknown command 'compil'", "did you mean 'compile'"]),
        ([], ["needs a command"])]:
    suite.run("command line: " + " ".join(line[:1] + line[4 if line[:1] == ["compile"] else 2:]),
              lambda folder, line=line, words=words: refused(
                  call([LLMC, *line], check=False, cwd=folder), 2, *words) and None)
suite.run("a step of too many micro-batches", compile_refused, CONFIG,
          ["--mesh", "2x2x2", "--global-batch", "1000000000"],
          ["500000000 micro-batches", "at most 131072", "--global-batch 262144"])
suite.run("token outside the vocabulary", bad_token)
suite.run("data shorter than one batch", short_data)
suite.run("weights of another shape", wrong_weights)
suite.run("payload with a flipped bit", flipped_bit)
suite.run("arenas larger than the free memory", too_large)
suite.finish()
