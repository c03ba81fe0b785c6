"""distributed.py - attention over a sequence that is spread over the processes of a group, a GPU each.

    from tilec.torch import distributed as spread
    q, k, v = (spread.shard(x, group, order="zigzag") for x in (q, k, v))     # [B, S / W, H, D] each
    o = spread.ring_attention(q, k, v, group=group, causal=True)              # my rows of the result
    o = spread.ulysses_attention(q, k, v, group=group, causal=True)           # heads change places; order "whole"

A ring sends K and V from process to process while each computes with what it has; results are merged by their
logarithms of sums in a kernel (attention_merge.tile).  Under a causal mask the rows of the sequence are dealt out
in zigzag, chunk r and chunk 2 W - 1 - r of 2 W to process r, so that each has as much to do in each step.
Ulysses exchanges heads for rows by all-to-all instead, twice; it needs W to divide the heads of Q and of K.

Both are differentiable once.  The order of sums does not depend on time: with deterministic=True a run gives the
same bits as any other of as many processes.
"""
import functools

import torch
import torch.distributed as dist

from tilec.torch import attend
from tilec.torch.error import Error
from tilec.torch.kernel import Kernel

ORDERS = ("zigzag", "whole")
HEAD_START = 30000  # of NCCL's kernel before ours, in clocks: 15 us


# ---- who has which rows ----


def _chunks(order, world):
    """For each process the chunks of the sequence that it has, and of how many there are."""
    if order == "whole":
        return [[r] for r in range(world)], world
    if order == "zigzag":
        return [[r, 2 * world - 1 - r] for r in range(world)], 2 * world
    raise Error(f"the order '{order}' is not known: zigzag (for a causal ring) or whole")


def shard(x, group=None, *, order="zigzag", dim=1):
    """This process's rows of a whole tensor."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    mine, parts = _chunks(order, world)
    if x.shape[dim] % parts:
        raise Error(f"shard: {x.shape[dim]} rows are no multiple of {parts}, which the order '{order}' of {world} "
                    "processes needs: pad them")
    chunks = x.chunk(parts, dim)
    return torch.cat([chunks[i] for i in mine[rank]], dim).contiguous()


def unshard(x, group=None, *, order="zigzag", dim=1):
    """The whole tensor of every process's rows; without gradients."""
    world = dist.get_world_size(group)
    mine, parts = _chunks(order, world)
    every = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(world)]
    dist.all_gather(every, x.detach().contiguous(), group)
    chunks = [None] * parts
    for these, indices in zip(every, mine):
        for i, chunk in zip(indices, these.chunk(len(indices), dim)):
            chunks[i] = chunk
    return torch.cat(chunks, dim)


# ---- what one process computes ----


class Blocks:
    """Attention of some rows and some keys, its gradients, and the sum of two results: by kernels."""

    def __init__(self, deterministic=False):
        self.kernel = attend.forward_kernel("bshd", deterministic)

    def _values(self, scale, causal):
        given = {"scale": scale, "softcap": 0.0, "CAUSAL": causal, "WINDOW": 0, "RIGHT": -1, "SOFTCAP": False,
                 "ALIBI": False}
        return [given[name] for name in self.kernel.values]

    def forward(self, q, k, v, scale, causal):
        """O in the type of q, and L."""
        return self.kernel.run(q, k, v, *self._values(scale, causal))

    def backward(self, q, k, v, o, lse, grad, scale, causal):
        """dQ, dK, dV of these rows and keys, where o and lse are of all keys."""
        backward = self.kernel.backward
        have = {"Q": q, "K": k, "V": v, "O": o, "L": lse, "dO": grad}
        return backward.run(*[have[name] for name in backward.inputs], *self._values(scale, causal))

    def merge(self, o, lse, more, more_lse):
        """Adds a result to (o, lse), o float32 or of the type of q, in place."""
        _merge_kernel()(P=more, LP=more_lse, O=o, L=lse)


@functools.lru_cache(maxsize=None)
def _merge_kernel():
    return Kernel(attend.program("attention_merge.tile"), ("attention_merge",),
                  types={**attend.TYPES, "TO": ("f16", "bf16", "f32")})


class _Sum:
    """A sum of tensors: of two rounded once, of more in float32 until it is whole."""

    def __init__(self):
        self.first, self.wide = None, None

    def add(self, part):
        if self.first is None and self.wide is None:
            self.first = part
        elif self.wide is None:
            self.first, self.wide = None, (self.first, part)
        else:
            if isinstance(self.wide, tuple):
                self.wide = self.wide[0].float().add(self.wide[1])
            self.wide.add_(part)

    def put(self, out):
        if self.wide is None:
            out.copy_(self.first)
        elif isinstance(self.wide, tuple):
            torch.add(*self.wide, out=out)
        else:
            out.copy_(self.wide)


def _step(t, rank, world, causal):
    """Of step t of a ring: whose keys are here, and which part of my rows and of these keys meet, under which
    mask: (source, rows, keys, causal); rows and keys as (begin, end) in halves."""
    source = (rank - t) % world
    if not causal:
        return source, (0, 2), (0, 2), False
    if source == rank:
        return source, (0, 2), (0, 2), True
    if source < rank:  # its first chunk lies before all my rows, its last one behind them
        return source, (0, 2), (0, 1), False
    return source, (1, 2), (0, 2), False  # all of it lies between my chunks


def _half(x, part, dim=1):
    half = x.shape[dim] // 2
    return x if part == (0, 2) else x.narrow(dim, part[0] * half, (part[1] - part[0]) * half)


# ---- messages ----


class _Ring:
    def __init__(self, group):
        self.group, self.world, self.rank = group, dist.get_world_size(group), dist.get_rank(group)
        whole = group if group is not None else dist.group.WORLD
        self.next = dist.get_global_rank(whole, (self.rank + 1) % self.world)
        self.last = dist.get_global_rank(whole, (self.rank - 1) % self.world)

    def pass_on(self, tensors, shapes=None):
        """Begins to send tensors to the next process; gives what comes from the one before, and what to wait for."""
        came = [x.new_empty(shape) for x, shape in zip(tensors, shapes or [x.shape for x in tensors])]
        calls = [dist.P2POp(*call, self.group) for pair in zip(tensors, came)
                 for call in ((dist.isend, pair[0], self.next), (dist.irecv, pair[1], self.last))]
        requests = dist.batch_isend_irecv(calls)
        if tensors[0].is_cuda:  # kernels that stay on all multiprocessors would keep NCCL's waiting to their end
            torch.cuda._sleep(HEAD_START)
        return came, requests


def _wait(requests):
    for request in requests:
        request.wait()


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, causal, group, blocks):
        ring = _Ring(group)
        here, near, out, lse = (k.contiguous(), v.contiguous()), [], None, None
        for t in range(ring.world):
            came, requests = None, []
            if t + 1 < ring.world:  # under the kernels of this step
                came, requests = ring.pass_on(here)
                near = near or came
            _, rows, keys, masked = _step(t, ring.rank, ring.world, causal)
            o, part = blocks.forward(_half(q, rows), *(_half(x, keys) for x in here), scale, masked)
            if out is None:  # of two results each is rounded as the sum will be, of more the sum in between is not
                out, lse = (o.float() if ring.world > 2 else o), part.contiguous()
            else:
                blocks.merge(_half(out, rows), _half(lse, rows, 2), o, part)
            _wait(requests)
            here = came
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse, *near)
        ctx.scale, ctx.causal, ctx.group, ctx.blocks = scale, causal, group, blocks
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        return *_RingBackward(ctx, grad.contiguous()).run(), None, None, None, None


class _RingBackward:
    """The gradients.  The other keys come first, the nearest of them kept by the forward; my own are last, under which
    the sums of dK and dV come home: they have been with every other process by then."""

    def __init__(self, ctx, grad):
        q, k, v, out, self.lse, *self.near = ctx.saved_tensors
        self.causal, self.scale, self.blocks, self.ring = ctx.causal, ctx.scale, ctx.blocks, _Ring(ctx.group)
        self.own, self.rows = (k.contiguous(), v.contiguous()), (q, out, grad)
        self.dq = [_Sum(), _Sum()]  # of each half of the rows
        self.dkv = [[_Sum(), _Sum()], [_Sum(), _Sum()]]  # of dK and dV, each half of the keys

    def run(self):
        ring, came, sums, requests, wait = self.ring, self.near, None, [], []
        for t in range(1, ring.world):
            _wait(requests)
            here = came
            if t + 1 < ring.world:
                came, requests = ring.pass_on(here)
            parts = self.part(t, here)
            _wait(wait)
            parts = self.with_sums(t, parts, sums)
            sums, wait = ring.pass_on(parts, self.shapes(t))
        self.add_keys((0, 2), self.part(0, self.own))
        _wait(wait)
        if sums is not None:
            self.add_keys(self.covered(ring.world - 1, (ring.rank - 1) % ring.world), sums)
        return self.put(self.dq, self.rows[0]), *(self.put(x, y) for x, y in zip(self.dkv, self.own))

    def part(self, t, keys):
        """dK and dV of the keys of a step, and its part of dQ is added."""
        _, rows, part, masked = _step(t, self.ring.rank, self.ring.world, self.causal)
        q, out, grad = (_half(x, rows) for x in self.rows)
        dq, *made = self.blocks.backward(q, *(_half(x, part) for x in keys), out, _half(self.lse, rows, 2), grad,
                                         self.scale, masked)
        self.add(self.dq, rows, dq)
        return made

    @staticmethod
    def add(sums, part, x):
        for i, y in zip(range(*part), x.chunk(part[1] - part[0], 1)):
            sums[i].add(y)

    def add_keys(self, part, tensors):
        for sums, x in zip(self.dkv, tensors):
            self.add(sums, part, x)

    def covered(self, t, rank):
        """Which part of the keys that a process has in step t has a sum behind it."""
        return (0, 1) if self.causal and rank >= t else (0, 2)

    def shapes(self, t):
        begin, end = self.covered(t, (self.ring.rank - 1) % self.ring.world)
        return [(x.shape[0], x.shape[1] * (end - begin) // 2, *x.shape[2:]) for x in self.own]

    def with_sums(self, t, parts, sums):
        """dK and dV of the keys of step t, with those of the processes that had them before: float32 when it is a sum."""
        if sums is None:
            return [(x.float() if self.ring.world > 2 else x).contiguous() for x in parts]
        parts = [x.float().contiguous() for x in parts]
        before = self.covered(t - 1, (self.ring.rank - 1) % self.ring.world)
        for part, x in zip(parts, sums):
            (part if part.shape == x.shape else _half(part, before)).add_(x)
        return parts

    @staticmethod
    def put(sums, like):
        out = torch.empty_like(like, memory_format=torch.contiguous_format)
        for x, half in zip(sums, out.chunk(2, 1)):
            x.put(half)
        return out


def _checked(name, q, k, v, causal):
    for letter, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise Error(f"{name}: {letter} must have 4 dimensions [B, S / W, H, D], not {x.dim()}")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0]:
        raise Error(f"{name}: q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not fit together")
    if causal and q.shape[1] != k.shape[1]:
        raise Error(f"{name}: under a causal mask each process has as many rows of q as of k, not {q.shape[1]} "
                    f"and {k.shape[1]}")


def ring_attention(q, k, v, *, group=None, causal=False, scale=None, deterministic=False, return_lse=False, blocks=None):
    """softmax(scale q k^T + mask) v for this process's rows of q and the rows of k and v of all processes.

    q [B, Sq / W, Hq, D], k [B, Sk / W, Hk, D], v [B, Sk / W, Hk, DV], as `shard` deals them out: with causal=True in
    the order "zigzag", an even number of rows a process, else in any order.  `blocks` computes one step (a Blocks).
    """
    _checked("ring_attention", q, k, v, causal)
    if causal and q.shape[1] % 2:
        raise Error(f"ring_attention: {q.shape[1]} rows a process are odd, and zigzag has two chunks in each")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out, lse = _RingAttention.apply(q, k, v, scale, causal, group, blocks or Blocks(deterministic))
    return (out, lse) if return_lse else out


# ---- heads for rows ----


def _exchange(x, group, to_heads):
    """[B, S / W, H, D] to [B, S, H / W, D], or back."""
    world = dist.get_world_size(group)
    b, s, h, d = x.shape
    if to_heads:
        parts = x.view(b, s, world, h // world, d).permute(2, 0, 1, 3, 4).contiguous()
    else:
        parts = x.view(b, world, s // world, h, d).permute(1, 0, 2, 3, 4).contiguous()
    came = torch.empty_like(parts)
    dist.all_to_all_single(came, parts, group=group)
    if to_heads:
        return came.permute(1, 0, 2, 3, 4).reshape(b, world * s, h // world, d)
    return came.permute(1, 2, 0, 3, 4).reshape(b, s // world, world * h, d)


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group, to_heads):
        ctx.group, ctx.to_heads = group, to_heads
        return _exchange(x.contiguous(), group, to_heads)

    @staticmethod
    def backward(ctx, grad):
        return _exchange(grad.contiguous(), ctx.group, not ctx.to_heads), None, None


def ulysses_attention(q, k, v, *, group=None, attention=None, **options):
    """As ring_attention, by exchanging heads for rows: q [B, S / W, Hq, D] in the order "whole", W a divisor of Hq and
    of Hk.  `options` are those of tilec.torch.attention, all of which work, layout apart."""
    world = dist.get_world_size(group)
    _checked("ulysses_attention", q, k, v, options.get("causal", False))
    for letter, x in (("q", q), ("k", k)):
        if x.shape[2] % world:
            raise Error(f"ulysses_attention: the {x.shape[2]} heads of {letter} are no multiple of the {world} "
                        "processes: use ring_attention")
    if "layout" in options or options.get("return_lse"):
        raise Error("ulysses_attention: layout and return_lse are not among its options")
    q, k, v = (_Exchange.apply(x, group, True) for x in (q, k, v))
    return _Exchange.apply((attention or attend.attention)(q, k, v, **options), group, False)
