#!/usr/bin/env python3
"""Training steps of a mixture of experts: beside Hugging Face's, on ep 4 beside one rank, 64 experts beside 8.

    python3 bench/experts.py [--rounds 3] [--no-peers] [--json F]

A Mixtral of 6 layers x 384, 8 experts of 1,024, two for each token, 8,192 words, 8 rows of 256 tokens, AdamW, fp32, two
threads. All sides run in turn, in every round; ratios are those of one round, and their median is printed. The weights are
random, so that rows spread over the experts as at the start of a training.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
from run import HERE, Ours, peers_python  # noqa: E402

ROWS, TOKENS, WORDS = 8, 256, 8192


class Work:
    """What Ours asks of a work (shapes.py)."""
    name, rows, tokens, words = "mixtral", ROWS, TOKENS, WORDS

    def __init__(self, experts):
        self.experts = experts

    def config(self):
        return {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": WORDS, "hidden_size": 384,
                "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 6,
                "num_local_experts": self.experts, "num_experts_per_tok": 2, "max_position_embeddings": TOKENS,
                "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
                "output_router_logits": False, "sliding_window": None}


class Ranks(Ours):
    """The same step on ep 4."""

    def __init__(self, work, folder):
        super().__init__(work, "train", folder, dp=4, flags=("--ep", "4"))


def peer(config, how):
    command = [peers_python(), str(HERE / "with_transformers.py"), str(config), str(ROWS), str(TOKENS), how, "3"]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["failed"])[-1][:200]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return statistics.median(said["times"]), said["version"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="llmc-experts-") as folder:
        places = [pathlib.Path(folder) / name for name in ("few", "many", "ranks")]
        for place in places:
            place.mkdir()
        ours = [("llmc", Ours(Work(8), "train", places[0])), ("llmc, 64 experts", Ours(Work(64), "train", places[1])),
                ("llmc, ep 4", Ranks(Work(8), places[2]))]
        sides = {name: (lambda run=run: (run.median(iterations=3, warm=2)[0], "")) for name, run in ours}
        if not arguments.no_peers:
            for how in ("eager", "grouped", "compiled"):
                sides["transformers " + how] = lambda how=how: peer(places[0] / "config.json", how)
        times, notes = {name: [] for name in sides}, {}
        for at in range(arguments.rounds):
            order = list(sides)
            for name in order[at % len(order):] + order[:at % len(order)]:
                seconds, note = sides[name]()
                if seconds is None:
                    print(f"{name}: {note}", file=sys.stderr)
                times[name].append(seconds)
                notes[name] = note
    for name, seconds in times.items():
        if any(s is None for s in seconds):
            continue
        ratio = statistics.median(a / b for a, b in zip(seconds, times["llmc"]))
        print(f"{name:22} {statistics.median(seconds) * 1e3:9.1f} ms   x {ratio:5.2f} of llmc   {notes[name]}", flush=True)
    peers = [[t[i] for n, t in times.items() if n.startswith("transformers") and t[i]] for i in range(arguments.rounds)]
    if all(peers):
        ratio = statistics.median(min(p) / o for p, o in zip(peers, times["llmc"]))
        print(f"the fastest of transformers takes {ratio:.2f} times as long as llmc")
    if arguments.json:
        arguments.json.write_text(json.dumps({"cores": os.cpu_count(), "times": times, "notes": notes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
