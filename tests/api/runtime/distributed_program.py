"""distributed_program.py - attention spread over processes (gloo), without a GPU, against that of one process.

    distributed_program.py WORLD      says `right` when all is
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tilec.torch import distributed as spread
from tilec.torch.error import Error


def plain(q, k, v, scale, causal):
    """(O, L) of attention by plain operations."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2).float() for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = scale * (q @ k.transpose(2, 3))
    if causal:
        s = s.masked_fill(torch.arange(s.shape[3]) > torch.arange(s.shape[2])[:, None] + s.shape[3] - s.shape[2], -torch.inf)
    return (s.softmax(-1) @ v).transpose(1, 2), s.logsumexp(-1)


class Reference:
    """What Blocks does, by plain operations."""

    def forward(self, q, k, v, scale, causal):
        return plain(q, k, v, scale, causal)

    def backward(self, q, k, v, o, lse, grad, scale, causal):
        group = q.shape[2] // k.shape[2]
        q, k, v, o, grad = (x.transpose(1, 2).float() for x in (q, k, v, o, grad))
        many, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        s = scale * (q @ many.transpose(2, 3))
        if causal:
            s = s.masked_fill(torch.arange(s.shape[3]) > torch.arange(s.shape[2])[:, None], -torch.inf)
        p = (s - lse[..., None]).exp()
        ds = p * (grad @ values.transpose(2, 3) - (grad * o).sum(-1, keepdim=True)) * scale
        dk, dv = ds.transpose(2, 3) @ q, p.transpose(2, 3) @ grad
        dk, dv = (x.unflatten(1, (-1, group)).sum(2) for x in (dk, dv))
        return (ds @ many).transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)

    def merge(self, o, lse, more, more_lse):
        both = torch.logaddexp(lse, more_lse)
        share = [(x - both).exp().transpose(1, 2)[..., None] for x in (lse, more_lse)]
        o.copy_(o * share[0] + more * share[1])
        lse.copy_(both)


def check(name, have, want):
    error = (have - want).abs().max().item()
    assert error < 2e-5, f"{name}: {error}"


def compare(world, causal, heads, kv_heads, way, mine=8):
    torch.manual_seed(world + causal)
    rows, order = mine * world, "zigzag" if way == "ring" and causal else "whole"
    whole = [torch.randn(2, rows, h, 16, requires_grad=True) for h in (heads, kv_heads, kv_heads)]
    want = plain(*whole, 0.25, causal)[0]
    grad = torch.randn_like(want)
    want_grads = torch.autograd.grad(want, whole, grad)
    mine = [spread.shard(x.detach(), order=order).requires_grad_() for x in whole]
    if way == "ring":
        out = spread.ring_attention(*mine, causal=causal, scale=0.25, blocks=Reference())
    else:
        out = spread.ulysses_attention(*mine, causal=causal, attention=lambda q, k, v, causal: plain(q, k, v, 0.25, causal)[0])
    check("O", out, spread.shard(want.detach(), order=order))
    check("unshard", spread.unshard(out, order=order), want)
    for letter, have, of_all in zip("QKV", torch.autograd.grad(out, mine, spread.shard(grad, order=order)), want_grads):
        check("d" + letter, have, spread.shard(of_all, order=order))


def refusals(world):
    def refused(words, function):
        try:
            function()
        except Error as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError(f"not refused: {words}")

    x = torch.randn(1, 3, 2 * world, 16)
    if world > 1:
        refused("no multiple of the", lambda: spread.ulysses_attention(x[:, :, :1], x[:, :, :1], x[:, :, :1]))
        refused("pad them", lambda: spread.shard(torch.zeros(1, 2 * world + 1)))
    refused("are odd", lambda: spread.ring_attention(x, x, x, causal=True))
    refused("as many rows", lambda: spread.ring_attention(x[:, :2], x, x, causal=True))
    refused("4 dimensions", lambda: spread.ring_attention(x[0], x, x))
    refused("is not known", lambda: spread.shard(x, order="odd"))


def process(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    for causal in (False, True):
        compare(world, causal, 4 * world, 4 * world, "ring")
        compare(world, causal, 4, 2, "ring")
        compare(world, causal, 2 * world, world, "ulysses")
    compare(world, False, 4, 2, "ring", mine=7)
    compare(world, True, 4, 2, "ring", mine=2)
    refusals(world)
    dist.destroy_process_group()


if __name__ == "__main__":
    many = int(sys.argv[-1])
    with tempfile.TemporaryDirectory() as at:
        mp.spawn(process, (many, at), many)
    print("right")
