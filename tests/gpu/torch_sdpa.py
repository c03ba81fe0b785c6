"""torch_sdpa.py - PyTorch's own tests of scaled_dot_product_attention with tilec.torch.attention in its place.

    torch_sdpa.py PYTORCH [--every N] [--seconds S] [--workers W] [PYTEST_ARGUMENT..]

PYTORCH is a checkout of PyTorch: test/test_transformers.py of it runs, on a machine with a GPU.  Calls for which PyTorch's
plain formula is asked for (SDPBackend.MATH), and those on the host, stay PyTorch's: they are what the tests compare with.
Each test passes, or ends with a refusal of tilec.torch's in words, or is one of another backend (OTHERS, with the
reason); else it is a failure.  The last lines count them.
"""
import collections
import os
import re
import sys
import time

import pytest
import torch
import torch.nn.functional as functional
from torch.nn.attention.bias import CausalBias, CausalVariant

import tilec.torch

OTHERS = {  # what a test that fails without a refusal of ours tests, by its name
    r"nested|broadcasting": "nested tensors, which have operators of their own",
    r"choice|priority_order|no_backend": "which of PyTorch's backends is chosen",
    r"determinism": "the warnings of PyTorch's backends",
    r"invalid|fail|unaligned": "the refusals of PyTorch's backends",
    r"query_layout": "the strides of cuDNN's results",
    r"script|subclass": "TorchScript, which compiles no functions of Python's kind",
}
ops = functional.scaled_dot_product_attention  # PyTorch's


def _refuse(what):
    raise tilec.torch.Error(f"scaled_dot_product_attention: {what}")


def _is_reference(*tensors):
    """Whether PyTorch's plain formula was asked for, or a device that kernels are not for."""
    only_math = torch._C._get_math_sdp_enabled() and not (
        torch._C._get_flash_sdp_enabled() or torch._C._get_mem_efficient_sdp_enabled() or torch._C._get_cudnn_sdp_enabled())
    return only_math or not all(isinstance(t, torch.Tensor) and t.is_cuda for t in tensors)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch's function by tilec.torch: queries and keys of its `is_causal` are aligned at their beginnings."""
    if _is_reference(query, key, value):
        return ops(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if query.is_nested or key.is_nested or value.is_nested:
        _refuse("kernels take no nested tensors")
    if dropout_p:
        _refuse("kernels have no dropout")
    lower_right = False
    if isinstance(attn_mask, CausalBias):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        lower_right, is_causal = attn_mask.variant == CausalVariant.LOWER_RIGHT, attn_mask.variant == CausalVariant.UPPER_LEFT
    elif attn_mask is not None:
        _refuse("kernels take no attn_mask")
    if not query.dim() == key.dim() == value.dim() or query.dim() not in (3, 4):
        _refuse(f"tensors of 3 or 4 dimensions are taken, not of {query.dim()}, {key.dim()} and {value.dim()}")
    if query.dim() == 3:
        return attention(query[None], key[None], value[None], attn_mask, 0.0, is_causal, scale, enable_gqa)[0]
    if not enable_gqa and query.shape[1] != key.shape[1]:
        _refuse(f"{query.shape[1]} heads of queries and {key.shape[1]} of keys without enable_gqa")
    rows, keys, options = query.shape[2], key.shape[2], {"causal": lower_right}
    if is_causal and rows < keys:  # the keys behind the last query are seen by none
        key, value, options = key[:, :, :rows], value[:, :, :rows], {"causal": True}
    elif is_causal:
        options = {"right": rows - keys}
    return tilec.torch.attention(query, key, value, scale=scale, layout="bhsd", **options)


functional.scaled_dot_product_attention = attention
torch.nn.functional.scaled_dot_product_attention = attention


# ---- the plugin of pytest that this file is ----


def pytest_addoption(parser):
    parser.addoption("--every", type=int, default=1, help="of families with many parameters every so many")
    parser.addoption("--seconds", type=int, default=10**6, help="begin no test after so many")


def pytest_collection_modifyitems(config, items):
    """Tests of a GPU, and of long families every n-th."""
    seen, kept = collections.Counter(), []
    for item in items:
        if not re.search(r"cuda|CUDA", item.nodeid):
            continue
        family = re.sub(r"_(batch_size|type|cuda|shape|causal|Sdpa|fused_kernel|contiguous).*", "", item.name)
        seen[family] += 1
        if seen[family] <= 8 or seen[family] % config.option.every == 0:
            kept.append(item)
    items[:] = kept


def pytest_runtest_setup(item):
    if time.time() > float(os.environ["TORCH_SDPA_START"]) + item.config.option.seconds:
        pytest.skip("no time is left")


def pytest_runtest_teardown(item):
    torch.cuda.empty_cache()  # workers share the GPU, and the plain formula takes gigabytes


def _refusal(error):
    """The words of the first of our refusals behind an exception."""
    while error is not None:
        if isinstance(error, tilec.torch.Error):
            return str(error)
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if not report.failed:
        return
    error = call.excinfo.value
    words = _refusal(error)
    other = next((reason for pattern, reason in OTHERS.items() if re.search(pattern, item.nodeid)), None)
    report.longrepr = (f"REFUSED {words}" if words else f"OTHER {other}" if other
                       else f"FAILED {type(error).__name__}: " + " ".join(str(error).split())[:300])


def pytest_terminal_summary(terminalreporter):
    found, words, wrong = collections.Counter(), collections.Counter(), []
    for report in terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", []):
        text = str(report.longrepr)
        kind = next((kind for kind in ("REFUSED", "OTHER") if text.startswith(kind)), "FAILED")
        found[kind] += 1
        if kind == "FAILED":
            wrong.append((report.nodeid.split("::", 1)[-1], text[:300]))
        else:
            words[re.sub(r"\d+", "N", text)[:150]] += 1
    found["PASSED"] = len(terminalreporter.stats.get("passed", []))
    found["SKIPPED"] = len(terminalreporter.stats.get("skipped", []))
    for text, n in words.most_common(40):
        print(f"{n:6} {text}")
    for name, text in wrong:
        print(f"WRONG {name}: {text}")
    print("sdpa:", ", ".join(f"{n} {kind}" for kind, n in sorted(found.items())))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    tests = os.path.join(os.path.abspath(sys.argv[1]), "test")
    os.environ["PYTHONPATH"] = os.pathsep.join([here, tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path[:0] = [here, tests]
    os.environ["TORCH_SDPA_START"] = str(time.time())
    given, workers = sys.argv[2:], []
    if "--workers" in given:
        at = given.index("--workers")
        workers = ["-n", given[at + 1]]
        del given[at:at + 2]
    sys.exit(pytest.main([os.path.join(tests, "test_transformers.py"), "-p", "torch_sdpa", "-q", "--no-header", "-p", "no:cacheprovider",
                          "--tb=line", "--rootdir", tests, *workers, *given]))


if __name__ == "__main__":
    main()
