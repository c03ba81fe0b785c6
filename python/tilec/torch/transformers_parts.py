"""transformers_parts.py - attention where each sequence of a batch has parts of its own, which attend to themselves.

Eager calls know the parts and run a kernel for each.  Under torch.compile two operators keep this out of the graph:
one reads the parts from tensors, on the host, once for each kind of layer, into a table; one is attention by it.
"""
import torch

from tilec.torch import attend, gradient, operators
from tilec.torch.error import Error
from tilec.torch.watch import constant


def are_whole(parts, q_length, kv_length):
    return all(row == ((0, q_length, 0, kv_length),) for row in parts)


def _slices(parts, q_length):
    """(sequences, parts) where something differs; for all sequences at once where nothing does."""
    if all(row == parts[0] for row in parts):
        return [(slice(None), parts[0])]
    return [(slice(b, b + 1), row) for b, row in enumerate(parts)]


def in_parts(q, k, v, parts, options):
    """Attention of [B, S, H, D] where each sequence has parts of its own; zero for queries in none."""
    outs = []
    for of, row in _slices(parts, q.shape[1]):
        at, made = 0, []
        for q0, q1, k0, k1 in (*row, (q.shape[1], q.shape[1], 0, 0)):
            if q0 > at:
                made.append(q.new_zeros(q[of].shape[0], q0 - at, q.shape[2], v.shape[3]))
            if q1 > q0:
                made.append(attend.attention(q[of, q0:q1], k[of, k0:k1], v[of, k0:k1], **options))
            at = q1
        outs.append(made[0] if len(made) == 1 else torch.cat(made, 1))
    return outs[0] if len(outs) == 1 else torch.cat(outs)


# ---- under torch.compile ----

_VALUES = "float? scale, float softcap, bool causal, int window, int right, bool deterministic"
_registered = []


@constant
def _prepare():
    """Puts the operators in the table; torch.compile does this when it traces, and traces nothing of it."""
    if not _registered:
        _registered.append(True)
        _register()
    return True


def table(attention_mask, before, later, batch_size, q_length, kv_length, q_offset, kv_offset, causal, device):
    """Mask.parts as a tensor [B, parts, 4] on the host; a part that there is not has no queries."""
    _prepare()
    if not isinstance(q_offset, torch.Tensor):
        q_offset = torch.full((), q_offset, dtype=torch.int64)
    most = q_length if causal and before is not None else 1
    return torch.ops.tilec.mask_parts(attention_mask, before, later, q_offset, batch_size, q_length, kv_length, kv_offset,
                                      causal, most)


def by_table(q, k, v, rows, *, causal, window, right, softcap, scale, deterministic=False):
    """As in_parts(), with a table in place of the parts."""
    _prepare()
    scale, softcap, causal, window, right, _, _ = attend.options(scale, softcap, causal, window, right, False)
    return torch.ops.tilec.attention_in_parts(q, k, v, rows, scale, float(softcap), causal, window, right, deterministic)[0]


def _make_table(attention_mask, before, later, q_offset, batch_size, q_length, kv_length, kv_offset, causal, most):
    from tilec.torch.transformers_mask import read_parts

    parts = read_parts(attention_mask, before, later, batch_size, q_length, kv_length, q_offset, kv_offset, causal)
    rows = torch.zeros(batch_size, most, 4, dtype=torch.int32)
    for b, row in enumerate(parts):
        if row:
            rows[b, :len(row)] = torch.tensor(row, dtype=torch.int32)
    return rows


def _parts(rows):
    count = int((rows[:, :, 1] > 0).sum(1).max()) if rows.numel() else 0
    return tuple(tuple(tuple(part) for part in row if part[1]) for row in rows[:, :count].tolist())


def _kernel(deterministic):
    return attend.forward_kernel("bshd", deterministic or torch.are_deterministic_algorithms_enabled())


def _values(scale, softcap, causal, window, right):
    return scale, softcap, causal, window, right, softcap > 0, False


def _pieces(rows, q, k):
    """(sequences, queries, keys) as slices, and whether there is one of all queries, or of all keys too."""
    found = [(of, slice(q0, q1), slice(k0, k1)) for of, row in _slices(_parts(rows), q.shape[1]) for q0, q1, k0, k1 in row]
    of_all = len(found) == 1 and found[0][0] == slice(None)
    queries = of_all and found[0][1] == slice(0, q.shape[1])
    return found, queries, queries and found[0][2] == slice(0, k.shape[1])


def _forward(q, k, v, rows, scale, softcap, causal, window, right, deterministic):
    kernel, values = _kernel(deterministic), _values(scale, softcap, causal, window, right)
    pieces, whole, _ = _pieces(rows, q, k)
    if whole:
        _, _, keys = pieces[0]
        return tuple(x.contiguous() for x in kernel.run(q, k[:, keys], v[:, keys], *values))
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    lse = q.new_zeros(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32)
    for of, queries, keys in pieces:
        out[of, queries], lse[of, :, queries] = kernel.run(q[of, queries], k[of, keys], v[of, keys], *values)
    return out, lse


def _backward(grad, q, k, v, out, lse, rows, scale, softcap, causal, window, right, deterministic):
    kernel, values = _kernel(deterministic), _values(scale, softcap, causal, window, right)
    links = gradient.links(kernel)

    def of_piece(of, queries, keys):
        inputs = q[of, queries], k[of, keys], v[of, keys]
        saved = links.keep(inputs, (out[of, queries], lse[of, :, queries].contiguous()))
        these = gradient.as_tuple(kernel.backward.run(*links.arguments(saved, [grad[of, queries], None], values)))
        return [these[i] for i in links.results]

    pieces, _, whole = _pieces(rows, q, k)
    if whole:
        return tuple(x.contiguous() for x in of_piece(*pieces[0]))
    made = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v)]
    for of, queries, keys in pieces:
        for x, at, piece in zip(made, (queries, keys, keys), of_piece(of, queries, keys)):
            x[of, at] = piece
    return tuple(made)


def _fake_forward(q, k, v, *rest):
    return q.new_empty(*q.shape[:3], v.shape[3]), q.new_empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32)


def _fake_backward(grad, q, k, v, *rest):
    return tuple(x.new_empty(x.shape) for x in (q, k, v))


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], *output, inputs[3])
    ctx.values = inputs[4:]
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, of_lse):
    made = None, None, None
    if grad is not None:
        made = torch.ops.tilec.attention_in_parts_backward(grad, *ctx.saved_tensors, *ctx.values)
    return *made, None, *[None] * len(ctx.values)


def _refuse_second(ctx, *grads):
    raise Error(gradient.NO_SECOND.format("attention_in_parts_backward"))


def _register():
    of = operators._library
    of.define("mask_parts(Tensor? seen, Tensor? before, Tensor? later, Tensor q_offset, SymInt batch, SymInt q_length, "
              "SymInt kv_length, SymInt kv_offset, bool causal, SymInt most) -> Tensor")
    of.impl("mask_parts", _make_table, "CompositeExplicitAutograd")
    torch.library.register_fake("tilec::mask_parts", lambda seen, before, later, q_offset, batch, q_length, kv_length, kv_offset,
                                causal, most: torch.empty(batch, most, 4, dtype=torch.int32), lib=of)
    of.define(f"attention_in_parts(Tensor q, Tensor k, Tensor v, Tensor parts, {_VALUES}) -> (Tensor, Tensor)")
    of.impl("attention_in_parts", _forward, "CompositeExplicitAutograd")
    torch.library.register_fake("tilec::attention_in_parts", _fake_forward, lib=of)
    of.define(f"attention_in_parts_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor parts, {_VALUES})"
              " -> (Tensor, Tensor, Tensor)")
    of.impl("attention_in_parts_backward", _backward, "CompositeExplicitAutograd")
    torch.library.register_fake("tilec::attention_in_parts_backward", _fake_backward, lib=of)
    torch.library.register_autograd("tilec::attention_in_parts", _differentiate, setup_context=_setup, lib=of)
    torch.library.register_autograd("tilec::attention_in_parts_backward", _refuse_second, lib=of)
