"""What the scripts share: paths, and the rules of the oracles."""
import os

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

from batches import IGNORED

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DATA = os.path.join(ROOT, "test", "data")


def load_model(folder, dtype=torch.float64):
    """transformers' model with the weights of a folder, in evaluation mode (no dropout)."""
    model = GPT2LMHeadModel(GPT2Config.from_json_file(os.path.join(folder, "config.json")))
    missing, unexpected = model.load_state_dict(
        load_file(os.path.join(folder, "weights.safetensors")), strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.to(dtype).eval()


def mean_loss(model, ids, labels):
    """Mean cross entropy over the labels that count; labels are aligned with the logits."""
    logits = model(input_ids=torch.as_tensor(ids)).logits.to(torch.float64)
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.as_tensor(labels).flatten(), ignore_index=IGNORED)


def write_forward(folder, model, ids):
    with torch.no_grad():
        logits = model(input_ids=torch.as_tensor(ids)).logits
    np.save(os.path.join(folder, "forward_ids.npy"), ids)
    np.save(os.path.join(folder, "forward_logits.npy"), logits.numpy())


def write_oracle(folder, model, ids, labels, published=lambda tensors: tensors):
    """`published` gives tensors the names of the checkpoint."""
    loss = mean_loss(model, ids, labels)
    model.zero_grad()
    loss.backward()
    given = published({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    gradients = {"grad." + name: g.numpy().astype(np.float32) for name, g in given.items()}
    np.savez(os.path.join(folder, "oracle.npz"), loss=np.float64(loss.item()), **gradients)
    np.save(os.path.join(folder, "input_ids.npy"), ids)
    np.save(os.path.join(folder, "labels.npy"), labels)
    return loss.item()
