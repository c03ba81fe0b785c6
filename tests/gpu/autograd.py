"""autograd.py - gradients of the Python example through torch.autograd, checked two ways.

    python3 tests/gpu/autograd.py --folder out/grid        # the folder of precompile.sh

1. Against autograd of a float64 computation: the error may be twice that of a plain 16-bit PyTorch
   computation, plus 1e-5 (as everywhere).
2. As gradcheck does it, along random directions: the slope of the exact loss, by central
   differences in float64, against the inner product of our gradient with the direction.  This
   shares no derivative with anything.

The operands are made by non-trivial operations, so that gradients flow on, and come in the layouts
that models have: separate tensors, one packed tensor, transposed ones.
"""

import argparse
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "python"))
import cases  # noqa: E402
import grid  # noqa: E402
import tilec_torch  # noqa: E402

SHAPES = [  # B, Sq, Sk, Hq, Hk
    (2, 128, 128, 4, 4), (1, 113, 203, 4, 2), (2, 65, 65, 6, 1), (1, 200, 64, 2, 2)]


def find(folder, variant, direction):
    stem = os.path.join(folder, cases.variant_name(variant, direction))
    return next((stem + end for end in (".cubin", ".ptx") if os.path.exists(stem + end)), None)


def check(variant, shape, forward, backward, deterministic):
    """(worst error / allowed, worst error of a slope / allowed)."""
    b, sq, sk, hq, hk = shape
    case = cases.Case("autograd", variant, b, hq, hk, sq, sk, "bshd")
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[variant.dtype]
    generator = torch.Generator(device="cuda").manual_seed(5)

    def random(*size):
        return torch.randn(*size, generator=generator, device="cuda").to(dtype)
    values = [random(b, sq, hq, variant.d), random(b, hk, sk, variant.d), random(b, sk, hk, variant.dv)]
    weight = random(b, sq, hq, variant.dv)
    scale = variant.d ** -0.5

    def prepare(q, k, v):  # k is stored [B, H, S, D]
        return q, k.transpose(1, 2), v
    leaves = [x.clone().requires_grad_(True) for x in values]
    q, k, v = prepare(*leaves)
    out = tilec_torch.attention(q * 1.0, k, v, forward, backward, scale, deterministic)
    ours = torch.autograd.grad((out.double() * weight.double()).sum(), leaves)

    def by_reference(kind):
        mine = [x.to(kind).requires_grad_(True) for x in values]
        o, _ = grid.reference(case, *prepare(*mine), None, scale)
        return torch.autograd.grad(o, mine, weight.to(kind))
    exact, plain = by_reference(torch.float64), by_reference(dtype)
    worst = 0.0
    for a, e, p in zip(ours, exact, plain):
        ratio = grid.compare("dX", a, e, p)[0]
        worst = max(worst, ratio)

    def exact_loss(parts):
        o, _ = grid.reference(case, *prepare(*parts), None, scale)
        return (o * weight.double()).sum().item()
    slope_error, eps = 0.0, 1e-4
    wide = [x.double() for x in values]
    for which in range(3):
        for _ in range(3):
            direction = torch.randn(wide[which].shape, generator=generator, device="cuda").double()
            ends = [exact_loss([x + sign * eps * direction if i == which else x for i, x in enumerate(wide)])
                    for sign in (1, -1)]
            slope = (ends[0] - ends[1]) / (2 * eps)
            inner = (ours[which].double() * direction).sum().item()
            # rounding sums up like noise: along a random direction the errors of the gradient give a
            # normal distribution, as wide as their norm; four widths of twice the plain error's
            noise = (plain[which].double() - exact[which]).norm().item()
            slope_error = max(slope_error, abs(slope - inner) / (4 * 2 * noise + 1e-5))
    return worst, slope_error


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    failed = ran = 0
    for dtype in ("bf16", "f16"):
        for d in (64, 128):
            for causal in (False, True):
                variant = cases.make(dtype, d, causal=causal)
                paths = find(options.folder, variant, "fwd"), find(options.folder, variant, "bwd")
                if None in paths:
                    print(f"{cases.variant_name(variant, 'fwd')}: not compiled")
                    failed += 1
                    continue
                forward, backward = (tilec_torch.load(p) for p in paths)
                for shape in SHAPES:
                    for deterministic in (False, True):
                        worst, slope = check(variant, shape, forward, backward, deterministic)
                        good = worst <= 1 and slope <= 1
                        ran += 1
                        failed += not good
                        if not good:
                            print(f"FAILED {cases.variant_name(variant, 'bwd')} {shape} deterministic="
                                  f"{deterministic}: error / allowed {worst:.3f}, of slopes {slope:.3f}")
    print(f"autograd: {ran} cases, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
