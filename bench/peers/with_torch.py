"""PyTorch: with_torch.py WORK train|infer HOW ITERATIONS -> one JSON line.

HOW is eager or compiled; in bf16 by -autocast (fp32 weights) or -pure (weights and moments too).
"""
import json
import math
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from shapes import WORKS


class Gpt2Layer(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.heads = w.heads
        self.norm1, self.norm2 = nn.LayerNorm(w.width), nn.LayerNorm(w.width)
        self.qkv, self.out = nn.Linear(w.width, 3 * w.width), nn.Linear(w.width, w.width)
        self.up, self.down = nn.Linear(w.width, w.inner), nn.Linear(w.inner, w.width)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(d, 2))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, d)
        x = x + self.out(o)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaLayer(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.heads, self.kv, self.dim = w.heads, w.kv_heads, w.width // w.heads
        self.norm1, self.norm2 = nn.RMSNorm(w.width, eps=1e-5), nn.RMSNorm(w.width, eps=1e-5)
        self.q = nn.Linear(w.width, w.width, bias=False)
        self.k = nn.Linear(w.width, self.kv * self.dim, bias=False)
        self.v = nn.Linear(w.width, self.kv * self.dim, bias=False)
        self.out = nn.Linear(w.width, w.width, bias=False)
        self.gate, self.up = nn.Linear(w.width, w.inner, bias=False), nn.Linear(w.width, w.inner, bias=False)
        self.down = nn.Linear(w.inner, w.width, bias=False)
        angles = torch.outer(torch.arange(w.tokens).float(), 10000.0 ** (-torch.arange(0, self.dim, 2) / self.dim))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, 1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, 1))

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x):
        b, s, d = x.shape
        h = self.norm1(x)
        q = self.rotate(self.q(h).view(b, s, self.heads, self.dim).transpose(1, 2))
        k = self.rotate(self.k(h).view(b, s, self.kv, self.dim).transpose(1, 2))
        v = self.v(h).view(b, s, self.kv, self.dim).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(o.transpose(1, 2).reshape(b, s, d))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.words = nn.Embedding(w.words, w.width)
        self.positions = nn.Embedding(w.tokens, w.width) if w.kind == "gpt2" else None
        layer = Gpt2Layer if w.kind == "gpt2" else LlamaLayer
        self.layers = nn.ModuleList(layer(w) for _ in range(w.layers))
        self.norm = nn.LayerNorm(w.width) if w.kind == "gpt2" else nn.RMSNorm(w.width, eps=1e-5)
        self.head = nn.Linear(w.width, w.words, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        if w.kind == "gpt2":
            self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def main():
    work, mode, iterations = WORKS[sys.argv[1]], sys.argv[2], int(sys.argv[4])
    how, _, types = sys.argv[3].partition("-")
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = Model(work)
    if types == "pure":
        model.to(torch.bfloat16)
    low = torch.autocast("cpu", torch.bfloat16, enabled=types == "autocast")
    ids = torch.randint(0, work.words, (work.rows, work.tokens + 1))
    x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    if mode == "train":
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

        def loss_of():
            return F.cross_entropy(model(x).view(-1, work.words), y.view(-1))
        forward = torch.compile(loss_of) if how == "compiled" else loss_of

        def step():
            optimizer.zero_grad(set_to_none=True)
            with low:
                loss = forward()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()
    else:
        model.eval()
        forward = torch.compile(model) if how == "compiled" else model

        def step():
            with torch.inference_mode(), low:
                return forward(x)[0, -1, 0].item()
    times = []
    for _ in range(iterations + 2):
        start = time.perf_counter()
        last = step()
        times.append(time.perf_counter() - start)
    assert math.isfinite(last)
    print(json.dumps({"times": times[2:], "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
