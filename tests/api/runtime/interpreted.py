"""interpreted.py CASE - the Python package without a GPU: tilec.run on NumPy's arrays, %%tilec, tilec.torch under
TILEC_INTERPRET (with the tensors of sim_torch)."""
import contextlib
import io
import sys
import warnings

import numpy as np

import tilec

SCALE = """kernel scale<T: type = f32, N: int = auto>(X: in T[S], Y: out T[S], a: f32) {
    grid i in tiles(S, N);
    print("tile", i.number);
    store Y[i] = (load X[i] as f32 * a) as T;
}
"""
RNG = np.random.default_rng(0)


def refused(words, call):
    try:
        call()
    except RuntimeError as error:  # tilec.Error, tilec.torch.Error
        assert words in str(error), (words, str(error))
    else:
        raise AssertionError("not refused: " + words)


def numbers():
    printed = []
    x = RNG.standard_normal(100).astype(np.float32)
    out = tilec.run(SCALE, {"X": x, "a": 2}, show=printed.append)
    assert set(out) == {"Y"} and (out["Y"] == 2 * x).all() and "tile" in "".join(printed) and out.messages == ""
    half = tilec.run(SCALE, {"X": x.astype(np.float16), "a": 0.5}, defines={"N": 32}, show=None)["Y"]
    assert half.dtype == np.float16 and (half == x.astype(np.float16) / 2).all()
    # strided and empty arrays, a scalar of NumPy's
    assert (tilec.run(SCALE, {"X": x[::3], "a": np.float32(3)}, show=None)["Y"] == 3 * x[::3]).all()
    assert tilec.run(SCALE, {"X": x[:0], "a": 1.0}, show=None)["Y"].shape == (0,)
    # bf16: float32 is rounded to even, bits are taken as they are, results are float32
    near = np.array([1, 1 + 2**-8, 1 + 3 * 2**-8, -3e38, np.inf, np.nan], np.float32)
    want = np.array([1, 1, 1 + 2**-6, -3e38, np.inf, np.nan], np.float32)
    have = tilec.run(SCALE, {"X": near, "a": 1.0}, defines={"T": "bf16"}, show=None)["Y"]
    assert np.allclose(have, want, rtol=2**-9, equal_nan=True) and (have[:3] == want[:3]).all(), have
    bits = tilec.run(SCALE, {"X": np.array([0x3f80], np.uint16), "a": 4.0}, defines={"T": "bf16"}, show=None)["Y"]
    assert bits.dtype == np.float32 and bits == [4]
    counts = tilec.run("kernel count(X: in i32[S], Y: inout i32[C]) { grid i in tiles(S, 4); atomic_add Y[load X[i]] += 1; }",
                       {"X": np.array([0, 2, 2, 2, 1], np.int32), "Y": np.full(3, 10, np.int32)})["Y"]
    assert list(counts) == [11, 11, 13]
    sized = tilec.run("kernel fill(Y: out f32[S]) { grid i in tiles(S, 4); store Y[i] = 1.0; }", {"S": 6})["Y"]
    assert list(sized) == [1] * 6
    noted = tilec.run("kernel log_of(X: in f32[S], Y: out f32[S]) { grid i in tiles(S, 4); store Y[i] = log(load X[i]); }",
                      {"X": np.array([-1], np.float32)})
    assert np.isnan(noted["Y"]).all() and "NaN" in noted.messages


def wrong():
    x = np.zeros(5, np.float32)
    for words, arguments in (("no array for 'X', which the kernel reads", {"a": 1.0}), ("Y is an output", {"X": x, "Y": x, "a": 1.0}),
                             ("X is float64, and the kernel takes f32", {"X": x.astype(float), "a": 1.0}),
                             ("X has 1 dimension, but its array has 2: [1, 5]", {"X": x[None], "a": 1.0}),
                             ("no value for 'a'", {"X": x}), ("nothing of the program is called 'b': it has X, Y, a", {"X": x, "a": 1.0, "b": 2.0}),
                             ("nothing of the program is called 'x': it has X, Y, a", {"x": x, "a": 1.0})):
        refused(words, lambda arguments=arguments: tilec.run(SCALE, arguments))
    refused("X is int64, and the kernel takes bf16", lambda: tilec.run(SCALE, {"X": np.arange(3), "a": 1.0}, defines={"T": "bf16"}))
    refused("there is no kernel 'scales'", lambda: tilec.run(SCALE, {"X": x, "a": 1.0}, kernel="scales"))
    refused("did you mean `load`?", lambda: tilec.run(SCALE.replace("load", "laod"), {"X": x, "a": 1.0}))
    refused("nan is note, ignore or error", lambda: tilec.run(SCALE, {"X": x, "a": 1.0}, nan="stop"))
    race = "kernel race(X: in f32[S], Y: out f32[S]) { grid i in tiles(S, 4), j in 2; store Y[i] = load X[i] + j as f32; }"
    refused("another program stores to it", lambda: tilec.run(race, {"X": x}))


class Shell:
    """As much of IPython's as a magic needs."""

    def __init__(self):
        self.user_ns, self.magics = {}, {}

    def register_magic_function(self, function, kind, name):
        assert kind == "cell"
        self.magics[name] = function

    def run_cell_magic(self, name, line, cell):
        return self.magics[name](line, cell)


def magic():
    shells = [Shell()]
    with contextlib.suppress(ImportError):
        from IPython.core.interactiveshell import InteractiveShell
        shells.append(InteractiveShell())
    for shell in shells:
        tilec.load_ipython_extension(shell)
        first = shell.run_cell_magic("tilec", "-arch sm_90 -D N=64", SCALE)
        assert first.results is None and "not run: the notebook has no X, a" in repr(first) and ".target sm_90" in first.ptx
        shell.user_ns.update(X=np.arange(3, dtype=np.float32), a=2)
        second = shell.run_cell_magic("tilec", "", SCALE)
        page = second._repr_html_()
        assert list(shell.user_ns["Y"]) == [0, 2, 4] and "tile" in second.printed and "Y: float32[3]" in repr(second)
        assert page.count("<iframe srcdoc=") == 1 and "scale" in page and "&lt;" in page
        assert "<iframe" not in shell.run_cell_magic("tilec", "--no-page --no-run", SCALE)._repr_html_()
        for line, text, words in (("-x", SCALE, "%%tilec has no option '-x'"), ("", SCALE.replace("load", "laod"), "did you mean `load`?"),
                                  ("--kernel scales", SCALE, "there is no kernel 'scales', but scale")):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                assert shell.run_cell_magic("tilec", line, text) is None
            assert words in said.getvalue(), said.getvalue()


# ---- tilec.torch ----



def tensor(torch, *shape):
    made = torch.from_numpy(RNG.standard_normal(shape).astype(np.float32), torch.bfloat16)
    return made, made.numpy().astype(np.float64)


def exact(q, k, v, causal):
    group = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, group, 2), np.repeat(v, group, 2)
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[3] ** -0.5
    if causal:
        s = np.where(np.arange(k.shape[1]) <= np.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v), p / p.sum(-1, keepdims=True)


def attention():
    import torch

    import tilec.torch
    from tilec.torch import attend
    for layout, causal, keys in (("bshd", False, 1), ("bhsd", True, 2)):
        (q, q64), (k, k64), (v, v64), (do, do64) = (tensor(torch, 1, rows, heads, 32) for rows, heads in ((20, 2), (30, keys), (30, keys), (20, 2)))
        want, p = exact(q64, k64, v64, causal)
        if layout == "bhsd":
            q, k, v, do = (x.transpose(1, 2) for x in (q, k, v, do))
        for _ in range(2):  # the second time by the kept plan
            o, lse = tilec.torch.attention(q, k, v, causal=causal, layout=layout, return_lse=True)
        assert attend.forward_kernel(layout, False).plans.count == 1
        back = (lambda x: x.transpose(1, 2)) if layout == "bhsd" else (lambda x: x)
        assert np.abs(back(o).numpy() - want).max() < 0.01
        kernel = attend.forward_kernel(layout, False).backward
        given = dict(Q=q, K=k, V=v, O=o, dO=do, L=lse, CAUSAL=causal, softcap=0.0, SOFTCAP=False, ALIBI=False)
        *_, dv = kernel.run(*[given[name] for name in kernel.inputs], *[given.get(name) for name in kernel.values])
        dv64 = np.einsum("bhqk,bqhd->bkhd", p, do64).reshape(1, 30, keys, 2 // keys, 32).sum(3)
        assert np.abs(back(dv).numpy() - dv64).max() < 0.02 * np.abs(dv64).max()
    starts = torch.from_numpy(np.array([3, 8, 20], np.int32))  # rows in no sequence are another kernel's
    (q, q64), (k, k64), (v, v64) = (tensor(torch, 20, 2, 32) for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        have = tilec.torch.attention_varlen(q, k, v, starts, longest_q=12).numpy()
    assert (have[:3] == 0).all()
    for first, end in ((3, 8), (8, 20)):
        want, _ = exact(*(x[None, first:end] for x in (q64, k64, v64)), False)
        assert np.abs(have[first:end] - want[0]).max() < 0.01


def kernels():
    import torch

    import tilec.torch
    simulated = tilec.torch.interpret.IN_SIMULATOR
    scale = tilec.torch.kernel(SCALE)
    x = torch.from_numpy(np.arange(12, dtype=np.float32))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert (scale(X=x, a=2.0).numpy() == 2 * np.arange(12)).all()
    assert ("tile" in said.getvalue()) == (not simulated)
    add = tilec.torch.kernel("kernel add(X: in f32[S, C], Y: inout f32[C]) { grid i in tiles(S, 4); for c in tiles(C, 64) {"
                             " atomic_add Y[c] += sum(load X[i, c], axis=0); } }")
    m = RNG.standard_normal((9, 70)).astype(np.float32)
    assert np.abs(add(X=torch.from_numpy(m)).numpy() - m.sum(0)).max() < 1e-5
    y = torch.from_numpy(np.full(70, 5, np.float32))
    assert np.abs(add(X=torch.from_numpy(m), Y=y).numpy() - m.sum(0) - 5).max() < 1e-5
    part = tilec.torch.kernel("kernel part(X: in f32[S], N: in i32[R], Y: out f32[S]) { grid r in tiles(R, 4); let n = load N[r];"
                              " store Y[n] = load X[n]; }")
    given = torch.from_numpy(np.full(12, -1, np.float32))
    part(X=x, N=torch.from_numpy(np.array([2, 3, 7], np.int32)), Y=given)  # what it does not write stays
    assert list(given.numpy()) == [-1, -1, 2, 3, -1, -1, -1, 7, -1, -1, -1, -1]
    race = tilec.torch.kernel("kernel race(X: in f32[S], Y: out f32[S]) { grid i in tiles(S, 64), j in 2; store Y[i] = load X[i] + j as f32; }")
    refused("the simulator has found" if simulated else "another program stores to it", lambda: race(X=x))
    square = tilec.torch.kernel("kernel square(X: in f32[S, S], Y: out f32[S]) { require S % 4 == 0, \"a multiple of 4\"; grid i in tiles(S, 4); store Y[i] = 0.0; }")
    for words, shape in (("X must have 2 dimensions [S, S], not 1", (4,)), ("dimension 1 of X is 8, but S is 4", (4, 8)), ("a multiple of 4", (5, 5))):
        refused(words, lambda shape=shape: square(X=torch.from_numpy(np.zeros(shape, np.float32))))
    refused("X must be f32, not i32", lambda: add(X=torch.from_numpy(np.zeros((2, 2), np.int32))))


if __name__ == "__main__":
    {case.__name__: case for case in (numbers, wrong, magic, attention, kernels)}[sys.argv[1]]()
    print("right")
