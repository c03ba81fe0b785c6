"""flash_attn.py - the names of the package flash_attn, by the kernels of tilec.torch.

    from tilec.torch.flash_attn import flash_attn_func        # in place of: from flash_attn import ..

Arguments mean what they mean there: tensors are [B, S, H, D], or [T, H, D] of packed sequences, the mask is aligned at the ends of queries and
keys, a window has so many keys to its left and right beside the one in its middle.  What kernels do not have is
refused by a tilec.torch.Error.
"""
import torch

from tilec.torch.attend import attention
from tilec.torch.error import Error
from tilec.torch.packed import attention_varlen

__all__ = ["flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
           "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache"]


def _refuse(function, what):
    raise Error(f"{function}: {what}")


def _refuse_options(function, dropout_p, alibi_slopes):
    if dropout_p:
        _refuse(function, f"kernels have no dropout, and dropout_p is {dropout_p}")
    if alibi_slopes is not None:
        _refuse(function, "kernels take no alibi_slopes; tilec.torch.attention(alibi=True) has slopes "
                "2 ** (-8 (h + 1) / heads)")


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    """O, or with return_attn_probs (O, L, None): kernels keep no probabilities."""
    _refuse_options("flash_attn_func", dropout_p, alibi_slopes)
    left, right = window_size
    out = attention(q, k, v, causal=causal, window=None if left < 0 else left + 1, right=None if right < 0 else right,
                    softcap=softcap, scale=softmax_scale, deterministic=deterministic, return_lse=return_attn_probs)
    return (*out, None) if return_attn_probs else out


def flash_attn_kvpacked_func(q, kv, *arguments, **options):
    """kv [B, S, 2, H, D]."""
    return flash_attn_func(q, *kv.unbind(2), *arguments, **options)


def flash_attn_qkvpacked_func(qkv, *arguments, **options):
    """qkv [B, S, 3, H, D]."""
    return flash_attn_func(*qkv.unbind(2), *arguments, **options)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None):
    """q [Tq, H, D], k and v [Tk, Hk, D]; O, or with return_attn_probs (O, L [H, Tq], None)."""
    name = "flash_attn_varlen_func"
    _refuse_options(name, dropout_p, alibi_slopes)
    if block_table is not None:
        _refuse(name, "kernels take no block_table")
    if deterministic and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        _refuse(name, "there are no deterministic gradients of packed sequences: dQ is summed in any order")
    left, right = window_size
    if right > 0 and not causal:
        _refuse(name, f"kernels of packed sequences have no window to the right, and window_size is {tuple(window_size)}")
    out = attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, longest_q=max_seqlen_q, longest_k=max_seqlen_k,
                           causal=causal or right == 0, window=None if left < 0 else left + 1, softcap=softcap,
                           scale=softmax_scale, return_lse=return_attn_probs)
    return (*out, None) if return_attn_probs else out


def flash_attn_varlen_kvpacked_func(q, kv, *arguments, **options):
    """kv [Tk, 2, Hk, D]."""
    return flash_attn_varlen_func(q, *kv.unbind(1), *arguments, **options)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *arguments, **options):
    """qkv [T, 3, H, D]."""
    return flash_attn_varlen_func(*qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *arguments, **options)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False,
                            window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0,
                            return_softmax_lse=False):
    """Attention to the first `cache_seqlens` (an int; None: all) rows of a cache, k and v written behind them first."""
    for name, value in (("rotary_cos", rotary_cos), ("cache_batch_idx", cache_batch_idx), ("cache_leftpad", cache_leftpad),
                        ("block_table", block_table)):
        if value is not None:
            _refuse("flash_attn_with_kvcache", f"kernels take no {name}")
    if not isinstance(cache_seqlens, (int, type(None))):
        _refuse("flash_attn_with_kvcache", "cache_seqlens must be an int, the same for all sequences: there are no kernels "
                "for several lengths")
    rows = k_cache.shape[1] if cache_seqlens is None else cache_seqlens
    if not 0 <= rows <= k_cache.shape[1]:
        _refuse("flash_attn_with_kvcache", f"cache_seqlens is {rows}, and the cache has {k_cache.shape[1]} rows")
    if k is not None:
        if cache_seqlens is None or rows + k.shape[1] > k_cache.shape[1]:
            _refuse("flash_attn_with_kvcache", f"no room for {k.shape[1]} new keys behind {rows} in a cache of "
                    f"{k_cache.shape[1]}")
        k_cache[:, rows:rows + k.shape[1]] = k
        v_cache[:, rows:rows + k.shape[1]] = v
        rows += k.shape[1]
    out = flash_attn_func(q, k_cache[:, :rows], v_cache[:, :rows], 0.0, softmax_scale, causal, window_size, softcap,
                          alibi_slopes, False, return_softmax_lse)
    return out[:2] if return_softmax_lse else out
