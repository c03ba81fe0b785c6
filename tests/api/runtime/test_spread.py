"""tilec.torch.shares and .scaling, which need no PyTorch: every pair that a mask shows is computed once, with keys that came."""

import itertools
import os
import subprocess
import sys
import types

import pytest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python")


@pytest.fixture(scope="module")
def package():
    """tilec.torch without the parts that need PyTorch, and nothing of it left behind."""
    before = dict(sys.modules)
    sys.path.insert(0, PACKAGE)
    made = types.ModuleType("tilec.torch")
    made.__path__ = [os.path.join(PACKAGE, "tilec", "torch")]
    for name in [name for name in sys.modules if name.split(".")[0] == "tilec"]:
        del sys.modules[name]
    sys.modules["tilec"] = types.ModuleType("tilec")
    sys.modules["tilec"].__path__ = [os.path.join(PACKAGE, "tilec")]
    sys.modules["tilec.torch"] = made
    from tilec.torch import error, scaling, shares
    yield types.SimpleNamespace(shares=shares, scaling=scaling, Error=error.Error)
    sys.path.remove(PACKAGE)
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def seen(mask, place, key):
    """Whether the query at a place sees a key, as docs say it of tilec.torch.attention."""
    return ((not mask.causal or key <= place) and (mask.window <= 0 or key > place - mask.window)
            and (mask.right < 0 or key <= place + mask.right))


def computed(meet):
    """(row, key, distance for ALiBi) of what a kernel computes: queries and keys agree at their ends."""
    (a, b), (c, d), starts = meet.rows, meet.keys, meet.mask.starts or (0, 0)
    parts = [((a, b), (c, d))] if meet.mask.starts is None else [((x, y),) * 2 for x, y in zip(starts, starts[1:])]
    for (a, b), (c, d) in parts:
        for i, j in itertools.product(range(b - a), range(d - c)):
            place = i + (d - c) - (b - a) + meet.mask.shift
            if seen(meet.mask, place, j):
                yield a + i, c + j, abs(place - j)


def held(shares, rank):
    return [(p.sequence, i) for p in shares.of[rank] for i in range(p.begin, p.end)]


def check(package, of, mask):
    """Every pair once; what is computed with was sent; gradients come to all keys that need them."""
    way = package.shares.route(of, of, mask)
    for rank in range(of.world):
        mine, pairs = held(of, rank), []
        for source in range(of.world):
            keys = held(of, source)
            for meet in way.meets(rank, source):
                assert meet.rows[0] < meet.rows[1] <= len(mine) and meet.keys[0] < meet.keys[1] <= len(keys)
                assert meet.mask.window >= 0 and meet.mask.right >= -1
                for row, key, distance in computed(meet):
                    assert mine[row][0] == keys[key][0]
                    assert not mask.alibi or distance == abs(mine[row][1] - keys[key][1])
                    pairs.append((mine[row], keys[key]))
        want = {((s, i), (s, j)) for s, i in mine for j in range(of.lengths[s]) if seen(mask, i, j)}
        assert len(pairs) == len(set(pairs)) and set(pairs) == want
    sources = {rank: {way.source(rank, *step) for step in way.steps} for rank in range(of.world)}
    for rank, source in itertools.product(range(of.world), repeat=2):
        needed = way.needed(source, rank)
        assert rank == source or not needed or source in sources[rank]
    for source, (direction, t) in itertools.product(range(of.world), way.steps):
        rank = (source + direction * t) % of.world
        needed, carried, summed = way.needed(source, rank), way.carried(source, direction, t), way.summed(source, direction, t)
        if needed:
            assert carried[0] <= needed[0] and needed[1] <= carried[1]
            assert summed[0] <= needed[0] and needed[1] <= summed[1]
        if t > 1 and carried:  # what goes on has come
            before = way.carried(source, direction, t - 1)
            assert before[0] <= carried[0] and carried[1] <= before[1]
    return way


MASKS = [{}, {"causal": True}] + [{"causal": causal, "window": window} for causal in (False, True) for window in (1, 2, 5, 9)] + [
    {"right": 0}, {"right": 3}, {"window": 4, "right": 3}, {"window": 9, "right": 6}]


@pytest.mark.parametrize("world, masks, more", [(1, 1, [0, 1]), (2, 1, [0, 1, 5]), (3, 1, [2, 7]), (4, 3, [5]), (8, 7, [1])])
def test_pairs(package, world, masks, more):
    """Rows even and ragged, in both orders, under all masks (of many processes each third, or seventh), alone and in groups that
    exchange heads."""
    for order, rows in itertools.product(("zigzag", "whole"), (2 * world + n for n in more)):
        of = package.shares.dealt(rows, world, order)
        assert sorted(sum((held(of, r) for r in range(world)), [])) == [(0, i) for i in range(rows)]
        for options, alibi in itertools.product(MASKS[world % masks::masks], (False, True)):
            check(package, of, package.shares.Mask(alibi=alibi, **options))
        for heads in (h for h in range(2, world + 1) if world % h == 0):
            whole = of.together(heads)
            assert all(len(pieces) <= 2 for pieces in whole.of)
            check(package, whole, package.shares.Mask(causal=True, window=0 if order == "zigzag" else 4))
            for group in range(world // heads):
                rows_of = [held(of, group * heads + i) for i in range(heads)]
                common = held(whole, group)
                for mine, places in zip(rows_of, of.gathered(heads, group)):
                    assert mine == [common[i] for begin, end in places for i in range(begin, end)]


@pytest.mark.parametrize("world", [1, 3])
def test_packed_pairs(package, world):
    for lengths in ((9, 1, 4, 16, 3), (40, 1, 1, 1, 1, 1, 1), (5, 5, 5, 5), (8, 0, 9, 7, 30)):
        for options in ({}, {"causal": True}, {"causal": True, "window": 3}):
            mask = package.shares.Mask(**options)
            of = package.shares.dealt_packed(lengths, world, mask.causal, mask.window)
            assert sorted(sum((held(of, r) for r in range(world)), [])) == [(s, i) for s, n in enumerate(lengths) for i in range(n)]
            check(package, of, mask)
            check(package, of.together(world), mask)


def test_routes(package):
    """A window's ring ends where the window does, and sends no row that nobody sees."""
    def made(rows, world, order="whole", **options):
        return package.shares.route(*[package.shares.dealt(rows, world, order)] * 2, package.shares.Mask(**options))

    assert [(r.up, r.down) for r in (made(64, 8), made(64, 8, "zigzag", causal=True), made(8, 1))] == [(7, 0), (7, 0), (0, 0)]
    for window, up in ((1, 0), (2, 1), (9, 1), (10, 2), (17, 2), (18, 3)):  # of 8 rows each
        way = made(64, 8, causal=True, window=window)
        assert (way.up, way.down) == (up, 0)
        if up:
            assert way.carried(3, 1, 1) == (max(0, 8 - window + 1), 8)
            assert max(way.sent(rank) for rank in range(8)) == window - 1
            assert way.carried(7, 1, 1) is None and way.carried(6, 1, 2) is None  # behind the last one nobody looks
    way = made(64, 8, window=5, right=9)
    assert (way.up, way.down) == (1, 2)
    assert (way.carried(3, 1, 1), way.carried(3, -1, 1), way.carried(3, -1, 2)) == ((4, 8), (0, 8), (0, 1))
    # of equal work: one launch a step, without a mask but for the own keys
    way = made(64, 4, "zigzag", causal=True)
    for rank, source in itertools.product(range(4), repeat=2):
        (meet,) = way.meets(rank, source)
        assert meet.mask.causal == (rank == source)
        both, halves = (0, 16), ((0, 16), (0, 8)) if source < rank else ((8, 16), (0, 16))
        assert (meet.rows, meet.keys) == ((both, both) if rank == source else halves)


def test_even(package):
    """Packed sequences are dealt out evenly by their work, and as few are cut as will do."""
    def loads(of, causal):
        def pairs(p):
            return sum(range(p.begin + 1, p.end + 1)) if causal else (p.end - p.begin) * of.lengths[p.sequence]
        return [sum(map(pairs, pieces)) for pieces in of.of]

    for causal, world in itertools.product((False, True), (2, 4, 8)):
        for lengths in ((1000,) * 16, (64000, *range(100, 3000, 100)), tuple(range(1, 4000, 37)), (5000, 4000, 3000, 2000, 1000)):
            of = package.shares.dealt_packed(lengths, world, causal)
            work = loads(of, causal)
            assert max(work) <= 1.04 * sum(work) / world
    of = package.shares.dealt_packed((1000,) * 16, 4, True)
    assert {len(pieces) for pieces in of.of} == {4} and package.shares.route(of, of, package.shares.Mask(causal=True)).steps == []
    cut = package.shares.dealt_packed((64000, *range(100, 3000, 100)), 4, True)
    assert {p.sequence for pieces in cut.of for p in pieces if p.end - p.begin < cut.lengths[p.sequence]} == {0}
    with pytest.raises(package.Error, match="would have none"):
        package.shares.dealt_packed((10,), 16)
    with pytest.raises(package.Error, match="fewer than the 8 parts"):
        package.shares.dealt(7, 4, "zigzag")
    with pytest.raises(package.Error, match="is not known"):
        package.shares.dealt(8, 4, "odd")


@pytest.mark.parametrize("world, heads, wire", [(2, 1, 2), (8, 1, 2), (8, 1, 1), (8, 2, 2), (8, 8, 2), (16, 4, 2), (16, 4, 1), (16, 16, 1)])
def test_bytes(package, world, heads, wire):
    """The model's bytes are those of the routes, or few more."""
    shape = package.scaling.Shape(64 * world, 32, 8, wire=wire)
    said = package.scaling.estimate(shape, world, heads, package.scaling.Links(node=world))
    of = package.shares.dealt(shape.rows, world, "zigzag")
    way = package.shares.route(*[of.together(heads)] * 2, package.shares.Mask(causal=True))
    row, keys, last = shape.head_dim * 2, max(shape.key_heads // heads, 1), way.up

    def rows(pair):
        return pair[1] - pair[0]
    sent = []
    for rank in range(world // heads):
        bytes_ = 0
        for direction, t in way.steps:
            carried = rows(way.carried(way.source(rank, direction, t - 1), direction, t)) * keys * row * wire
            summed = rows(way.summed(way.source(rank, direction, t), direction, t)) * keys * row * 2
            bytes_ += carried * (2 if t > 1 else 1) + summed * (2 if last > 1 else 1)  # the first keys are kept; sums are float32
        sent.append(bytes_)
    exchanged = 2 * (heads - 1) * of.rows(0) * (2 * shape.heads // heads + 2 * keys) * row
    # under a causal mask some send and sum up the first half of their keys alone: the model's are the most
    most = said.sent_inside
    assert said.sent_outside == 0 and most - 0.25 * (most - exchanged) <= max(sent) + exchanged <= most


def test_best(package):
    scaling = package.scaling
    links = scaling.Links()
    for rows, heads, keys, world in itertools.product((2**13, 2**17, 2**23), (1, 16, 48, 64), (1, 8, 16), (1, 2, 8, 64)):
        if heads % keys:
            continue
        shape = scaling.Shape(rows, heads, keys)
        chosen = scaling.best(shape, world, links)
        assert chosen.heads * chosen.ring == world and heads % chosen.heads == 0
        assert keys % chosen.heads == 0 or chosen.heads % keys == 0
        assert 0 < chosen.share <= 1 and (world > 1 or chosen.sent_inside == chosen.sent_outside == 0)
    assert scaling.best(scaling.Shape(2**17, 16, 16), 2, links).heads == 1  # measured: a ring is quicker than Ulysses
    outside = [scaling.estimate(scaling.Shape(2**20, 64, 8), 64, h, links).sent_outside for h in (1, 8)]
    assert 7 < outside[0] / outside[1] < 10


def test_page():
    """docs/scaling.md and its plot are what bench/scaling.py makes."""
    bench = os.path.join(PACKAGE, "..", "bench", "scaling.py")
    done = subprocess.run([sys.executable, os.path.normpath(bench), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
