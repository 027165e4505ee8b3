"""The model of examples/cpp/charlm in PyTorch, with the same names, without dropout."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        parts = (part.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).chunk(3, 2))
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.c_proj(seen.transpose(1, 2).reshape(x.shape))
        return x + self.c_out(nn.functional.gelu(self.c_fc(self.ln_2(x))))


class Transformer(nn.Module):
    def __init__(self, context, width, layers, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, text):
        x = self.wte(text) + self.wpe(torch.arange(text.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))
