"""train_transformer.py - a small transformer trained with tilec's attention, and with PyTorch's own.

    python3 examples/python/train_transformer.py --forward fwd.ptx --backward bwd.ptx

The files are examples/attention.tile and attention_bwd.tile compiled with -D D=64 -D CAUSAL=true
(or give --tilec PATH, and they are compiled first).  The same model is trained from the same start
on the same data three times: with tilec's kernels, with PyTorch's FlashAttention-2, and with
PyTorch's plain attention.  The loss curves must agree: tilec's may be no further from
FlashAttention-2's than twice what PyTorch's two are from each other, plus 0.01.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tilec_torch  # noqa: E402

VOCABULARY, LENGTH, BATCH, WIDTH, HEADS, LAYERS = 64, 250, 16, 256, 4, 4


def torch_attention(backend):
    def attend(q, k, v):  # [B, S, H, D], as everywhere here
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
        return out.transpose(1, 2)
    return attend


class Block(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        b, s, _ = x.shape
        # q, k and v are slices of one tensor: the kernels take their strides as they are
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, HEADS, WIDTH // HEADS).unbind(2)
        x = x + self.out(self.attend(q, k, v).reshape(b, s, WIDTH))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(attend) for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batches(steps, device):
    """Each sequence is made of six tokens of its own: attention has to look which, and the best
    loss is not far above log 6 = 1.79."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        own = torch.rand(BATCH, VOCABULARY, generator=generator).argsort(1)[:, :6]
        yield own.gather(1, torch.randint(6, (BATCH, LENGTH + 1), generator=generator)).to(device)


def train(attend, steps, device="cuda"):
    torch.manual_seed(0)
    model = Transformer(attend).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    losses = []
    for tokens in batches(steps, device):
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def compile_kernels(tilec, arch, folder):
    examples = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    paths = []
    for name in ("attention", "attention_bwd"):
        paths.append(os.path.join(folder, name + ".ptx"))
        subprocess.run([tilec, os.path.join(examples, name + ".tile"), "-arch", arch, "-D",
                        f"D={WIDTH // HEADS}", "-D", "CAUSAL=true", "-o", paths[-1]], check=True)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forward")
    parser.add_argument("--backward")
    parser.add_argument("--tilec")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--deterministic", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.tilec:
            options.forward, options.backward = compile_kernels(options.tilec, options.arch, folder)
        if not options.forward or not options.backward:
            parser.error("give --forward and --backward, or --tilec")
        forward, backward = tilec_torch.load(options.forward), tilec_torch.load(options.backward)

    def tilec_attention(q, k, v):
        return tilec_torch.attention(q, k, v, forward, backward, deterministic=options.deterministic)
    curves = {"tilec": train(tilec_attention, options.steps),
              "flash": train(torch_attention(SDPBackend.FLASH_ATTENTION), options.steps),
              "plain": train(torch_attention(SDPBackend.MATH), options.steps)}
    print(f"{'step':>5} {'tilec':>9} {'flash':>9} {'plain':>9}")
    for step in sorted({*range(0, options.steps, 5), options.steps - 1}):
        print(f"{step:>5} " + " ".join(f"{curve[step]:>9.4f}" for curve in curves.values()))

    def distance(a, b):
        return max(abs(x - y) for x, y in zip(curves[a], curves[b]))
    ours, theirs = distance("tilec", "flash"), distance("plain", "flash")
    good = ours <= 2 * theirs + 0.01
    print(f"largest distance from flash: tilec {ours:.4f}, plain {theirs:.4f}: "
          f"{'the same curve' if good else 'NOT the same curve'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
