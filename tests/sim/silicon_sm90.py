"""sm_90 tests of silicon.py: those of sm90.py (wgmma, tensor copies, bulk copies, stmatrix; all with
exact results) and the programs that check themselves (programs/*.ptx).

The cases are taken down where sm90.py would run them.
"""
import pathlib
import re
import tempfile

import numpy as np

import silicon_cases
import sm90

HERE = pathlib.Path(__file__).resolve().parent


def options_of(words):
    """--block 32 --grid 2,1 ..: (grid, block, shared)."""
    given = dict(zip(words[::2], words[1::2]))
    shape = lambda key: tuple(int(x) for x in (given.get(key, "1") + ",1,1").split(",")[:3])
    return shape("--grid"), shape("--block"), int(given.get("--shared", "0"))


class Taken(Exception):
    pass


def take_down(function, parameters, scratch):
    """What a case would run: its text, arguments and options."""
    taken = []

    def execute(simrun, folder, text, inputs, out_bytes, options, seed):
        args = [("inout", np.zeros(out_bytes, np.uint8))]
        for value in inputs:
            if isinstance(value, str):
                spec, _, rest = value.rpartition(":inout:" if ":inout:" in value else ":in:")
                path = pathlib.Path(rest.replace("SCRATCH", str(folder)))
                args.append(("map", (spec, np.fromfile(path, np.uint8))))
            else:
                args.append(("in", np.ascontiguousarray(value).view(np.uint8).reshape(-1)))
        declared = re.search(r"\.entry k\(([^)]*)\)", text)
        while declared and len(args) < declared.group(1).count(".param"):
            args.append(("in", np.zeros(16, np.uint8)))  # the driver reads every parameter
        taken.append((text, args, options))
        raise Taken

    saved, sm90.execute = sm90.execute, execute
    try:
        function(None, scratch, 0, **parameters)
    except Taken:
        pass
    finally:
        sm90.execute = saved
    return taken[0]


def programs():
    for path in sorted((HERE / "programs").glob("*.ptx")):
        text = path.read_text()
        target = re.search(r"^\.target sm_(\d+)", text, re.M)
        if int(target.group(1)) > 90:
            continue
        words = re.search(r"^// ARGS: *(.*)$", text, re.M).group(1).split()
        if any(":" in w and not w.startswith(("out:", "zero:")) for w in words):
            continue  # its arguments are the simulator's own
        options = [w for w in words if ":" not in w]
        if "--threads" in options:
            at = options.index("--threads")
            del options[at:at + 2]
        args = []
        for word in (w for w in words if ":" in w):
            args.append(("inout", np.zeros(int(word.rsplit(":", 1)[1]), np.uint8)))
        grid, block, shared = options_of(options)
        yield silicon_cases.Test("programs", path.stem, text, args[:], silicon_cases.Rule(), grid, block,
                                 shared, arch=int(target.group(1)), outputs=1)


# Tensor copies that begin where they must not: not at a multiple of 16 bytes; stores before the tensor.
FAULTS = [
    dict(kind="bf16", size=(96, 40), box=(64, 16), start=(4, 3), swizzle=128),
    dict(kind="f32", size=(100,), box=(64,), start=(-2,)),
    dict(kind="s32", size=(40, 20), box=(32, 8), start=(6, 4), store=True, swizzle=128),
    dict(kind="s32", size=(40, 20), box=(32, 8), start=(6, 4), store=True, reduce="add", swizzle=128),
    dict(kind="s32", size=(40, 20), box=(32, 8), start=(-4, 4), store=True, swizzle=128),
    dict(kind="s32", size=(40, 20), box=(32, 8), start=(4, -2), store=True, swizzle=128),
]


def tests():
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        every = [(*case, False) for case in sm90.cases()]
        every += [("faults", sm90.tensor_case, parameters, True) for parameters in FAULTS]
        for group, function, parameters, faults in every:
            text, args, options = take_down(function, parameters, scratch)
            grid, block, shared = options_of(options)
            name = f"{group} " + " ".join(f"{k}={v}" for k, v in parameters.items())
            yield silicon_cases.Test(f"sm_90 {group}", name, text, args, silicon_cases.Rule(), grid, block,
                                     shared, arch=90, faults=faults)
    yield from programs()
