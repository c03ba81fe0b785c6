"""grid.py - attention forward and backward on a GPU, against float64, over the grid of cases.py.

    tests/gpu/precompile.sh out/grid -a sm_80 -c        # anywhere; no GPU needed
    python3 tests/gpu/grid.py out/grid --out out        # on the machine with the GPU

A result is accepted when its largest error against float64 is at most twice that of a plain 16-bit
PyTorch computation on the same data, plus 1e-5.  Beside that, in every case:
- inputs lie in memory filled with NaN: what is read beyond a tensor and used shows;
- outputs are poisoned before the run, so that what is not written shows;
- memory around and between the rows of the outputs, and all inputs, must be unchanged after it;
- the forward pass and the deterministic backward, run twice, must give the same bits;
- a row with nothing to attend to gives O = 0, L = -inf and gradients of 0.

One line a case goes to OUT/grid.csv; a table by group comes last.  The exit status is 1 when any
case failed or could not run.  A case that breaks the CUDA context is counted, and the rest runs on
in a new process.
"""

import argparse
import csv
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "python"))
import cases as grid_cases  # noqa: E402

SOFTCAP = 2.0
BACKWARD = {  # kernels of attention_bwd.tile: with atomic additions, and without
    "bwd": ("attention_bwd_delta", "attention_bwd", "attention_bwd_convert"),
    "det": ("attention_bwd_delta", "attention_bwd_dkdv", "attention_bwd_dq"),
}
FIELDS = ["index", "group", "direction", "variant", "batch", "hq", "hk", "sq", "sk", "layout", "status",
          "worst", "errors", "allowed", "note"]
MAX_RESTARTS = 8
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
        self.bits = torch.full((count + 2 * self.GUARD,), self.poison, dtype=integer, device="cuda")
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


def reference(case, q, k, v, slopes, scale):
    """Attention as one would write it in PyTorch, all of it in the type of its operands."""
    import torch
    group = case.hq // case.hk
    k = k.repeat_interleave(group, 2)
    v = v.repeat_interleave(group, 2)
    keep = allowed_pairs(case, q.device)
    alive = keep.any(1)
    s = torch.einsum("bthd,bshd->bhts", q * scale, k)
    if case.variant.softcap:
        s = torch.tanh(s / SOFTCAP) * SOFTCAP
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


def with_gradients(case, tensors, slopes, scale, grad, dtype, need_gradients):
    """{"O":, "L":, "dQ":, "dK":, "dV":} of the reference in `dtype`."""
    import torch
    leaves = [x.to(dtype).detach().requires_grad_(bool(need_gradients)) for x in tensors]
    o, l = reference(case, *leaves, slopes, scale)
    out = {"O": o.detach(), "L": l.detach()}
    if need_gradients:
        out.update(zip(("dQ", "dK", "dV"), torch.autograd.grad(o, leaves, grad.to(dtype))))
    return out


def compare(name, got, exact, plain):
    """(error / allowed error, error, allowed error, a note when something is plainly wrong)."""
    import torch
    got, exact, plain = got.double(), exact.double(), plain.double()
    if name == "L":
        dead = torch.isneginf(exact)
        if not torch.equal(torch.isneginf(got), dead):
            return float("inf"), float("nan"), 0.0, "L: -inf in the wrong rows"
        got, exact, plain = (x.masked_fill(dead, 0) for x in (got, exact, plain))
    if not bool(torch.isfinite(got).all()):
        return float("inf"), float("nan"), 0.0, f"{name}: {int((~torch.isfinite(got)).sum())} not finite"
    error = (got - exact).abs().max().item()
    allowed = 2 * (plain - exact).abs().nan_to_num(0).max().item() + 1e-5
    return error / allowed, error, allowed, ""


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

    def run(self, index, case, directions):
        """Rows for the CSV, one a direction."""
        import torch
        forward = self.module(case.variant, "fwd")
        need_gradients = set(directions) & set(BACKWARD)
        backward = self.module(case.variant, "bwd") if need_gradients else None
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case.variant.dtype]
        generator = torch.Generator(device="cuda").manual_seed(1000 + index)
        v = case.variant

        def random(*shape):
            return torch.randn(*shape, generator=generator, device="cuda").to(dtype)
        values = [random(case.batch, case.sq, case.hq, v.d), random(case.batch, case.sk, case.hk, v.d),
                  random(case.batch, case.sk, case.hk, v.dv)]
        grad = random(case.batch, case.sq, case.hq, v.dv)
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / case.hq) for i in range(case.hq)], device="cuda")
        scale = v.d ** -0.5
        exact = with_gradients(case, values, slopes, scale, grad, torch.float64, need_gradients)
        plain = with_gradients(case, values, slopes, scale, grad, dtype, need_gradients)
        if case.layout == "qkv":
            inputs = place_qkv(values, dtype)
        else:
            inputs = [Placed(x.shape, dtype, case.layout, x) for x in values]
        given = dict(zip(("Q", "K", "V"), inputs))
        rows = []
        outputs = self.launch(forward, given, scale, exact, ("O", "L"), case, twice=True)
        rows.append(self.judge(index, case, "fwd", outputs, exact, plain))
        if need_gradients:
            if outputs[2]:
                o, l = exact["O"].to(dtype), exact["L"].float()
            else:
                o, l = outputs[0]["O"].tensor, outputs[0]["L"].tensor
            given["O"] = Placed(o.shape, dtype, case.layout, o)
            given["L"] = Placed(l.shape, torch.float32, case.layout, l)
            given["dO"] = Placed(grad.shape, dtype, case.layout, grad)
        for direction in directions:
            if direction == "fwd":
                continue
            module = backward.select(*BACKWARD[direction]) if backward else None
            outputs = self.launch(module, given, scale, exact, ("dQ", "dK", "dV"), case,
                                  twice=direction == "det")
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
            arguments[name] = {"scale": scale, "softcap": SOFTCAP}.get(name, 0.0)
        placed = {}
        for name in names:
            if name not in described:
                return {}, [], f"the module has no tensor {name}"
            t = described[name]
            # L keeps its own layout; of the others, O follows the case
            layout = "padded" if case.layout == "qkv" else case.layout
            values = torch.zeros(exact[name].shape, device="cuda") if t["mode"] == "inout" else None
            placed[name] = Placed(exact[name].shape, tilec_torch.torch_dtype(t["dtype"]), layout, values)
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
               "variant": grid_cases.variant_name(case.variant, "fwd" if direction == "fwd" else "bwd"), "batch": case.batch,
               "hq": case.hq, "hk": case.hk, "sq": case.sq, "sk": case.sk, "layout": case.layout}
        if refused:
            row.update(status="not run", note=refused, worst="")
            return row
        worst, errors, limits = 0.0, [], []
        for name, p in placed.items():
            ratio, error, allowed, note = compare(name, p.tensor, exact[name], plain[name])
            worst = max(worst, ratio)
            errors.append(f"{name}:{error:.2e}")
            limits.append(f"{name}:{allowed:.2e}")
            if note:
                complaints.append(note)
            elif ratio > 1:
                complaints.append(f"{name}: error {error:.2e}, allowed {allowed:.2e}")
        row.update(status="failed" if complaints else "ok", worst=f"{worst:.3f}", note="; ".join(complaints),
                   errors=" ".join(errors), allowed=" ".join(limits))
        return row


# ---- the whole grid ----------------------------------------------------------------------------


def chosen_cases(options):
    every = list(enumerate(grid_cases.cases()))
    picked = [(i, c) for i, c in every if not options.group or c.group in options.group]
    picked = [(i, c) for i, c in picked
              if not options.match or options.match in grid_cases.variant_name(c.variant, "fwd")]
    return picked[:: options.every][: options.limit]


def worker(options):
    """Runs the cases from `--start` on; each finished case is flushed to the CSV."""
    import torch
    runner = Runner(options.folder)
    with open(options.csv, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        for position, (index, case) in enumerate(chosen_cases(options)):
            if position < options.start:
                continue
            try:
                rows = runner.run(index, case, options.directions)
            except torch.cuda.OutOfMemoryError as error:
                rows = [dict(zip(FIELDS, [index, case.group]), status="not run", note=str(error)[:80],
                             direction="fwd", variant=grid_cases.variant_name(case.variant, "fwd"))]
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
                                   + ["--start", str(start), "--worker"], stderr=subprocess.PIPE, text=True)
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
                {"index": index, "group": case.group, "direction": options.directions[-1],
                 "variant": grid_cases.variant_name(case.variant, "bwd"),
                 "sq": case.sq, "sk": case.sk, "hq": case.hq, "hk": case.hk, "batch": case.batch,
                 "layout": case.layout, "status": "failed", "note": "crash: " + (reason or line)})
        with open(done_path, "w") as file:
            file.write(str(position + 1))
        if options.stop:
            break
    os.remove(done_path)


def summarize(options):
    with open(options.csv, newline="") as file:
        rows = list(csv.DictReader(file))
    cases = chosen_cases(options)
    shown = 0
    for r in rows:
        if r["status"] != "ok" and shown < options.show:
            shown += 1
            print(f"{r['status']}: {r['group']}: {r['variant']} b{r['batch']} h{r['hq']}/{r['hk']} "
                  f"s{r['sq']}/{r['sk']} {r['layout']}: {r['note']}")
    print(f"{'group':<12} {'dir':<4} {'ok':>5} {'failed':>7} {'not run':>8} {'worst error / allowed':>22}")
    bad = 0
    for group in list(dict.fromkeys(c.group for _, c in cases)) + ["all"]:
        for direction in options.directions:
            mine = [r for r in rows if r["direction"] == direction and group in (r["group"], "all")]
            counts = {s: sum(r["status"] == s for r in mine) for s in ("ok", "failed", "not run")}
            ratios = [float(r["worst"]) for r in mine if r["worst"]]
            expected = sum(1 for _, c in cases if group in (c.group, "all"))
            counts["not run"] += expected - len(mine)
            if group == "all":
                bad += counts["failed"] + counts["not run"]
            print(f"{group:<12} {direction:<4} {counts['ok']:>5} {counts['failed']:>7} {counts['not run']:>8}"
                  f" {max(ratios, default=0):>22.3f}")
    print(f"rows: {options.csv}")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where precompile.sh put the variants")
    parser.add_argument("--out", default=".", help="folder for grid.csv")
    parser.add_argument("--directions", default="fwd,bwd,det", type=lambda s: s.split(","))
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--match", help="only variants whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--show", type=int, default=20, help="failures to print")
    parser.add_argument("--stop", action="store_true", help="stop at the first crash")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    options.csv = os.path.join(options.out, "grid.csv")
    if options.worker:
        return worker(options)
    supervise(options)
    return summarize(options)


if __name__ == "__main__":
    sys.exit(main())
