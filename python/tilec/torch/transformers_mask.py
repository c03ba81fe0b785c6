"""transformers_mask.py - masks as transformers asks for them: what queries see, in words and not in elements.

There is always one, also where attention is plainly causal: a model that has attention code of its own then meets
something that it cannot compute with, and not None, which says that all is seen.
"""
from dataclasses import dataclass

import torch

from tilec.torch import attend, transformers_parts
from tilec.torch.transformers_models import NotATensor, refuse


@dataclass(frozen=True, eq=False)
class Mask:
    """What a query sees beside being causal or not."""
    causal: bool
    window: int  # at most so many keys up to its place; 0: any
    right: object  # at most so many after it; None: any, of those that causal leaves
    q_length: int
    kv_length: int
    parts: object  # for each sequence: (first query, end of them, first key, end of them)s; None: all of it
    table: object = None  # in place of the parts, under torch.compile: a tensor of them
    model: str = "the model"

    # generate() makes masks before it calls the model, and both look whether a mask is of all queries and keys
    ndim = 4

    @property
    def shape(self):
        return 1, 1, self.q_length, self.kv_length

    def __getitem__(self, index):
        """Itself, where that is all of it: some models cut what they asked for to the keys."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) <= 4 and all(isinstance(i, slice) for i in index):
            if all(i.indices(n) == (0, n, 1) for i, n in zip(index, self.shape)):
                return self
        self._used("a part of it")

    def __getattr__(self, name):
        self._used(f"its '{name}'")

    @classmethod
    def __torch_function__(cls, function, kinds, arguments=(), named=None):
        given = [x for x in (*arguments, *(named or {}).values()) if isinstance(x, Mask)]
        (given[0] if given else cls)._used(getattr(function, "__name__", str(function)))

    def _used(self, how):
        refuse(f"{self.model} computes with the mask ({how}) and does not leave it to transformers' AttentionInterface: "
               "it has attention code of its own, or attention that kernels do not have", NotATensor, "eager")


def _operation(name):
    def used(self, *others):
        self._used(name)

    return used


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "and", "rand", "or", "ror", "xor", "invert", "neg", "lt", "le",
              "gt", "ge", "len", "iter"):
    setattr(Mask, f"__{_name}__", _operation(_name))


# ---- what tensors say ----


def padding(attention_mask, kv_length, kv_offset, end):
    """For each sequence the first of its keys and the end of them, among those before `end`."""
    seen = attention_mask[:, kv_offset:kv_offset + kv_length]
    if seen.shape[1] < end:
        seen = torch.nn.functional.pad(seen, (0, end - seen.shape[1]))
    seen = seen[:, :end].to(torch.int32)
    count = seen.sum(1)
    if all(n == end for n in count.tolist()):  # one small kernel, as for SDPA: each token of generate() asks
        return [(0, end)] * len(seen)
    rows = torch.stack([count, seen.argmax(1), end - seen.flip(1).argmax(1)], 1).tolist()
    for count, first, last in rows:
        if count not in (0, last - first):
            refuse("a padding mask has a hole: tokens that are masked lie between some that are not")
    return [(first, last) if count else (0, 0) for count, first, last in rows]


def starts(before, later, end):
    """For each sequence the keys, of those before `end`, at which another of those packed into it (or a chunk) begins:
    it does not see the key `before` it.  None sees the one after it."""
    if later[:, :end - 1].any():
        refuse("the model lets some tokens see later ones")
    found = [[] for _ in range(before.shape[0])]
    for b, k in (~before[:, :end - 1]).nonzero().tolist():
        found[b].append(k + 1)
    return found


def causal_parts(keys, begins, q_length, q_at):
    """The parts of a sequence whose keys begin at keys[0]; later padding is seen by padding alone."""
    if keys[0] == keys[1]:
        return ()
    begins = sorted({keys[0], *[k for k in begins if k > keys[0]]})
    parts = []
    for k0, k1 in zip(begins, [*begins[1:], q_at + q_length]):
        q0, q1 = max(k0 - q_at, 0), min(k1 - q_at, q_length)
        if q1 > q0:
            parts.append((q0, q1, k0, k1))
    return tuple(parts)


def read_parts(attention_mask, before, later, batch_size, q_length, kv_length, q_offset, kv_offset, causal):
    """Mask.parts, read from tensors."""
    if attend.DEVICE_TYPE == "cuda" and torch.cuda.is_current_stream_capturing():
        refuse("padding, packed sequences and static caches are read on the host, which no CUDA graph can capture")
    q_at = int(q_offset) - kv_offset
    end = q_at + q_length if causal else kv_length
    if end > kv_length or (causal and q_at < 0):
        refuse(f"queries at {q_at} to {end} of {kv_length} keys")
    keys = [(0, end)] * batch_size
    if attention_mask is not None:
        keys = padding(attention_mask, kv_length, kv_offset, end)
    if not causal:
        return tuple(((0, q_length, *both),) if both[1] > both[0] else () for both in keys)
    begins = [[]] * batch_size if before is None else starts(before, later, end)
    return tuple(causal_parts(*row, q_length, q_at) for row in zip(keys, begins))


def make(causal, window, right, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask, batch_size, device, model):
    """A Mask; `mask_function` is asked for where sequences begin, None: there is one."""
    before = later = table = parts = None
    if mask_function is not None:
        place = torch.arange(kv_length, device=device)[None] + kv_offset
        index = torch.arange(batch_size, device=device)[:, None]
        if getattr(mask_function, "__name__", "") == "or_mask":  # blocks may be seen from afar
            later = mask_function(index[..., None], index[..., None] * 0, place[..., None], place[:, None])
            later = (later & (place[:, None] > place[..., None])).any(2).expand(batch_size, kv_length)
        else:
            later = mask_function(index, index * 0, place[:, :-1], place[:, 1:]).expand(batch_size, kv_length - 1)
        before = mask_function(index, index * 0, place[:, 1:], place[:, :-1]).expand(batch_size, kv_length - 1)
    # which queries there are is a number unless the cache is a static one
    aligned = not causal or (not isinstance(q_offset, torch.Tensor) and q_offset - kv_offset + q_length == kv_length)
    if attention_mask is not None or before is not None or not aligned:
        if torch.compiler.is_compiling():
            table = transformers_parts.table(attention_mask, before, later, batch_size, q_length, kv_length, q_offset,
                                             kv_offset, causal, device)
        else:
            parts = read_parts(attention_mask, before, later, batch_size, q_length, kv_length, q_offset, kv_offset, causal)
            if transformers_parts.are_whole(parts, q_length, kv_length):
                parts = None
    return Mask(causal, window, right, q_length, kv_length, parts, table, model)
