"""Bad input is refused: exit code, one message, the rule and the valid values."""
import difflib
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal

import numpy as np

from harness import (DATA, LLMC, Suite, call, compile_model, inspect, read_safetensors, require,
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


def refused_once(folder, model, flags, words, code=1):
    """One error says it, and nothing is written."""
    out = os.path.join(folder, "out")
    done = compile_model(model, out, *flags, check=False)
    message = refused(done, code, *words)
    lines = done.stderr.strip().splitlines()
    errors = [line for line in lines if "error: " in line]
    require(len(errors) == 1 and len(lines) == len(set(lines)), done.stderr)
    require(not os.path.exists(out), "a program was written")
    return message


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


def file_hash(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def own_input(folder, model, flags, words, links):
    """Outputs are compared with inputs, by whatever path, before anything is written."""
    shutil.copytree(OWN, os.path.join(folder, "model"))
    os.mkdir(os.path.join(folder, "phases"))
    for name, (make, target) in links.items():
        make(os.path.join(folder, target), os.path.join(folder, name))
    files = [os.path.join(folder, "model", name) for name in os.listdir(os.path.join(folder, "model"))]
    files += [LLMC, os.path.join(os.path.dirname(LLMC), "llmc-rt")]
    before, listed = [file_hash(f) for f in files], sorted(os.listdir(folder))
    done = call([LLMC, "compile", *model, *flags], check=False, cwd=folder)
    message = refused(done, 1, "is the same file as", *words)
    require([file_hash(f) for f in files] == before, "a file that is read was written")
    require(sorted(os.listdir(folder)) == listed, f"left behind: {os.listdir(folder)}")
    return message


def full_disk(folder, *flags):
    """What was there stays, nothing half is left, and llmc says why."""
    out = os.path.join(folder, "out")
    with open(out, "w") as f:
        f.write("before")

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = call([LLMC, "compile", CONFIG, "-o", out, *flags], check=False, cwd=folder, preexec_fn=small_files)
    message = refused(done, 1, "cannot write")
    require("LLVM ERROR" not in done.stderr, done.stderr)
    with open(out) as f:
        require(f.read() == "before", "the old file is gone")
    left = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    require(left == [out], f"left behind: {left}")
    return message


def dumped(folder, phase, *flags):
    path = os.path.join(folder, "dump.mlir")
    compile_model(CONFIG, path, "--seq", 16, "--compile-to", phase, *flags)
    return path


def devices(folder):
    """IR goes to devices as they are; so does a program."""
    done = compile_model(CONFIG, "/dev/stdout", "--seq", 16, "--compile-to", "raise")
    require("func.func @forward" in done.stdout, "no IR on standard output")
    compile_model(CONFIG, "/dev/null", "--seq", 16)
    require(not os.path.isfile("/dev/null"), "/dev/null is a plain file now")
    return refused(compile_model(CONFIG, "/dev/full", "--compile-to", "raise", check=False), 1, "/dev/full", "No space")


def dump_says_itself(folder):
    """Without flags IR goes on as it was written; the program is the one that flags give."""
    path, out = dumped(folder, "shard", "--mesh", "2x2x2", "--schedule", "gpipe"), os.path.join(folder, "out")
    compile_model(path, out)
    with open(out, "rb") as f:
        got = f.read()
    said = inspect(out)
    require(said["schedule"] == "gpipe" and said["mesh"]["dp"] == 2, f"{said['schedule']} on {said['mesh']}")
    compile_model(path, out, "--mesh", "2x2x2", "--schedule", "gpipe", "--compile-from", "shard")
    with open(out, "rb") as f:
        require(f.read() == got, "with its own flags it is another program")


def dump_contradicted(folder, flags, words):
    path = dumped(folder, "shard", "--mesh", "2x2x2")
    return compile_refused(folder, path, flags, ["dump.mlir: ", *words])


def foreign_ir(folder, text, words):
    path = os.path.join(folder, "dump.mlir")
    with open(path, "w") as f:
        f.write(text)
    for command in (["compile", path, "-o", os.path.join(folder, "out")], ["verify", path], ["inspect", path]):
        refused(call([LLMC, *command], check=False), 1, "dump.mlir", *(words if command[0] != "inspect" else []))


def edited_ir(folder):
    """Lines dropped, doubled, exchanged: refused or compiled, never a crash."""
    path, draw = dumped(folder, "shard", "--mesh", "2x2x2"), random.Random(7)
    with open(path) as f:
        lines = f.read().split("\n")
    codes = []
    for i in range(12):
        edited, at = list(lines), draw.randrange(len(lines))
        if i % 3 == 0:
            del edited[at]
        elif i % 3 == 1:
            edited.insert(at, edited[at])
        else:
            edited[at] = re.sub(r"\b\d+\b", "7", edited[at])
        with open(path, "w") as f:
            f.write("\n".join(edited))
        done = compile_model(path, os.path.join(folder, "out"), "--compile-to", "schedule", check=False)
        require(done.returncode in (0, 1), f"exit {done.returncode} after edit {i}: {done.stderr[-500:]}")
        codes.append(done.returncode)
    return f"{sum(codes)} of {len(codes)} refused"


def program_as_model(folder):
    path = program(folder)
    for command in (["compile", path, "-o", os.path.join(folder, "out")], ["verify", path]):
        refused(call([LLMC, *command], check=False), 1, "is a program that llmc compile made", "config.json")
    refused(call([LLMC, "inspect", path, "--seq", "16"], check=False), 1, "--seq is for models")
    return refused(call([LLMC, "explain", CONFIG], check=False), 1, "explain takes a program")


def weights_as_model(folder):
    path = os.path.join(folder, "weights.safetensors")
    shutil.copy(os.path.join(OWN, "weights.safetensors"), path)
    for command in (["compile", path, "-o", os.path.join(folder, "out")], ["verify", path], ["inspect", path]):
        refused(call([LLMC, *command], check=False), 1, "holds weights, not a model", "config.json")
    # What lies beside weights describes them.
    config = os.path.join(folder, "config.json")
    shutil.copy(CONFIG, config)
    done = compile_model(CONFIG, config, "--weights", path, check=False)
    return refused(done, 1, "is the same file as --weights")


def said_once(folder):
    """verify compiles a model several times; what is wrong is said once."""
    done = call([LLMC, "verify", CONFIG, "--mesh", "1x8x1"], check=False)
    lines = done.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("llmc: error:")]
    require(done.returncode == 1 and len(errors) == 1 and len(lines) == len(set(lines)), done.stderr)


suite = Suite("refusals")
for title, model, flags, words in [
        ("more stages than layers", CONFIG, ["--mesh", "1x8x1"], ["8", "4", "layer"]),
        ("heads not divisible", CONFIG, ["--mesh", "1x1x3"], ["heads", "3", "valid"]),
        ("global batch not divisible", CONFIG, ["--mesh", "4", "--global-batch", "6"], ["6", "4", "8"]),
        ("sequence longer than the table, config", CONFIG, ["--seq", "100000"], ["100000"]),
        ("sequence longer than the table, ONNX", DYNAMO, ["--seq", "100000"], ["100000"]),
        ("a batch that ranks cannot share", DYNAMO, ["--dim", "batch=3", "--mesh", "2"],
         ["--dim batch=3", "--micro-batch 1 for 2 rows or 2 for 4 rows"]),
        ("missing file", os.path.join(OWN, "no-such.onnx"), [], ["no-such.onnx"]),
        ("missing config", os.path.join(OWN, "nothing", "config.json"), [], ["nothing"])]:
    suite.run(title, compile_refused, model, flags, words)
# Refuses schedules and divisions that do not fit a model of 4 layers.
for flags, words in [
        (["--pp", 2, "--schedule", "interleaved", "--virtual-stages", 1],
         ["--schedule interleaved", "--virtual-stages 2", "--schedule 1f1b"]),
        (["--pp", 2, "--schedule", "gpipe", "--virtual-stages", 2],
         ["--schedule gpipe", "--virtual-stages 1", "--schedule interleaved"]),
        (["--pp", 2, "--schedule", "1f1b", "--virtual-stages", 2],
         ["--schedule 1f1b", "--virtual-stages 1", "--schedule interleaved"]),
        (["--pp", 2, "--schedule", "zero-bubble", "--virtual-stages", 2],
         ["--schedule zero-bubble", "--virtual-stages 1", "--schedule interleaved"]),
        (["--virtual-stages", 2], ["pp is 1", "--pp 2"]),
        (["--schedule", "interleaved"], ["pp is 1", "--pp 2", "--schedule 1f1b"]),
        (["--pp", 2, "--virtual-stages", 2, "--global-batch", 5], ["5", "--global-batch 4", "--global-batch 6"]),
        (["--mesh", "2x2x1", "--virtual-stages", 2, "--micro-batch", 2, "--global-batch", 12],
         ["3", "--global-batch 8", "--global-batch 16"]),
        (["--pp", 3, "--virtual-stages", 2, "--global-batch", 2], ["2", "--global-batch 3"]),
        (["--pp", 2, "--stages", "1,2,1"], ["--stages", "3", "2"]),
        (["--pp", 2, "--virtual-stages", 2, "--stages", "2,2"], ["--stages", "2", "4"]),
        (["--stages", "2,2"], ["--stages", "2", "1"]),
        (["--pp", 2, "--stages", "2,3"], ["stages", "5", "4"]),
        (["--pp", 2, "--virtual-stages", 2, "--stages", "1,1,1,0"], ["stages", "3", "4"]),
        (["--pp", 3, "--stages", "2,0,2"], ["stages", "first", "last"]),
        (["--pp", 2, "--virtual-stages", 2, "--stages", "2,2,0,0"], ["stages", "first", "last"]),
        (["--pp", 7], ["7", "4", "layer", "6"]),
        (["--pp", 4, "--virtual-stages", 2], ["8", "4", "layer", "6"])]:
    suite.run("pipelines: " + " ".join(map(str, flags)), refused_once, CONFIG, ["--seq", 16, *flags], words)
for flags in (["--virtual-stages", 2], ["--schedule", "interleaved"], ["--schedule", "zero-bubble"]):
    suite.run("pipelines: --infer " + " ".join(map(str, flags)), refused_once, CONFIG, ["--infer", "--pp", 2, *flags],
              [f"{flags[0]} is for training"])
suite.run("truncated file", truncated)
suite.run("external data missing", external_missing)
suite.run("unknown ops, all at once", unknown_ops)
suite.run("output not writable", lambda folder: refused(
    compile_model(CONFIG, os.path.join(folder, "none", "out"), check=False), 1, "none"))
for flags in [["--precision", "fp8"], ["--target", "cuda"]]:
    suite.run("not built yet: " + " ".join(flags), compile_refused, CONFIG, flags,
              [flags[0], flags[1], "not built yet"])
for flags, words in [(["--reduce-dtype", "fp16"],
                      ["does not fit --precision fp32", "use --reduce-dtype bf16 or --precision fp16"]),
                     (["--reduce-dtype", "fp16", "--precision", "bf16", "--mesh", "2"],
                      ["does not fit --precision bf16"]),
                     (["--reduce-dtype", "bf16", "--infer"], ["--reduce-dtype", "there are no gradients"])]:
    suite.run("reductions in another type: " + " ".join(flags), compile_refused, CONFIG, flags, words)
suite.run("a run that must end", compile_refused, CONFIG, ["--precision", "fp16", "--on-nonfinite", "stop"],
          ["--on-nonfinite stop ends every run", "a number for --loss-scale"])
suite.run("a window without gathers", compile_refused, CONFIG, ["--gather-ahead", "2", "--mesh", "2"],
          ["--gather-ahead is for --zero 3"])
suite.run("mesh: experts on fewer ranks", compile_refused, CONFIG, ["--ep", "2"],
          ["ep 2 x etp 1 does not agree with dp 1 x cp 1 x tp 1 = 1 rank", "valid sizes of ep are 1"])
suite.run("mesh: experts that the model has not", compile_refused, CONFIG, ["--mesh", "dp=4,tp=2,ep=2"],
          ["--ep 2 shares out experts", "no mixture of experts", "leave it out"])
suite.run("mesh: parts of experts that the model has not", compile_refused, CONFIG, ["--mesh", "dp=4,tp=2,etp=2"],
          ["--etp is for mixtures of experts", "leave it out"])
suite.run("mesh: products that do not agree", compile_refused, CONFIG, ["--mesh", "dp=2,tp=2,ep=3"],
          ["ep 3 x etp 1 does not agree with dp 2 x cp 1 x tp 2 = 4 ranks of a stage", "valid sizes of ep are 1 2 4"])
suite.run("mesh: no such etp", compile_refused, CONFIG, ["--mesh", "dp=2,tp=3,etp=4"],
          ["valid sizes of etp are 1 3 6"])
suite.run("mesh: edp follows", compile_refused, CONFIG, ["--mesh", "dp=2,tp=2,edp=2"], ["edp is 4 there"])
suite.run("mesh: no such axis", compile_refused, CONFIG, ["--mesh", "dp=2,sp=2"],
          ["unknown axis 'sp'; axes are dp, pp, tp, cp, ep, etp, edp"], 2)
suite.run("mesh: all axes named", lambda folder: compile_model(
    CONFIG, os.path.join(folder, "out"), "--seq", 16, "--mesh", "dp=2,pp=1,tp=2,cp=1,ep=1,etp=1,edp=4") and None)
suite.run("an oracle that is no Python", lambda folder: [refused(
    call([LLMC, "verify", CONFIG, "--seq", "8", "--oracle", program], check=False), 1, f"{program}: this is no Python")
    for program in ("/bin/true", "/bin/false")] and None)
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
        ([*COMPILE, "--dim", "batch=2", "--dim", "batch =3"], ["batch is given twice"]),
        ([*COMPILE, "--dim", " =2"], ["needs name=value, got ' =2'"]),
        ([*COMPILE, "--dim", "batch=2,"], ["needs name=value, got ''"]),
        ([*COMPILE, "--cuda-kernels", "sm_81"], ["got 'sm_81'", "did you mean 'sm_80'"]),
        ([*COMPILE, "--fast", "1"], ["unknown option '--fast'"]),
        ([*COMPILE, "--schdule", "gpipe"], ["unknown option '--schdule'", "did you mean '--schedule'"]),
        ([*COMPILE, "--schedule", "gpip"], ["1f1b, gpipe, interleaved, zero-bubble, auto, got 'gpip'", "did you mean 'gpipe'"]),
        ([*COMPILE, "--pp", "2", "--stages", "5,-1"], ["--stages needs auto, or the layers of each", "got '5,-1'"]),
        ([*COMPILE, "--pp", "2", "--stages", "2,two"], ["--stages needs auto, or the layers of each", "got '2,two'"]),
        ([*COMPILE, "--pp", "2", "--stages", "4,"], ["--stages needs auto, or the layers of each", "got '4,'"]),
        ([*COMPILE, "--virtual-stages", "0"], ["--virtual-stages needs a whole number", "got '0'"]),
        ([*COMPILE, "--virtual-stages", "2", "--virtual-stages", "2"], ["--virtual-stages is given twice"]),
        ([*COMPILE, "--zero", "7"], ["--zero is one of 0, 1, 2, 3, auto, got '7'"]),
        ([*COMPILE, "--dropout", "much"], ["--dropout needs a rate", "much"]),
        ([*COMPILE, "--json"], ["--json belongs to llmc inspect, explain, verify"]),
        ([*COMPILE, "--interleavings", "2"], ["--interleavings belongs to llmc verify"]),
        ([*COMPILE, "--seed", "2"], ["--seed belongs to the program that is made"]),
        ([*COMPILE, "--data", "tokens.bin"], ["--data belongs to the program that is made"]),
        (["compile", CONFIG, "-o", "-"], ["'-' is no file; name /dev/stdout"]),
        ([*COMPILE, "-q", "--verbose"], ["--quiet and --verbose exclude each other"]),
        ([*COMPILE, "--train=yes"], ["--train takes no value"]),
        ([*COMPILE, "--mesh", "--seq", "16"], ["--mesh needs a value"]),
        ([*COMPILE, "--mesh="], ["--mesh needs a value"]),
        (["compile", "x.onnx", "--mesh", "-o", "out"], ["--mesh needs a value"]),
        ([*COMPILE, ""], ["an empty word"]),
        ([*COMPILE, "--global-batch", "5000000000"], ["--global-batch needs a whole number"]),
        ([*COMPILE, "--seq", "3.5", "--mesh", "x"], ["got '3.5'", "got 'x'"]),
        (["compile", CONFIG], ["needs -o OUT"]),
        (["inspect", CONFIG, "--mesh", "2"], ["--mesh belongs to llmc compile, verify"]),
        (["verify", CONFIG, "--dump-phases", "phases"], ["--dump-phases belongs to llmc compile"]),
        (["verify", CONFIG, "--after", "shard", "--interleavings", "2"], ["leave one out"]),
        (["verify", CONFIG, "--without", "happens-before"], ["--without is for --mutate"]),
        (["verify", "--draws", "1", "--oracle", "/bin/python"], ["leave out --oracle"]),
        (["verify", "--draws", "1", CONFIG, "--mesh", "2"], ["leave out '", "leave out --mesh"]),
        (["explain", "out", "a", "b"], ["more than one name to explain: 'a' and 'b'"]),
        (["compil", CONFIG], ["unknown command 'compil'", "did you mean 'compile'"]),
        ([], ["needs a command"])]:
    suite.run("command line: " + " ".join(line[:1] + line[4 if line[:1] == ["compile"] else 2:]),
              lambda folder, line=line, words=words: refused(
                  call([LLMC, *line], check=False, cwd=folder), 2, *words) and None)
for words in (["help", "compile"], ["-h", "compile"], ["compile", "--help"], ["compile", "--seq", "-h", "--what"]):
    suite.run("command line: " + " ".join(words), lambda folder, words=words: require(
        call([LLMC, *words]).stdout.startswith("usage: llmc compile"), "no help"))


def help_is(folder, name, words):
    """Holds the whole text of a help page; after a change write it anew with the command in the message."""
    with open(os.path.join(DATA, "help", name + ".txt")) as file:
        want = file.read().splitlines()
    got = call(words).stdout.replace(folder + "/", "").splitlines()
    changes = [line for line in difflib.unified_diff(want, got, "test/data/help/" + name + ".txt", " ".join(words), lineterm="")]
    require(not changes, "the help changed; is it meant? `%s > test/data/help/%s.txt`\n%s" % (
        " ".join(words), name, "\n".join(changes)))


for name in ("compile", "inspect", "explain", "verify", "plan", "trace", "report", "calibrate", "budget", "compare"):
    suite.run("help of " + name, help_is, name, [LLMC, "help", name])
suite.run("help of llmc", help_is, "llmc", [LLMC, "help"])
suite.run("help of a program", lambda folder: help_is(folder, "program", [program(folder), "--help"]))
suite.run("command line: --version", lambda folder: [require(
    call([LLMC, *words]).stdout.startswith("llmc "), "no version") for words in (["-V"], ["verify", "--version"])] and None)
suite.run("an output in a file", lambda folder: refused(
    call([LLMC, "compile", CONFIG, "-o", CONFIG + "/program"], check=False), 1, CONFIG + " is no folder") and None)
suite.run("a step of too many micro-batches", compile_refused, CONFIG,
          ["--mesh", "2x2x2", "--global-batch", "1000000000"],
          ["500000000 micro-batches", "at most 131072", "--global-batch 262144"])
SOFT, HARD = os.symlink, os.link
for title, model, flags, words, links in [
        ("the model", ["model/dynamo.onnx"], ["-o", "model/dynamo.onnx"], ["the model"], {}),
        ("a link to it", ["model/dynamo.onnx"], ["-o", "out"], ["the model"], {"out": (SOFT, "model/dynamo.onnx")}),
        ("a hard link to it", ["model/dynamo.onnx"], ["-o", "out"], ["the model"], {"out": (HARD, "model/dynamo.onnx")}),
        ("what a link to it leads to", ["in.onnx"], ["-o", "./model/../model/dynamo.onnx"], ["the model"],
         {"in.onnx": (SOFT, "model/dynamo.onnx")}),
        ("the config of a folder", ["model"], ["-o", "model/config.json"], ["the model"], {}),
        ("weights beside it", ["model"], ["-o", "model/weights.safetensors", "--weights", "random"], ["weights.safetensors"], {}),
        ("--weights", ["model"], ["-o", "out", "--weights", "w.bin"], ["--weights"],
         {"w.bin": (SOFT, "model/weights.safetensors"), "out": (HARD, "model/weights.safetensors")}),
        ("a dump", ["model"], ["-o", "out", "--dump-phases", "phases"], ["--dump-phases"],
         {"phases/model.3-shard.mlir": (HARD, "model/config.json")}),
        ("an output twice", ["model"], ["-o", "phases/model.2-train.mlir", "--dump-phases", "phases"], ["--dump-phases"], {}),
        ("llmc itself", ["model"], ["-o", LLMC], ["llmc itself"], {}),
        ("the runtime", ["model"], ["-o", "out"], ["the runtime"],
         {"out": (SOFT, os.path.join(os.path.dirname(LLMC), "llmc-rt"))})]:
    suite.run("output over input: " + title, own_input, model, flags, words, links)
suite.run("output over input: the IR itself", lambda folder: refused(compile_model(
    dumped(folder, "raise"), os.path.join(folder, "dump.mlir"), check=False), 1, "is the same file as the model"))
suite.run("full disk: a program", full_disk)
suite.run("full disk: IR", full_disk, "--compile-to", "shard")
suite.run("full disk: dumps", full_disk, "--dump-phases", "phases")
suite.run("devices as outputs", devices)
suite.run("IR says where it stands and how it was written", dump_says_itself)
for flags, words in [
        (["--mesh", "4", "--schedule", "gpipe", "--seq", "8"],
         ["--mesh: asks for dp=4,pp=1,tp=1", "written with dp=2,pp=2,tp=2", "--schedule: asks for gpipe", "--seq: asks for 8"]),
        (["--tp", "4"], ["--tp: asks for 4"]),
        (["--virtual-stages", "2"], ["--virtual-stages: asks for 2", "written with 1"]),
        (["--stages", "1,3"], ["--stages: asks for 1,3", "written with auto"]),
        (["--global-batch", "2", "--optimizer", "sgd"], ["--global-batch: asks for 2", "--optimizer: asks for sgd"]),
        (["--infer"], ["--infer: asks for inference"]),
        (["--weights", "random"], ["--weights: asks for random, but the IR was written without it"]),
        (["--compile-from", "train"], ["--compile-from train: the IR stands after phase shard"]),
        (["--compile-to", "shard"], ["stands after phase shard already"])]:
    suite.run("IR written otherwise: " + " ".join(flags), dump_contradicted, flags, words)
suite.run("--compile-from of a model", compile_refused, CONFIG, ["--compile-from", "shard"], ["this is a model"])
for title, text, words in [
        ("empty", "", ["is no dump"]), ("no IR", "x", ["is no dump"]), ("no function", "module {}", ["is no dump"]),
        ("no choices", "module { func.func @forward(%a: i32) -> i32 { return %a : i32 } }", ["lacks"]),
        ("wrong ones", "module attributes {plan.options = {phase = 3}} { func.func @micro() { return } }", ["lacks"])]:
    suite.run("foreign IR: " + title, foreign_ir, text, words)
suite.run("edited IR", edited_ir)
suite.run("a program where a model is wanted", program_as_model)
suite.run("weights where a model is wanted", weights_as_model)
suite.run("said once", said_once)
suite.run("a program larger than files may be", lambda folder: refused(call(
    ["bash", "-c", f"ulimit -f 200; exec {LLMC} compile {CONFIG} -o {os.path.join(folder, 'out')}"], check=False),
    1, "File too large") and require(os.listdir(folder) == [], f"{os.listdir(folder)}"))
suite.run("a pipe as a model", lambda folder: os.mkfifo(os.path.join(folder, "model.onnx")) or compile_refused(
    folder, os.path.join(folder, "model.onnx"), [], ["is no regular file"]))
suite.run("token outside the vocabulary", bad_token)
suite.run("data shorter than one batch", short_data)
suite.run("weights of another shape", wrong_weights)
suite.run("payload with a flipped bit", flipped_bit)
suite.run("arenas larger than the free memory", too_large)
suite.finish()
