"""yardsticks.py - attention kernels in PTX that others wrote for sm_90a, to measure ours against.

The files are named sm90a_attention_(fwd|bwd)_dD[_causal][_TILE].ptx.  What their launches need is read
from their text: entries, threads (.maxntid), and from the comment at the head the dynamic shared memory,
the tile and the boxes of the tensor maps.  Tensors are bf16, contiguous [B, S, H, D].
"""

import ctypes
import glob
import math
import os
import re

import tilec_torch

NAME = re.compile(r"sm90a_attention_((fwd|bwd)_d(\d+)(_causal)?(?:_\w+)?)\.ptx$")


class Facts:
    """What a file says of itself."""

    def __init__(self, path, text):
        match = NAME.search(os.path.basename(path))
        if not match:
            raise tilec_torch.TilecError(f"{path}: not named as a yardstick is")
        self.path, self.name, self.direction = path, match[1], match[2]
        self.d, self.causal = int(match[3]), bool(match[4])
        self.threads = {entry: int(threads) for entry, threads in
                        re.findall(r"\.entry\s+(\w+)\s*\([^)]*\)\s*\.maxntid\s+(\d+)", text)}
        head = "\n".join(line for line in text.split("\n") if line.startswith("//"))

        def find(what, *patterns):
            for pattern in patterns:
                found = re.search(pattern, head)
                if found:
                    return found
            raise tilec_torch.TilecError(f"{path}: its head does not say {what}")
        self.shared = int(find("how much dynamic shared memory", r"(\d+) (?:B|bytes) of dynamic shared memory",
                               r"Dynamic shared memory: (\d+) bytes")[1])
        self.tile = tuple(int(n) for n in find("the tile", r"[Tt]ile (\d+) (?:queries )?x (\d+)").groups())
        if self.direction == "fwd":
            boxes = find("the boxes", r"box \{([\d, ]+)\} for (?:map_)?q, \{([\d, ]+)\} for").groups()
            self.q_box, self.k_box = ([int(n) for n in box.split(",")] for box in boxes)
        else:  # whole tiles of 64 columns, as each of their maps loads them
            self.q_box, self.k_box = ([64, rows, 1, 1] for rows in self.tile)
        mains = [e for e in self.threads if e not in ("attention_bwd_pre", "attention_bwd_post")]
        if len(mains) != 1 or (self.direction == "bwd" and len(self.threads) != 3):
            raise tilec_torch.TilecError(f"{path}: its entries are {', '.join(self.threads) or 'none'}")
        self.main = mains[0]

    def fits(self, case):
        return (case.direction == self.direction and case.d == case.dv == self.d and case.causal == self.causal
                and case.dtype == "bf16" and case.heads == case.kv_heads and case.sq == case.sk)


def section(case, limit, bytes_a_row):
    """Heads that run together: the largest power of two that divides b * h and fits the L2 cache."""
    if not case.causal:
        return 1
    heads = 1
    while (case.batch * case.heads) % (2 * heads) == 0 and 2 * heads * case.sq * bytes_a_row <= limit:
        heads *= 2
    return heads


def folder(path):
    paths = sorted(p for p in glob.glob(os.path.join(path, "*.ptx")) if NAME.search(os.path.basename(p)))
    if not paths:
        raise SystemExit(f"--yardsticks {path}: no file sm90a_attention_*.ptx")
    return paths


def fitting(path, cases):
    """The files of a folder that are for some of the cases, as text that is not loaded yet."""
    found = []
    for file in folder(path):
        with open(file) as text:
            found.append(Yardstick(file, text.read()))
    return [y for y in found if any(y.facts.fits(case) for case in cases)]


class Yardstick:
    def __init__(self, path, text):
        self.facts = Facts(path, text)
        self.path, self.image, self.name = path, text.encode(), self.facts.name
        self.functions = {}

    def load(self):
        """Compiles the text; may be called from any thread."""
        handle = load_image(self.image)
        for entry in self.facts.threads:
            self.functions[entry] = function = ctypes.c_void_p()
            tilec_torch._check(tilec_torch.driver().cuModuleGetFunction(ctypes.byref(function), handle,
                                                                        entry.encode()), entry)
        tilec_torch._check(tilec_torch.driver().cuFuncSetAttribute(
            self.functions[self.facts.main], tilec_torch.MAX_DYNAMIC_SHARED, self.facts.shared),
            f"{self.facts.shared} bytes of shared memory")

    def prepare(self, case, x, sm_count):
        """(launches, results): launches are (entry, grid, shared, arguments)."""
        make = {"fwd": forward, "bwd": backward}[case.direction]
        launches, results, kept = make(self.facts, case, x, sm_count)
        return Launches(self, launches, kept), results


class Launches:
    """Arguments that are packed once; `run()` costs a driver call a kernel."""

    def __init__(self, yardstick, launches, kept):
        self.calls, self.kept = [], [kept]
        for entry, grid, shared, arguments in launches:
            pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(a) for a in arguments])
            self.calls.append((yardstick.functions[entry], grid, yardstick.facts.threads[entry], shared, pointers))
            self.kept.append(arguments)

    def run(self):
        stream = ctypes.c_void_p(tilec_torch._torch().cuda.current_stream().cuda_stream)
        driver = tilec_torch.driver()
        for function, grid, threads, shared, pointers in self.calls:
            result = driver.cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, shared, stream, pointers, None)
            if result:
                tilec_torch._check(result, "launching a yardstick")


def load_image(image):
    """The same call as tilec_torch makes, so that the driver finds in its cache what was compiled before."""
    log = ctypes.create_string_buffer(16384)
    keys = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, .._SIZE_BYTES
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
    module = ctypes.c_void_p()
    result = tilec_torch.driver().cuModuleLoadDataEx(ctypes.byref(module), image + b"\0", 2, keys, values)
    tilec_torch._check(result, f"loading the module\n{log.value.decode(errors='replace')}")
    return module


def tensor_map(tensor, box):
    """The map of a [B, S, H, D] tensor, innermost dimension first, 128-byte swizzle."""
    recipe = {"tensor": "a yardstick's tensor", "dims": [3, 1, 2, 0], "box": box, "swizzle": 128, "l2_promotion": 128}
    data, _ = tilec_torch.encode_map(recipe, "bf16", tensor)
    return ctypes.create_string_buffer(data, 128)


def address(tensor):
    return ctypes.c_uint64(tensor.data_ptr())


u32, f32 = ctypes.c_uint32, ctypes.c_float
LOG2E = math.log2(math.e)


def forward(facts, case, x, sm_count):
    torch = tilec_torch._torch()
    out = torch.empty_like(x.q)
    lse = torch.empty(case.batch, case.heads, case.sq, dtype=torch.float32, device=x.q.device)
    counter = torch.zeros(2, dtype=torch.int32, device=x.q.device)  # a launch leaves it zero
    m_tiles = -(-case.sq // facts.tile[0])
    tiles = m_tiles * case.batch * case.heads
    arguments = [tensor_map(x.q, facts.q_box), tensor_map(x.k, facts.k_box), tensor_map(x.v, facts.k_box),
                 address(out), address(lse), address(counter), u32(case.sq), u32(case.heads), u32(m_tiles),
                 u32(section(case, 32 << 20, 4 * case.d)), u32(tiles), f32(x.scale * LOG2E), u32(0)]
    return ([(facts.main, min(sm_count, tiles), facts.shared, arguments)], lambda: [out, lse],
            (x, out, lse, counter))


def backward(facts, case, x, sm_count):
    torch = tilec_torch._torch()
    rows, keys = facts.tile
    m_tiles, n_tiles = -(-case.sq // rows), -(-case.sk // keys)
    heads = case.batch * case.heads
    padded = heads * m_tiles * rows

    def room(count):
        return torch.empty(count, dtype=torch.float32, device=x.q.device)
    total, lse, delta = room(padded * case.d), room(padded), room(padded)
    dq, dk, dv = (torch.empty_like(y) for y in (x.q, x.k, x.v))
    pre = [address(x.o), address(x.g), address(x.l), address(lse), address(delta), address(total),
           u32(case.sq), u32(case.heads), u32(m_tiles), u32(padded), f32(-LOG2E)]
    main = [tensor_map(x.q, facts.q_box), tensor_map(x.k, facts.k_box), tensor_map(x.v, facts.k_box),
            tensor_map(x.g, facts.q_box), address(dk), address(dv), address(total), address(lse), address(delta),
            u32(case.sq), u32(case.heads), u32(n_tiles), u32(m_tiles), u32(section(case, 40 << 20, 1024)),
            f32(x.scale * LOG2E), f32(x.scale), u32(0)]
    post = [address(total), address(dq), u32(case.sq), u32(case.heads), u32(m_tiles), f32(x.scale)]
    return ([("attention_bwd_pre", -(-padded // 64), 0, pre),
             (facts.main, n_tiles * heads, facts.shared, main),
             ("attention_bwd_post", m_tiles * heads, 0, post)], lambda: [dq, dk, dv],
            (x, total, lse, delta, dq, dk, dv))
