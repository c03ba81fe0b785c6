"""grid.py - attention forward and backward on a GPU, against float64, over the grid of cases.py.

    tests/gpu/precompile.sh out/grid -a sm_80 -c               # anywhere; no GPU needed
    python3 tests/gpu/grid.py out/grid --out out               # on the machine with the GPU
    python3 tests/gpu/grid.py out/grid --out out --wide        # of `precompile.sh -w`: over 10,000 runs
    python3 tests/gpu/grid.py out/grid --out out --wide --only 1234     # one case again, by its number

A result is accepted when its largest error against float64 is at most twice that of a plain 16-bit
PyTorch computation on the same data, plus 1e-5 (for data of size 1; of drawn cases' dQ and dK also what f32
loses of dP - delta, which is all there is where a row has one key).  A few rows say little of that computation:
its error is then that of more data of the same case.  Where a case says so, FlashAttention's
rules hold: three times the error of PyTorch, and twice what adding 0.3 in 16 bits and taking it away does (fa3;
gradients 3e-4 more), or for O twice, for gradients three times that error (fa2).  At the limits of f32 scores are exact, and
O has the error of weights and results in 16 bits, L 1e-5 of itself.  Beside that, in every case:
- inputs lie in memory filled with NaN: what is read beyond a tensor and used shows;
- outputs are poisoned before the run, so that what is not written shows;
- memory around and between the rows of the outputs, and all inputs, must be unchanged after it;
- the forward pass and the deterministic backward, run twice, must give the same bits;
- a row with nothing to attend to gives O = 0, L = -inf and gradients of 0.

One line a run goes to OUT/grid.csv; a table by group comes last.  The exit status is 1 when any
case failed or could not run.  A case that breaks the CUDA context is counted, and the rest runs on
in a new process.
"""

import argparse
import csv
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "python"))
import cases as grid_cases  # noqa: E402

BACKWARD = {  # kernels of attention_bwd.tile: with atomic additions, and without; dK and dV in parts
    "bwd": ("attention_bwd_delta", "attention_bwd", "attention_bwd_convert"),
    "few": ("attention_bwd_dq_first", "attention_bwd_dkdv"),
    "det": ("attention_bwd_delta", "attention_bwd_dkdv", "attention_bwd_dq"),
    "split": ("attention_bwd_delta", "attention_bwd_split", "attention_bwd_convert", "attention_bwd_combine"),
    "split-det": ("attention_bwd_delta", "attention_bwd_dkdv_split", "attention_bwd_dq", "attention_bwd_combine"),
}
FIELDS = ["index", "group", "direction", "variant", "batch", "hq", "hk", "sq", "sk", "layout", "splits",
          "cap", "sizes", "status", "worst", "errors", "allowed", "note"]
MAX_RESTARTS = 8
SAMPLES = 256  # rows of more than one key that the plain computation's error is taken of, at least, where cases are drawn
DEVICE = "cuda"
DECODE = ("attention_decode",)
DECODE_SPLIT = ("attention_decode_split", "attention_decode_combine")
SILENCE = 120  # seconds without a finished case: the GPU hangs


# ---- tensors in poisoned memory ----------------------------------------------------------------


class Placed:
    """A tensor of a given layout in a larger buffer, all of it poisoned (NaN) but the tensor."""

    GUARD = 4096 + 8  # elements; keeps an address that is a multiple of 16 bytes and of no more

    def __init__(self, shape, dtype, layout, values=None):
        import torch
        integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
        self.poison = {1: 0x7F, 2: 0x7FFF, 4: 0x7FFFFFFF}[dtype.itemsize]  # a NaN in every format
        storage, order, slices = self.plan(list(shape), layout)
        count = 1
        for n in storage:
            count *= n
        self.bits = torch.full((count + 2 * self.GUARD,), self.poison, dtype=integer, device=DEVICE)
        body = self.bits[self.GUARD:self.GUARD + count].view(dtype).view(storage)
        self.tensor = body[slices].permute(order) if order else body[slices]
        if values is not None:
            self.tensor.copy_(values)
        self.integer = integer
        self.before = self.bits.clone() if values is not None else None

    @staticmethod
    def plan(shape, layout):
        """(shape of the storage, permutation to the tensor, slices of the storage)."""
        full = tuple(slice(0, n) for n in shape)
        if len(shape) == 4 and layout == "bhsd":
            b, s, h, d = shape
            return [b, h, s, d], (0, 2, 1, 3), tuple(slice(0, n) for n in (b, h, s, d))
        if len(shape) == 4 and layout == "sbhd":
            b, s, h, d = shape
            return [s, b, h, d], (1, 0, 2, 3), tuple(slice(0, n) for n in (s, b, h, d))
        if layout == "slice":
            before = [1, 2, 1, 8] if len(shape) == 4 else [1] * (len(shape) - 1) + [8]
            after = [1, 3, 2, 8] if len(shape) == 4 else [2] * (len(shape) - 1) + [8]
            return ([b + n + a for b, n, a in zip(before, shape, after)], None,
                    tuple(slice(b, b + n) for b, n in zip(before, shape)))
        if layout == "padded":
            extra = [0, 3, 1, 8] if len(shape) == 4 else [0] * (len(shape) - 1) + [12]
            return [n + e for n, e in zip(shape, extra)], None, full
        return shape, None, full

    def intact(self):
        """Whether nothing outside the tensor (or, of an input, nothing at all) has changed."""
        import torch
        if self.before is not None:
            return torch.equal(self.bits, self.before)
        bits = self.bits
        keep = self.tensor.clone()
        self.tensor.view(self.integer).fill_(self.poison)
        same = bool((bits == self.poison).all())
        self.tensor.copy_(keep)
        return same


def place_qkv(values, dtype):
    """q, k, v as slices of one [B, S, 3, H, D] tensor."""
    import torch
    b, s, h, d = values[0].shape
    whole = Placed((b, s, 3 * h * d), dtype, "bshd", torch.stack(values, 2).reshape(b, s, -1))
    body = whole.tensor.view(b, s, 3, h, d)
    placed = []
    for i in range(3):
        part = Placed.__new__(Placed)
        part.bits, part.before, part.tensor = whole.bits, whole.before, body[:, :, i]
        placed.append(part)
    return placed


MIXED = {"Q": "bhsd", "K": "slice", "V": "sbhd", "O": "padded", "dO": "bshd", "dQ": "slice", "dK": "bhsd", "dV": "padded",
         "L": "slice"}


def layout_of(case, name):
    """The layout of one tensor of a case; what several share is no layout for a result."""
    if case.layout == "mixed":
        return MIXED[name]
    if case.layout in ("shared", "one-head"):
        return "slice" if name in "QKV" else "bhsd"
    return "padded" if case.layout == "qkv" else case.layout


def place_inputs(case, values, dtype):
    """Q, K and V."""
    if case.layout == "qkv":
        return place_qkv(values, dtype)
    placed = []
    for name, x in zip("QKV", values):
        whole = x.shape
        if case.layout == "shared" and name != "Q":
            x = x[:1]
        if case.layout == "one-head" and name != "Q":
            x = x[:, :, :1]
        placed.append(Placed(x.shape, dtype, layout_of(case, name), x))
        placed[-1].tensor = placed[-1].tensor.expand(whole)
    return placed


# ---- references --------------------------------------------------------------------------------


def allowed_pairs(case, device):
    """Which (row, key) pairs attend: bool [Sq, Sk]."""
    import torch
    v = case.variant
    row = torch.arange(case.sq, device=device)[:, None] + case.sk - case.sq
    key = torch.arange(case.sk, device=device)[None, :]
    keep = torch.ones(case.sq, case.sk, dtype=torch.bool, device=device)
    if v.causal:
        keep &= key <= row
    if v.window[0] >= 0:
        keep &= key >= row - v.window[0]
    if v.window[1] >= 0:
        keep &= key <= row + v.window[1]
    return keep


def reference(case, q, k, v, slopes, scale, scaled="q"):
    """Attention as one would write it in PyTorch, all of it in the type of its operands."""
    import torch
    group = case.hq // case.hk
    k = k.repeat_interleave(group, 2)
    v = v.repeat_interleave(group, 2)
    keep = allowed_pairs(case, q.device)
    alive = keep.any(1)
    q, k = (q * scale, k) if scaled == "q" else (q, k * scale)
    s = torch.einsum("bthd,bshd->bhts", q, k)
    if case.variant.softcap:
        s = torch.tanh(s / case.cap) * case.cap
    if case.variant.alibi:
        row = torch.arange(case.sq, device=q.device)[:, None] + case.sk - case.sq
        key = torch.arange(case.sk, device=q.device)[None, :]
        distance = (row - key).abs()
        s = s - (slopes.double()[:, None, None] * distance).to(s.dtype)
    s = s.masked_fill(~keep & alive[:, None], float("-inf"))
    p = torch.softmax(s, -1).to(v.dtype) * alive[:, None]
    o = torch.einsum("bhts,bshd->bthd", p, v)
    l = torch.logsumexp(s, -1).masked_fill(~alive, float("-inf"))
    return o, l


def with_gradients(case, tensors, slopes, scale, grad, dtype, need_gradients, scaled="q"):
    """{"O":, "L":, "dQ":, "dK":, "dV":} of the reference in `dtype`."""
    import torch
    leaves = [x.to(dtype).detach().requires_grad_(bool(need_gradients)) for x in tensors]
    o, l = reference(case, *leaves, slopes, scale, scaled)
    out = {"O": o.detach(), "L": l.detach()}
    if need_gradients:
        out.update(zip(("dQ", "dK", "dV"), torch.autograd.grad(o, leaves, grad.to(dtype))))
    return out


ADDED = [-1e4, -1e6, -1e8, -2.6e8, -2.7e8, -1e9, -1e10, -1e30, -65504.0, -3.3895314e38, -3.4028234663852886e38, 1e9, 1e30, 3.3e7,
         0.0]
LOWEST_PRODUCT = -2e38  # times log2(e) what is lower is infinite, where scores are multiplied before their difference


def limit_values(case, dtype, generator, device):
    """Q, K and V: a row of Q has one element, by which its scores are of one size, from 0 to the case's largest."""
    import torch
    v = case.variant
    size = 256 if dtype == torch.float16 else 1
    sizes = [x for x in (0.0, 1.0, 30.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e20) if x < case.top] + [case.top]
    q = torch.zeros(case.batch, case.sq, case.hq, v.d, dtype=torch.float64, device=device)
    rows = q.view(-1, v.d)
    for i in range(rows.shape[0]):
        rows[i, i % v.d] = min(sizes[i % len(sizes)] / size, 6e4 if size > 1 else case.top) * (-1) ** (i // 3)
    def random(size, *shape):
        return torch.randn(*shape, generator=generator, device=device) * size
    return [q.to(dtype), random(size, case.batch, case.sk, case.hk, v.d).to(dtype),
            random(1, case.batch, case.sk, case.hk, v.dv).to(dtype)]


def bias_values(case, dtype, generator, device):
    """Q, K, V and Bias, with a mask of its own in each row: of the first keys, the last, most or all."""
    import torch
    v = case.variant
    def random(*shape):
        return torch.randn(*shape, generator=generator, device=device)
    q = torch.zeros(case.sq, v.d, device=device)
    q[torch.arange(case.sq), torch.arange(case.sq) % v.d] = random(case.sq)
    bias = torch.zeros(case.sq, case.sk, device=device)
    for i in range(case.sq):
        added = max(ADDED[i % len(ADDED)], -float("inf") if v.way < 2 else LOWEST_PRODUCT)
        keys = torch.arange(case.sk, device=device)
        where = [keys < 64, keys >= 64, random(case.sk) < 1.6, keys >= 0][i // len(ADDED) % 4]
        bias[i] = torch.where(where, added, 0.0)
    return [q.to(dtype), random(case.sk, v.d).to(dtype), random(case.sk, v.d).to(dtype), bias]


def bias_reference(case, q, k, v, bias, scale):
    """{"O":, "L":} of scores.tile: scores rounded to f32, and their products where the way has them."""
    import torch
    c = torch.tensor(1.4426950408889634, dtype=torch.float32, device=q.device)
    s = (q.double() @ k.double().T * scale + bias.double()).float()
    m = s.max(1, keepdim=True).values
    if case.variant.way == 5:  # products of one tile after the other; what was summed up before is multiplied by exact powers
        most = torch.nn.functional.pad(s, (0, -s.shape[1] % 64), value=-float("inf")).view(s.shape[0], -1, 64).max(2).values
        top = most.cummax(1).values.repeat_interleave(64, 1)[:, :s.shape[1]]
        x = (s * c).double() - (top * c).double() + (top.double() - m.double()) * 1.4426950408889634
    elif case.variant.way >= 3:
        x = (s * c).double() - (m * c).double()
    else:
        x = (s.double() - m.double()) * 1.4426950408889634
    p = torch.exp2(x)
    total = p.sum(1, keepdim=True)
    return {"O": p / total @ v.double(), "L": m[:, 0].double() + torch.log(total[:, 0])}


def allowed_error(case, name, exact, plain):
    """(the value that a result is compared with, the error that it may have)"""
    if case.rule == "limits":  # values of V are below 5; half a unit in the last place of weights, and of results
        return exact, 1e-5 if name == "L" else 5 * 2 * (2.0 ** -8 if case.variant.dtype == "bf16" else 2.0 ** -11)
    q, v, g = case.sizes
    unit = {"O": v, "L": 1, "dQ": v * g, "dK": v * g * q, "dV": g}[name]
    rule = "plain" if name == "L" else case.rule
    if rule == "plain":
        exact, plain = exact.double(), plain.double()
        least = 1e-5 * max(unit, 1e-3)
        if case.group == "drawn" and name in ("dQ", "dK"):  # values up to 4 times their size; n summands of dQ, dK
            n = case.sk if name == "dQ" else case.sq * case.hq // case.hk
            least = max(least, 2.0 ** -22 * 4 * (case.variant.dv / case.variant.d) ** 0.5 * 4 * unit * n ** 0.5)
        return exact, 2 * (plain - exact).abs().nan_to_num(0).max().item() + least
    want = exact.to(plain.dtype)
    off = (plain.double() - want.double()).abs().max().item()
    if rule == "fa2":
        return want.double(), (2 if name == "O" else 3) * off
    noise = 2 * (want + 0.3 - 0.3 - want).abs().max().item() + (3e-4 if name != "O" else 0)
    return want.double(), 3 * off + noise


def compare(case, name, got, exact, plain):
    """(error / allowed error, error, allowed error, a note when something is plainly wrong)."""
    import torch
    got = got.double()
    if name == "L" and case.rule == "limits":  # relative, and what is beyond f32 is infinite
        beyond = (exact.abs() > 3e38) & torch.isfinite(exact)
        least = 1 + exact.abs().nan_to_num(posinf=0)
        exact, got = exact / least, torch.where(beyond, exact, got) / least
        plain = exact
    if name == "L":
        dead = torch.isneginf(exact)
        if not torch.equal(torch.isneginf(got), dead[:got.shape[0]]):
            return float("inf"), float("nan"), 0.0, "L: -inf in the wrong rows"
        got, exact, plain = (x.masked_fill(dead[:x.shape[0]], 0) for x in (got, exact, plain))
    if not bool(torch.isfinite(got).all()):
        return float("inf"), float("nan"), 0.0, f"{name}: {int((~torch.isfinite(got)).sum())} not finite"
    want, allowed = allowed_error(case, name, exact, plain)
    off = (got - want[:got.shape[0]]).abs()
    error = off.max().item()
    if error > allowed:
        at = tuple(int(i) for i in torch.unravel_index(off.argmax(), off.shape))
        return error / max(allowed, 1e-30), error, allowed, (f"{name}: {got[at]:.9g} at {at}, {want[at]:.9g} is right: error "
                                                             f"{error:.2e}, allowed {allowed:.2e}")
    return error / max(allowed, 1e-30), error, allowed, ""


# ---- one case ----------------------------------------------------------------------------------


class Runner:
    def __init__(self, folder):
        self.folder, self.modules = folder, {}

    def module(self, variant, direction):
        import tilec_torch
        stem = os.path.join(self.folder, grid_cases.variant_name(variant, direction))
        if stem not in self.modules:
            path = next((stem + end for end in (".cubin", ".ptx") if os.path.exists(stem + end)), None)
            self.modules = {n: m for n, m in list(self.modules.items())[-8:]}
            self.modules[stem] = tilec_torch.load(path) if path else None
        return self.modules[stem]

    @staticmethod
    def data(index, case):
        """Q, K, V and dO of the case, and of further rows of its kind behind them."""
        import torch
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case.variant.dtype]
        generator = torch.Generator(device=DEVICE).manual_seed(1000 + index)
        v, more = case.variant, 1
        if case.group in ("drawn", "decode"):
            rows = case.batch * case.hq * int((allowed_pairs(case, "cpu").sum(1) > 1).sum())
            more = min(64, -(-SAMPLES // rows)) if rows else 1
        batch = case.batch * more

        def random(size, *shape):
            return (torch.randn(*shape, generator=generator, device=DEVICE) * size).to(dtype)
        if case.rule == "limits":
            of = bias_values if case.group == "bias" else limit_values
            return dtype, of(case, dtype, generator, DEVICE), None
        values = [random(case.sizes[0], batch, case.sq, case.hq, v.d), random(1, batch, case.sk, case.hk, v.d),
                  random(case.sizes[1], batch, case.sk, case.hk, v.dv)]
        if case.layout == "shared":
            values[1:] = [x[:1].expand(x.shape).contiguous() for x in values[1:]]
        if case.layout == "one-head":
            values[1:] = [x[:, :, :1].expand(x.shape).contiguous() for x in values[1:]]
        return dtype, values, random(case.sizes[2], batch, case.sq, case.hq, v.dv)

    def run(self, index, case, directions):
        """Rows for the CSV, one a direction."""
        import torch
        need_gradients = set(directions) & set(BACKWARD)
        dtype, values, grad = self.data(index, case)
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / case.hq) for i in range(case.hq)], device=DEVICE)
        scale = case.scale or case.variant.d ** -0.5
        if case.group == "bias":
            exact = bias_reference(case, *values, scale)
            given = {n: Placed(x.shape, x.dtype, "slice", x) for n, x in zip(("Q", "K", "V", "Bias"), values)}
            outputs = self.launch(self.module(case.variant, "bias"), given, scale, exact, ("O", "L"), case, twice=True)
            return [self.judge(index, case, "bias", outputs, exact, exact)]
        exact = with_gradients(case, values, slopes, scale, grad, torch.float64, need_gradients)
        plain = with_gradients(case, values, slopes, scale, grad, dtype, need_gradients,
                               "q" if case.rule == "plain" else "k")
        values = [x[:case.batch] for x in values]
        grad = grad[:case.batch] if need_gradients else None
        given = dict(zip(("Q", "K", "V"), place_inputs(case, values, dtype)))
        if directions == ("dec",):
            module = self.module(case.variant, "dec")
            if module:
                module = module.select(*(DECODE_SPLIT if case.splits else DECODE))
            outputs = self.launch(module, given, scale, exact, ("O", "L"), case, twice=True)
            return [self.judge(index, case, "dec", outputs, exact, plain)]
        rows = []
        outputs = self.launch(self.module(case.variant, "fwd"), given, scale, exact, ("O", "L"), case, twice=True)
        rows.append(self.judge(index, case, "fwd", outputs, exact, plain))
        if need_gradients:
            backward = self.module(case.variant, "bwd")
            if outputs[2]:
                o, l = exact["O"][:case.batch].to(dtype), exact["L"][:case.batch].float()
            else:
                o, l = outputs[0]["O"].tensor, outputs[0]["L"].tensor
            given["O"] = Placed(o.shape, dtype, layout_of(case, "O"), o)
            given["L"] = Placed(l.shape, torch.float32, layout_of(case, "L"), l)
            given["dO"] = Placed(grad.shape, dtype, layout_of(case, "dO"), grad)
        for direction in directions:
            if direction == "fwd":
                continue
            module = backward.select(*BACKWARD[direction]) if backward else None
            outputs = self.launch(module, given, scale, exact, ("dQ", "dK", "dV"), case,
                                  twice=direction in ("few", "det", "split-det"))
            rows.append(self.judge(index, case, direction, outputs, exact, plain))
        return rows

    def launch(self, module, given, scale, exact, names, case, twice):
        """({name: Placed}, complaints, why it could not run)."""
        import torch
        import tilec_torch
        if module is None:
            return {}, [], "missing: no compiled file"
        described = {}
        for kernel in module.kernels:
            for t in kernel.meta["tensors"]:
                described.setdefault(t["name"], t)
        arguments = {n: p.tensor for n, p in given.items() if n in described}
        scalars = {s["name"] for kernel in module.kernels for s in kernel.meta["scalars"]}
        for name in scalars:
            arguments[name] = {"scale": scale, "softcap": case.cap}.get(name, 0.0)
        if case.splits:
            arguments.update(X=case.splits, Hq=case.hq)
        if "dK_part" in described:
            arguments["P"] = parts_of(case)
        placed = {}
        for name in names:
            if name not in described:
                return {}, [], f"the module has no tensor {name}"
            t = described[name]
            shape = exact[name].shape if case.group == "bias" else (case.batch,) + exact[name].shape[1:]
            values = torch.zeros(shape, device=DEVICE) if t["mode"] == "inout" else None
            placed[name] = Placed(shape, tilec_torch.torch_dtype(t["dtype"]), layout_of(case, name), values)
            placed[name].before = None
        arguments.update({n: p.tensor for n, p in placed.items()})
        try:
            plan = module.prepare(**arguments)
        except tilec_torch.TilecError as error:
            return {}, [], str(error)
        plan.run()
        torch.cuda.synchronize()
        complaints = [f"{n} was written to" for n in arguments if n in given and not given[n].intact()]
        complaints += [f"memory around {n} was written to" for n in names if not placed[n].intact()]
        if twice:
            first = {n: p.bits.clone() for n, p in placed.items()}
            plan.run()
            torch.cuda.synchronize()
            complaints += [f"{n} differs in a second run" for n, p in placed.items()
                           if not torch.equal(first[n], p.bits)]
        return placed, complaints, ""

    @staticmethod
    def judge(index, case, direction, outputs, exact, plain):
        placed, complaints, refused = outputs
        row = {"index": index, "group": case.group, "direction": direction,
               "variant": grid_cases.variant_name(case.variant, "bwd" if direction in BACKWARD else direction),
               "batch": case.batch, "hq": case.hq, "hk": case.hk, "sq": case.sq, "sk": case.sk, "layout": case.layout,
               "splits": case.splits, "cap": case.cap, "sizes": " ".join(f"{x:g}" for x in case.sizes)}
        if refused:
            row.update(status="not run", note=refused, worst="")
            return row
        worst, errors, limits = 0.0, [], []
        for name, p in placed.items():
            ratio, error, allowed, note = compare(case, name, p.tensor, exact[name], plain[name])
            worst = max(worst, ratio)
            errors.append(f"{name}:{error:.2e}")
            limits.append(f"{name}:{allowed:.2e}")
            if note:
                complaints.append(note)
        row.update(status="failed" if complaints else "ok", worst=f"{worst:.3f}", note="; ".join(complaints),
                   errors=" ".join(errors), allowed=" ".join(limits))
        return row


# ---- the whole grid ----------------------------------------------------------------------------


def chosen_cases(options):
    """[(number, case)] for one of the processes, or for all."""
    every = list(enumerate(grid_cases.wide_cases() if options.wide else grid_cases.cases()))
    picked = [(i, c) for i, c in every if not options.group or c.group in options.group]
    picked = [(i, c) for i, c in picked
              if not options.match or options.match in grid_cases.variant_name(c.variant, "fwd")]
    if options.only:
        picked = [(i, c) for i, c in picked if i in options.only]
    picked = picked[:: options.every][: options.limit]
    variants = {v: i for i, v in enumerate(sorted({c.variant for _, c in picked}))}
    if options.part is not None:
        picked = [(i, c) for i, c in picked if variants[c.variant] % options.jobs == options.part]
    return sorted(picked, key=lambda item: variants[item[1].variant]) if options.wide else picked


def parts_of(case):
    """How many parts dK and dV have: all that they can, or as few, by the number of queries."""
    group = case.hq // case.hk
    least = next(n for n in range(2, group + 1) if group % n == 0)
    return case.hk * (group if case.sq % 2 == 0 else least)


def directions_of(options, case):
    return tuple(d for d in grid_cases.directions_of(case) if d in options.directions)


def worker(options):
    """Runs the cases from `--start` on; each finished case is flushed to the CSV."""
    import torch
    runner = Runner(options.folder)
    with open(options.csv, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        for position, (index, case) in enumerate(chosen_cases(options)):
            directions = directions_of(options, case)
            if position < options.start or not directions:
                continue
            try:
                rows = runner.run(index, case, directions)
            except torch.cuda.OutOfMemoryError as error:
                rows = [dict(zip(FIELDS, [index, case.group]), status="not run", note=str(error)[:80],
                             direction=directions[0], variant=grid_cases.variant_name(case.variant, directions[0]))]
            writer.writerows(rows)
            file.flush()
            with open(options.csv + ".done", "w") as done:
                done.write(str(position + 1))
    return 0


def supervise(options):
    """Starts workers until every case has a row."""
    with open(options.csv, "w", newline="") as file:
        csv.DictWriter(file, FIELDS).writeheader()
    done_path = options.csv + ".done"
    with open(done_path, "w") as file:
        file.write("0")
    cases = chosen_cases(options)

    def done():
        with open(done_path) as f:
            return int(f.read() or 0)

    for _ in range(MAX_RESTARTS + 1):
        start = done()
        if start >= len(cases):
            break
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__)] + sys.argv[1:]
                                   + ["--start", str(start), "--worker", "--part", str(options.part)],
                                   stderr=subprocess.PIPE, text=True)
        last, at, reason = start, time.time(), ""
        while process.poll() is None:
            time.sleep(0.1)
            if done() != last:
                last, at = done(), time.time()
            elif time.time() - at > SILENCE:
                process.kill()
                reason = f"no end after {SILENCE} s"
        message = process.stderr.read().strip().splitlines()
        process.wait()
        if process.returncode == 0:
            break
        position = done()
        index, case = cases[position]
        line = next((m for m in reversed(message) if "rror" in m), message[-1] if message else "")
        with open(options.csv, "a", newline="") as file:
            csv.DictWriter(file, FIELDS).writerow(
                {"index": index, "group": case.group, "direction": directions_of(options, case)[-1],
                 "variant": grid_cases.variant_name(case.variant, directions_of(options, case)[-1]),
                 "sq": case.sq, "sk": case.sk, "hq": case.hq, "hk": case.hk, "batch": case.batch,
                 "layout": case.layout, "status": "failed", "note": "crash: " + (reason or line)})
        with open(done_path, "w") as file:
            file.write(str(position + 1))
        if options.stop:
            break
    os.remove(done_path)


def supervise_all(options):
    """Several processes at a time, each with the cases of some variants; their rows in the order of the cases."""
    parts = []
    for part in range(options.jobs):
        parts.append(argparse.Namespace(**{**vars(options), "part": part, "csv": f"{options.csv}.{part}"}))
    threads = [threading.Thread(target=supervise, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = []
    for part in parts:
        with open(part.csv, newline="") as file:
            rows += csv.DictReader(file)
        os.remove(part.csv)
    rows.sort(key=lambda r: int(r["index"]))
    with open(options.csv, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)


def summarize(options):
    with open(options.csv, newline="") as file:
        rows = list(csv.DictReader(file))
    cases = chosen_cases(options)
    shown = 0
    for r in rows:
        if r["status"] != "ok" and shown < options.show:
            shown += 1
            print(f"{r['status']}: case {r['index']}: {r['group']}: {r['variant']} {r['direction']} b{r['batch']} "
                  f"h{r['hq']}/{r['hk']} s{r['sq']}/{r['sk']} {r['layout']} {r['splits']} {r['cap']} {r['sizes']}: {r['note']}")
    print(f"{'group':<14} {'dir':<4} {'ok':>5} {'failed':>7} {'not run':>8} {'worst error / allowed':>22}")
    bad = 0
    for group in list(dict.fromkeys(c.group for _, c in cases)) + ["all"]:
        for direction in options.directions:
            expected = sum(direction in directions_of(options, c) for _, c in cases if group in (c.group, "all"))
            if not expected:
                continue
            mine = [r for r in rows if r["direction"] == direction and group in (r["group"], "all")]
            counts = {s: sum(r["status"] == s for r in mine) for s in ("ok", "failed", "not run")}
            ratios = [float(r["worst"]) for r in mine if r["worst"]]
            counts["not run"] += expected - len(mine)
            if group == "all":
                bad += counts["failed"] + counts["not run"]
            print(f"{group:<14} {direction:<4} {counts['ok']:>5} {counts['failed']:>7} {counts['not run']:>8}"
                  f" {max(ratios, default=0):>22.3f}")
    print(f"{sum(r['status'] == 'ok' for r in rows)} of {len(rows)} runs are right, {time.time() - options.began:.0f} s; "
          f"rows: {options.csv}")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where precompile.sh put the variants")
    parser.add_argument("--out", default=".", help="folder for grid.csv")
    parser.add_argument("--directions", default="fwd,bwd,det,few,split,split-det,dec,bias", type=lambda s: s.split(","))
    parser.add_argument("--wide", action="store_true", help="the wide grid, too")
    parser.add_argument("--only", type=int, action="append", help="the case of this number")
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--match", help="only variants whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--show", type=int, default=20, help="failures to print")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--stop", action="store_true", help="stop at the first crash")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--part", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.began = time.time()
    os.makedirs(options.out, exist_ok=True)
    options.csv = os.path.join(options.out, "grid.csv")
    if options.worker:
        options.csv += f".{options.part}"
        return worker(options)
    supervise_all(options)
    return summarize(options)


if __name__ == "__main__":
    sys.exit(main())
