"""sampling.py - tokens drawn from logits, by the kernels of examples/sampling.tile."""
import functools
import math

import torch

from tilec.torch import attend, values as numbers
from tilec.torch.error import Error
from tilec.torch.kernel import Kernel
from tilec.torch.watch import constant, is_eager

NAMES = "sampling_parts", "sampling_groups", "sampling_draw"
FLAT = "sampling_first", "sampling_turn", "sampling_return", "sampling_kept", "sampling_flat"
TURNS = {"bf16": 1, "f16": 1, "f32": 3}  # each narrows the threshold down to 1 of 256
TYPES = {"T": ("f32", "f16", "bf16")}
PART, GROUP, LISTED = 4096, 128, 64  # tokens of a program, of a group, and groups that are drawn from in registers
MOST = GROUP * 4096  # tokens of a row
OPTIONS = (("temperature", 0.0, math.inf), ("top_k", -1, numbers.LARGEST_I32), ("top_p", 0.0, 1.0), ("min_p", 0.0, 1.0))


def _is_flat(values):
    """Whether there can be rows in which top-p leaves many tokens, which have kernels of their own."""
    return bool((values["ROW_K"] or values["top_k"] <= 0) and (values["ROW_P"] or values["top_p"] < 1) and (values["ROW_M"] or values["min_p"] <= 0))


def _choose(kernel, code, gpu, tensors, values):
    names = [name for name in kernel.names if name not in FLAT]
    if values["FLAT"]:
        names += ["sampling_first"] + ["sampling_turn", "sampling_return"] * TURNS[tensors["X"].dtype] + ["sampling_kept", "sampling_flat"]
    return names, values


def _settle(tensors, values):
    """Sizes of tiles that hold what there is of a row: all that code is compiled for."""
    shape = tensors["X"].shape
    tokens = shape[-1] if len(shape) == 2 else 1
    if tokens > MOST:
        raise Error(f"sample: rows of {tokens} tokens, and at most {MOST} are taken")
    power = lambda n, of: 1 << max(-(-n // of) - 1, 0).bit_length()  # noqa: E731
    return {**values, "N": PART, "H": GROUP, "L": LISTED, "FLAT": _is_flat(values), "GROUPS": max(power(tokens, GROUP), 32),
            "P": max(power(tokens, PART), 32)}


VALUES = ("temperature", "top_k", "top_p", "min_p", "ROW_T", "ROW_K", "ROW_P", "ROW_M")


@functools.lru_cache(maxsize=None)
def sampling_kernel(seeded):
    return Kernel(attend.program("sampling.tile"), ("sampling_uniforms",) * seeded + NAMES + FLAT, returns=("Token",), types=TYPES, values=VALUES,
                  settle=_settle, choose=_choose, name="sample_seeded" if seeded else "sample")


_operators = {}
INPUTS = {False: ("X", "Temp", "U", "TopK", "TopP", "MinP"), True: ("Seed", "Offset", "X", "Temp", "TopK", "TopP", "MinP")}


@constant
def _prepare(seeded):
    """As attend.py's: what torch.compile does when it traces, and traces nothing of."""
    _operators[seeded] = sampling_kernel(seeded).registered()
    return True


def _plain(name, value, least, most):
    """An option of all rows."""
    value = numbers.plain("sample", name, value, none=False)
    if not least <= value <= most or value == math.inf:
        raise Error(f"sample: {name} is {'0 or more' if most > 1 else 'from 0 to 1'}, and not {value}")
    return value


def _per_row(name, value, rows, device, dtype):
    """A number for each row."""
    if value.is_complex() or value.dtype == torch.bool or dtype == torch.int32 and value.is_floating_point():
        raise Error(f"sample: {name} is {str(value.dtype).removeprefix('torch.')}, and must be {'whole numbers' if dtype == torch.int32 else 'numbers'}")
    if value.device != device:
        raise Error(f"sample: {name} is on {value.device}, but logits on {device}: all tensors must be on one GPU")
    if tuple(value.shape) not in ((rows,), (rows, 1)):
        raise Error(f"sample: {name} is {list(value.shape)}, and must be a number, or one for each row, [{rows}]")
    return value.reshape(rows).to(dtype).contiguous()


def _whole(name, value, logits, rows):
    """Seeds and offsets: of all rows, or of each."""
    if isinstance(value, torch.Tensor):
        return _per_row(name, value, rows, logits.device, torch.int32)
    value = numbers.plain("sample", name, value, none=False)
    if isinstance(value, float) or not -2**63 <= value < 2**64:
        raise Error(f"sample: {name} must be a whole number of 64 bits, not {value}")
    return torch.full((rows,), (value + 2**31) % 2**32 - 2**31, dtype=torch.int32, device=logits.device)


def sample(logits, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, *, uniform=None, seed=None, offset=None, generator=None):
    """A token of each row of logits, [.., vocabulary] in float32, float16 or bfloat16: int32 [..]; -1 of a row with no logit but -inf and NaN.

    temperature  logits are divided by it; 0: the first of the greatest
    top_k        tokens are left whose logit is at least the k-th greatest (0: all)
    min_p        and whose probability is this share of the greatest one's, or more
    top_p        and of these, from the greatest on, as many as have this share of their probabilities.  Equal logits stay or go together
    uniform      a number of [0, 1) for each row, float32: of what is left, in order, the first token at which the sum of probabilities
                 exceeds it.  Without one torch.rand makes them, by `generator`
    seed         in place of them a whole number, or one for each row (its lower 32 bits): the same token for the same seed and `offset`, which
                 is the row's number unless it is given

    Options are numbers, or tensors with one for each row.
    """
    if not isinstance(logits, torch.Tensor):
        raise Error(f"sample: logits must be a tensor, not {type(logits).__name__}")
    if not logits.dim() or not logits.shape[-1]:
        raise Error(f"sample: logits are [.., vocabulary], and have the shape {list(logits.shape)}")
    x = logits if logits.dim() == 2 else logits.reshape(-1, logits.shape[-1])
    x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
    rows, values, tensors, by_row = x.shape[0], [], [], []
    for (name, least, most), value in zip(OPTIONS, (temperature, top_k, top_p, min_p)):
        by_row.append(isinstance(value, torch.Tensor))
        kind = torch.int32 if name == "top_k" else torch.float32
        tensors.append(_per_row(name, value, rows, x.device, kind) if by_row[-1] else None)
        value = 0 if by_row[-1] else _plain(name, value, least, most)
        values.append(value if name == "top_k" else float(value))
    if sum(given is not None for given in (uniform, seed, generator)) > 1 or offset is not None and seed is None:
        raise Error("sample: numbers are given (uniform), or made by a seed (and an offset), or by a generator: one of these")
    if seed is not None:
        random = [_whole("seed", seed, x, rows), torch.arange(rows, dtype=torch.int32, device=x.device) if offset is None else
                  _whole("offset", offset, x, rows)]
    elif uniform is None:
        random = [torch.rand(rows, dtype=torch.float32, device=x.device, generator=generator)]
    else:
        if not isinstance(uniform, torch.Tensor):
            raise Error(f"sample: uniform must be a tensor, not {type(uniform).__name__}")
        random = [_per_row("uniform", uniform, rows, x.device, torch.float32)]
    # where a number is every row's, any tensor of the type stands for those of rows
    stand_in = {torch.float32: random[0] if seed is None else random[0].view(torch.float32)}
    stand_in[torch.int32] = stand_in[torch.float32].view(torch.int32)
    t, k, p, m = (stand_in[torch.int32 if i == 1 else torch.float32] if tensor is None else tensor for i, tensor in enumerate(tensors))
    seeded, by_name = seed is not None, {"X": x.detach(), "Temp": t, "TopK": k, "TopP": p, "MinP": m}
    by_name.update(zip(("Seed", "Offset") if seeded else ("U",), random))
    arguments = *[by_name[name] for name in INPUTS[seeded]], *values, *by_row
    if torch.compiler.is_compiling() or not is_eager():
        _prepare(seeded)
        token = _operators[seeded](*arguments)
    else:
        token = sampling_kernel(seeded).run(*[t.resolve_neg() if isinstance(t, torch.Tensor) and t.is_neg() else t for t in arguments])
    return token.view(logits.shape[:-1])


