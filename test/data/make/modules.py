"""Models of our own, with parameters that those of transformers lack. Gates: numbers of shape [] and
[1], a slice of a table of positions, functions of parameters (1 + w), low-rank matrices of zeros.
Biased: a bias of distances that all layers share, norms without parameters, one slope a layer."""
from types import SimpleNamespace

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + self.weight)


class LowRank(nn.Module):
    def __init__(self, width, rank=2):
        super().__init__()
        self.base = nn.Linear(width, width, bias=False)
        self.A = nn.Parameter(torch.randn(rank, width) * 0.3)
        self.B = nn.Parameter(torch.zeros(width, rank))

    def forward(self, x):
        return self.base(x) + (x @ self.A.t()) @ self.B.t() * 2.0


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = LowRank(width), nn.Linear(width, width, bias=False), LowRank(width)
        self.scale = nn.Parameter(torch.full((heads, 1, 1), 0.7))
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x):
        rows, tokens, width = x.shape

        def split(y):
            return y.view(rows, tokens, self.heads, width // self.heads).transpose(1, 2)

        y = nn.functional.scaled_dot_product_attention(
            split(self.q(x)) * self.scale, split(self.k(x)), split(self.v(x)), is_causal=True)
        return self.o(y.transpose(1, 2).reshape(rows, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.norm1, self.attention = Norm(width), Attention(width, heads)
        self.alpha = nn.Parameter(torch.tensor(0.5))
        self.norm2, self.up, self.down = Norm(width), nn.Linear(width, inner), nn.Linear(inner, width)
        self.gate = nn.Parameter(torch.full((1,), 0.3))

    def forward(self, x):
        x = x + self.alpha * self.attention(self.norm1(x))
        return x + self.gate * self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gates(nn.Module):
    def __init__(self, vocabulary=26, width=8, heads=2, inner=12, layers=4, positions=16):
        super().__init__()
        self.config = SimpleNamespace()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(1, positions, width) * 0.3)
        self.layers = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm, self.head = Norm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        x = self.words(input_ids) + self.positions[:, :input_ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return SimpleNamespace(logits=self.head(self.norm(x)))


class BiasedBlock(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.slope, self.down = nn.Linear(width, inner), nn.PReLU(), nn.Linear(inner, width)

    def forward(self, x, bias):
        rows, tokens, width = x.shape
        q, k, v = (y.view(rows, tokens, self.heads, width // self.heads).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).chunk(3, -1))
        y = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + bias).softmax(-1) @ v
        x = x + self.o(y.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(self.slope(self.up(self.norm2(x))))


class Biased(nn.Module):
    def __init__(self, vocabulary=26, width=8, heads=2, inner=12, layers=4, furthest=3):
        super().__init__()
        self.config, self.furthest = SimpleNamespace(), furthest
        self.words, self.distances = nn.Embedding(vocabulary, width), nn.Embedding(furthest + 1, heads)
        self.layers = nn.ModuleList(BiasedBlock(width, heads, inner) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids, attention_mask=None, use_cache=False):
        x, at = self.words(input_ids), torch.arange(input_ids.shape[1], device=input_ids.device)
        before = at[:, None] - at[None, :]
        bias = self.distances(before.clamp(0, self.furthest)).permute(2, 0, 1)
        bias = bias.masked_fill(before < 0, float("-inf"))[None]
        for layer in self.layers:
            x = layer(x, bias)
        return SimpleNamespace(logits=self.head(self.norm(x)))


MODULES = {"gates": Gates, "biased": Biased}
