"""ways.py - which of several ways to compute the same is estimated to take the least time: a way is a list of kernels,
and sizes that no tensor has."""
from tilec.torch.expressions import evaluate
from tilec.torch.plan import BYTES, sizes_of

LAUNCH = 6000  # clocks of a launch, as the compiler's estimates count them


def _bytes(tensor, env):
    n = BYTES[tensor["dtype"]]
    for extent in tensor["shape"]:
        n *= extent if isinstance(extent, int) else env[extent]
    return n


def clocks(names, products, code, gpu, tensors, values):
    """Of the kernels `names`, one after the other: of those of `products` what the compiler estimates (docs/metadata.md,
    "Variants"), of the others the time that reading and writing their tensors takes; and of clearing the sums that they add to."""
    metas = [code.kernels[name] for name in names]
    env, there, total = dict(gpu.facts), set(tensors), 0
    for meta in metas:
        env = {**sizes_of(meta, tensors, values), **env}
    for name, meta in zip(names, metas):
        estimated = name in products and "cost" in meta
        moved = 0 if estimated else sum(_bytes(t, env) for t in meta["tensors"])
        for t in meta["tensors"]:
            if t["name"] not in there and (t["mode"] == "inout" or t["atomic"]):
                moved += _bytes(t, env)
                total += LAUNCH
        there |= {t["name"] for t in meta["tensors"]}
        forms = [meta, *meta.get("variants", ())]
        total += min(evaluate(form["cost"], env) for form in forms) if estimated else LAUNCH
        total += moved / gpu.bytes_per_clock
    return total


def least(ways, products, code, gpu, tensors, values):
    """The way with the fewest clocks, of equal ones the first.  One with a kernel of `products` that has no estimate is
    left out: warp groups do not compute it.  Where that is so of all, the first."""
    known = [way for way in ways if all("cost" in code.kernels[name] for name in way[0] if name in products)]
    return min(known or ways[:1], key=lambda way: clocks(way[0], products, code, gpu, tensors, {**values, **way[1]}))
