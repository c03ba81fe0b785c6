#!/usr/bin/env bash
# jax 0.8.1 on the CPU: jnp.frexp and jnp.ldexp of float32's subnormal numbers, alone and under jit, compared with numpy 2.3.5.
# Guess: exponents of scales are what NumPy says, or subnormals count as zero, (0, 0), as XLA's arithmetic on CPUs has them.
# Seen: frexp gives (0.5, -149) for each of them, from 2^-149 to almost 2^-126; 3 * 2^-130 is (0.75, -128) in NumPy. ldexp leaves them as
# they are, whatever the exponent: 2^-140 and 200 give 2^-140, where 2^60 is right and 0 would be a flush; results that are
# subnormal are 0. In bfloat16, which has the same exponents, frexp leaves 3 * 2^-130 as it is, too, with an exponent of 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 jax==0.8.1 jaxlib==0.8.1
JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'PYTHON'
import jax
import jax.numpy as jnp
import numpy as np

x = np.array([2.0**-149, 2.0**-140, 3 * 2.0**-130, 2.0**-126 - 2.0**-149, 2.0**-126, 6], np.float32)
for name, of in ("alone", lambda f: f), ("jit", jax.jit):
    m, e = (np.array(v).tolist() for v in of(jnp.frexp)(x))
    print(name, "frexp", x.tolist(), "jax", m, e, "numpy", *(v.tolist() for v in np.frexp(x)))
    assert m == [0.5] * 5 + [0.75] and e == [-149] * 4 + [-125, 3]
    large, small = (np.array(of(jnp.ldexp)(x, np.full(6, by, np.int32))).tolist() for by in (200, -10))
    print(name, "ldexp by 200", large, "by -10", small, "numpy", np.ldexp(x, 120).tolist(), "(by 120)")
    assert large[:4] == small[:4] == x[:4].tolist() and large[4] == 2.0**74 and small[4] == 0 and np.ldexp(x[1], 200) == 2.0**60
    m, e = (np.array(v, np.float32).tolist() for v in of(jnp.frexp)(jnp.array([3 * 2.0**-130, 6], jnp.bfloat16)))
    print(name, "frexp of bfloat16", m, e)
    assert m == [3 * 2.0**-130, 0.75] and e == [0, 3]
PYTHON
