#!/usr/bin/env python3
"""recipe.py - makes the files of this folder: seeded weights as the packages of the field pack them, and what they make of them again.

    python3 -m venv V
    V/bin/pip install numpy==2.4.6 torch==2.15.0 transformers==5.24.0 gguf==0.19.0 bitsandbytes==0.50.2 compressed-tensors==0.20.1 \\
        torchao==0.18.0 gptqmodel==7.7.0 accelerate==1.15.0
    V/bin/pip install --no-deps autoawq==0.2.9
    V/bin/python recipe.py [NAME..]

Everything runs on a processor.  What packs and what unpacks is the packages' own code, called here; none of it is copied.  Where
building gptqmodel is not wanted, its sources may lie in PYTHONPATH (`pip download --no-deps`): it needs no compiled part for this.
autoawq's own `__init__` wants a Transformers of its time, so its module of the layout is loaded without it.  Scales of gptq and awq
are chosen here, by rows of a group: what the packages' calibrations choose does not matter to a layout.
"""
import os
import sys
import types

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def drawn(seed, *shape):
    import torch
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def bits(x):
    """A tensor as NumPy takes it: bf16 and 8-bit floats as their bits."""
    import torch
    other = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e8m0fnu: torch.uint8}
    return (x.view(other[x.dtype]) if x.dtype in other else x).contiguous().numpy()


def grouped(w, group):
    """For weights [N, K] scales in f16 and zero points, [K / group, N]: the least of a group is 0, the greatest 15; zero points 1 to 15."""
    import torch
    parts = w.reshape(w.shape[0], -1, group)
    low, high = parts.amin(2).clamp(max=0), parts.amax(2).clamp(min=0)
    scale = ((high - low) / 15).half().float()
    zero = torch.round(-low / scale).clamp(1, 15)
    return scale.T.contiguous(), zero.T.contiguous()


def gptq_layer(w, scale, zero, index, act_order):
    import torch
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    linear = torch.nn.Linear(*reversed(w.shape), bias=False)
    linear.weight.data = w
    made = TorchLinear(bits=4, group_size=32, sym=False, desc_act=act_order, in_features=w.shape[1], out_features=w.shape[0], bias=False,
                       register_buffers=True)
    made.pack_original(linear, scale.T, zero.T, index)
    made.post_init()
    return made


def gptq():
    """Zero points as they are (gptq_v2), and by the package's conversion less one; groups in order, and with act-order."""
    import torch
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module
    w = drawn(1, 32, 64)
    scale, zero = grouped(w, 32)
    index = torch.arange(64, dtype=torch.int32) // 32
    mixed = index[torch.from_numpy(np.random.default_rng(10).permutation(64))].contiguous()
    made, other = gptq_layer(w, scale, zero, index, False), gptq_layer(w, scale, zero, mixed, True)
    out = {"qweight": bits(made.qweight), "qzeros_v2": bits(made.qzeros).copy(), "scales": bits(made.scales), "weights": bits(made.dequantize_weight()),
           "act_order_qweight": bits(other.qweight), "act_order_g_idx": bits(other.g_idx), "act_order_weights": bits(other.dequantize_weight())}
    convert_gptq_v2_to_v1_format_module(made, quantize_config=types.SimpleNamespace(bits=4, pack_dtype=torch.int32))
    return {**out, "qzeros": bits(made.qzeros)}


def awq():
    import importlib.util
    import torch
    for name in "awq", "awq.modules", "awq.modules.linear":  # without their __init__
        at = importlib.util.find_spec(name) if name == "awq" else None
        path = os.path.dirname(at.origin) if at else os.path.join(os.path.dirname(sys.modules["awq"].__path__[0]), *name.split("."))
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [path]
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm
    n, k, group = 32, 64, 32
    w = drawn(2, n, k)
    scale, zero = grouped(w, group)
    linear = torch.nn.Linear(k, n, bias=False)
    linear.weight.data = w.clamp(-2, 2)  # it does not saturate: within the range of the group
    scale, zero = grouped(linear.weight.data, group)
    made = WQLinear_GEMM.from_linear(linear, 4, group, scales=scale, zeros=zero)
    return {"qweight": bits(made.qweight), "qzeros": bits(made.qzeros), "scales": bits(made.scales),
            "weights": bits(dequantize_gemm(made.qweight, made.qzeros, made.scales, 4, group))}


def mxfp4():
    import torch
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    experts, n, k = 2, 24, 96
    w = drawn(3, experts, n, k) * torch.exp2(torch.from_numpy(np.random.default_rng(4).integers(-12, 12, (experts, n, 1)).astype(np.float32)))
    scale, packed = to_mx(w, torch.float4_e2m1fn_x2, 32)
    blocks, scales = packed.view(torch.uint8).reshape(experts, n, k // 32, 16), scale.view(torch.uint8).reshape(experts, n, k // 32)
    return {"blocks": bits(blocks), "scales": bits(scales), "weights": bits(convert_moe_packed_tensors(blocks, scales))}


def nvfp4():
    import torch
    from compressed_tensors.compressors.nvfp4 import NVFP4PackedCompressor as Compressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    n, k = 24, 96
    w = drawn(5, n, k) * 0.02
    args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True, scale_dtype=torch.float8_e4m3fn)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    whole = generate_gparam(w.min(), w.max())
    parts = w.reshape(n, k // 16, 16)
    scale, _ = calculate_qparams(parts.amin(2), parts.amax(2), args, global_scale=whole)
    state = Compressor.compress({"weight": w, "weight_scale": scale, "weight_global_scale": whole}, scheme)
    other = NVFP4Tensor.to_nvfp4(w, per_tensor_scale=per_tensor_amax_to_scale(w.abs().max()))
    return {"packed": bits(state["weight_packed"]), "scale": bits(state["weight_scale"]), "global": bits(state["weight_global_scale"]),
            "weights": bits(Compressor.decompress(state, scheme)["weight"]),
            "torchao_packed": bits(other.qdata.view(torch.uint8)), "torchao_scale": bits(other.scale.view(torch.uint8).reshape(n, k // 16)),
            "torchao_per_tensor": bits(other.per_tensor_scale.reshape(1)), "torchao_weights": bits(other.dequantize(torch.float32))}


def fp8():
    """Blocks at the edges are not whole, as in models; the package quantizes whole ones only, so the rest of those is zero, and cut off."""
    import torch
    from transformers.integrations.finegrained_fp8 import Fp8Quantize, _dequantize_fp8_weight
    n, k = 136, 144
    w = torch.zeros(256, 256)
    w[:n, :k] = drawn(6, n, k) * (drawn(7, n, k) > 2.3)  # mostly zeros: a small file
    config = types.SimpleNamespace(weight_block_size=(128, 128), scale_fmt="float")
    made = Fp8Quantize(types.SimpleNamespace(quantization_config=config)).convert({"weight": w})
    weight, scale = made["weight"][:n, :k].contiguous(), made["weight_scale_inv"]
    return {"weight": bits(weight), "scale_inv": bits(scale), "weights": bits(_dequantize_fp8_weight(weight, scale, [128, 128], torch.float32))}


def nf4():
    import torch
    import bitsandbytes.functional as F
    n, k = 24, 128
    packed, state = F.quantize_4bit(drawn(8, n, k), blocksize=64, quant_type="nf4")
    return {"packed": bits(packed), "absmax": bits(state.absmax), "code": bits(state.code),
            "weights": bits(F.dequantize_4bit(packed, state).reshape(n, k).to(torch.float32))}


def gguf():
    from gguf import GGMLQuantizationType as Type
    from gguf.quants import dequantize, quantize
    w, out = drawn(9, 8, 96).numpy(), {}
    for name, type_ in ("q4_0", Type.Q4_0), ("q8_0", Type.Q8_0):
        out[name] = quantize(w, type_)
        out[name + "_weights"] = dequantize(out[name], type_)
    return out


def main():
    for make in gptq, awq, mxfp4, nvfp4, fp8, nf4, gguf:
        if len(sys.argv) == 1 or make.__name__ in sys.argv[1:]:
            np.savez_compressed(os.path.join(HERE, make.__name__ + ".npz"), **make())


if __name__ == "__main__":
    main()
