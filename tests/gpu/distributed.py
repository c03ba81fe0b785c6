"""distributed.py - attention spread over the GPUs of one host: is it right, and how fast, beside its peers.

    torchrun --nproc-per-node 2 tests/gpu/distributed.py [--out FILE] [--lengths 32768 131072 262144]

Right: against float32 and a plain 16-bit computation, forward and gradients, twice with the same bits.  Fast: TFLOPS a
GPU, causal, d = 128, beside the kernel alone on one GPU with the whole sequence, the same ring around FlashAttention-2's
kernels, Ulysses, and PyTorch's context parallelism, all in these processes.  Where there are fewer GPUs than processes,
they share one, messages go by way of the CPU, and nothing is timed; without any, with TILEC_TORCH_DEVICE=cpu
TILEC_INTERPRET=1, kernels are interpreted, of few rows.
"""
import argparse
import itertools
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

import tilec.torch
from tilec.torch import distributed as spread
from tilec.torch import ring, scaling

DEVICE = os.environ.get("TILEC_TORCH_DEVICE", "cuda")
SHARED = DEVICE == "cuda" and torch.cuda.device_count() < int(os.environ.get("WORLD_SIZE", 1))  # one GPU for all
ROWS = 512 if DEVICE == "cuda" else 24  # of each process, where it is checked


class ByCpu(ring.Messages):
    def begin(self, sends, receives):
        device, self.device = self.device, torch.device("cpu")
        came, requests = super().begin([(to, [x.cpu() for x in tensors]) for to, tensors in sends], receives)
        self.device = device
        ring.wait(requests)
        return [[x.cuda() for x in tensors] for tensors in came], []

    def head_start(self):
        pass


def plain(q, k, v, causal=False, window=None, right=None, softcap=0.0, alibi=False):
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    ahead = torch.arange(s.shape[3], device=s.device) - torch.arange(s.shape[2], device=s.device)[:, None]
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if alibi:
        slopes = 2.0 ** (-8 * (torch.arange(s.shape[1], device=s.device) + 1) / s.shape[1])
        s = (s - slopes[:, None, None] * ahead.abs()).to(q.dtype)
    hidden = (ahead > 0) & causal
    hidden |= ahead <= -(window or s.shape[3])
    hidden |= ahead > (s.shape[3] if right is None else right)
    return (s.masked_fill(hidden, -torch.inf).softmax(-1) @ v).transpose(1, 2)


class FlashBlocks:
    """FlashAttention-2's kernels in the ring, merged by PyTorch's operations: ring-flash-attention's scheme."""

    def forward(self, q, k, v, mask):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        made = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, mask.causal, scale=mask.scale)
        self.random = made[6:8]
        return made[0].transpose(1, 2), made[1]

    def backward(self, q, k, v, o, lse, grad, mask):
        q, k, v, o, grad = (x.transpose(1, 2) for x in (q, k, v, o, grad))
        made = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            grad, q, k, v, o, lse.contiguous(), None, None, q.shape[2], k.shape[2], 0.0, mask.causal, *self.random,
            scale=mask.scale)
        return [x.transpose(1, 2) for x in made]

    def merge(self, o, lse, more, more_lse):
        difference = torch.sigmoid(more_lse - lse).transpose(1, 2)[..., None]
        o.copy_(torch.lerp(o.float(), more.float(), difference))
        lse.copy_(torch.logaddexp(lse, more_lse))


def cases(world):
    """(name, heads, key heads, head dimension, rows, sequences, order, options)"""
    even, ragged = ROWS * world, ROWS * world - 3
    for causal in (False, True):
        for heads, key_heads, d in [(4, 4, 128), (8, 2, 128), (4, 2, 64)]:
            yield heads, key_heads, d, even, None, "zigzag" if causal else "whole", {"causal": causal}
    yield 8, 1, 128, ragged, None, "zigzag", {"causal": True}
    yield 8, 2, 128, even, None, "zigzag", {"causal": True, "softcap": 2.0}
    yield 8, 2, 64, even, None, "zigzag", {"causal": True, "alibi": True}
    for window in (1, 100, 700, 1200):
        yield 8, 2, 128, even, None, "whole", {"causal": True, "window": window}
    yield 8, 2, 64, ragged, None, "whole", {"window": 300, "right": 130}
    yield 8, 8, 64, even, None, "whole", {"causal": True, "window": 700, "alibi": True}
    starts = [0, 3, *(n * ROWS // 512 for n in (350 * world, 350 * world + 64)), *range(450 * world * ROWS // 512, even, 200 * ROWS // 512), even]
    yield 8, 1, 128, even, starts, None, {"causal": True}
    yield 8, 2, 64, even, starts, None, {"window": 150, "softcap": 1.0}


def right(world, first, count=None):
    """Against float32, and no worse than twice as wrong as plain operations in 16 bits, by every division: error / allowed."""
    ratios, wrong = {}, []
    for heads, key_heads, d, rows, starts, order, options in itertools.islice(cases(world), first, None if count is None else first + count):
        torch.manual_seed(heads + d + rows)
        whole = [torch.randn(1 if starts else 2, rows, h, d, device=DEVICE).bfloat16() for h in (heads, key_heads, key_heads)]
        grad = torch.randn(whole[0].shape, device=DEVICE).bfloat16()
        at = (spread.deal_packed(starts, causal=options.get("causal"), window=options.get("window")) if starts
              else spread.deal(rows, order=order))

        def made(dtype):
            these = [x.to(dtype).requires_grad_() for x in whole]
            bounds = starts or [0, rows]
            out = torch.cat([plain(*(x[:, a:b] for x in these), **options) for a, b in zip(bounds, bounds[1:])], 1)
            return [out.detach(), *torch.autograd.grad(out, these, grad.to(dtype))]

        want, rough = made(torch.float32), made(torch.bfloat16)
        for h in scaling.divisions(scaling.Shape(rows, heads, key_heads), world):
            name = f"exchange {h} heads={heads}/{key_heads} d={d} rows={rows} {'packed' if starts else order} {options}"
            runs = []
            for _ in range(2):
                mine = [spread.shard(x, at=at).requires_grad_() for x in whole]
                out = spread.attention(*mine, at=at, heads=h, deterministic=True, **options)
                runs.append([out.detach(), *torch.autograd.grad(out, mine, spread.shard(grad, at=at))])
            if not all(torch.equal(a, b) for a, b in zip(*runs)):
                wrong.append(f"{name}: two runs differ")
            if starts:  # many in one launch, whose sums of dQ are in any order
                mine = [spread.shard(x, at=at).requires_grad_() for x in whole]
                out = spread.attention(*mine, at=at, heads=h, **options)
                runs[0] = [out.detach(), *torch.autograd.grad(out, mine, spread.shard(grad, at=at))]
            every = torch.stack([(a.float() - spread.shard(w, at=at)).abs().max() / (2 * (r.float() - w).abs().max() + 1e-5)
                                 for a, w, r in zip(runs[0], want, rough)])
            every = every.cpu() if SHARED else every
            dist.all_reduce(every, dist.ReduceOp.MAX)
            worst, which = every.max(0)
            ratios[name] = round(worst.item(), 3)
            if dist.get_rank() == 0:
                print(ratios[name], ("O", "dQ", "dK", "dV")[which], name, flush=True)
            if not worst <= 1:
                wrong.append(f"{name}: error / allowed {worst}")
    assert not wrong, wrong
    return ratios


def eight_bits(world, rank):
    """Keys that are rounded on their way, O and dQ beside float32 with the same keys; and float8 inputs: error / allowed."""
    from tilec.torch.blocks import Blocks
    from tilec.torch.wire import scales_of
    ratios, blocks = {}, Blocks()

    def decoded(x):
        return blocks.decode(blocks.encode(x, scales_of(x)), scales_of(x), x.dtype)
    for heads, key_heads, d, order, options in ((8, 2, 128, "zigzag", {"causal": True}), (4, 4, 64, "whole", {"causal": True, "window": 700})):
        torch.manual_seed(d)
        rows = ROWS * world
        at = spread.deal(rows, order=order)
        whole = [torch.randn(2, rows, h, d, device=DEVICE).bfloat16() for h in (heads, key_heads, key_heads)]
        grad = spread.shard(torch.randn(whole[0].shape, device=DEVICE).bfloat16(), at=at)
        seen = [x.clone() for x in whole]  # as this process has them
        for other in range(world):
            for x, y in zip(whole[1:], seen[1:]) if other != rank else ():
                theirs = decoded(torch.cat([x[:, a:b] for a, b in at.places(other)], 1).contiguous())
                for (a, b), piece in zip(at.places(other), theirs.split([b - a for a, b in at.places(other)], 1)):
                    y[:, a:b] = piece

        def made(dtype):
            q = spread.shard(whole[0], at=at).to(dtype).requires_grad_()
            all_q = torch.zeros_like(whole[0], dtype=dtype)
            begin = 0
            for a, b in at.places(rank):
                all_q[:, a:b] = q[:, begin:begin + b - a]
                begin += b - a
            out = spread.shard(plain(all_q, *(x.to(dtype) for x in seen[1:]), **options), at=at)
            return out.detach(), torch.autograd.grad(out, q, grad.to(dtype))[0]
        mine = [spread.shard(x, at=at).requires_grad_() for x in whole]
        out = spread.attention(*mine, at=at, heads=1, wire="e4m3", deterministic=True, **options)
        have = out.detach(), torch.autograd.grad(out, mine, grad)[0]
        every = torch.stack([(a.float() - w).abs().max() / (2 * (r.float() - w).abs().max() + 1e-5)
                             for a, w, r in zip(have, made(torch.float32), made(torch.bfloat16))])
        codes = [spread.shard(x, at=at).to(torch.float8_e4m3fn) for x in whole]
        scales = [torch.full((2, x.shape[2]), 0.5 + 0.25 * rank + 0.1 * i, device=DEVICE) for i, x in enumerate(codes)]
        numbers = [spread.unshard(x.float() * s[:, None, :, None], at=at) for x, s in zip(codes, scales)]
        out = spread.attention(*codes, at=at, **dict(zip(("scale_q", "scale_k", "scale_v"), scales)), **options).float()
        want = spread.shard(plain(*numbers, **options), at=at)
        every = torch.cat([every, ((out - want).norm() / want.norm() / 0.04)[None]])  # weights have four bits
        every = every.cpu() if SHARED else every
        dist.all_reduce(every, dist.ReduceOp.MAX)
        ratios[f"8 bits, heads={heads}/{key_heads} d={d} {order} {options}"] = dict(
            zip(("O", "dQ", "float8 inputs"), [round(x, 3) for x in every.tolist()]))
        assert every.max() <= 1, ratios
    return ratios


def repeats(length):
    return 1 if length > 200000 else 3 if length > 100000 else 20


def seconds(function, repeat, rounds=3):
    """The median over rounds of the slowest process's seconds a call, so many calls in a row."""
    for _ in range(2):
        function()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        dist.barrier()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(repeat):
            function()
        end.record()
        torch.cuda.synchronize()
        slowest = torch.tensor([begin.elapsed_time(end)], device=DEVICE)
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        times.append(slowest.item() * 1e-3 / repeat)
    return statistics.median(times)


def context_parallel(mesh, tensors, grad, both, backends):
    """PyTorch's own, around its attention, with its load balancing."""
    from torch.distributed.tensor.experimental import context_parallel as parallel
    from torch.nn.attention import sdpa_kernel
    buffers = [x.transpose(1, 2).contiguous() for x in (*tensors, grad)]
    with parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4), sdpa_kernel(backends):
        mine = [x.clone().requires_grad_(both) for x in buffers[:3]]
        local = buffers[3].clone()
        assert mine[0].shape[2] * mesh.size() == tensors[0].shape[1], "the rows are not shared out"

        def call():
            out = torch.nn.functional.scaled_dot_product_attention(*mine, is_causal=True)
            if both:
                torch.autograd.grad(out, mine, local)
        return seconds(call, repeats(tensors[0].shape[1]))


def timeline(length, heads):
    """What the first process's GPU does in one call of the ring, forward and backward: begin, length (us), stream, kernel."""
    whole = [torch.randn(1, length, heads, 128, device=DEVICE, dtype=torch.bfloat16) for _ in range(3)]
    these = [spread.shard(x).requires_grad_() for x in whole]
    grad = torch.randn_like(these[0])
    del whole

    def call():
        out = spread.ring_attention(*these, causal=True)
        torch.cuda.synchronize()
        torch.autograd.grad(out, these, grad)
        torch.cuda.synchronize()
    for _ in range(3):
        call()
    dist.barrier()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as watched:
        call()
    with tempfile.TemporaryDirectory() as folder:
        watched.export_chrome_trace(os.path.join(folder, "trace"))
        with open(os.path.join(folder, "trace")) as file:
            events = [e for e in json.load(file)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    events.sort(key=lambda e: e["ts"])
    return [f"{e['ts'] - events[0]['ts']:9.1f} {e['dur']:9.1f} {e['args'].get('stream', '')!s:>4} {e['name'][:90]}" for e in events]


def fast(lengths, heads, world, mesh, peers):
    rows = []
    for length in lengths:
        for both in (False, True):
            torch.manual_seed(0)
            d = 128
            whole = [torch.randn(1, length, heads, d, device=DEVICE, dtype=torch.bfloat16) for _ in range(3)]
            grad = torch.randn_like(whole[0])
            flops = 4 * heads * length * length * d / 2 * (3.5 if both else 1)

            def timed(function, order, repeat=repeats(length), rounds=3):
                these = [(spread.shard(x, order=order) if order else x.clone()).requires_grad_(both) for x in whole]
                g = spread.shard(grad, order=order) if order else grad

                def call():
                    out = function(*these, causal=True)
                    if both:
                        torch.autograd.grad(out, these, g)
                return seconds(call, repeat, rounds)

            row = {"length": length, "both": both}
            ways = {"one GPU": (tilec.torch.attention, None, 1), "ring": (spread.ring_attention, "zigzag", world),
                    "ulysses": (spread.ulysses_attention, "whole", world),
                    "ring, FlashAttention-2": (lambda *x, causal: spread.ring_attention(*x, causal=causal, blocks=FlashBlocks()),
                                               "zigzag", world)}
            if not peers:
                ways = {name: way for name, way in ways.items() if name in ("one GPU", "ring")}
            for name, (function, order, of) in ways.items():
                try:
                    row[name] = round(flops / of / timed(function, order) * 1e-12, 1)
                except Exception as error:  # noqa: BLE001  (a peer that fails is a peer that fails)
                    row[name] = f"{type(error).__name__}: {str(error)[:120]}"
            row["ring, from an empty queue"] = round(
                flops / world / timed(spread.ring_attention, "zigzag", 1, repeats(length)) * 1e-12, 1)
            for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION") if peers else ():
                key = "context parallel, " + name.split("_")[0].lower()
                try:
                    backend = getattr(torch.nn.attention.SDPBackend, name)
                    row[key] = round(flops / world / context_parallel(mesh, whole, grad, both, [backend]) * 1e-12, 1)
                except Exception as error:  # noqa: BLE001
                    row[key] = f"{type(error).__name__}: {str(error)[:160]}"
            rows.append(row)
            if dist.get_rank() == 0:
                print(json.dumps(row), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--lengths", type=int, nargs="*", default=[32768, 131072, 262144])
    parser.add_argument("--first", type=int, default=0, help="the first case of those that are checked")
    parser.add_argument("--count", type=int, help="so many of them")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--alone", action="store_true", help="only the ring and one GPU are timed")
    parser.add_argument("--timeline", type=int, nargs="*", default=[], help="of so many rows")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if SHARED or DEVICE == "cpu":
        dist.init_process_group("gloo")
        spread.Messages = ByCpu if SHARED else spread.Messages
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    begun = time.time()
    wrong = None
    try:
        found = {"right": right(world, options.first, options.count)}
        found["8 bits"] = eight_bits(world, rank)
    except AssertionError as error:  # the same on each process; it is said at the end, too
        wrong, found = error, {"wrong": str(error)}
    if rank == 0:
        print(json.dumps(found), f"{time.time() - begun:.1f} s", flush=True)
    if not SHARED and DEVICE == "cuda":
        mesh = dist.device_mesh.init_device_mesh("cuda", (world,))
        found["TFLOPS a GPU"] = fast(options.lengths, options.heads, world, mesh, not options.alone)
        found["timeline"] = {length: timeline(length, options.heads) for length in options.timeline}
    if rank == 0 and options.out:
        with open(options.out, "w") as file:
            json.dump(found, file, indent=1)
    dist.destroy_process_group()
    if wrong:
        raise wrong


if __name__ == "__main__":
    main()
