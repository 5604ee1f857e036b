"""Trains test/data/gpt2 with PyTorch in float64 and records the loss of every step.

Rows are sequence + 1 tokens at stride `sequence`, in order and around again; a step is
`global_batch` rows. Rule: clip by the global norm 1.0, then AdamW (betas 0.9 0.95, eps 1e-8)
or SGD without momentum; weight decay 0.1 on tensors of two or more dims."""
import json
import os

import numpy as np
import torch

from common import DATA, load_model, mean_loss

FOLDER, TEXT = os.path.join(DATA, "gpt2"), "curve.bin"
SEQUENCE, GLOBAL_BATCH, STEPS = 32, 8, 50
# The last step sees the rows of the first again, so that their losses compare.
ROWS = 7 * GLOBAL_BATCH
CLIP, DECAY = 1.0, 0.1


def rows_of(tokens, step):
    count = (len(tokens) - 1) // SEQUENCE
    starts = [(step * GLOBAL_BATCH + r) % count * SEQUENCE for r in range(GLOBAL_BATCH)]
    rows = np.stack([tokens[s:s + SEQUENCE + 1] for s in starts]).astype(np.int64)
    return rows[:, :-1], rows[:, 1:]


def optimizer_of(kind, model, lr):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    if kind == "adamw":
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8)
    return torch.optim.SGD(groups, lr=lr)


def curve(kind, lr):
    model = load_model(FOLDER)
    optimizer = optimizer_of(kind, model, lr)
    tokens = np.fromfile(os.path.join(FOLDER, TEXT), "<u2")
    losses, norms = [], []
    for step in range(STEPS):
        loss = mean_loss(model, *rows_of(tokens, step))
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    print(f"{kind} {lr}: {losses[0]:.4f} -> {losses[-1]:.4f}, norms {min(norms):.2f} to {max(norms):.2f}")
    return {"optimizer": kind, "lr": lr, "data": TEXT, "sequence": SEQUENCE,
            "global_batch": GLOBAL_BATCH, "loss": losses, "grad_norm": norms}


tokens = np.fromfile(os.path.join(FOLDER, "text.bin"), "<u2")[:ROWS * SEQUENCE + 1]
tokens.tofile(os.path.join(FOLDER, TEXT))
curves = [curve(kind, lr) for kind in ["adamw", "sgd"] for lr in [3e-4, 1e-3]]
with open(os.path.join(FOLDER, "curves.json"), "w") as f:
    json.dump(curves, f, indent=1)
    f.write("\n")
