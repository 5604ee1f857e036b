"""Where a model does not fit, `llmc verify` runs its shrunk twin and says so."""
import json
import os
import time

from harness import DATA, LLMC, Suite, call, require

LARGE = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 48, "n_embd": 2048,
         "n_head": 32, "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new",
         "layer_norm_epsilon": 1e-5, "initializer_range": 0.02, "tie_word_embeddings": True}


# Llama 3 8B.
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
         "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
         "tie_word_embeddings": False, "initializer_range": 0.02}


LLAMA_2 = {**LLAMA, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
           "max_position_embeddings": 4096, "rope_theta": 10000.0}
LLAMA_70 = {**LLAMA, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
            "intermediate_size": 28672}


def verify(model, *flags, timeout=600):
    done = call([LLMC, "verify", model, "--json", *flags], timeout=timeout, check=False)
    require(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def check_report(report, ranks, own):
    require(report["passed"], "all checks hold")
    require(report["ranks"] == ranks, f"ranks {report['ranks']}")
    twin = report["twin"]
    require(twin and twin["ranks"] == own and twin["isomorphic"], f"twin {twin}")
    names = [check["name"] for check in report["checks"]]
    numbers = "gradients" if "fp64:partition:gradients" in names else "outputs"
    for name in ("static:twin-isomorphic", f"fp64:partition:{numbers}", f"kernels:{numbers}"):
        require(name in names, f"{name} in {names}")
    return f"{twin['instructions']} instructions, {twin['reads']} reads compared"


def small(folder, model, mesh, rows, ranks, own):
    report = verify(os.path.join(DATA, model), "--mesh", mesh, "--global-batch", rows, "--twin", "on")
    require("fp64:raise:outputs" in [check["name"] for check in report["checks"]], "the twin was raised")
    return check_report(report, ranks, own)


def alike(folder, model):
    """Sizes that differ must not meet in the twin: kernels are built of equal spaces."""
    report = verify(os.path.join(DATA, model), "--mesh", "1x1x2", "--micro-batch", "1", "--global-batch", "2",
                    "--seq", "32", "--twin", "on")
    return check_report(report, 2, 2)


def by_chance(folder, model):
    """Sizes that are equal by chance share a kernel, in the twin too; sums of 4,096 equal terms are in their limits."""
    report = verify(os.path.join(DATA, model), "--mesh", "2x1x2")
    require("fp64:raise:outputs" in [check["name"] for check in report["checks"]], "the twin was raised")
    return check_report(report, 4, 4)


def infer_small(folder, model, flags):
    name, *rest = flags
    report = verify(os.path.join(DATA, model, name), *rest, "--mesh", "2x2x2", "--twin", "on")
    return check_report(report, 8, 8)


def automatic(folder, fits):
    """A model that fits is run itself."""
    report = verify(os.path.join(DATA, "gpt2-tiny"), "--mesh", "2", "--global-batch", "4")
    require(report["twin"] is False, f"twin {report['twin']}")


def no_mutation(folder, flags):
    done = call([LLMC, "verify", os.path.join(DATA, "gpt2-tiny"), "--mesh", "2", "--global-batch", "4",
                 "--twin", "on", *flags], check=False)
    require(done.returncode == 1 and "error" in done.stderr, f"exit {done.returncode}: {done.stderr}")


def inference(folder, limit):
    model = os.path.join(folder, "config.json")
    with open(model, "w") as f:
        json.dump(LLAMA, f)
    start = time.time()
    report = verify(model, "--infer", "--dim", "batch=4,sequence=64", "--mesh", "2x4x8")
    seconds = time.time() - start
    require(seconds <= limit, f"{seconds:.0f} s, limit {limit}")
    return f"{seconds:.0f} s, {check_report(report, 64, 64)}"


def large(folder, layers, mesh, rows, ranks, own, limit):
    model = os.path.join(folder, "config.json")
    with open(model, "w") as f:
        json.dump({**LARGE, "n_layer": layers}, f)
    start = time.time()
    note = check_report(verify(model, "--mesh", mesh, "--global-batch", rows), ranks, own)
    seconds = time.time() - start
    require(seconds <= limit, f"{seconds:.0f} s, limit {limit}")
    return f"{seconds:.0f} s, {note}"


def llama(folder, config, limit):
    model = os.path.join(folder, "config.json")
    with open(model, "w") as f:
        json.dump(config, f)
    start = time.time()
    note = check_report(verify(model, "--mesh", "8x16x8", timeout=2 * limit), 1024, 256)
    seconds = time.time() - start
    require(seconds <= limit, f"{seconds:.0f} s, limit {limit}")
    return f"{seconds:.0f} s, {note}"


suite = Suite("twin")
suite.run("gpt2, mesh 2x2x2", small, "gpt2", "2x2x2", 8, 8, 8)
suite.run("gpt2 from ONNX, mesh 4x1x2", small, "gpt2/dynamo.onnx", "4x1x2", 8, 8, 4)
suite.run("gpt2, mesh 1x3x1", small, "gpt2", "1x3x1", 6, 3, 3)
suite.run("halves that take turns in a tensor (GPT-OSS), ep 4", small, "gpt_oss", "dp=2,pp=2,tp=2,ep=4", 8, 8, 8)
suite.run("ranges of each head (DeepSeek-V3), ep 4", small, "deepseek_v3", "dp=2,pp=2,tp=2,ep=4", 8, 8, 8)
suite.run("heads nearly as wide as the model, mesh 1x1x2", alike, "models/gemma3/dynamo-18/model.onnx")
suite.run("2 layers of 32 beside a width of 64, 4,096 tokens", by_chance, "models/llama/dynamo-18-mask/model.onnx")
suite.run("a model that fits", automatic, True)
suite.run("mutants of a twin are refused", no_mutation, ["--mutants", "1"])
past = ["model.onnx", "--infer", "--dim", "batch_size=2,sequence_length=3,past_sequence_length=2"]
suite.run("inference with past tokens, mesh 2x2x2", infer_small, "models/llama/optimum-18-past", past)
suite.run("inference of 8 B parameters, mesh 2x4x8", inference, 90)
suite.run("large model, 2 layers, mesh 4x2x8", large, 2, "4x2x8", 16, 64, 32, 90)
if suite.full:
    suite.run("2.5 B parameters, mesh 8x16x8", large, 48, "8x16x8", 128, 1024, 256, 180)
    # Twice what bench/verify.py measures at most.
    suite.run("Llama 2 7B, mesh 8x16x8", llama, LLAMA_2, 240)
    suite.run("Llama 3 70B, mesh 8x16x8", llama, LLAMA_70, 600)
suite.finish()
