"""parts.py - how many programs share the keys of a row of attention, each of which leaves a part that another kernel puts
together with the others."""
import functools
from collections import namedtuple

from tilec.torch.expressions import divide, evaluate

LEAST_KEYS = 64  # that a program goes through
BEGIN = 14000  # clocks of a launch, and of the start and the end of its programs: the rest are their loops
WORTH = 1.03  # what two kernels must bring over one

# A kernel that puts parts together: its clocks, those of each `at_once` parts after the first, at how many bytes a clock
# parts are written and read, and the share of the first kernel's loops that is lost where nearly all multiprocessors are idle.
Combine = namedtuple("Combine", "clocks at_once more_clocks bytes idle")
OF_ROW = Combine(7000, 16, 1000, 500, 0.15)  # a program for each row (attention_decode_combine)
OF_ROWS = Combine(10000, 1, 1100, 1300, 0)  # for several (attention_split_combine); programs begin all at once, which takes time, too


def predict(programs, splits, key_tiles, sm_count):
    """How long attention with few queries takes, in the times of a tile of keys that all multiprocessors load at once."""
    full, rest = divmod(programs * splits, sm_count)
    # blocks go through their programs one after the other; at the end those that are left have memory for themselves, of
    # which one multiprocessor takes no more than twice its share
    waves = full + (max(rest / sm_count, 0.55) if rest else 0)
    # a launch; the start and end of a program (half a tile); and the second kernel, which reads 16 parts at a time
    return 2.7 + waves * (key_tiles / splits + 0.5) + (1.5 + splits / 40 if splits > 1 else 0)


@functools.lru_cache(maxsize=4096)
def choose(programs, key_tiles, sm_count):
    """How many programs share the keys of each of `programs`: each has a tile of keys at least, and they are predicted to
    end first."""
    most = min(max(key_tiles, 1), divide(8 * sm_count + programs - 1, programs))
    times = [predict(programs, splits, key_tiles, sm_count) for splits in range(1, most + 1)]
    shortest = min(times)
    return 1 if times[0] <= 1.05 * shortest else 1 + times.index(shortest)  # such gains do not outlast what is not predicted


def rounds(blocks, sm_count, programs):
    """Of so many programs, in how many parts each they are so many blocks of every multiprocessor."""
    return divide(blocks * sm_count + programs - 1, programs)


def idle(sm_count, programs):
    """The share of the multiprocessors, or of their halves, that have no program.  Estimates have memory at its full rate with
    fewer, but on an H200 it rises with each that reads: with 96 of 132 a row takes 4 % longer, with 64 8 %."""
    places = sm_count if programs <= sm_count else 2 * sm_count
    return max(0.0, 1 - programs / places)


def combine_clocks(combine, splits, part_bytes):
    """Of the second kernel, for parts of all rows of so many bytes each."""
    return combine.clocks + (splits - 1) // combine.at_once * combine.more_clocks + 2 * splits * (part_bytes // combine.bytes)


@functools.lru_cache(maxsize=4096)
def least(forms, combine, sizes, part_bytes, blocks, programs):
    """(clocks, parts) of the least time with two parts and more, by the compiler's estimates of the first kernel: expressions,
    one for each form; (0, 1) where the keys are too few.  `sizes`: items of those known; `programs`: without parts; in
    parts they are no more than so many `blocks` of each multiprocessor."""
    env, best = dict(sizes), (0, 1)
    sm_count, programs = env["sm_count"], max(programs, 1)
    most = min(-(-env["Sk"] // LEAST_KEYS), rounds(blocks, sm_count, programs))
    for splits in sorted({*_spread(most), sm_count // programs, 2 * sm_count // programs}):
        if not 2 <= splits <= most:
            continue
        env["X"] = splits
        clocks = min(evaluate(cost, env) for cost in forms)
        clocks += combine.idle * idle(sm_count, splits * programs) * max(clocks - BEGIN, 0)
        clocks += combine_clocks(combine, splits, part_bytes)
        if best[1] == 1 or clocks < best[0]:
            best = clocks, splits
    return best


def _spread(most):
    """Numbers of parts to try: all at first, then one in so many."""
    splits = 2
    while splits <= most:
        yield splits
        splits += 1 + splits // 16


def splits(whole, split, combine, sizes, part_bytes, blocks, programs):
    """How many, where a kernel without parts has the forms `whole`."""
    env, (clocks, found) = dict(sizes), least(split, combine, sizes, part_bytes, blocks, programs)
    return found if min(evaluate(cost, env) for cost in whole) > WORTH * clocks > 0 else 1
