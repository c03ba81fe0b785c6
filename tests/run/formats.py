#!/usr/bin/env python3
"""formats.py - the programs of docs/quantised.md, and of examples/quantised/, on weights that the packages of the field packed, beside what they unpack.

    formats.py --tilec T --tilerun R [--all]

tests/formats/recipe.py made the data.  What a program writes as a matrix is the package's, element by element, in the type that the package gives;
products are compared with those of that matrix, rounded to bf16, in float64.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

ARCHES = ["interpreter", "sm_80", "sm_90", "sm_100", "sm_86", "sm_89", "sm_103", "sm_120"]
TYPES = {"float16": "f16", "float32": "f32", "uint16": "bf16"}


# of a heading and a program: file, kernel, names of tensors that are others there
EXAMPLES = {("GPTQ", 0): ("gptq.tile", "gptq_by_index", {}), ("AWQ", 0): ("awq.tile", "awq", {}), ("MXFP4", 0): ("blocks.tile", "mxfp4", {}),
            ("NVFP4", 0): ("blocks.tile", "nvfp4", {"G": "A"}), ("FP8 in blocks of 128 x 128", 0): ("bytes.tile", "fp8", {}),
            ("NF4", 0): ("blocks.tile", "nf4", {"A": "S"}), ("GGUF", 0): ("gguf.tile", "q4_0", {}), ("GGUF", 1): ("gguf.tile", "q8_0", {})}


def programs():
    """{heading: programs}"""
    with open(os.path.join(ladder.ROOT, "docs", "quantised.md"), encoding="utf-8") as file:
        parts = re.split(r"^## (.*)\n", file.read(), flags=re.M)[1:]
    return {heading: re.findall(r"^```tile\n(.*?)^```$", text, re.M | re.S) for heading, text in zip(parts[::2], parts[1::2])}


def data(name):
    return dict(np.load(os.path.join(ladder.ROOT, "tests", "formats", name + ".npz")))


def bytes_of(x, *shape):
    """The same memory as another array of bytes."""
    return np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape[:1], *shape)


def cases():
    """(heading, which program, defines, inputs, sizes, the package's matrix, whether it is [K, N])"""
    p = data("gptq")
    k, n = p["weights"].shape
    for order, codes, want in ("", "qweight", "weights"), ("act-order", "act_order_qweight", "act_order_weights"):
        for more, zeros in (1, "qzeros"), (0, "qzeros_v2"):
            index = p["act_order_g_idx"] if order else np.arange(k, dtype=np.int32) // 32
            yield "GPTQ", 0, {"MORE": more}, {"Q": bytes_of(p[codes], n, 4), "Z": bytes_of(p[zeros], n // 2), "S": p["scales"], "I": index}, {}, p[want], True
    p = data("awq")
    yield "AWQ", 0, {"G": 32}, {"Q": bytes_of(p["qweight"], n // 8, 2, 2), "Z": bytes_of(p["qzeros"], n // 8, 2, 2), "S": p["scales"]}, {}, p["weights"], True
    p = data("mxfp4")
    e, n, k = *p["blocks"].shape[:2], p["blocks"].shape[2] * 32
    yield "MXFP4", 0, {}, {"Q": bytes_of(p["blocks"], n, k // 2), "S": p["scales"]}, {}, np.swapaxes(p["weights"], 1, 2), False
    p = data("nvfp4")
    yield "NVFP4", 0, {"DIVIDES": 1}, {"Q": p["packed"], "S": p["scale"], "G": p["global"]}, {}, p["weights"], False
    yield "NVFP4", 0, {"DIVIDES": 0}, {"Q": p["torchao_packed"], "S": p["torchao_scale"], "G": p["torchao_per_tensor"]}, {}, p["torchao_weights"], False
    p = data("fp8")
    yield "FP8 in blocks of 128 x 128", 0, {}, {"Q": p["weight"], "S": p["scale_inv"]}, {}, p["weights"], False
    p = data("nf4")
    n, k = p["weights"].shape
    yield "NF4", 0, {}, {"Q": p["packed"].reshape(n, k // 2), "A": p["absmax"].reshape(n, k // 64), "C": p["code"]}, {}, p["weights"], False
    p = data("gguf")
    n, k = p["q4_0_weights"].shape
    blocks = p["q4_0"].reshape(n, k // 32, 18)
    yield "GGUF", 0, {}, {"Q": blocks.reshape(n, k // 32, 18, 1), "D": blocks.view(np.float16)}, {"K": k}, p["q4_0_weights"], False
    blocks = p["q8_0"].reshape(n, k // 32, 34)
    yield "GGUF", 1, {}, {"Q": blocks.view(np.int8), "D": blocks.view(np.float16)}, {"K": k}, p["q8_0_weights"], False


def executed(options, folder, arch, source, kernel, defines, inputs, sets, out):
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(source)
    names = set(re.findall(r"(\w+): \w+", re.search(rf"kernel {kernel}<(.*?)>", source)[1] if f"kernel {kernel}<" in source else ""))
    defined = [word for name, value in defines.items() if name in names for word in ("-D", f"{name}={value}")] + ["--kernel", kernel]
    command = [options.tilec, "run", at("k.tile"), *defined]
    if arch != "interpreter":
        done = subprocess.run([options.tilec, at("k.tile"), "-arch", arch, "--verify", "-Wno-plan", *defined, "-o", at("k.ptx")], capture_output=True, text=True)
        if done.returncode:
            return None, ladder.failure(done)
        command = [options.tilerun, at("k.ptx"), "--device", "sim"]
    done = subprocess.run(ladder.with_arrays(command, folder, inputs, sets, [out]), capture_output=True, text=True)
    return (None, ladder.failure(done)) if done.returncode else (ladder.loaded(folder, [out])[out], "")


def matrix(options, folder, arch, source, case):
    """What the program writes is the package's."""
    _, _, defines, inputs, sets, want, _ = case
    got, said = executed(options, folder, arch, source, "dequantise", {**defines, "T": TYPES[str(want.dtype)]}, inputs, sets, "W")
    if got is None or np.array_equal(got, want):
        return said
    return f"{np.sum(got != want)} of {want.size} differ, the first at {np.argwhere(got != want)[0]}" if got.shape == want.shape else f"{got.shape} for {want.shape}"


def example(options, folder, arch, _, case):
    """What the kernel in examples/quantised/ writes is the same; it knows no experts, and groups in order besides."""
    heading, which, defines, inputs, _, want, _ = case
    file, kernel, of = EXAMPLES[heading, which]
    if kernel == "gptq_by_index" and inputs["I"][0] == inputs["I"][31] == 0 and (np.diff(inputs["I"]) >= 0).all():
        kernel, defines, inputs = "gptq", {**defines, "G": 32}, {"Q": inputs["Q"].view(np.int32)[..., 0], "Z": inputs["Z"], "S": inputs["S"]}
    if heading == "MXFP4":
        inputs = {name: x.reshape(-1, x.shape[2]) for name, x in inputs.items()}
        want = want.reshape(-1, want.shape[2])
    defines = {**defines, **({"DIVIDES": str(defines["DIVIDES"] == 1).lower()} if "DIVIDES" in defines else {})}
    with open(os.path.join(ladder.ROOT, "examples", "quantised", file), encoding="utf-8") as opened:
        source = opened.read()
    got, said = executed(options, folder, arch, source, kernel, {**defines, "T": TYPES[str(want.dtype)]}, {of.get(name, name): x for name, x in inputs.items()},
                         {"K": len(want)} if kernel == "gptq" else {}, "W")
    return said if got is None else "" if np.array_equal(got, want) else f"{kernel}: {np.sum(got != want)} of {want.size} differ"


def product(options, folder, arch, source, case):
    """That of the package's matrix.  Operands are of the types of the program, but that of NVFP4 multiplies by the global scale last:
    it has the weights exactly, which compressed-tensors rounds to bf16."""
    _, _, defines, inputs, sets, want, first = case
    type_ = TYPES[str(want.dtype)]
    w = ladder.from_bits(want, type_)
    w = w if type_ == "f16" or "DIVIDES" in defines else ladder.rounded(w, "bf16")
    w = w if first else np.swapaxes(w, -1, -2)
    of_x = "f16" if type_ == "f16" else "bf16"
    x = ladder.rounded(np.random.default_rng(1).standard_normal((*w.shape[:-2], 21, w.shape[-2])), of_x)
    got, said = executed(options, folder, arch, source, "product", defines, {"X": ladder.to_bits(x, of_x), **inputs}, sets, "Y")
    if got is None:
        return said
    slack = 2.0**-18 + (2.0**-9 if type_ == "bf16" and "DIVIDES" in defines else 0)
    off = np.abs(got - x @ w) / (np.abs(x) @ np.abs(w) + 2.0**-100)
    return f"an error of {off.max():.2e} of the sum of |x w|" if off.max() > slack or np.isnan(got).any() else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    wrong, n, of = [], 0, programs()
    with tempfile.TemporaryDirectory() as folder:
        for at, case in enumerate(cases()):
            for arch in ARCHES if options.all else ["interpreter", ARCHES[1 + at % 3]]:
                for what in matrix, product, example:
                    n += 1
                    said = what(options, os.path.join(folder, str(n)), arch, of[case[0]][case[1]], case)
                    wrong += [f"{case[0]} {case[1]} {case[2]} {what.__name__} {arch}: {said[:600]}"] if said else []
    print("\n".join(wrong + [f"{n} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
