"""ring_parts.py - what a ring's kernels and sums take without its messages: the launches of each process, one after the other on one GPU.

    python3 bench/ring_parts.py [--worlds 2 4 8] [--rows 32768 131072] [--heads 16 16] [--wire e4m3] [--out FILE]

Causal, d 128, bfloat16, dealt out in zigzag; milliseconds of forward and backward for each process, the slowest beside 1 / world
of attention over the whole sequence.  --dry: of few rows, on a processor
with TILEC_INTERPRET=1 or a driver that launches nothing, and nothing is timed.
"""
import argparse
import json
import statistics
import time

import torch

import tilec.torch
from tilec.torch.blocks import Blocks
from tilec.torch.ring import Ring
from tilec.torch.shares import Mask, dealt, route
from tilec.torch.wire import Plain, Rounded


class Silent:
    """In place of Messages (ring.py): nothing is sent, and what comes are numbers that are always there."""

    def __init__(self, world, rank, device):
        self.world, self.rank, self.device, self.there = world, rank, device, {}

    def begin(self, sends, receives):
        return [[self.numbers(*tensor) for tensor in enumerate(described)] for _, described in receives], []

    def numbers(self, index, described):
        shape, dtype = described
        if (index, described) not in self.there:
            made = torch.randn(shape, device=self.device)
            made = made.to(torch.float8_e4m3fn).view(dtype) if dtype == torch.uint8 else made.to(dtype)
            self.there[index, described] = made
        return self.there[index, described]

    def head_start(self):
        pass


def ring_of(world, rank, rows, scale, wire, device):
    """The ring of one process."""
    of, blocks = dealt(rows, world, "zigzag"), Blocks()
    return Ring(route(of, of, Mask(scale=scale, causal=True)), list(range(world)), Silent(world, rank, device), blocks,
                Rounded(blocks, torch.bfloat16) if wire else Plain())


def milliseconds(function, device, repeat, rounds):
    """The median of a call, so many in a row."""
    function()
    times = []
    for _ in range(rounds):
        if device == "cuda":
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(repeat):
                function()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / repeat)
        else:
            begun = time.perf_counter()
            function()
            times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def measured(world, rows, heads, d, wire, device, repeat, rounds):
    """(forward, backward) of each process."""
    made = []
    for rank in range(world):
        q, grad, k, v = (torch.randn(1, rows // world, h, d, device=device).bfloat16() for h in (heads[0], heads[0], heads[1], heads[1]))
        ring = ring_of(world, rank, rows, d ** -0.5, wire, device)
        out, lse, near = ring.forward(q, k, v, True)
        made.append([milliseconds(function, device, repeat, rounds) for function in
                     (lambda: ring.forward(q, k, v, True), lambda: ring.backward(q, k, v, out, lse, near, grad))])  # noqa: B023
    return made


def alone(rows, heads, d, device, repeat, rounds):
    """Of the whole sequence."""
    q, k, v, grad = (torch.randn(1, rows, h, d, device=device).bfloat16() for h in (*heads, heads[1], heads[0]))
    forward = milliseconds(lambda: tilec.torch.attention(q, k, v, causal=True), device, repeat, rounds)
    these = [x.requires_grad_() for x in (q, k, v)]
    out = tilec.torch.attention(*these, causal=True)
    return forward, milliseconds(lambda: torch.autograd.grad(out, these, grad, retain_graph=True), device, repeat, rounds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--rows", type=int, nargs="*", default=[32768, 131072])
    parser.add_argument("--heads", type=int, nargs=2, default=[16, 16], help="of q and of k")
    parser.add_argument("--wire", choices=["e4m3"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    device, d = ("cpu", 16) if options.dry else ("cuda", 128)
    torch.manual_seed(0)
    found = []
    for rows in options.rows:
        repeat = 1 if options.dry or rows > 200000 else 2 if rows > 100000 else 10
        given = tuple(options.heads), d
        whole = alone(rows, *given, device, repeat, options.rounds)
        for world in options.worlds:
            each = measured(world, rows, *given, options.wire, device, repeat, options.rounds)
            row = {"rows": rows, "processes": world, "wire": options.wire, "alone, ms": [round(x, 3) for x in whole],
                   "each, ms": [[round(x, 3) for x in pair] for pair in each]}
            most = [max(x) for x in zip(*each)], [sum(pair) for pair in each]
            row["share forward"] = round(whole[0] / world / most[0][0], 4)
            row["share backward"] = round(whole[1] / world / most[0][1], 4)
            row["share both"] = round(sum(whole) / world / max(most[1]), 4)
            found.append(row)
            print(json.dumps(row), flush=True)
    if options.out:
        with open(options.out, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
