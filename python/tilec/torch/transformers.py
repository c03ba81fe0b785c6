"""transformers.py - attn_implementation="tilec" in models of Hugging Face's transformers.

    import tilec.torch.transformers
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, attn_implementation="tilec")

A model asks three times.  When it is made, for the implementation: one that has attention code of its own is refused
(transformers_models.py).  Once for each kind of layer for a mask: here that is a Mask, which says whether attention is
causal, and lists for each sequence of the batch the parts of it that attend to themselves: what is left without
padding, or the sequences that are packed into one (transformers_mask.py).  Then each layer asks for attention, which
runs a kernel for each part (transformers_parts.py).  What can be told in no such way is refused.
"""
import inspect

import torch
import transformers
from transformers import masking_utils

from tilec.torch import attend, transformers_mask, transformers_models, transformers_parts
from tilec.torch.transformers_mask import Mask
from tilec.torch.transformers_models import NAME, refuse

# what models and their callers pass on to layers that says nothing of scores, or says again what the mask says
OTHERS = ("position_ids", "cache_position", "use_cache", "output_hidden_states", "output_router_logits", "return_dict",
          "num_items_in_batch", "seq_idx", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")


def mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, mask_function=None, attention_mask=None,
         local_size=None, allow_is_causal_skip=True, use_vmap=False, device="cpu", config=None, **options):
    """What masking_utils calls for a kind of layer; its result goes to each of these layers."""
    if isinstance(attention_mask, Mask):
        return attention_mask
    causal = "allow_is_bidirectional_skip" not in options
    if use_vmap:
        refuse("the model has a mask of its own beside the causal one")
    chunked = local_size is not None and local_size == getattr(config, "attention_chunk_size", None)
    probe = mask_function if causal and (not allow_is_causal_skip or chunked) else None
    window, right = local_size or 0, None
    if local_size and not causal:
        window, right = local_size + 1, local_size  # of a distance up to local_size
    return transformers_mask.make(causal, window, right, q_length, kv_length, q_offset, kv_offset, probe, attention_mask,
                                  batch_size, device, getattr(config, "model_type", "the model"))


def _without_mask(module, is_causal, sliding_window, q_length, kv_length):
    """Whether attention is causal that has no mask: by what the layer says, where that leaves no question."""
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", None)
    what = f"{type(module).__name__} has no mask"
    if sliding_window and kv_length > sliding_window:
        refuse(f"{what} that says what its window means")
    if q_length == 1:
        return False
    if causal is None:
        refuse(f"{what}, and does not say whether it is causal")
    if causal and is_causal is None:  # eager attention is not causal there, SDPA is
        refuse(f"{what}, though it is causal: the model made none (Moshi makes one where attention_mask is given)")
    if causal and q_length != kv_length:
        refuse(f"{what} that says where its {q_length} queries stand among {kv_length} keys")
    return causal


def _check_options(options, attention_mask):
    for name, value in options.items():
        if value is None or value is False or name in OTHERS:
            continue
        if name == "output_attentions":
            refuse("kernels keep no attention weights, and the model is to give them (output_attentions)", other="eager")
        refuse(f"kernels do not take the layer's {name}")
    starts = options.get("cu_seq_lens_q")
    if starts is not None and attention_mask is not None and attention_mask.table is None:
        parts = attention_mask.parts
        if parts is not None and sum(map(len, parts)) != starts.shape[0] - 1:
            refuse("cu_seq_lens_q says that other sequences are packed than position_ids do")


def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, softcap=None,
              is_causal=None, deterministic=None, **options):
    """What layers call: tensors [B, H, S, D]; gives [B, S, H, D] and no weights."""
    if dropout:
        refuse(f"kernels have no dropout, and the layer wants {dropout}")
    if attention_mask is not None and not isinstance(attention_mask, Mask):
        refuse("a mask was given as a tensor of all queries and keys, which kernels do not take")
    _check_options(options, attention_mask)
    told = {"window": None, "right": None, "softcap": softcap or 0.0, "scale": scaling, "deterministic": bool(deterministic)}
    if attention_mask is None:
        told["causal"] = _without_mask(module, is_causal, sliding_window, query.shape[2], key.shape[2])
        return attend.attention(query, key, value, layout="bhsd", **told).transpose(1, 2), None
    if (attention_mask.q_length, attention_mask.kv_length) != (query.shape[2], key.shape[2]):
        refuse(f"the mask is of {attention_mask.q_length} queries and {attention_mask.kv_length} keys, and the layer has "
               f"{query.shape[2]} and {key.shape[2]}")
    if is_causal is False and attention_mask.causal and query.shape[2] > 1:
        refuse("the layer is told not to be causal (is_causal=False), and its mask is: set config.is_causal instead")
    told.update(causal=attention_mask.causal, window=attention_mask.window or None, right=attention_mask.right)
    if attention_mask.parts is None and attention_mask.table is None:
        return attend.attention(query, key, value, layout="bhsd", **told).transpose(1, 2), None
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    if attention_mask.table is None:
        return transformers_parts.in_parts(q, k, v, attention_mask.parts, told), None
    if torch.is_autocast_enabled(attend.DEVICE_TYPE):
        q, k, v = attend._autocast((q, k, v))
    return transformers_parts.by_table(q, k, v, attention_mask.table, **told), None


def register():
    """Makes "tilec" an attn_implementation; importing this module does."""
    if "q_length" not in inspect.signature(masking_utils.sdpa_mask).parameters:
        raise ImportError(f"tilec.torch.transformers needs transformers 5 or later, not {transformers.__version__}")
    transformers.AttentionInterface.register(NAME, attention)
    transformers.AttentionMaskInterface.register(NAME, mask)
    transformers_models.watch()


register()
