"""shares.py - who has which rows of sequences that are spread over processes, and which of them meet under a mask.

Whole numbers only: every process works out the same, for itself and for the others, and asks nobody.
"""
import functools
from dataclasses import dataclass, replace

from tilec.torch.error import Error

ORDERS = ("zigzag", "whole")
UNEVEN = 0.03  # of the mean work, up to which sequences that are not cut are dealt out evenly enough


def _once(method):
    """A method whose results are kept with the object, which never changes."""
    @functools.wraps(method)
    def known(self, *key):
        have = self.__dict__.setdefault("_known", {})
        key = (method.__name__, *key)
        if key not in have:
            have[key] = method(self, *key[1:])
        return have[key]
    return known


@dataclass(frozen=True)
class Piece:
    """Rows of a sequence."""
    sequence: int
    begin: int
    end: int


@dataclass(frozen=True)
class Mask:
    """What a query sees: as of tilec.torch.attention, with its numbers for no limit (window 0, right -1).

    first, heads, shift: of ALiBi, the first head here, how many there are in all, and how far queries stand behind
    the place at which their ends and those of the keys agree; starts: where sequences begin that are packed.
    """
    scale: float = 1.0
    softcap: float = 0.0
    causal: bool = False
    window: int = 0
    right: int = -1
    alibi: bool = False
    first: int = 0
    heads: int = 0
    shift: int = 0
    starts: tuple = None

    @property
    def before(self):
        """How many keys before its place a query sees; None: all."""
        return self.window - 1 if self.window > 0 else None

    @property
    def after(self):
        return 0 if self.causal else self.right if self.right >= 0 else None


@dataclass(frozen=True)
class Meet:
    """Rows of mine and rows of another, (begin, end) in what each has, and the mask between them."""
    rows: tuple
    keys: tuple
    mask: Mask

    def unpacked(self):
        """The same, a meet for each sequence."""
        starts = self.mask.starts
        return [Meet(pair, pair, replace(self.mask, starts=None)) for pair in zip(starts, starts[1:])]


@dataclass(frozen=True)
class Shares:
    """For each process the pieces that it has, in the order in which they lie in its tensors."""
    of: tuple

    def __hash__(self):
        return self._hash()

    @_once
    def _hash(self):
        return hash(self.of)

    @property
    def world(self):
        return len(self.of)

    @_once
    def rows(self, rank):
        return sum(p.end - p.begin for p in self.of[rank])

    @functools.cached_property
    def total(self):
        return sum(self.rows(rank) for rank in range(self.world))

    @functools.cached_property
    def lengths(self):
        """Of each sequence."""
        made = {}
        for p in (p for pieces in self.of for p in pieces):
            made[p.sequence] = max(made.get(p.sequence, 0), p.end)
        return [made.get(i, 0) for i in range(max(made, default=-1) + 1)]

    @_once
    def places(self, rank):
        """Where the rows of a process lie in the whole tensor, sequences one behind the other: (begin, end) in order."""
        starts = [0]
        for length in self.lengths:
            starts.append(starts[-1] + length)
        return [(starts[p.sequence] + p.begin, starts[p.sequence] + p.end) for p in self.of[rank]]

    @_once
    def together(self, size):
        """The shares of groups of so many processes, one behind the other, which have their rows in common."""
        return Shares(tuple(_joined([p for pieces in self.of[i:i + size] for p in pieces])
                            for i in range(0, self.world, size)))

    @_once
    def gathered(self, size, group):
        """Where the rows of a group's processes go in what they have in common: for each process the (begin, end) of
        its pieces there."""
        whole = self.together(size).of[group]
        return [[_place(whole, p) for p in self.of[group * size + i]] for i in range(size)]


def _joined(pieces):
    made = []
    for p in sorted(pieces, key=lambda p: (p.sequence, p.begin)):
        if made and (made[-1].sequence, made[-1].end) == (p.sequence, p.begin):
            made[-1] = replace(made[-1], end=p.end)
        else:
            made.append(p)
    return tuple(made)


def _place(pieces, piece):
    at = 0
    for p in pieces:
        if p.sequence == piece.sequence and p.begin <= piece.begin and piece.end <= p.end:
            return at + piece.begin - p.begin, at + piece.end - p.begin
        at += p.end - p.begin
    raise AssertionError("a piece that nobody has")


# ---- dealing ----


def _parts(order, world):
    """For each process the parts of a sequence that it has, and of how many there are."""
    if order == "whole":
        return [[r] for r in range(world)], world
    if order == "zigzag":
        return [[r, 2 * world - 1 - r] for r in range(world)], 2 * world
    raise Error(f"the order '{order}' is not known: zigzag (for a causal mask) or whole (for windows, or no mask)")


def _cut(sequence, rows, order, world):
    mine, parts = _parts(order, world)
    return [[Piece(sequence, rows * i // parts, rows * (i + 1) // parts) for i in these] for these in mine]


@functools.lru_cache(maxsize=256)
def dealt(rows, world, order="zigzag"):
    """One sequence, in parts of the same length but for one row."""
    parts = _parts(order, world)[1]
    if rows < parts:
        raise Error(f"{rows} rows are fewer than the {parts} parts in which the order '{order}' deals them to {world} processes")
    return Shares(tuple(_joined(pieces) for pieces in _cut(0, rows, order, world)))


def work(rows, causal, window):
    """How many pairs of a query and a key there are in a sequence."""
    if not window or window >= rows:
        return rows * (rows + 1) // 2 if causal else rows * rows
    seen = window * (window + 1) // 2 + (rows - window) * window  # up to its place
    return seen if causal else seen + rows * (rows - 1) // 2


@functools.lru_cache(maxsize=256)
def dealt_packed(lengths, world, causal=False, window=0):
    """Sequences, evenly by their work: whole ones, the largest first, to whom has the least; if that is not even, the longest
    are cut among all processes, as few as will do."""
    order = "zigzag" if causal and not window else "whole"
    parts = _parts(order, world)[1]
    by_work = sorted(range(len(lengths)), key=lambda i: (-work(lengths[i], causal, window), i))
    mean = sum(work(n, causal, window) for n in lengths) / world
    for cut in range(len(lengths) + 1):
        pieces, loads = [[] for _ in range(world)], [0.0] * world
        if cut and lengths[by_work[cut - 1]] < parts:
            break
        for i in by_work[:cut]:
            for rank, these in enumerate(_cut(i, lengths[i], order, world)):
                pieces[rank] += these
        for i in by_work[cut:]:
            least = min(range(world), key=loads.__getitem__)
            loads[least] += work(lengths[i], causal, window)
            if lengths[i]:
                pieces[least].append(Piece(i, 0, lengths[i]))
        made = Shares(tuple(map(_joined, pieces)))
        if max(loads) - sum(loads) / world <= UNEVEN * mean:
            break
    for rank in range(world):
        if not made.of[rank]:
            raise Error(f"of {len(lengths)} sequences with {sum(lengths)} rows, process {rank} of {world} would have none: "
                        "take fewer processes")
    return made


# ---- what meets ----


def _between(mine, theirs, mask):
    """(rows, keys, mask) of two pieces of a sequence, as places in it: cut to those that meet, the mask by the agreement of
    their ends; None: nothing does."""
    a, b, c, d = mine.begin, mine.end, theirs.begin, theirs.end
    before, after = mask.before, mask.after
    if after is not None:
        d, a = min(d, b + after), max(a, c - after)
    if before is not None:
        b, c = min(b, d + before), max(c, a - before)
    if a >= b or c >= d:
        return None
    shift = b - d  # how far the last query stands behind the last key
    left = before is not None and b - 1 - before > c  # the last query does not see the first key
    right = after is not None and a + after < d - 1
    made = replace(mask, causal=False, window=0, right=-1, shift=0)
    if mask.alibi:
        made = replace(made, causal=right and mask.causal, window=mask.window if left else 0,
                       right=mask.right if right and not mask.causal else -1, shift=shift)
    else:
        if left:
            made = replace(made, window=mask.window - shift)
        if right:
            made = replace(made, causal=after + shift == 0, right=-1 if after + shift == 0 else after + shift)
    return (a, b), (c, d), made


def _fused(meets):
    """Where nothing is masked and no distance counts, one launch for rows or keys that lie side by side."""
    for one, other in (("rows", "keys"), ("keys", "rows")):
        made = []
        for m in sorted(meets, key=lambda m: (getattr(m, one), getattr(m, other))):
            last = made[-1] if made else None
            if (last and getattr(last, one) == getattr(m, one) and getattr(last, other)[1] == getattr(m, other)[0]
                    and last.mask == m.mask and not (m.mask.causal or m.mask.window or m.mask.right >= 0 or m.mask.alibi)):
                made[-1] = replace(last, **{other: (getattr(last, other)[0], getattr(m, other)[1])})
            else:
                made.append(m)
        meets = made
    return sorted(meets, key=lambda m: (m.rows, m.keys))


def _located(pieces):
    made, at = [], 0
    for p in pieces:
        made.append((p, at))
        at += p.end - p.begin
    return made


def _own(pieces, mask):
    """What a process does with its own keys where a mask counts no distances, or everything lies together: of each
    sequence all that is here, in one launch."""
    bounds, starts = {}, []
    for p, at in _located(pieces):
        first, end, count = bounds.get(p.sequence, (at, at, 0))
        bounds[p.sequence] = (first, at + p.end - p.begin, count + 1)
    if any(count > 1 for _, _, count in bounds.values()) and (mask.window or mask.right >= 0 or mask.alibi):
        return None
    starts = [first for first, _, _ in bounds.values()]
    end = max(end for _, end, _ in bounds.values())
    return Meet((0, end), (0, end), replace(mask, starts=(*starts, end) if len(starts) > 1 else None))


@functools.lru_cache(maxsize=4096)
def meets(queries, keys, me, other, mask):
    """What process `me` computes with the keys of `other`."""
    mine, theirs = queries.of[me], keys.of[other]
    if mask.before is None and mask.after is None and not mask.alibi and len(queries.lengths) == 1:
        return (Meet((0, queries.rows(me)), (0, keys.rows(other)), mask),)
    if me == other and queries == keys:
        own = _own(mine, mask)
        if own is not None:
            return (own,)
    made = []
    for p, at in _located(mine):
        for k, k_at in _located(theirs):
            met = _between(p, k, mask) if p.sequence == k.sequence else None
            if met is not None:
                (a, b), (c, d), between = met
                made.append(Meet((at + a - p.begin, at + b - p.begin), (k_at + c - k.begin, k_at + d - k.begin), between))
    return tuple(_fused(made))


# ---- who sends what ----


def hull(ranges):
    """From where the first begins to where the last ends; None of none."""
    ranges = list(ranges)
    return (min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None


@dataclass(frozen=True, eq=False)
class Route:
    """How the keys of each process come to those that need them: on by one process a step, first in the direction +1, `up`
    steps, then in the other, `down` steps.  `sources`: of whom each step's keys are."""
    queries: Shares
    keys: Shares
    mask: Mask
    up: int
    down: int

    @functools.cached_property
    def steps(self):
        return [(1, t) for t in range(1, self.up + 1)] + [(-1, t) for t in range(1, self.down + 1)]

    def source(self, rank, way, t):
        return (rank - way * t) % self.keys.world

    @_once
    def meets(self, rank, source):
        return meets(self.queries, self.keys, rank, source, self.mask)

    @_once
    def needed(self, source, rank):
        return hull(m.keys for m in self.meets(rank, source))

    @_once
    def carried(self, source, way, t):
        """Which of a process's keys go from the one that is t - 1 steps from it to the next."""
        last, world = self.up if way > 0 else self.down, self.keys.world
        every = [self.needed(source, (source + way * i) % world) for i in range(t, last + 1)]
        return hull(r for r in every if r)

    @_once
    def sent(self, rank):
        """How many rows of keys a process passes on."""
        every = [self.carried(self.source(rank, way, t - 1), way, t) for way, t in self.steps]
        return sum(r[1] - r[0] for r in every if r)

    @_once
    def summed(self, source, way, t):
        """For which of its keys the processes up to t steps from it have gradients."""
        every = [self.needed(source, (source + way * i) % self.keys.world) for i in range(1, t + 1)]
        return hull(r for r in every if r)


@functools.lru_cache(maxsize=256)
def route(queries, keys, mask):
    """The route of the fewest steps."""
    world = keys.world
    away = sorted({(rank - source) % world for rank in range(world) for source in range(world)
                   if rank != source and meets(queries, keys, rank, source, mask)})
    cuts = [(up, world - down if down < world else 0) for up, down in zip([0, *away], [*away, world])]
    up, down = min(cuts, key=lambda cut: (sum(cut), -cut[0]))
    return Route(queries, keys, mask, up, down)
