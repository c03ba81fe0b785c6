#!/usr/bin/env bash
# jax 0.8.1 and ml_dtypes 0.5.4 on the CPU: one cast of f32 to int4 and int2, as a JAX array and as a NumPy one.
# Guess: JAX's types are ml_dtypes' types, so that x.astype("int4") is the same before and after jnp.asarray.
# Seen: JAX clamps, 100, -9 and infinity become 7, -8 and 7; NumPy's cast keeps the low bits, 4, 7 and 0. A weight
# quantised without a clamp of its own is right until someone prepares it in NumPy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q jax==0.8.1 jaxlib==0.8.1 ml_dtypes==0.5.4 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import jax.numpy as jnp
import numpy as np

values = np.array([100, -9, np.inf, 7, -1.5], np.float32)
seen = {}
for name in ("int4", "int2"):
    ours = jnp.asarray(values).astype(name)
    with np.errstate(invalid="ignore"):
        theirs = values.astype(ours.dtype)
    seen[name] = [np.asarray(a).astype(np.float32).tolist() for a in (ours, theirs)]
    print(f"{name}: {values.tolist()} as JAX's {seen[name][0]}, as NumPy's {seen[name][1]}")
assert seen["int4"] == [[7, -8, 7, 7, -1], [4, 7, 0, 7, -1]]
assert seen["int2"] == [[1, -2, 1, 1, -1], [0, -1, 0, -1, -1]]
PYTHON
