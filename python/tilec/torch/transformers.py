"""transformers.py - attn_implementation="tilec" in models of Hugging Face's transformers.

    import tilec.torch.transformers
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, attn_implementation="tilec")

A model asks three times.  When it is made, for the implementation: one that has attention code of its own is refused
(transformers_models.py).  Once for each kind of layer for a mask (`mask`): here that is None where causal
attention of all queries and keys is meant, else a Mask, which lists for each sequence of the batch the parts
of it that attend to themselves: what is left without padding, or the sequences that are packed into one.  Then
each layer asks for attention (`attention`), which runs a kernel for each part.  What can be told in
no such way is refused.
"""
import inspect
from dataclasses import dataclass

import torch
import transformers
from transformers import masking_utils

from tilec.torch import attend, transformers_models
from tilec.torch.transformers_models import NAME, refuse as _refuse


@dataclass(frozen=True)
class Mask:
    """What a query sees beside being causal or not."""
    causal: bool
    window: int  # at most so many keys up to its place; 0: any
    right: object  # at most so many after it; None: any, of those that causal leaves
    q_length: int
    kv_length: int
    parts: object  # for each sequence: (first query, end of them, first key, end of them)s; None: all of it

    # generate() makes masks before it calls the model, and both look whether a mask is of all queries and keys
    ndim = 4

    @property
    def shape(self):
        return 1, 1, self.q_length, self.kv_length


# ---- masks ----


def _padding(attention_mask, kv_length, kv_offset, end):
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
            _refuse("a padding mask has a hole: tokens that are masked lie between some that are not")
    return [(first, last) if count else (0, 0) for count, first, last in rows]


def _starts(mask_function, batch_size, end, kv_offset, device):
    """For each sequence the keys, of those before `end`, at which another of those packed into it (or a
    chunk) begins: it does not see the key before it."""
    place = torch.arange(end, device=device)[None] + kv_offset
    index = torch.arange(batch_size, device=device)[:, None]
    later = mask_function(index, index * 0, place[:, :-1], place[:, 1:])
    if later.any():
        _refuse("the model lets some tokens see later ones")
    before = mask_function(index, index * 0, place[:, 1:], place[:, :-1]).expand(batch_size, end - 1)
    starts = [[] for _ in range(batch_size)]
    for b, k in (~before).nonzero().tolist():
        starts[b].append(k + 1)
    return starts


def _causal_parts(keys, starts, q_length, q_at):
    """The parts of a sequence whose keys begin at keys[0]; later padding is seen by padding alone."""
    if keys[0] == keys[1]:
        return ()
    begins = sorted({keys[0], *[k for k in starts if k > keys[0]]})
    parts = []
    for k0, k1 in zip(begins, [*begins[1:], q_at + q_length]):
        q0, q1 = max(k0 - q_at, 0), min(k1 - q_at, q_length)
        if q1 > q0:
            parts.append((q0, q1, k0, k1))
    return tuple(parts)


@torch.compiler.disable
def _parts(batch_size, q_length, kv_length, q_offset, kv_offset, attention_mask, causal, probe, device):
    """Mask.parts, read from the tensors; `probe`: the mask function, where it has to be asked."""
    if attend.DEVICE_TYPE == "cuda" and torch.cuda.is_current_stream_capturing():
        _refuse("padding and static caches are read on the host, which no CUDA graph can capture")
    q_at = int(q_offset) - kv_offset
    end = q_at + q_length if causal else kv_length
    if end > kv_length or q_at < 0:
        _refuse(f"queries at {q_at} to {end} of {kv_length} keys")
    keys = [(0, end)] * batch_size
    if attention_mask is not None:
        keys = _padding(attention_mask, kv_length, kv_offset, end)
    if not causal:
        parts = [((0, q_length, *both),) if both[1] > both[0] else () for both in keys]
    else:
        starts = [[]] * batch_size
        if probe is not None:
            starts = _starts(probe, batch_size, end, kv_offset, device)
        parts = [_causal_parts(*row, q_length, q_at) for row in zip(keys, starts)]
    whole = (0, q_length, 0, kv_length)
    return None if all(row == (whole,) for row in parts) else tuple(parts)


def mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None,
         local_size=None, allow_is_causal_skip=True, use_vmap=False, device="cpu", config=None, **options):
    """What masking_utils calls for a kind of layer; its result goes to each of these layers."""
    if isinstance(attention_mask, Mask):
        return attention_mask
    causal = "allow_is_bidirectional_skip" not in options
    if use_vmap:
        _refuse("the model has a mask of its own beside the causal one")
    chunked = local_size is not None and local_size == getattr(config, "attention_chunk_size", None)
    probe = mask_function if causal and (not allow_is_causal_skip or chunked) else None
    # which queries there are is a number unless the cache is a static one
    aligned = not causal or (not isinstance(q_offset, torch.Tensor) and q_offset - kv_offset + q_length == kv_length)
    parts = None
    if attention_mask is not None or probe is not None or not aligned:
        parts = _parts(batch_size, q_length, kv_length, q_offset, kv_offset, attention_mask, causal, probe, device)
    if parts is None and local_size is None:
        return None
    window, right = local_size or 0, None
    if local_size and not causal:
        window, right = local_size + 1, local_size  # of a distance up to local_size
    return Mask(causal, window, right, q_length, kv_length, parts)


# ---- attention ----


def _in_parts(q, k, v, parts, options):
    """Attention of [B, S, H, D] where each sequence has parts of its own; zero for queries in none."""
    outs = []
    same = all(row == parts[0] for row in parts)
    for b, row in enumerate(parts[:1] if same else parts):
        of = slice(None) if same else slice(b, b + 1)
        at, made = 0, []
        for q0, q1, k0, k1 in (*row, (q.shape[1], q.shape[1], 0, 0)):
            if q0 > at:
                made.append(q.new_zeros(q[of].shape[0], q0 - at, q.shape[2], v.shape[3]))
            if q1 > q0:
                made.append(attend.attention(q[of, q0:q1], k[of, k0:k1], v[of, k0:k1], **options))
            at = q1
        outs.append(made[0] if len(made) == 1 else torch.cat(made, 1))
    return outs[0] if len(outs) == 1 else torch.cat(outs)


def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, softcap=None,
              is_causal=None, **options):
    """What layers call: tensors [B, H, S, D]; gives [B, S, H, D] and no weights."""
    if dropout:
        _refuse(f"kernels have no dropout, and the layer wants {dropout}")
    for name in ("s_aux", "position_bias", "head_mask"):
        if options.get(name) is not None:
            _refuse(f"kernels do not take the layer's {name}")
    if isinstance(attention_mask, torch.Tensor):
        _refuse("a mask was given as a tensor of all queries and keys, which kernels do not take")
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    window, right = sliding_window or 0, None
    if attention_mask is not None:
        causal, window, right = attention_mask.causal, attention_mask.window, attention_mask.right
        if (attention_mask.q_length, attention_mask.kv_length) != (query.shape[2], key.shape[2]):
            _refuse(f"the mask is of {attention_mask.q_length} queries and {attention_mask.kv_length} keys, and the layer "
                    f"has {query.shape[2]} and {key.shape[2]}")
    elif window and not causal:
        _refuse("a window without a mask that says what it means to both sides")
    told = {"causal": causal, "window": window or None, "right": right, "softcap": softcap or 0.0, "scale": scaling}
    if attention_mask is not None and attention_mask.parts is not None:
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        return _in_parts(q, k, v, attention_mask.parts, told), None
    return attend.attention(query, key, value, layout="bhsd", **told).transpose(1, 2), None


def register():
    """Makes "tilec" an attn_implementation; importing this module does."""
    if "q_length" not in inspect.signature(masking_utils.sdpa_mask).parameters:
        raise ImportError(f"tilec.torch.transformers needs transformers 5 or later, not {transformers.__version__}")
    transformers.AttentionInterface.register(NAME, attention)
    transformers.AttentionMaskInterface.register(NAME, mask)
    transformers_models.watch()


register()
