"""ring.py - messages between processes, and attention and its gradients around them."""
import torch
import torch.distributed as dist

ROWS = 2  # of what travels for keys, the tensors that have their rows
HEAD_START = 30000  # of NCCL's kernel before ours, in clocks: 15 us


class Messages:
    """Between the processes of a group, by torch.distributed."""

    def __init__(self, group):
        self.group, self.world, self.rank = group, dist.get_world_size(group), dist.get_rank(group)
        whole = group if group is not None else dist.group.WORLD
        self.names = [dist.get_global_rank(whole, rank) for rank in range(self.world)]

    def begin(self, sends, receives):
        """Begins to send [(to, tensors)] and to receive [(from, [(shape, type)])], on this device; gives what comes of each, and
        what to wait for."""
        came, calls = [], []
        for to, tensors in sends:
            calls += [dist.P2POp(dist.isend, x, self.names[to], self.group) for x in tensors]
        for source, described in receives:
            came.append([torch.empty(shape, dtype=dtype, device=self.device) for shape, dtype in described])
            calls += [dist.P2POp(dist.irecv, x, self.names[source], self.group) for x in came[-1]]
        return came, [_Begun(dist.batch_isend_irecv(calls), calls)] if calls else []

    def head_start(self):
        """Kernels that stay on all multiprocessors would keep NCCL's waiting to their end."""
        if self.device.type == "cuda":
            torch.cuda._sleep(HEAD_START)

    def on(self, device):
        self.device = device
        return self


class _Begun:
    """Messages, whose tensors stay where they are until they are waited for."""

    def __init__(self, requests, tensors):
        self.requests, self.tensors = requests, tensors

    def wait(self):
        for request in self.requests:
            request.wait()
        self.tensors = None


def wait(requests):
    for request in requests:
        request.wait()


def part(x, rows, dim=1):
    return x if rows == (0, x.shape[dim]) else x.narrow(dim, rows[0], rows[1] - rows[0])


def _behind(rows, begin):
    return rows[0] - begin, rows[1] - begin


def _cut(tensors, rows):
    """These rows of what has rows, and the rest."""
    return [*(part(x, rows) for x in tensors[:ROWS]), *tensors[ROWS:]]


def _add(a, b, out):
    torch.add(a, b, out=out)


class _Sum:
    """A sum of tensors: of two rounded once, of more in float32 until it is whole."""

    def __init__(self, add=_add):
        self.first, self.wide, self.of_two = None, None, add

    def add(self, x):
        if self.first is None and self.wide is None:
            self.first = x
        elif self.wide is None:
            self.first, self.wide = None, (self.first, x)
        else:
            if isinstance(self.wide, tuple):
                self.wide = torch.add(*(y.to(wide_type(y.dtype)) for y in self.wide))
            self.wide.add_(x)

    def put(self, out):
        if self.wide is not None:
            self.of_two(*self.wide, out) if isinstance(self.wide, tuple) else out.copy_(self.wide)
        elif self.first is not None:
            out.copy_(self.first)
        else:
            out.zero_()


def wide_type(dtype):
    return dtype if dtype == torch.float64 else torch.float32


class Sums:
    """Of parts of rows begin .. end, which lie beside or over one another."""

    def __init__(self, rows, parts, add=_add):
        self.rows = rows
        bounds = sorted({*rows, *(bound for p in parts for bound in p)})
        self.sums = {pair: _Sum(add) for pair in zip(bounds, bounds[1:])}

    def add(self, rows, x):
        for (begin, end), total in self.sums.items():
            if rows[0] <= begin and end <= rows[1]:
                total.add(part(x, (begin - rows[0], end - rows[0])))

    def whole(self, like, dtype):
        alone = self.sums.get(self.rows)
        if alone is not None and alone.first is not None:
            return alone.first.to(dtype).contiguous()
        out = like.new_empty((like.shape[0], self.rows[1] - self.rows[0], *like.shape[2:]), dtype=dtype)
        for rows, total in self.sums.items():
            total.put(part(out, _behind(rows, self.rows[0])))
        return out


class _Result:
    """O and L of all keys so far."""

    def __init__(self, q, v, blocks):
        self.q, self.v, self.blocks, self.out, self.dtype = q, v, blocks, None, None

    def add(self, meet, o, lse, last):
        """Of two results each is rounded as the sum will be, of more the sum in between is not."""
        rows, self.dtype = self.q.shape[1], o.dtype
        if self.out is None and meet.rows == (0, rows):
            self.out, self.lse = o if last <= 2 else o.to(wide_type(o.dtype)), lse.contiguous()
            return
        if self.out is None:
            b, h = self.q.shape[0], self.q.shape[2]
            self.out = self.q.new_zeros((b, rows, h, self.v.shape[3]), dtype=wide_type(o.dtype))
            self.lse = self.q.new_full((b, h, rows), -torch.inf, dtype=lse.dtype)
        self.blocks.merge(part(self.out, meet.rows), part(self.lse, meet.rows, 2), o, lse)


class Ring:
    """Attention of this process's rows with the keys of all.  `of`: the rank of each process of the ring in the group."""

    def __init__(self, route, of, messages, blocks, wire):
        self.route, self.of, self.messages, self.blocks, self.wire = route, of, messages, blocks, wire
        self.rank = of.index(messages.rank)
        self.add = getattr(blocks, "add", _add)
        self.steps = route.steps

    def peer(self, away):
        return self.of[(self.rank + away) % len(self.of)]

    def meets(self, source):
        """What is computed with the keys of a process, launch by launch."""
        made = []
        for meet in self.route.meets(self.rank, source):
            packed = meet.mask.starts is not None and not self.blocks.packs(meet.mask)
            made += meet.unpacked() if packed else [meet]
        return made

    def _exchange(self, to, tensors, source, rows, like, dtype=None):
        """Tensors (none: nothing) to one, rows like these (None: nothing) from another."""
        described = None
        if rows:
            described = [((x.shape[0], rows[1] - rows[0], *x.shape[2:]), dtype or x.dtype) for x in like[:ROWS]]
            described += [(x.shape, x.dtype) for x in like[ROWS:]]
        came, requests = self.messages.begin([(to, tensors)] if tensors else [], [(source, described)] if rows else [])
        if tensors or rows:
            self.messages.head_start()
        return came[0] if rows else None, requests

    def keys(self, step, own, here):
        """Begins the messages before a step; `own`, `here`: my keys and those of the step before it, which came, as (where they
        begin, tensors)."""
        way, t = self.steps[step]
        source = self.route.source(self.rank, way, t - 1)
        goes, comes = (self.route.carried(s, way, t) for s in (source, self.route.source(self.rank, way, t)))
        begin, tensors = (0, own) if t == 1 else here
        tensors = [x.contiguous() for x in _cut(tensors, _behind(goes, begin))] if goes else []
        came, requests = self._exchange(self.peer(way), tensors, self.peer(-way), comes, own)
        return (comes[0] if comes else 0, came), requests

    def forward(self, q, k, v, keep):
        """O, L, and of the other keys the first, for the gradients."""
        k, v, near = k.contiguous(), v.contiguous(), []
        made = _Result(q, v, self.blocks)
        every = [self.rank] + [self.route.source(self.rank, *step) for step in self.steps]
        results = sum(len(self.meets(source)) for source in every)
        own = self.wire.packed(k, v) if self.steps else None
        here, opened = None, (0, self.wire.own(k, v))
        for i, source in enumerate(every):
            came, requests = self.keys(i, own, here) if i < len(self.steps) else (None, [])  # under the kernels of this step
            for meet in self.meets(source):
                keys = _cut(opened[1], _behind(meet.keys, opened[0]))
                o, lse = self.blocks.forward(part(q, meet.rows), *keys, meet.mask)
                made.add(meet, o, lse, results)
            wait(requests)
            here, opened = came, self.opened(came)
            if i == 0 and keep and came and came[1]:
                near = came[1]
        return made.out.to(made.dtype), made.lse, near

    def opened(self, came):
        """What is computed with."""
        return (came[0], self.wire.opened(came[1])) if came and came[1] else None

    def backward(self, q, k, v, out, lse, near, grad):
        """dQ, dK, dV.  The other keys come first, the nearest of them kept by the forward; my own are last, under which the
        sums of dK and dV come home: they have been with every other process by then."""
        route, rank = self.route, self.rank
        own, rows = (k.contiguous(), v.contiguous()), (q, out, grad)
        sent = self.wire.packed(*own) if len(self.steps) > 1 else None
        every = [route.source(rank, *step) for step in self.steps] + [rank]
        some = len(every) > 1 or len(self.meets(rank)) > 1  # of the keys each: added up before they are rounded
        self.step = getattr(self.blocks, "backward_parts", None) if some else None
        self.dq = (self.blocks.query_sums(q) if self.step else
                   Sums((0, q.shape[1]), [m.rows for source in every for m in self.meets(source)]))
        self.lse = lse
        home, here, came, requests, sums, waits = [], None, None, [], None, []
        if self.steps:
            comes = route.carried(every[0], *self.steps[0])
            came = (comes[0] if comes else 0, near or None)
        for i, (way, t) in enumerate(self.steps):
            wait(requests)
            here, opened = came, self.opened(came)
            came, requests = self.keys(i + 1, sent, here) if i + 1 < len(self.steps) else (None, [])
            parts = self._parts(rows, every[i], opened, not self._goes_home(way) or len(self.meets(every[i])) > 1)
            if t > 1:
                wait(waits)
            sums, waits = self._pass_sums(way, t, parts, sums if t > 1 else None, own)
            if t == (route.up if way > 0 else route.down):
                home.append((route.summed(rank, way, t), sums, waits))
        parts = self._parts(rows, rank, (0, own))
        for covered, sums, waits in home:
            wait(waits)
            if covered:
                parts.append((covered, sums))
        made = [Sums((0, x.shape[1]), [p[0] for p in parts], self.add) for x in own]
        for covered, tensors in parts:
            for total, x in zip(made, tensors):
                total.add(covered, x)
        dq = self.blocks.query_gradient(self.dq, route.mask.scale, q.dtype) if self.step else self.dq.whole(q, q.dtype)
        return dq, *(total.whole(x, x.dtype) for total, x in zip(made, own))

    def _goes_home(self, way):
        """Whether dK and dV of the keys that come this way have no other's to be added to, and are sent rounded."""
        return (self.route.up if way > 0 else self.route.down) == 1

    def _parts(self, rows, source, here, keys=True):
        """[(keys, (dK, dV))] of the keys of a process; its part of dQ is added.  keys: dK and dV are summed up here."""
        made = []
        for meet in self.meets(source):
            q, out, grad = (part(x, meet.rows) for x in rows)
            have = [part(x, _behind(meet.keys, here[0])) for x in here[1]]
            given = q, *have, out, part(self.lse, meet.rows, 2), grad, meet.mask
            if self.step:
                those = self.step(*given, part(self.dq, meet.rows), keys=keys)
            else:
                dq, *those = self.blocks.backward(*given)
                self.dq.add(meet.rows, dq)
            made.append((meet.keys, those))
        return made

    def _pass_sums(self, way, t, parts, before, own):
        """dK and dV of the keys of a step with those of the processes that had them before go on, or home; gives those that
        come, for the next step or of my own keys.  They are float32 where others are added to them."""
        route, last = self.route, self.route.up if way > 0 else self.route.down
        dtype = own[0].dtype if self._goes_home(way) else wide_type(own[0].dtype)
        source = route.source(self.rank, way, t)
        covered, tensors = route.summed(source, way, t), []
        if before is not None:
            parts = [(route.summed(source, way, t - 1), before), *parts]
        if covered:
            for index, x in enumerate(own):
                total = Sums(covered, [p[0] for p in parts], self.add)
                for keys, those in parts:
                    total.add(keys, those[index])
                tensors.append(total.whole(x, dtype))
        if t < last:
            comes = route.summed(route.source(self.rank, way, t + 1), way, t)
            return self._exchange(self.peer(way), tensors, self.peer(-way), comes, own, dtype)
        return self._exchange(self.peer(-way * t), tensors, self.peer(way * t), route.summed(self.rank, way, t), own, dtype)


class Exchange:
    """Heads for rows, among `size` processes that lie side by side in a group.  `shares`: of the tensors of q, and of k and v."""

    def __init__(self, shares, size, messages):
        self.size, self.messages = size, messages
        self.first = messages.rank // size * size
        self.me = messages.rank - self.first
        self.rows = [[of.rows(self.first + i) for i in range(size)] for of in shares]
        self.at = [of.gathered(size, self.first // size) for of in shares]

    def heads(self, heads, i):
        """Which heads process i has; several have the same where there are fewer than processes."""
        if heads % self.size == 0:
            each = heads // self.size
            return i * each, (i + 1) * each
        return i * heads // self.size, i * heads // self.size + 1

    def _pass(self, parts, shapes):
        """parts[i][n] of tensor n to process i, of shapes[i][n] from it; gives theirs."""
        others = [i for i in range(self.size) if i != self.me]
        types = [x.dtype for x in parts[self.me]]
        came, requests = self.messages.begin([(self.first + i, parts[i]) for i in others],
                                             [(self.first + i, list(zip(shapes[i], types))) for i in others])
        wait(requests)
        came.insert(self.me, parts[self.me])
        return came

    def to_heads(self, tensors):
        """[B, my rows, H, D] to [B, the rows of all, my heads, D], in the order of sequences: of q, of k and of v."""
        parts = [[part(x, self.heads(x.shape[2], i), 2).contiguous() for x in tensors] for i in range(self.size)]
        shapes = [[(x.shape[0], self.rows[n > 0][i], *x.shape[2:]) for n, x in enumerate(parts[self.me])] for i in range(self.size)]
        came, made = self._pass(parts, shapes), []
        for n in range(len(tensors)):
            pieces = []
            for i, places in enumerate(self.at[n > 0]):
                read = 0
                for begin, end in places:
                    pieces.append((begin, came[i][n].narrow(1, read, end - begin)))
                    read += end - begin
            made.append(_side_by_side([piece for _, piece in sorted(pieces, key=lambda pair: pair[0])], 1))
        return made

    def to_rows(self, tensors, heads):
        """Back, of so many heads each; where several processes have had the same head, their tensors are added up."""
        parts = [[_side_by_side([part(x, place) for place in self.at[n > 0][i]], 1) for n, x in enumerate(tensors)]
                 for i in range(self.size)]
        shapes = [[x.shape for x in parts[self.me]]] * self.size
        came, made = self._pass(parts, shapes), []
        for n, many in enumerate(heads):
            every = [came[i][n] for i in range(self.size)]
            if many % self.size:
                every = [_sum(every[i:i + self.size // many]) for i in range(0, self.size, self.size // many)]
            made.append(_side_by_side(every, 2))
        return made


def _side_by_side(tensors, dim):
    """In C order, which torch.cat does not promise: it may take the order of dimensions from its operands."""
    return torch.cat(tensors, dim).contiguous()


def _sum(tensors):
    total = _Sum()
    for x in tensors:
        total.add(x)
    out = torch.empty_like(tensors[0])
    total.put(out)
    return out


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, ring, exchange):
        ring.messages.on(q.device)
        ctx.ring, ctx.exchange, ctx.heads = ring, exchange, (q.shape[2], k.shape[2], v.shape[2])
        if exchange:
            q, k, v = exchange.to_heads((q, k, v))
        out, lse, near = ring.forward(q, k, v, any(ctx.needs_input_grad))
        ctx.save_for_backward(q, k, v, out, lse, *near)
        if exchange:
            (out,) = exchange.to_rows((out,), ctx.heads[:1])
            (rows,) = exchange.to_rows((lse.transpose(1, 2)[..., None],), ctx.heads[:1])
            lse = rows[..., 0].transpose(1, 2).contiguous()
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        q, k, v, out, lse, *near = ctx.saved_tensors
        if ctx.exchange:
            (grad,) = ctx.exchange.to_heads((grad,))
        made = ctx.ring.backward(q, k, v, out, lse, near, grad.contiguous())
        return *(ctx.exchange.to_rows(made, ctx.heads) if ctx.exchange else made), None, None
