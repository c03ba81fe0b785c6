#!/usr/bin/env bash
# jax 0.10.2 on the CPU: a product of two bfloat16 that is made float32, in jax.jit and without.
# Guess: the product of an operation on bfloat16 has 8 bits, in a jitted function as out of it, and float16 and float8 go the same way:
# jit fuses, but does not change types.
# Seen: under jit the rounding between is left out: x * x of 1 + 2^-7 comes as 1.01568603515625 and not 1.015625. Of float16, float8 and
# float4 it is rounded in both; so is a bfloat16 that is only converted there and back. jax.lax.reduce_precision keeps the rounding.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 jax==0.10.2
JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'PYTHON'
import jax
import jax.numpy as jnp
import numpy as np


def product(x, kind):
    return (x.astype(kind) * x.astype(kind)).astype(jnp.float32)


def kept(x, kind):
    return jax.lax.reduce_precision(x.astype(kind) * x.astype(kind), 8, 7).astype(jnp.float32)


def there_and_back(x, kind):
    return x.astype(kind).astype(jnp.float32)


def differ(function, name, values):
    x, kind = jnp.asarray(np.array(values, np.float32)), getattr(jnp, name)
    plain, jitted = function(x, kind), jax.jit(function, static_argnums=1)(x, kind)
    print(function.__name__, name, plain.tolist(), "jit", jitted.tolist())
    return plain.tolist() != jitted.tolist()


assert differ(product, "bfloat16", [1 + 2 ** -7, 1.75])
assert not differ(kept, "bfloat16", [1 + 2 ** -7, 1.75])
assert not differ(there_and_back, "bfloat16", [1 + 2 ** -8, 1.01])
for name in ("float16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
    assert not differ(product, name, [1 + 2 ** -10, 1.125, 1.5])
PYTHON
