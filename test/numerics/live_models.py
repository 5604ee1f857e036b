"""Makes one drawn GPT-2 with its oracle, for live.py: live_models.py FOLDER SEED.

Runs in the Python of scripts/oracles.txt. Writes config.json, weights.safetensors,
dynamo.onnx, torchscript.onnx, input_ids.npy, labels.npy, oracle.npz.
"""
import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "make"))


def main(folder, seed):
    import logging
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    import torch
    import transformers
    from common import load_model, write_oracle
    from exports import Logits, export_dynamo, export_torchscript, random_weights

    rng = np.random.default_rng(seed)
    heads = int(rng.choice([1, 2, 3, 4, 6, 8]))
    width = heads * int(rng.choice([4, 8, 12, 16]))
    config = transformers.GPT2Config(
        n_layer=int(rng.integers(1, 6)), n_head=heads, n_embd=width,
        n_inner=[None, 2 * width, 24 * heads][int(rng.integers(3))],
        vocab_size=int(rng.integers(40, 300)), n_positions=int(rng.choice([24, 32, 64])),
        activation_function=str(rng.choice(["gelu_new", "gelu", "relu", "gelu_pytorch_tanh"])),
        layer_norm_epsilon=float(rng.choice([1e-5, 1e-6])),
        tie_word_embeddings=bool(rng.random() < 0.8), bos_token_id=0, eos_token_id=0)
    torch.manual_seed(seed)
    model = Logits(config).eval()
    random_weights(model, torch.Generator().manual_seed(seed))
    config.architectures = ["GPT2LMHeadModel"]
    config.to_json_file(os.path.join(folder, "config.json"))
    from safetensors.torch import save_file
    save_file({n: p.detach().contiguous() for n, p in model.named_parameters()},
              os.path.join(folder, "weights.safetensors"), {"format": "pt"})
    export_dynamo(model, os.path.join(folder, "dynamo.onnx"))
    export_torchscript(model, os.path.join(folder, "torchscript.onnx"))
    rows, length = 8, int(rng.choice([7, 16, 20]))
    ids = rng.integers(0, config.vocab_size, (rows, length))
    labels = rng.integers(0, config.vocab_size, (rows, length))
    labels[rng.random((rows, length)) < 0.3] = -100
    write_oracle(folder, load_model(folder), ids, labels)


main(sys.argv[1], int(sys.argv[2]))
