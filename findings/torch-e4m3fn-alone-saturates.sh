#!/usr/bin/env bash
# torch 2.15.0: what float32 beyond the greatest number becomes in its float8 types; beside it ml_dtypes 0.5.4.
# Guess: NaN in float8_e4m3fn, as in torch 2.11 and ml_dtypes, so that a scale that is too small is seen;
# or all four types saturate.
# Seen: float8_e4m3fn alone saturates, of infinity, too: 465 and inf are 448, only a NaN is NaN.
# float8_e5m2 has infinities, the fnuz types NaN. Of ml_dtypes all is as it was.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 ml-dtypes==0.5.4 torch==2.15.0
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np
import torch

x = np.array([465, 1e6, np.inf, np.nan], np.float32)
WANT = {"float8_e4m3fn": [448, 448, 448, None], "float8_e5m2": [448, np.inf, np.inf, None],
        "float8_e4m3fnuz": [None] * 4, "float8_e5m2fnuz": [448, None, None, None]}
for name, want in WANT.items():
    there = torch.from_numpy(x).to(getattr(torch, name)).double().tolist()
    other = x.astype(getattr(ml_dtypes, name)).astype(float).tolist()
    print(name, x.tolist(), "torch:", there, "ml_dtypes:", other)
    assert [None if v != v else v for v in there] == want
    assert [None if v != v else v for v in other] == ([None] * 4 if name == "float8_e4m3fn" else want)
PYTHON
