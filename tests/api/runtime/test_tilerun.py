"""tilerun and the C header against a made-up driver (fake_cuda.c): no GPU is needed.

    pytest tests/api/runtime --tilerun=build/tilerun --fake=build/fake    # by ctest
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "run"))
import parameters  # noqa: E402


def metadata(**changes):
    """Two kernels: scale_rows writes Y = factor * X, row_sums adds the rows of Y to S."""
    def tensor(name, mode, shape, align=16, atomic=False, dtype="f32"):
        return {"name": name, "dtype": dtype, "mode": mode, "shape": shape, "align": align, "atomic": atomic}

    def params(*items):
        out, offset = [], 0
        for kind, name, dim in items:
            size = 8 if kind in ("pointer", "stride") else 4
            offset = (offset + size - 1) // size * size
            entry = {"kind": kind, "type": {"pointer": "u64", "stride": "s64", "size": "s32",
                                            "scalar": "f32"}[kind], "offset": offset, "bytes": size}
            entry["tensor" if kind in ("pointer", "stride") else "name"] = name
            if kind == "stride":
                entry["dim"] = dim
            out.append(entry)
            offset += size
        return out
    scale = {
        "name": "scale_rows", "entry": "scale_entry", "constants": {"N": "32"}, "sizes": ["R", "C"],
        "scalars": [{"name": "factor", "type": "f32"}],
        "tensors": [tensor("X", "in", ["R", "C"]), tensor("Y", "out", ["R", "C"])],
        "params": params(("pointer", "X", 0), ("stride", "X", 0), ("pointer", "Y", 0), ("stride", "Y", 0),
                         ("size", "R", 0), ("size", "C", 0), ("scalar", "factor", 0)),
        "tensormaps": [], "grid": ["cdiv(C, 32)", "R", "max(1, R % 2 * 0 + 1)"], "block": 128, "shared": 65536,
        "cluster": [1, 1, 1], "require": [{"condition": "R > 0 && C % 2 == 1", "message": "C must be odd"}]}
    total = {
        "name": "row_sums", "entry": "sum_entry", "constants": {}, "sizes": ["R", "C"], "scalars": [],
        "tensors": [tensor("Y", "in", ["R", "C"]), tensor("S", "inout", ["R"], 4, True)],
        "params": params(("pointer", "Y", 0), ("stride", "Y", 0), ("pointer", "S", 0), ("size", "R", 0),
                         ("size", "C", 0)),
        "tensormaps": [], "grid": ["R", "1", "1"], "block": 64, "shared": 0, "cluster": [1, 1, 1],
        "require": []}
    meta = {"tilec": 1, "version": "0.1.0", "arch": "sm_90", "ptx": "8.0", "source": "rows.tile",
            "kernels": [scale, total]}
    meta.update(changes)
    return meta


def ptx_of(meta):
    data = json.dumps(meta).encode() + b"\0"
    return ("// a test; tilec_metadata is below\n.version 8.0\n.target sm_90\n"
            f".visible .const .align 8 .b8 tilec_metadata[{len(data)}] = {{\n    "
            + ",".join(map(str, data)) + "\n};\n")


class Bench:
    def __init__(self, folder, options):
        self.folder, self.tilerun, self.fake = folder, options.tilerun, options.fake
        self.log = folder / "log"

    def path(self, name):
        return str(self.folder / name)

    def save(self, name, array):
        np.save(self.path(name), array)
        return self.path(name)

    def ptx(self, meta=None, name="x.ptx"):
        (self.folder / name).write_text(ptx_of(meta or metadata()))
        return self.path(name)

    def run(self, *arguments, status=0, **environment):
        env = dict(os.environ, LD_LIBRARY_PATH=self.fake, FAKE_CUDA_LOG=str(self.log), **environment)
        if self.log.exists():
            self.log.unlink()
        done = subprocess.run([self.tilerun, *map(str, arguments)], capture_output=True, text=True, env=env,
                              cwd=self.folder)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        calls = self.log.read_text() if self.log.exists() else ""
        assert "GUARD" not in calls
        return done.stdout, done.stderr, calls


@pytest.fixture
def bench(tmp_path, pytestconfig):
    return Bench(tmp_path, pytestconfig.option)


def random(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def test_two_kernels_from_the_file_alone(bench):
    x = random(6, 37)  # rows of 148 bytes: tilerun has to space them to keep 16-byte alignment
    out, _, calls = bench.run(bench.ptx(), "--in", "X=" + bench.save("x.npy", x), "--set", "factor=2.5",
                              "--out", "Y=" + bench.path("y.npy"), "--out", "S=" + bench.path("s.npy"))
    y = np.load(bench.path("y.npy"))
    assert y.dtype == np.float32 and y.shape == (6, 37)
    np.testing.assert_array_equal(y, np.float32(2.5) * x)
    np.testing.assert_allclose(np.load(bench.path("s.npy")), y.sum(1), rtol=1e-5)
    assert "launch scale_entry grid 2 6 1 block 128 1 1 shared 65536" in calls
    assert "launch sum_entry grid 6 1 1 block 64 1 1 shared 0" in calls
    assert "attribute scale_entry 8 65536" in calls  # more than 48 KB has to be asked for
    assert calls.index("scale_entry grid") < calls.index("sum_entry grid")
    assert "Fake GPU (sm_90)" in out and "S: f32[6] in" in out


def test_strides(bench):
    x = random(3, 37)
    given = ["--in", "X=" + bench.save("x.npy", x), "--set", "factor=2", "--out", "Y=" + bench.path("y.npy")]
    for strides in [("X=40", "Y=64"), ("X=64", "Y=40")]:
        bench.run(bench.ptx(), *given, "--strides", strides[0], "--strides", strides[1])
        np.testing.assert_array_equal(np.load(bench.path("y.npy")), 2 * x)
    bench.run(bench.ptx(), *given, "--strides", "X=0")  # all rows are one: the last
    np.testing.assert_array_equal(np.load(bench.path("y.npy")), 2 * x[[2, 2, 2]])
    for value, message in [("Y=41", "stride 0 of Y is 164 bytes; it must be a multiple of 16"),
                           ("Y=0", "a stride of 0 is for tensors that are only read"),
                           ("Y=40,40", "expected 1 numbers"), ("Y=-40", "expected 1 numbers"),
                           ("S=4", "its only dimension has the stride 1"), ("W=4", "there is no such tensor"),
                           ("Y=1000000000000", "Y is larger than memory")]:
        assert message in bench.run(bench.ptx(), *given, "--strides", value, status=1)[1]


def test_writes_between_rows(bench):
    meta = metadata()
    params = meta["kernels"][0]["params"]
    params[3]["tensor"] = "X"  # the kernel takes X's stride for that of Y
    arguments = [bench.ptx(meta), "--in", "X=" + bench.save("x.npy", random(2, 37)), "--set", "factor=2",
                 "--out", "Y=" + bench.path("y.npy"), "--strides", "Y=44"]
    said = bench.run(*arguments, "--strides", "X=40", status=3)[1]
    assert "something was written between the rows of Y, at byte 160 of 324" in said
    bench.run(*arguments, "--strides", "X=44")


def test_accumulator_given(bench):
    x, s = random(3, 5), np.array([10, 20, 30], np.float32)
    bench.run(bench.ptx(), "--in", "X=" + bench.save("x.npy", x), "--in", "S=" + bench.save("s0.npy", s),
              "--set", "factor=1", "--out", "S=" + bench.path("s.npy"))
    np.testing.assert_allclose(np.load(bench.path("s.npy")), s + x.sum(1), rtol=1e-5)


def test_one_entry(bench):
    y = random(2, 3)
    bench.run(bench.ptx(), "--entry", "row_sums", "--in", "Y=" + bench.save("y.npy", y),
              "--out", "S=" + bench.path("s.npy"))
    np.testing.assert_allclose(np.load(bench.path("s.npy")), y.sum(1), rtol=1e-5)


def test_cluster(bench):
    meta = metadata()
    meta["kernels"] = meta["kernels"][:1]
    meta["kernels"][0]["cluster"] = [2, 1, 1]
    _, _, calls = bench.run(bench.ptx(meta), "--in", "X=" + bench.save("x.npy", random(1, 33)), "--set",
                            "factor=1")
    assert "attribute 4: 2 1 1" in calls


def test_early_start(bench):
    """A kernel that waits by itself is launched with leave to begin while the one before it runs."""
    meta = metadata()
    meta["kernels"][1]["early_start"] = True
    _, _, calls = bench.run(bench.ptx(meta), "--in", "X=" + bench.save("x.npy", random(2, 33)), "--set", "factor=1",
                            "--out", "S=" + bench.path("s.npy"))
    assert calls.index("launch scale_entry") < calls.index("attribute 6: 1 0 0") < calls.index("launch sum_entry")
    assert calls.count("attribute 6") == 1


def test_early_start_in_clusters(bench):
    meta = metadata()
    meta["kernels"] = meta["kernels"][:1]
    meta["kernels"][0].update(cluster=[2, 1, 1], early_start=True)
    _, _, calls = bench.run(bench.ptx(meta), "--in", "X=" + bench.save("x.npy", random(1, 33)), "--set",
                            "factor=1")
    assert "attribute 4: 2 1 1" in calls and "attribute 6: 1 0 0" in calls


def test_time(bench):
    out, _, calls = bench.run(bench.ptx(), "--in", "X=" + bench.save("x.npy", random(1, 3)), "--set",
                              "factor=1", "--time", "20", "--out", "S=" + bench.path("s.npy"))
    assert "time: median 0.2500 ms" in out and "of 20 runs" in out
    assert calls.count("launch scale_entry") == 1 + 10 + 20
    # what is saved comes from the first run, not from accumulators that went round 31 times
    np.testing.assert_allclose(np.load(bench.path("s.npy")), np.load(bench.path("x.npy")).sum(1), rtol=1e-5)


def test_by_hand(bench):
    x = random(2, 256)
    bench.run(bench.ptx(), "--entry", "by_hand", "--grid", "4,2,1", "--block", "128", "--smem", "1024",
              "--arg", "in=" + bench.save("q.npy", x), "--arg", "out=" + bench.path("o.npy") + ":f32:2,256",
              "--arg", "f32=0.125", "--arg", "i32=512", "--arg", "scratch=4096")
    np.testing.assert_array_equal(np.load(bench.path("o.npy")), x + np.float32(0.125))


FORMS_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry forms(.param .align 64 .b8 map[128], .param .align 8 .b8 s[24], .param .u64 m, .param .u32 columns)
{
    .shared .align 128 .b8 box[512];
    .shared .align 8 .b64 bar;
    .reg .b32 t, a, b, n;
    .reg .b64 out, more, mem, at, desc;
    .reg .f32 x, y, add;
    .reg .pred first, p;
    mov.u32 t, %tid.x;
    mov.u32 a, box;
    mov.u32 b, bar;
    setp.eq.u32 first, t, 0;
    @first mbarrier.init.shared::cta.b64 [b], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.u64 desc, map;
    cvta.param.u64 desc, desc;
    mov.u32 n, 0;
    @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 512;
    @first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [a], [desc, {n, n}], [b];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [b], 0;
    @!p bra WAIT;
    ld.param.u64 out, [s];
    ld.param.f32 add, [s+8];
    ld.param.u64 mem, [m];
    ld.global.u64 more, [mem+8];
    mul.wide.u32 at, t, 4;
    add.u64 more, more, at;
    add.u64 out, out, at;
    ld.global.f32 y, [more];
    mad.lo.u32 a, t, 4, a;
    ld.shared.f32 x, [a];
    add.f32 x, x, add;
    add.f32 x, x, y;
    st.global.f32 [out], x;
    ret;
}
"""


@pytest.mark.parametrize("device", ["gpu", "sim"])
def test_forms_by_hand(bench, device):
    """Tensor maps and structures, by value and in memory; 8 rows of 16 of a matrix with longer rows."""
    matrix, more = random(8, 20), random(8, 16)
    pathlib.Path(bench.path("forms.ptx")).write_text(FORMS_PTX)
    pathlib.Path(bench.path("more.bin")).write_bytes(more.tobytes())
    arguments = ["map:f32:0:16x8@80:16x8:in=" + bench.save("m.npy", matrix),
                 "struct:24", "@0=out=" + bench.path("o.npy") + ":f32:8,16", "@8=f32:0.5", "@12=u32:8",
                 "mem:16", "@8=in:" + bench.path("more.bin"), "u32:16"]
    common = [bench.path("forms.ptx"), "--device", device, "--entry", "forms", "--grid", "1", "--block", "128",
              "--seeds", "2"]
    _, _, calls = bench.run(*common, *[w for a in arguments for w in ("--arg", a)])
    np.testing.assert_allclose(np.load(bench.path("o.npy")), matrix[:, :16] + np.float32(0.5) + more, rtol=1e-6)
    if device == "gpu":
        assert "map type 7 16:0:16 8:80:8 swizzle 0 promotion 0 interleave 0 fill 0" in calls

    def error(words):
        return bench.run(*common, *[w for a in words for w in ("--arg", a)], status=1)[1]
    assert "parameter 1 has 24 bytes, its argument 16: a type is wrong" in error(
        arguments[:1] + ["struct:16", "@0=at:0"] + arguments[5:])
    assert "the field does not fit: @20=at:0" in error(arguments[:2] + ["@20=at:0"] + arguments[5:])
    assert "there is no such buffer yet: at:7" in error(["at:7"])
    assert "map: needs TYPE:SWIZZLE:SIZES:BOX:BUFFER" in error(["map:f32:0:16x8"])
    assert "the box has another rank" in error(["map:f32:0:16x8:16:zero:512"])
    assert "unknown argument: u31:4" in error(["u31:4"])
    assert "cannot open" in error(["map:f32:0:16x8:16x8:in=nothing.npy"])


def test_inout_by_hand(bench):
    """Every seed begins with the file; raw bytes come back as raw bytes."""
    pathlib.Path(bench.path("one.ptx")).write_text(""".version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 p)
{
    .reg .b32 v;
    .reg .b64 g;
    ld.param.u64 g, [p];
    ld.global.u32 v, [g];
    add.u32 v, v, 1;
    st.global.u32 [g], v;
    ret;
}
""")
    path = pathlib.Path(bench.path("n.bin"))
    path.write_bytes((41).to_bytes(4, "little"))
    common = [bench.path("one.ptx"), "--device", "sim", "--entry", "one", "--grid", "1", "--block", "1", "--seeds", "4"]
    bench.run(*common, "--arg", f"inout:{path}")
    assert int.from_bytes(path.read_bytes(), "little") == 42
    array = bench.save("n.npy", np.int32([6]))
    bench.run(*common, "--arg", f"inout:{array}")
    assert np.load(array) == [7]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 4), (0, 5)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint16, np.bool_])
def test_npy_round_trip(bench, shape, dtype):
    """An inout array that the kernel leaves alone comes back bit for bit, for numpy to read."""
    names = {"float16": "f16", "float32": "f32", "int32": "i32", "uint16": "bf16", "bool": "bool"}
    array = (np.random.default_rng(3).standard_normal(shape) * 50).astype(dtype)
    meta = metadata()
    kernel = meta["kernels"][1]
    meta["kernels"] = [kernel]
    kernel["grid"][0] = "0"
    kernel["tensors"].append({"name": "T", "dtype": names[np.dtype(dtype).name], "mode": "inout",
                              "shape": list(shape), "align": 4, "atomic": False})
    bench.run(bench.ptx(meta), "--in", "Y=" + bench.save("y.npy", random(1, 1)), "--in",
              "T=" + bench.save("t.npy", array), "--out", "T=" + bench.path("u.npy"))
    back = np.load(bench.path("u.npy"))
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back.view(np.uint8) if shape else back, array.view(np.uint8) if shape else array)


# ---- tensor maps, scratch, workspace, zero: the made-up driver adds the bits as integers ----

def bits(*shape):
    return np.random.default_rng(5).integers(0, 1 << 15, shape).astype(np.uint16)


def run_parameters(bench, x, k, *arguments, meta=None, status=0, **environment):
    with open(bench.path("p.ptx"), "w") as file:
        file.write(parameters.ptx_of(meta or parameters.metadata(), ""))
    return bench.run(bench.path("p.ptx"), "--in", "X=" + bench.save("x.npy", x.view(np.float16)), "--in",
                     "K=" + bench.save("k.npy", k.view(np.float16)), *arguments, status=status, **environment)


@pytest.mark.parametrize("b, s, h, sk", [(2, 35, 3, 20), (1, 35, 1, 1), (2, 5, 3, 0), (1, 1, 1, 64)])
def test_every_parameter(bench, b, s, h, sk):
    x, k = bits(b, s, h, 128), bits(b, sk, h, 128)
    _, _, calls = run_parameters(bench, x, k, "--out", "Y=" + bench.path("y.npy"), "--out", "T=" + bench.path("t.npy"))
    y, t = parameters.expected(x, k)
    np.testing.assert_array_equal(np.load(bench.path("y.npy")).view(np.uint16), y)
    np.testing.assert_array_equal(np.load(bench.path("t.npy")), t)
    assert "WRONG" not in calls
    assert f"launch add_boxes grid {min(7, (s + 31) // 32 * h * b * 2)} 1 1" in calls
    if (b, h) == (2, 3):
        assert f"map type 6 128:0:64 {s}:768:32 3:256:1 2:{s * 768}:1 swizzle 3 promotion 3" in calls
    if (b, h, sk) == (1, 1, 1):  # strides of extents of 1 are made up
        assert "map type 6 128:0:64 1:256:32 1:256:1 1:256:1 swizzle 3 promotion 0" in calls
    if sk == 0:
        assert "map type 6 1:0:64 1:16:32 1:16:1 1:16:1 swizzle 3 promotion 0" in calls


def test_scratch_over_time(bench):
    """One scratch for all runs, and it is told when a kernel does not leave it zero."""
    x = bits(1, 40, 1, 128)
    _, _, calls = run_parameters(bench, x, x, "--time", "3", "--sm-count", "2")
    assert "WRONG" not in calls and calls.count("launch add_boxes grid 2 1 1") == 1 + 10 + 3
    assert len(set(re.findall("scratch .*", calls))) == 1
    _, err, _ = run_parameters(bench, x, x, status=3, FAKE_CUDA_DIRTY="1")
    assert err == "tilerun: add_boxes leaves its scratch counter not zero, at byte 0 of 8\n"


def changed(kernel, key, index, **changes):
    meta = parameters.metadata()
    meta["kernels"][kernel][key][index].update(changes)
    return meta


def test_refuses_maps(bench):
    x, unaligned = bits(2, 3, 2, 128), bits(2, 3, 2, 4)
    cannot = "tilerun: error: the metadata of the PTX cannot be read: "
    for meta, message in [
            (changed(0, "tensormaps", 0, dims=[3, 1, 2]),
             "a tensor map must have the dimensions of its tensor, and perhaps one of them twice: 1 to 5"),
            (changed(0, "tensormaps", 0, dims=[3, 1, 2, 1]),
             "a tensor map names a dimension that is not there, or names it twice"),
            (changed(0, "tensormaps", 0, dims=[0, 1, 2, 3]), "a tensor map must begin with the tensor's last dimension"),
            (changed(0, "tensormaps", 0, box=[64, 257, 1, 1]), "an extent of a tensor map's box must be 1 to 256"),
            (changed(0, "tensormaps", 0, dtype="tf32"), "a tensor map of f16 does not round to 'tf32'"),
            (changed(0, "tensormaps", 0, dtype="x"), "a tensor map of f16 does not round to 'x'"),
            (changed(0, "tensormaps", 0, swizzle=16), "the swizzle of a tensor map must be 0, 32, 64 or 128 bytes"),
            (changed(0, "tensormaps", 0, l2_promotion=32),
             "the L2 promotion of a tensor map must be 0, 64, 128 or 256 bytes")]:
        assert run_parameters(bench, x, x, meta=meta, status=1)[1] == cannot + message + "\n"
    meta = parameters.metadata()
    for t in meta["kernels"][0]["tensors"]:
        t["shape"][3], t["align"] = 4, 8
    _, err, _ = run_parameters(bench, unaligned, unaligned, meta=meta, status=1)
    assert err == ("tilerun: error: add_boxes: stride 2 of X is 8 bytes; a tensor map takes multiples of 16 "
                   "below 2^40\n")
    _, err, _ = run_parameters(bench, x, x, status=1, FAKE_CUDA_FAIL="cuTensorMapEncodeTiled")
    assert err == "tilerun: error: cuTensorMapEncodeTiled: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory\n"


def test_refuses_memory(bench):
    x = bits(1, 3, 1, 128)
    _, err, _ = run_parameters(bench, x, x, meta=changed(0, "params", 10, size="4 - B * 8"), status=1)
    assert err == "tilerun: error: add_boxes: rows would have 4 - B * 8 = -4 bytes\n"
    _, err, _ = run_parameters(bench, x, x, meta=changed(0, "params", 9, size="8 * Q"), status=1)
    assert err == "tilerun: error: launch expression '8 * Q': no value for 'Q'\n"


def test_workspace_has_the_largest_size(bench):
    """Both kernels use one memory: the guards say when it is too short for either."""
    x = bits(1, 30, 2, 128)
    run_parameters(bench, x, x, meta=changed(0, "params", 10, size="0"), status=0)
    run_parameters(bench, x, x, meta=changed(1, "params", 3, size="sm_count * 0"), status=0)


# ---- what is refused, and how it is said ----

def refused(bench, message, *arguments, meta=None, x=None, **environment):
    if not arguments:
        arguments = ("--in", "X=" + bench.save("x.npy", random(3, 5) if x is None else x), "--set", "factor=1")
    _, err, calls = bench.run(bench.ptx(meta), *arguments, status=1, **environment)
    assert "launch" not in calls
    assert err == f"tilerun: error: {message}\n"


def kernel_change(index, **changes):
    meta = metadata()
    meta["kernels"][index].update(changes)
    return meta


def test_refuses_rank(bench):
    refused(bench, "scale_rows: X must have 2 dimensions, not 1", x=random(5))


def test_refuses_require(bench):
    refused(bench, "scale_rows: C must be odd (R > 0 && C % 2 == 1)", x=random(3, 4))


def test_requires_of_what_the_kernel_has(bench):
    x = bench.save("x.npy", random(3, 5))
    meta = kernel_change(0, require=[{"condition": "factor > 0.0", "message": "the factor must be positive"}])
    refused(bench, "scale_rows: the factor must be positive (factor > 0.0)", "--in", "X=" + x, "--set", "factor=1e-46", meta=meta)  # 0 in f32


def test_refuses_type(bench):
    refused(bench, f"X is f32; {bench.path('x.npy')} must hold float32, not float64",
            x=random(3, 5).astype(np.float64))


def test_refuses_bf16_as_floats(bench):
    meta = metadata()
    meta["kernels"] = meta["kernels"][:1]
    meta["kernels"][0]["tensors"][0]["dtype"] = "bf16"
    refused(bench, f"X is bf16; {bench.path('x.npy')} must hold uint16 (the bits), not float16", meta=meta,
            x=random(3, 5).astype(np.float16))


def test_refuses_sizes_that_disagree(bench):
    refused(bench, "row_sums: dimension 0 of Y is 3, but R is 4", "--in",
            "X=" + bench.save("x.npy", random(3, 5)), "--in", "S=" + bench.save("s.npy", random(4)), "--set",
            "factor=1")


def test_refuses_missing_scalar(bench):
    refused(bench, "scale_rows: no value for the scalar factor: add --set factor=VALUE", "--in",
            "X=" + bench.save("x.npy", random(3, 5)))


def test_refuses_missing_input(bench):
    refused(bench, "scale_rows reads X: give it with --in X=FILE.npy", "--set", "factor=1")


def test_refuses_unknown_names(bench):
    x = "X=" + bench.save("x.npy", random(3, 5))
    refused(bench, "--in Z: there is no such tensor; the file has X, Y, S", "--in", "Z" + x[1:])
    refused(bench, "--out Z: there is no such tensor; the file has X, Y, S", "--in", x, "--out", "Z=z.npy")
    refused(bench, "--set zoom: there is no such size or scalar; the file has R, C, factor", "--in", x, "--set", "zoom=1")
    refused(bench, "--entry zoom: the file has scale_rows, row_sums", "--entry", "zoom")
    refused(bench, "--in Y: scale_rows only writes this tensor; use --out", "--in", "Y" + x[1:])


def test_refuses_values(bench):
    x = "X=" + bench.save("x.npy", random(3, 5))
    refused(bench, "--set factor=big: this scalar is f32: expected a number", "--in", x, "--set", "factor=big")
    refused(bench, "--set R=-1: a size is a whole number from 0 to 2147483647", "--in", x, "--set", "R=-1")
    refused(bench, "scale_rows: dimension 0 of X is 3, but R is 4", "--in", x, "--set", "R=4", "--set",
            "factor=1")


@pytest.mark.parametrize("arch, capability, reason", [
    ("sm_86", "8.0", "needs that GPU or a newer one"), ("sm_89", "8.6", "needs that GPU or a newer one"),
    ("sm_120", "10.0", "needs that GPU or a newer one"),
    ("sm_100", "9.0", "needs that GPU or a newer one"), ("sm_90a", "10.0", "runs on that GPU alone"),
    ("sm_100f", "9.0", "runs on that family alone")])
def test_refuses_gpu(bench, arch, capability, reason):
    have = capability.replace(".", "")
    refused(bench, f"the code is for {arch} and {reason}; this GPU is sm_{have}: compile with -arch sm_{have}",
            meta=metadata(arch=arch), FAKE_CUDA_CAPABILITY=capability)


@pytest.mark.parametrize("arch, capability", [("sm_80", "9.0"), ("sm_86", "8.9"), ("sm_89", "9.0"), ("sm_90a", "9.0"), ("sm_100f", "10.3")])
def test_accepts_gpu(bench, arch, capability):
    bench.run(bench.ptx(metadata(arch=arch)), "--in", "X=" + bench.save("x.npy", random(3, 5)), "--set",
              "factor=1", FAKE_CUDA_CAPABILITY=capability)


def test_refuses_grid(bench):
    refused(bench, "scale_rows: the grid's dimension 1 is R * 70000 = 210000, with R = 3; CUDA allows 0 to 65535",
            meta=kernel_change(0, grid=["1", "R * 70000", "1"]))
    refused(bench, "scale_rows: the grid's dimension 0 is 3, no multiple of the cluster's 2",
            meta=kernel_change(0, grid=["R", "1", "1"], cluster=[2, 1, 1]))
    refused(bench, "launch expression 'R / (C - 5)': division by zero at ''",
            meta=kernel_change(0, grid=["R / (C - 5)", "1", "1"]))
    refused(bench, "launch expression 'R + Q': no value for 'Q'", meta=kernel_change(0, grid=["R + Q", "1", "1"]))
    refused(bench, "launch expression 'R +': expected a value at ''", meta=kernel_change(0, grid=["R +", "1", "1"]))


@pytest.mark.parametrize("text, blocks", [
    ("cdiv(R, 2)", 2), ("R * 2 - 1 - 1", 4), ("7 / 2", 3), ("5 + -7 % 2", 4), ("1 + (R == 3 && !(2 > 3))", 2),
    ("min(3, max(1, 2)) * 2", 4), ("1 + (factor > 0.5)", 2), ("1 + (R >= 3 || R / 0)", 2),
    ("1 + (R < 3 && 1 % 0 == 0)", 1), ("true + false", 1), ("1 + (R <= 2.5)", 1), ("R", 3)])
def test_grid_expressions(bench, text, blocks):
    meta = kernel_change(0, grid=[text, "1", "1"])
    _, _, calls = bench.run(bench.ptx(meta), "--in", "X=" + bench.save("x.npy", random(3, 5)), "--set", "factor=1")
    assert f"launch scale_entry grid {blocks} 1 1" in calls


def test_refuses_shared(bench):
    meta = kernel_change(0, shared=300000)
    _, err, _ = bench.run(bench.ptx(meta), "--in", "X=" + bench.save("x.npy", random(3, 5)), "--set", "factor=1",
                          status=1)
    assert err == "tilerun: error: scale_entry needs 300000 bytes of shared memory; this GPU has 232448 for a block\n"


def test_refuses_other_metadata(bench):
    refused(bench, "the PTX has metadata of version 2, this program reads version 1: use the tilerun that came "
                   "with the tilec that made it", meta=metadata(tilec=2))
    (bench.folder / "other.ptx").write_text(".version 8.0\n.target sm_90\n")
    _, err, _ = bench.run(bench.path("other.ptx"), "--in", "X=x.npy", status=1)
    assert "has no constant 'tilec_metadata': tilec did not make it" in err


def test_wrong_arguments_by_hand(bench):
    common = (bench.ptx(), "--entry", "by_hand", "--grid", "1", "--block", "32")
    x = "in=" + bench.save("x.npy", random(4))
    _, err, _ = bench.run(*common, "--arg", x, status=1)
    assert err == "tilerun: error: by_hand takes at least 2 parameters, but 1 were given\n"
    _, err, _ = bench.run(*common, "--arg", x, "--arg", "scratch=16", "--arg", "i64=4", "--arg", "i32=4", "--arg",
                          "scratch=64", status=1)
    assert "parameter 2 has 4 bytes, its argument 8: a type is wrong" in err
    _, err, _ = bench.run(*common, "--arg", "out=o.npy:f32", status=1)
    assert "expected out=FILE.npy:TYPE:SHAPE" in err
    _, err, _ = bench.run(*common, "--arg", "f64=1", status=1)
    assert "expected in, out, f32, i32, i64 or scratch" in err
    _, err, _ = bench.run(bench.ptx(), "--entry", "nothing", "--grid", "1", "--block", "32", status=1)
    assert "the PTX has no .visible .entry 'nothing'" in err


@pytest.mark.parametrize("arguments, message", [
    ([], "which file? (tilerun --help)"), (["a", "b"], "one file at a time: 'a' and 'b'"),
    (["--zoom"], "unknown option '--zoom' (tilerun --help lists them)"), (["a", "--in"], "--in needs a value"),
    (["a", "--in", "X"], "--in X: expected NAME=VALUE"),
    (["a", "--grid", "1,x"], "--grid 1,x: expected up to three numbers, as 8,4,2"),
    (["a", "--device", "tpu"], "--device tpu: expected gpu or sim"),
    (["a", "--time", "-3"], "--time -3: expected a whole number from 1 to 1000000"),
    (["none.ptx"], "cannot open none.ptx: No such file or directory")])
def test_command_line(bench, arguments, message):
    _, err, _ = bench.run(*arguments, status=1)
    assert err == f"tilerun: error: {message}\n"


@pytest.mark.parametrize("content, message", [
    (b"", "is not a .npy file"), (b"hello world, this is no array", "is not a .npy file"),
    (b"\x93NUMPY\x01\x00\x10\x00{}              ", "the header of the .npy file cannot be read")])
def test_bad_npy(bench, content, message):
    with open(bench.path("x.npy"), "wb") as file:
        file.write(content)
    _, err, _ = bench.run(bench.ptx(), "--in", "X=" + bench.path("x.npy"), status=1)
    assert message in err


def test_short_and_fortran_npy(bench):
    whole = open(bench.save("x.npy", random(3, 5)), "rb").read()
    with open(bench.path("short.npy"), "wb") as file:
        file.write(whole[:-4])
    _, err, _ = bench.run(bench.ptx(), "--in", "X=" + bench.path("short.npy"), status=1)
    assert "is shorter than its header says (60 bytes of data)" in err
    _, err, _ = bench.run(bench.ptx(), "--in", "X=" + bench.save("f.npy", np.asfortranarray(random(3, 5))), status=1)
    assert "Fortran order" in err
    _, err, _ = bench.run(bench.ptx(), "--in", "X=" + bench.save("b.npy", random(3, 5).astype(">f4")), status=1)
    assert "big endian" in err


def test_driver_failures(bench):
    arguments = (bench.ptx(), "--in", "X=" + bench.save("x.npy", random(3, 5)), "--set", "factor=1")
    for function, message in [("cuMemAlloc_v2", "X: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"),
                              ("cuLaunchKernel", "scale_entry: CUDA_ERROR_OUT_OF_MEMORY"),
                              ("cuCtxSynchronize", "scale_entry: CUDA_ERROR_OUT_OF_MEMORY")]:
        _, err, _ = bench.run(*arguments, status=1, FAKE_CUDA_FAIL=function)
        assert message in err
    with open(bench.path("x.ptx"), "a") as file:
        file.write("BROKEN")
    _, err, _ = bench.run(bench.path("x.ptx"), *arguments[1:], status=1)
    assert "CUDA_ERROR_INVALID_PTX" in err and "ptxas fatal : it says BROKEN" in err


def test_no_gpu(bench):
    _, err, _ = bench.run(bench.ptx(), "--device", "gpu", status=1, FAKE_CUDA_DEVICES="0")
    assert err == "tilerun: error: the CUDA driver sees no GPU\n"
