#!/usr/bin/env python3
"""units_sim.py SIMRUN - bench/units.py in the simulator: every kernel runs without a finding, and exp2
without MUFU is compared with float64.

Bit patterns over the whole range of float32, all near the ends of the range of results, and those next
to integers.  Of degree 5 no result may be off by more than 2 units in the last place, as those of
ex2.approx.ftz.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import units  # noqa: E402

BLOCK, ALLOWED = 256, {3: 8.7e-5, 4: 3.1e-6, 5: 2 ** -22}  # of the result


def arguments():
    whole = np.arange(-130, 131, dtype=np.float32)
    near = [np.nextafter(whole, np.float32(to)) for to in (-np.inf, np.inf)]
    ends = [np.linspace(a, b, 20000, dtype=np.float32) for a, b in ((-1, 1), (-128, -125), (126, 129))]
    spread = np.arange(0, 1 << 32, 21013, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([whole, *near, *ends, spread, np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0])])
    return np.concatenate([x, np.zeros(-len(x) % BLOCK, np.float32)])


def kernel(degree):
    body = "\n".join(units.exp2_lines("%y", "%x", degree, "tt"))
    return f""".version 8.1
.target sm_90a
.address_size 64
.visible .entry exp2(.param .u64 in, .param .u64 out)
.maxntid {BLOCK}
{{
    .reg .f32 %x, %y, %tt<4>; .reg .b32 %ttb, %i, %n; .reg .b64 %d<3>;
    ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
    mov.u32 %i, %ctaid.x; mov.u32 %n, %tid.x; mad.lo.u32 %i, %i, {BLOCK}, %n;
    mul.wide.u32 %d2, %i, 4; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
    ld.global.f32 %x, [%d0];
{body}
    st.global.f32 [%d1], %y;
    ret;
}}
"""


def check(simrun, degree, x):
    with tempfile.TemporaryDirectory() as folder:
        x.tofile(f"{folder}/in")
        with open(f"{folder}/exp2.ptx", "w", encoding="utf-8") as file:
            file.write(kernel(degree))
        subprocess.run([simrun, f"{folder}/exp2.ptx", "--grid", str(len(x) // BLOCK), "--block", str(BLOCK),
                        f"in:{folder}/in", f"out:{folder}/out:{x.nbytes}"], check=True)
        y = np.fromfile(f"{folder}/out", np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        exact = np.exp2(x.astype(np.float64))
        finite = (x >= -126) & (x < 128)
        error = np.abs(y[finite] / exact[finite] - 1)
    at = error.argmax()
    print(f"degree {degree}: {len(x)} arguments, largest error {error[at]:.3g} at {x[finite][at]!r}")
    faults = []
    if not error[at] <= ALLOWED[degree]:
        faults.append(f"allowed are {ALLOWED[degree]:.3g}")
    for what, where, right in (("below -126", x < -126, lambda v: (v == 0) & ~np.signbit(v)),
                               ("from 128 on", x >= 128, np.isposinf), ("NaN", np.isnan(x), np.isnan),
                               ("of 0", x == 0, lambda v: v == 1)):
        if not right(y[where]).all():
            wrong = np.flatnonzero(where)[~right(y[where])][0]
            faults.append(f"{what}: {x[wrong]!r} gives {y[wrong]!r}")
    return faults


def run_bodies(simrun):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, units.__file__, "write", f"{folder}/units.ptx"], check=True)
        for name in units.BODIES:
            subprocess.run([simrun, f"{folder}/units.ptx", "--entry", name, "--grid", "2", "--block", "512",
                            f"out:{folder}/out:64", "f32:0.1", "u32:3", "u32:2"], check=True)


def main():
    run_bodies(sys.argv[1])
    x = arguments()
    faults = [f"degree {degree}, {fault}" for degree in units.EXP2 for fault in check(sys.argv[1], degree, x)]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
