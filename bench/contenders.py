"""contenders.py - the cases of attention, and what can run them: tilec's files and PyTorch's backends.

A contender has `run()`, which is what is timed, and `results()`, which runs it and gives its results
as [B, S, H, D]: O and, of those that make it, the log-sum-exp [B, H, S]; or dQ, dK, dV.
"""

import copy
import ctypes
import glob
import os
import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "python"))
import tilec_torch  # noqa: E402

FEW_QUERIES = 8  # from more queries on attention_decode is not looked at
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


@dataclass
class Contender:
    run: object
    results: object
    kind: str  # ours, yardstick, peer
    registers: str = ""


# ---- tilec's files -----------------------------------------------------------------------------


class File:
    def __init__(self, path):
        self.path = path
        self.module = tilec_torch.load(path)
        kernels = self.module.kernels
        tensors = {t["name"]: t for k in kernels for t in k.meta["tensors"]}
        constants = {}
        for k in kernels:
            constants.update(k.meta["constants"])
        self.is_attention = {"Q", "K", "V"} <= set(tensors)
        self.direction = "bwd" if "dO" in tensors else "fwd"
        self.constants = constants
        self.q = tensors.get("Q")
        self.group = int(constants["G"]) if "G" in constants else 0  # query heads to a key head, rows of one tile
        self.few, self.shares_keys = self.module.has("attention_decode"), self.module.has("attention_split")

    def fits(self, case):
        if not self.is_attention or self.direction != case.direction:
            return False
        if self.group and self.few != (case.sq <= FEW_QUERIES):
            return False
        if self.shares_keys and not (case.shares_keys() and self.group in case.packs()):
            return False
        if self.group and not self.shares_keys and self.group * case.kv_heads != case.heads:
            return False
        c = self.constants
        wanted = {"D": str(case.d), "DV": str(case.dv), "CAUSAL": "true" if case.causal else "false",
                  "T": case.dtype}
        for name, value in wanted.items():
            if c.get(name, value) != value:
                return False
        plain = {"WINDOW": "0", "RIGHT": "-1", "SOFTCAP": "false", "ALIBI": "false"}
        return self.q["dtype"] == case.dtype and all(c.get(n, off) == off for n, off in plain.items())

    def ways(self, case):
        """The ways to run a case: the backward has one with atomic additions and one without, and both with the gradients
        of K and V in parts, where that is estimated to be quicker."""
        if case.direction == "fwd":
            return [("", self.module)]
        kinds = [("", tilec_torch.BACKWARD), ("-det", tilec_torch.BACKWARD_DETERMINISTIC)]
        q, k = (torch.empty(case.batch, rows, heads, case.d, device="meta")
                for rows, heads in ((case.sq, case.heads), (case.sk, case.kv_heads)))
        if tilec_torch.backward_is_few(q, k, self.module):
            kinds.append(("-few", tilec_torch.BACKWARD_FEW))
        splits = (("-split", tilec_torch.BACKWARD_SPLIT), ("-split-det", tilec_torch.BACKWARD_SPLIT_DETERMINISTIC))
        kinds += [way for way in splits if tilec_torch.backward_parts(q, k, self.module, way[0] == "-split-det") > 1]
        found = [(s, self.module.select(*names)) for s, names in kinds if self.module.has(*names)]
        return found or [("", self.module)]


def least_estimated(case, files):
    """Of the files of attention.tile, attention_grouped.tile and attention_split.tile the one that is estimated to be the
    quickest, as tilec.torch decides; the others stay."""
    every = [f for f in files if f.direction == "fwd" and not f.few]
    if len({(f.group, f.shares_keys) for f in every}) != len(every) or not any(f.group == 0 for f in every):
        return files

    def clocks(file):
        kernel, facts = file.module.kernels[0], file.module.facts()
        if file.shares_keys:
            q, k = (torch.empty(case.batch, rows, heads, case.d, device="meta")
                    for rows, heads in ((case.sq, case.heads), (case.sk, case.kv_heads)))
            return tilec_torch.split_parts(q, k, file.module, facts)[0] * tilec_torch.WORTH or float("inf")
        if file.group and not case.groups_fill():
            return float("inf")
        env = {"B": case.batch, "Sq": case.sq, "Hq": case.heads, "Sk": case.sk, "Hk": case.kv_heads, "scale": 1.0, "softcap": 1.0,
               **facts}
        return min((form.cost(env) if form.cost else float("inf")) for form in (kernel, *kernel.variants))
    least = min(every, key=lambda f: (clocks(f), f.group))
    return [f for f in files if f is least or f not in every]


def one_a_stem(paths):
    """Of x.ptx and x.cubin only the latter, which needs no compiling by the driver."""
    return sorted({os.path.splitext(p)[0]: p for p in sorted(paths, reverse=True)}.values())


def find_files(spec):
    name, _, path = spec.partition("=")
    if not path:
        raise SystemExit(f"--ours {spec}: expected NAME=PATH")
    if os.path.isdir(path):
        paths = sorted(glob.glob(os.path.join(path, "*.ptx")) + glob.glob(os.path.join(path, "*.cubin")))
    else:
        paths = sorted(glob.glob(path))
    if not paths:
        raise SystemExit(f"--ours {spec}: no such file")
    paths = one_a_stem(paths)
    files = []
    for p in paths:
        try:
            files.append(File(p))
        except tilec_torch.TilecError as error:
            print(f"# {p}: {error}", flush=True)
    return name, files


# ---- inputs, and what the results should be -------------------------------------------------------


class Inputs:
    """Stored as [B, S, H, D]; `t(x)` is the [B, H, S, D] view that PyTorch wants.

    `scores`: plain, of normal numbers; growing or falling, by 3 every 64 keys, so that a running
    maximum has to follow them in one direction of going through the keys, and never in the other."""

    def __init__(self, case, seed=0, scores="plain"):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        dtype = DTYPES[case.dtype]

        def make(*shape):
            return torch.randn(*shape, generator=generator, device="cuda", dtype=dtype)
        self.q = make(case.batch, case.sq, case.heads, case.d)
        self.k = make(case.batch, case.sk, case.kv_heads, case.d)
        self.v = make(case.batch, case.sk, case.kv_heads, case.dv)
        self.g = make(case.batch, case.sq, case.heads, case.dv)
        self.scale = case.d ** -0.5
        if scores != "plain":
            self.slope(case.sk, scores == "falling")
        self.o = self.l = None  # of FlashAttention-2, for backward kernels
        if case.direction == "bwd":
            self.o, self.l = log_sum_exp(case, self)

    def slope(self, keys, falling):
        """Two elements of the head dimension carry the slope: in one, 16 bits are not enough."""
        step = torch.arange(keys, device="cuda") // 64
        wanted = 3.0 * (step.flip(0) if falling else step) / (16 * self.scale)
        coarse = wanted.to(self.k.dtype)
        self.q[..., :2] = 16
        self.k[..., 0] = coarse[None, :, None]
        self.k[..., 1] = (wanted - coarse.float())[None, :, None].to(self.k.dtype)


def t(x):
    return x.transpose(1, 2)


def log_sum_exp(case, x):
    """Output and natural log-sum-exp [B, H, S] of PyTorch's FlashAttention-2, or where its mask may lie otherwise than
    ours, and where values have another head dimension, in float32."""
    if case.dv != case.d or (case.causal and case.sq != case.sk):
        forward = copy.copy(case)
        forward.direction = "fwd"
        o, lse = reference(forward, x)
        return o.to(x.q.dtype), lse
    group = case.heads // case.kv_heads
    k, v = (t(y).repeat_interleave(group, 1) if group > 1 else t(y) for y in (x.k, x.v))
    with torch.no_grad():
        out = torch.ops.aten._scaled_dot_product_flash_attention(t(x.q), k, v, 0.0, case.causal,
                                                                 False, scale=x.scale)
    return t(out[0]).contiguous(), out[1].contiguous()


def reference(case, x):
    """The results in float32, with the plain formulas: [O, L] or [dQ, dK, dV]."""
    group = case.heads // case.kv_heads
    at_once = max(1, (1 << 29) // (case.sq * case.sk)) // group * group or group  # heads; 2 GB of scores
    hidden = None
    if case.causal:  # the last query sees the last key
        hidden = torch.ones(case.sq, case.sk, dtype=torch.bool, device="cuda").triu(case.sk - case.sq + 1)
    if case.direction == "fwd":
        out = [torch.empty(*x.q.shape[:3], case.dv, device="cuda"),
               torch.empty(case.batch, case.heads, case.sq, device="cuda")]
    else:
        out = [torch.empty(y.shape, device="cuda") for y in (x.q, x.k, x.v)]
    for b in range(case.batch):
        for first in range(0, case.heads, at_once):
            of_q = slice(first, min(first + at_once, case.heads))
            of_k = slice(first // group, -(-of_q.stop // group))

            def heads(y, which):
                return y[b, :, which].transpose(0, 1).float()
            q = heads(x.q, of_q)
            k, v = (heads(y, of_k).repeat_interleave(group, 0) for y in (x.k, x.v))
            scores = q @ k.transpose(1, 2) * x.scale
            if hidden is not None:
                scores.masked_fill_(hidden, float("-inf"))
            l = torch.logsumexp(scores, 2)
            p = scores.sub_(l.nan_to_num(neginf=0.0)[:, :, None]).exp_()
            if case.direction == "fwd":
                out[0][b, :, of_q] = (p @ v).transpose(0, 1)
                out[1][b, of_q] = l
                continue
            g = heads(x.g, of_q)
            delta = ((p @ v) * g).sum(2, keepdim=True)
            dv = p.transpose(1, 2) @ g
            ds = p.mul_((g @ v.transpose(1, 2)).sub_(delta))
            dq, dk = ds @ k * x.scale, ds.transpose(1, 2) @ q * x.scale
            out[0][b, :, of_q] = dq.transpose(0, 1)
            for whole, part in ((out[1], dk), (out[2], dv)):
                whole[b, :, of_k] = part.unflatten(0, (-1, group)).sum(1).transpose(0, 1)
    return out


def compare(case, results, expected):
    """(error of the norm, largest error of a row, of the log-sum-exp, what is wrong or "").

    16 bits give an error of the norm of about 2.4e-3; that of a row is relative to its norm plus the
    root mean square of all rows' norms.  A lost tile of 64 rows in the largest case is 2e-2 of the
    norm, a lost row 0.5 of its own.  Rows of dQ and dK are differences of near values (the first
    causal ones are 0): theirs may be wide."""
    total = row = of_l = 0.0
    for a, b in zip(results, expected):
        if tuple(a.shape) != tuple(b.shape):
            return float("nan"), float("nan"), 0.0, f"shape {tuple(a.shape)}, not {tuple(b.shape)}"
        a = a.float()
        if b.dim() == 3:
            both = torch.isfinite(b)
            if not torch.equal(both, torch.isfinite(a)):
                return total, row, float("nan"), "log-sum-exp is not finite"
            of_l = (a - b)[both].abs().max().item() if both.any() else 0.0
            continue
        off, norm = (a - b).norm(dim=-1), b.norm(dim=-1)
        mean = norm.square().mean().sqrt()
        errors = torch.stack([off.norm() / norm.norm(), (off / (norm + mean)).max()]).tolist()
        if not all(e == e for e in errors):
            return float("nan"), float("nan"), of_l, "not a number"
        total, row = max(total, errors[0]), max(row, errors[1])
    wrong = ""
    if not total < 6e-3:
        wrong = f"error {total:.1e} of the norm"
    elif not row < (0.05 if case.direction == "fwd" else 0.3):
        wrong = f"error {row:.1e} of a row"
    elif not of_l < 1e-2:
        wrong = f"log-sum-exp is off by {of_l:.1e}"
    return total, row, of_l, wrong


# ---- contenders ------------------------------------------------------------------------------------


def sdpa(case, x, backend):
    if case.causal and case.sq != case.sk:
        raise ValueError("PyTorch aligns the causal mask to the top left")
    q, k, v = (t(y).detach().requires_grad_(True) for y in (x.q, x.k, x.v))

    def forward():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=case.causal, scale=x.scale,
                                                  enable_gqa=case.heads != case.kv_heads)
    return wrap_autograd(case, forward, (q, k, v), t(x.g), t)


def wrap_autograd(case, forward, leaves, grad, view):
    if case.direction == "fwd":
        return Contender(forward, lambda: [view(forward().detach())], "peer")
    out = forward()

    def backward():
        return torch.autograd.grad(out, leaves, grad, retain_graph=True)
    return Contender(backward, lambda: [view(y) for y in backward()], "peer")


def flash_attn_package(case, x, function, **options):
    q, k, v = (y.detach().requires_grad_(True) for y in (x.q, x.k, x.v))

    def forward():
        out = function(q, k, v, softmax_scale=x.scale, causal=case.causal, **options)
        return out[0] if isinstance(out, tuple) else out
    return wrap_autograd(case, forward, (q, k, v), x.g, lambda y: y)


def flash_attn_splits(case, x, function):
    """A forward whose number of splits along the keys the package chooses; its default is one."""
    if case.direction != "fwd":
        raise ValueError("only the forward has splits")
    return flash_attn_package(case, x, function, num_splits=0)


def ours(case, x, module):
    scalars = {s["name"]: 0.0 for k in module.kernels for s in k.meta["scalars"]}
    scalars["scale"] = x.scale
    known = {t["name"] for k in module.kernels for t in k.meta["tensors"]}
    given = {"Q": x.q, "K": x.k, "V": x.v}
    if case.direction == "bwd":
        given.update({"O": x.o, "L": x.l, "dO": x.g})
    if "dK_part" in known:
        deterministic = "dQ_sum" not in known
        scalars["P"] = case.kv_heads * tilec_torch.backward_parts(x.q, x.k, module, deterministic, least=2)
    if "O_part" in known:
        prepare = tilec_torch.prepare_split if module.has("attention_split") else tilec_torch.prepare_decode
        plan = prepare(x.q, x.k, x.v, module, x.scale)
    else:
        plan = module.prepare(**{n: y for n, y in given.items() if n in known}, **scalars)

    def results():
        plan.run()
        names = ("O", "L") if case.direction == "fwd" else ("dQ", "dK", "dV")
        return [plan.tensors[n] for n in names if n in plan.tensors]
    return Contender(plan.run, results, "ours", registers_of(k.function(torch.cuda.current_device()) for k in module.kernels))


def yardstick(case, x, made):
    """A yardsticks.Yardstick as a contender."""
    launches, results = made.prepare(case, x, torch.cuda.get_device_properties(0).multi_processor_count)

    def run_and_get():
        launches.run()
        return results()
    return Contender(launches.run, run_and_get, "yardstick", registers_of(made.functions.values()))


def registers_of(functions):
    """Registers of each kernel, "+N" for N bytes of local memory."""
    said = []
    for function in functions:
        registers, local = (attribute(function, a) for a in (4, 3))  # ATTRIBUTE_NUM_REGS, LOCAL_SIZE_BYTES
        said.append(f"{registers}+{local}" if local else f"{registers}")
    return ",".join(said)


def attribute(function, which):
    value = ctypes.c_int()
    result = tilec_torch.driver().cuFuncGetAttribute(ctypes.byref(value), which, function)
    return value.value if result == 0 else 0


def peers():
    """{name: function of a case and its inputs}"""
    found = {"fa2": lambda c, x: sdpa(c, x, SDPBackend.FLASH_ATTENTION),
             "cudnn": lambda c, x: sdpa(c, x, SDPBackend.CUDNN_ATTENTION)}
    try:
        from flash_attn_interface import flash_attn_func as fa3
        found["fa3"] = lambda c, x: flash_attn_package(c, x, fa3)
        found["fa3-splits"] = lambda c, x: flash_attn_splits(c, x, fa3)
    except ImportError:
        pass
    try:
        from flash_attn import flash_attn_func as fa2
        found["fa2-package"] = lambda c, x: flash_attn_package(c, x, fa2)
    except ImportError:
        pass
    try:
        from flash_attn.cute import flash_attn_func as fa4
        found["fa4"] = lambda c, x: flash_attn_package(c, x, fa4)
        found["fa4-splits"] = lambda c, x: flash_attn_splits(c, x, fa4)
    except ImportError:
        pass
    return found
