"""tilec.torch - kernels of the tile language on PyTorch's tensors.

    import tilec.torch
    out = tilec.torch.attention(q, k, v, causal=True)      # eager, autograd, torch.compile, CUDA graphs
    scale = tilec.torch.kernel("scale.tile")               # any kernel
    y = scale(X=x, a=2.0)

Kernels are compiled in this process when they are first called, and kept in memory and on disk; nothing of
CUDA is needed but the driver.  docs/pytorch.md has the details.
"""
try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("tilec.torch needs PyTorch: pip install torch") from error

from tilec.torch.attend import attention
from tilec.torch.error import Error
from tilec.torch.experts import moe
from tilec.torch.kernel import Kernel, kernel
from tilec.torch.linear import linear_cross_entropy
from tilec.torch.packed import attention_varlen
from tilec.torch.quantised import matmul
from tilec.torch.sampling import sample

__all__ = ["Error", "Kernel", "attention", "attention_varlen", "kernel", "linear_cross_entropy", "matmul", "moe", "sample"]
