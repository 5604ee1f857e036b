"""Long sequences: what a rank keeps of 32,768 and 65,536 tokens, and inferences of 16,384 beside ONNX Runtime.

ONNX Runtime runs with --full, by the Python of scripts/oracles.txt.
"""
import json
import os

import numpy as np

from harness import DATA, Failure, Suite, below, call, compile_model, inspect, require

PYTHON = os.environ.get("LLMC_ORACLE_PYTHON", "")
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_attention_heads": 8,
         "num_key_value_heads": 2, "intermediate_size": 176, "vocab_size": 256, "rms_norm_eps": 1e-5,
         "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False}
TOKENS = 16384
# Writes ONNX Runtime's logits: MODEL IDS.npy LOGITS.npy.
RUNTIME = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
ids = numpy.load(sys.argv[2])
given = {x.name: ids if x.name == "input_ids" else numpy.ones_like(ids) for x in session.get_inputs()}
numpy.save(sys.argv[3], session.run(["logits"], given)[0])
"""


def plan_of(folder, layers, tokens, cp):
    config, program = os.path.join(folder, "config.json"), os.path.join(folder, "program")
    with open(config, "w") as f:
        json.dump({**LLAMA, "num_hidden_layers": layers, "max_position_embeddings": tokens}, f)
    compile_model(config, program, "--seq", tokens, "--cp", cp)
    return inspect(program)


def activations(folder):
    """What a rank keeps of a layer of 32,768 tokens falls as the number of ranks grows."""
    kept = {}
    for cp in (1, 2, 4, 8):
        one, two = (plan_of(folder, layers, 32768, cp)["memory"][0]["activations"] for layers in (1, 2))
        kept[cp] = two - one
        require(kept[cp] > 0 and abs(kept[cp] * cp / kept[1] - 1) <= 0.1, f"a layer keeps {kept} bytes")
    return ", ".join(f"cp {cp}: {size:,} bytes" for cp, size in kept.items())


def arena(folder):
    """All that a rank holds of 65,536 tokens."""
    one, eight = (plan_of(folder, 2, 65536, cp)["stages"][0]["arena_bytes"] for cp in (1, 8))
    require(6 * eight <= one, f"{eight} bytes of {one}")
    return f"{eight:,} bytes of {one:,}, 1/{one / eight:.2f}"


def infers(folder, name, mesh):
    """Logits of an exporter's file, of two heads, in one row of 16,384 tokens."""
    model = os.path.join(DATA, "models", name, "model.onnx")
    ids, program, out = (os.path.join(folder, x) for x in ("ids.npy", "program", "out"))
    with open(os.path.join(DATA, "models", name.split("/")[0], "config.json")) as f:
        words = json.load(f)["vocab_size"]
    np.save(ids, np.random.default_rng(16).integers(0, words, (1, TOKENS)))
    compile_model(model, program, "--infer", "--dim", f"batch=1,sequence={TOKENS}", "--mesh", mesh)
    masked = "attention_mask" in [one["name"] for one in inspect(program)["inputs"]]
    given = ["--input", f"input_ids={ids}"]
    if masked:
        np.save(os.path.join(folder, "mask.npy"), np.ones((1, TOKENS), np.int64))
        given += ["--input", "attention_mask=" + os.path.join(folder, "mask.npy")]
    call([program, *given, "--output", out])
    got = np.load(os.path.join(out, "logits.npy"))
    expected_file = os.path.join(folder, "expected.npy")
    done = call([PYTHON, "-c", RUNTIME, model, ids, expected_file], check=False)
    if done.returncode != 0:
        raise Failure("ONNX Runtime: " + done.stderr[-1000:])
    expected = np.load(expected_file)
    error = np.max(np.abs(got - expected)) / np.max(np.abs(expected))
    below(float(error), 1e-4, "error of the logits")
    return f"error {error:.1e}"


suite = Suite("long")
suite.run("activations of a layer", activations)
suite.run("arena on cp 8", arena)
for file in ("qwen3/dynamo-18", "mistral/ts-17-mask", "phi/dynamo-23"):
    for where in ("1", "cp=2"):
        title = f"{TOKENS} tokens, {file} on {where}"
        if PYTHON and suite.full:
            suite.run(title, infers, file, where)
        else:
            suite.skip(title, "scripts/test.sh --full runs ONNX Runtime")
suite.finish()
