"""Verification in bf16 and fp16 of mixtures whose routers choose among experts with nearly equal scores: kernels take
the choice of fp64 there, the report counts how often, and everything else holds as without experts."""
import json
import re

from experts import DEEPSEEK, MIXTRAL, SEQ, write_config
from harness import LLMC, Suite, call, require

GPT_OSS = {
    "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "vocab_size": 96, "hidden_size": 32,
    "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 8, "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
MODELS = {"mixtral": MIXTRAL, "deepseek_v3": DEEPSEEK, "gpt_oss": GPT_OSS}
LIMITS = {"bf16": 2.0 ** -3, "fp16": 2.0 ** -6, "fp32": 1e-4}  # lib/verify/reference/Limits.h


def verified(folder, model, precision, mesh, *flags):
    done = call([LLMC, "verify", write_config(folder, MODELS[model]), "--mesh", mesh, "--seq", SEQ, "--precision", precision, *flags, "--json"], check=False)
    require(done.returncode in (0, 3), f"exit {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    failed = [f"{c['name']} {c['value']} > {c['limit']} {c['subject']}" for c in report["checks"] if not c["passed"]]
    require(done.returncode == 0 and not failed, "\n".join(failed))
    notes = []
    for check in report["checks"]:
        if not check["name"].endswith(":routes"):
            continue
        said = re.fullmatch(r"near-ties as in fp64: ([\d,]+) of ([\d,]+) choices replayed", check["subject"])
        require(said, f"{check['name']} says {check['subject']}")
        replayed, choices = (int(text.replace(",", "")) for text in said.groups())
        require(check["limit"] == LIMITS[precision], f"limit {check['limit']}")
        # Roundings of a narrow type decide some choices, and few.
        require(choices > 0 and replayed <= choices / 10, f"{replayed} of {choices} are replayed")
        require(precision == "fp32" or 0 < replayed and 0 < check["value"], f"{replayed} of {choices} are replayed, so it tests nothing")
        notes.append(f"{replayed} of {choices}, gap {check['value']:.1e}")
    names = [check["name"] for check in report["checks"] if check["name"].endswith(":routes")]
    require(names == ["kernels:routes", "updates:sgd:routes"], f"checks of routes are {names}")
    return "; ".join(notes)


def without_experts(folder):
    """A model without routers has no such check."""
    llama = {"model_type": "llama", "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
    done = call([LLMC, "verify", write_config(folder, llama), "--mesh", "2", "--seq", SEQ, "--json"])
    names = [check["name"] for check in json.loads(done.stdout)["checks"]]
    require(not any(name.endswith(":routes") for name in names), f"{names}")


def main():
    suite = Suite("near_ties")
    for model in MODELS:
        for precision, mesh, *flags in [("bf16", "dp=2,tp=2,ep=4"), ("bf16", "2x2x1", "--ep", 2), ("fp16", "dp=2,cp=2,ep=4"), ("fp32", "dp=2,ep=2")]:
            suite.run(f"{model} in {precision} on {mesh} {' '.join(map(str, flags))}", verified, model, precision, mesh, *flags)
    for model, precision, mesh, *flags in [
            ("deepseek_v3", "bf16", "dp=2,ep=2", "--moe-balance", "bias", "--recompute", "full"),
            ("mixtral", "bf16", "dp=2,tp=2,ep=2", "--moe-capacity", 1, "--micro-batch", 2),
            ("mixtral", "bf16", "2x2x1", "--ep", 2, "--virtual-stages", 2, "--recompute", "selective"),
            ("gpt_oss", "fp16", "dp=2,cp=2,tp=2,ep=8", "--moe-balance", "aux")]:
        suite.run(f"{model} in {precision} on {mesh} {' '.join(map(str, flags))}", verified, model, precision, mesh, *flags)
    suite.run("a model without experts", without_experts)
    suite.finish()


if __name__ == "__main__":
    main()
