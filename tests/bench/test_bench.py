"""What of bench/ needs no GPU: cases, the yardsticks' launches, the supervisor of the tuning mode (over a
made-up worker), tables and plots."""

import csv
import json
import lzma
import os
import random
import subprocess
import sys
import types

import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "examples", "python")]
import bench  # noqa: E402
import case as cases_of  # noqa: E402
import eight  # noqa: E402
import flex  # noqa: E402
import forms  # noqa: E402
import gemm  # noqa: E402
import model  # noqa: E402
import plans  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
import sweep  # noqa: E402
import tilec_torch  # noqa: E402
import variants  # noqa: E402
import yardsticks  # noqa: E402

LENGTHS = [512, 4096]


# ---- cases -------------------------------------------------------------------------------------------


def test_cases():
    assert [c.text for c in cases_of.selected("fwd:d128:causal:4k,16k", LENGTHS, "bf16")] == [
        "fwd:128:4:16:4096:1:bf16", "fwd:128:1:16:16384:1:bf16"]
    assert len(cases_of.selected("", LENGTHS, "bf16")) == 2 * 3 * 2 * 2
    assert [str(c) for c in cases_of.selected("bwd:64:full:512", LENGTHS, "f16")] == [
        "bwd d=64 b=32 h=32 s=512 full f16"]
    case = cases_of.Case("fwd:192/128:2:8/4:100/300:0")
    assert (case.d, case.dv, case.kv_heads, case.sk, case.dtype) == (192, 128, 4, 300, "bf16")
    assert case.flops() == 2.0 * 2 * 8 * 100 * 300 * 320
    assert cases_of.Case("bwd:128:1:16:4096:1").flops() == 5.0 * 16 * 4096**2 * 128


@pytest.mark.parametrize("text", ["left", "fwd:d128:diagonal", "fwd:d128:full:4q", "fwd:d128:full:4k:1"])
def test_wrong_selections(text):
    with pytest.raises(SystemExit, match="--cases"):
        cases_of.selected(text, LENGTHS, "bf16")


@pytest.mark.parametrize("text", ["fwd:128:4:16:4096", "fwd:128:4:16:4096:0:f32", "x:128:4:16:4096:0"])
def test_wrong_cases(text):
    with pytest.raises(SystemExit, match="case"):
        cases_of.Case(text)


def test_options():
    options = bench.parse("--variants a.ptx b.ptx.xz --yardsticks d --cases fwd:d64:full:1k --reps 7".split())
    assert (options.modes, options.reps, options.variants) == (["burst", "sustained"], 7, ["a.ptx", "b.ptx.xz"])
    assert len(bench.parse(["--yardsticks", "d"]).chosen) == 48
    assert len(bench.parse(["--ours", "a=b"]).chosen) == 72
    for wrong in (["--variants", "a"], ["--mode", "slow"]):
        with pytest.raises(SystemExit):
            bench.parse(wrong)


def test_sweep_draws_the_same_shapes():
    chosen = bench.parse("--sweep 60:3 --ours a=b".split()).chosen
    assert [c.text for c in chosen] == [c.text for c in sweep.drawn(80, 3)[:60]]
    assert [c.text for c in chosen] != [c.text for c in sweep.drawn(60, 4)]
    for c in sweep.drawn(400, 1):
        assert 1 <= c.batch <= 64 and 4 <= c.heads <= 64 and c.heads % c.kv_heads == 0 and c.heads // c.kv_heads <= 8
        assert c.flops() <= sweep.MOST_FLOPS and 64 <= c.sk <= 32768 and (sweep.is_decode(c) or 64 <= c.sq <= 32768)
    made = sweep.files(chosen)
    assert all(f"{c.direction}_{c.d}_{c.dv}_{'true' if c.causal else 'false'}" in made for c in chosen if not sweep.is_decode(c))
    assert all(f"decode_{c.heads // c.kv_heads}_{'true' if c.causal else 'false'}" in made for c in chosen if sweep.is_decode(c))
    few = [c for c in chosen if c.direction == "fwd" and not sweep.is_decode(c) and c.shares_keys()]
    assert few and all(f"split_{c.d}_{c.dv}_{'true' if c.causal else 'false'}_{n}" in made for c in few for n in c.packs())
    for wrong in ("x", "4:x", "-1"):
        with pytest.raises(SystemExit, match="--sweep"):
            sweep.parse_sweep(wrong)


def test_sweep_compiles(tmp_path):
    asked = tmp_path / "asked"
    tilec = tmp_path / "tilec"
    tilec.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    tilec.chmod(0o755)
    cases = sweep.drawn(12, 1)
    assert sweep.compile_all(str(tmp_path / "out"), str(tilec), "sm_90", cases) == 0
    lines = asked.read_text().splitlines()
    assert len(lines) == len(sweep.files(cases)) and all("-arch sm_90" in line for line in lines)
    asked.unlink()
    assert sweep.compile_all(str(tmp_path / "out"), str(tilec), "sm_90", cases, ".cubin") == 0
    assert all(line.endswith(".cubin") for line in asked.read_text().splitlines())
    tilec.write_text("#!/bin/sh\nexit 1\n")
    assert sweep.compile_all(str(tmp_path / "out"), str(tilec), "sm_90", cases) == 1


def test_forms_are_taken_one_at_a_time():
    def kernel(name, *variants):
        return types.SimpleNamespace(name=name, variants=list(variants), meta={"tensors": []}, cost=lambda env: env["n"],
                                     sizes=lambda own, values, complete: {"n": 7, **values})

    class Module:
        def __init__(self, kernels):
            self.kernels = kernels

        def select(self, *names):
            return Module([k for n in names for k in self.kernels if k.name == n])
    module = Module([kernel("first"), kernel("second", kernel("second_v1"), kernel("second_v2"))])
    assert forms.forms_of(module) == [("second", 0), ("second", 1), ("second", 2)]
    for index, name in enumerate(["second", "second_v1", "second_v2"]):
        one = forms.with_form(module, "second", index)
        assert [k.name for k in one.kernels] == ["first", name] and not one.kernels[1].variants
    assert len(module.kernels[1].variants) == 2  # as it was
    assert forms.clocks(module, "second", types.SimpleNamespace(tensors={}), {"scale": 1.0}) == [7, 7, 7]


def test_forms_summary():
    def row(case, form, ms, taken):
        return {"case": case, "way": "-det", "kernel": "k", "form": str(form), "ms": str(ms), "taken": str(taken)}
    rows = [row("a", 0, 1.0, 1), row("a", 1, 1.5, 0), row("b", 0, 1.1, 1), row("b", 1, 1.0, 0), row("c", 0, 1.02, 1), row("c", 1, 1.0, 0)]
    assert forms.summary(rows) == ["k-det: within 3 % of the fastest form in 2 of 3 cases, within 8 % in 2; "
                                   "1.039 times its time in the geometric mean, 1.10 at worst"]


def test_sweep_compares_the_best():
    def row(sk, name, kind, ms, difference=1e-3):
        case = {"dir": "fwd", "hd": 64, "hdv": 64, "heads": 4, "kv_heads": 4, "seqlen": 64, "seqlen_k": sk, "batch": 1,
                "causal": 0, "mode": "spin"}
        return {**case, "name": name, "kind": kind, "median_ms": str(ms), "difference": str(difference)}
    rows = [row(64, "tilec", "ours", 2.0), row(64, "tilec-det", "ours", 1.0), row(64, "fa2", "peer", 3.0), row(64, "cudnn", "peer", 1.5),
            row(128, "tilec", "ours", 1.0), row(128, "cudnn", "peer", 0.5), row(128, "fa3", "peer", 0.1, difference=float("nan")),
            row(256, "tilec", "ours", 1.0),                                             # nobody beside it
            row(512, "tilec", "ours", 1.0, difference=0.5), row(512, "fa2", "peer", 1.0)]  # wrong: as if it never ended
    found, alone = sweep.ratios(rows)
    assert [round(ratio, 3) for ratio, _ in found] == [0.0, 0.5, 1.5] and alone == 1
    assert found[2][1]["name"] == "tilec-det" and found[2][1]["other"] == "cudnn"
    lines = sweep.summary(rows)
    assert lines[0] == "sweep: 3 cases with a peer, 1 without" and "under 0.95 in 2, least 0.000" in lines[1]
    assert len(lines) == 5 and lines[2].startswith("  0.000 fwd d=64/64")
    assert sweep.summary([]) == ["sweep: 0 cases with a peer, 0 without"]


# ---- yardsticks --------------------------------------------------------------------------------------

FORWARD = """// Attention forward. Tile 128 queries x 64 keys,
// Dynamic shared memory: 164096 bytes (Q, K, V).
//   box {64,64,1,1} for map_q, {64,128,1,1} for map_k and map_v.
.visible .entry attention_fwd_d128_causal(
    .param .u64 p_out, .param .u32 p_zero)
.maxntid 384, 1, 1
"""
BACKWARD = """// attention backward, tile 80 queries x 128 keys, no mask
// 231040 bytes of dynamic shared memory, one block per 128 keys and head
.visible .entry attention_bwd_d128(.param .u32 p_zero)
.maxntid 384, 1, 1
.visible .entry attention_bwd_pre(.param .u64 p_o)
.maxntid 256, 1, 1
.visible .entry attention_bwd_post(.param .u64 p_o)
.maxntid 256, 1, 1
"""


def made_up_torch(monkeypatch, maps):
    addresses = iter(range(0x1000, 0x100000, 0x1000))

    def tensor(*shape, **kind):
        count = 1
        for n in shape:
            count *= n
        at = next(addresses)
        return types.SimpleNamespace(data_ptr=lambda: at, device="cpu", count=count, shape=shape)
    torch = types.SimpleNamespace(empty=tensor, zeros=tensor, float32=0, int32=0,
                                  empty_like=lambda y: tensor(*y.shape))
    monkeypatch.setattr(tilec_torch, "_torch", lambda: torch)

    def encode(recipe, dtype, y):
        maps.append((recipe["box"], recipe["dims"], recipe["swizzle"], dtype))
        return bytes([len(maps)]) * 128, y
    monkeypatch.setattr(tilec_torch, "encode_map", encode)
    return tensor


def values(arguments):
    return [a.value for a in arguments if not hasattr(a, "raw")]


def test_forward_launch(monkeypatch):
    maps = []
    tensor = made_up_torch(monkeypatch, maps)
    facts = yardsticks.Facts("some/sm90a_attention_fwd_d128_causal.ptx", FORWARD)
    assert (facts.name, facts.shared, facts.tile) == ("fwd_d128_causal", 164096, (128, 64))
    case = cases_of.Case("fwd:128:4:16:4000:1")
    assert facts.fits(case)
    for other in ("fwd:128:4:16:4000:0", "fwd:64:4:16:4000:1", "fwd:128:4:16/8:4000:1", "fwd:128:4:16:4000/1:1",
                  "fwd:128:4:16:4000:1:f16", "bwd:128:4:16:4000:1"):
        assert not facts.fits(cases_of.Case(other))
    x = types.SimpleNamespace(q=tensor(4, 4000, 16, 128), k=tensor(1), v=tensor(1), scale=128 ** -0.5)
    [(entry, grid, shared, arguments)], results, _ = yardsticks.forward(facts, case, x, 132)
    out, lse = results()
    assert (entry, grid, shared) == ("attention_fwd_d128_causal", 132, 164096)
    assert [m[0] for m in maps] == [[64, 64, 1, 1], [64, 128, 1, 1], [64, 128, 1, 1]]
    assert {m[1:] for m in [(0, tuple(m[1]), *m[2:]) for m in maps]} == {((3, 1, 2, 0), 128, "bf16")}
    assert [a.raw[0] for a in arguments[:3]] == [1, 2, 3]
    assert lse.count == 4 * 16 * 4000
    # 16 heads of 4000 rows, 512 bytes each, are within 32 MB; 32 are not
    assert values(arguments) == [out.data_ptr(), lse.data_ptr(), pytest.approx(lse.data_ptr() + 0x1000), 4000, 16, 32,
                                 16, 32 * 64, pytest.approx(1.4426950408889634 / 128 ** 0.5), 0]


def test_backward_launch(monkeypatch):
    maps = []
    tensor = made_up_torch(monkeypatch, maps)
    facts = yardsticks.Facts("sm90a_attention_bwd_d128.ptx", BACKWARD)
    case = cases_of.Case("bwd:128:2:3:1000:0")
    x = types.SimpleNamespace(**{n: tensor(2, 1000, 3, 128) for n in ("q", "k", "v", "g", "o")}, l=tensor(2, 3, 1000),
                              scale=0.5)
    (pre, main, post), results, kept = yardsticks.backward(facts, case, x, 132)
    total, lse, delta = kept[1:4]
    dq, dk, dv = results()
    padded = 2 * 3 * 13 * 80
    assert (total.count, lse.count, delta.count) == (padded * 128, padded, padded)
    assert pre[:3] == ("attention_bwd_pre", -(-padded // 64), 0)
    assert main[:3] == ("attention_bwd_d128", 8 * 6, 231040)
    assert post[:3] == ("attention_bwd_post", 13 * 6, 0)
    assert values(pre[3]) == [y.data_ptr() for y in (x.o, x.g, x.l, lse, delta, total)] + [
        1000, 3, 13, padded, pytest.approx(-1.4426950408889634)]
    assert values(main[3]) == [y.data_ptr() for y in (dk, dv, total, lse, delta)] + [
        1000, 3, 8, 13, 1, pytest.approx(0.5 * 1.4426950408889634), 0.5, 0]
    assert values(post[3]) == [total.data_ptr(), dq.data_ptr(), 1000, 3, 13, 0.5]
    assert [m[0] for m in maps] == [[64, 80, 1, 1], [64, 128, 1, 1], [64, 128, 1, 1], [64, 80, 1, 1]]


@pytest.mark.parametrize("batch, heads, s, want", [(4, 16, 4096, 16), (1, 16, 16384, 4), (32, 16, 512, 128),
                                                   (1, 3, 128, 1), (1, 6, 128, 2), (1, 16, 1 << 20, 1)])
def test_section(batch, heads, s, want):
    assert yardsticks.section(cases_of.Case(f"fwd:128:{batch}:{heads}:{s}:1"), 32 << 20, 512) == want


def test_yardstick_that_says_nothing():
    with pytest.raises(tilec_torch.TilecError, match="its head does not say the tile"):
        yardsticks.Facts("sm90a_attention_bwd_d128.ptx", BACKWARD.replace("tile", "rile"))
    with pytest.raises(tilec_torch.TilecError, match="not named"):
        yardsticks.Facts("attention.ptx", BACKWARD)


# ---- the supervisor of the tuning mode ---------------------------------------------------------------

WORKER = '''
import json, os, sys, time
state = json.load(open(sys.argv[1]))
def tell(word, *what):
    print(f"@{word} {json.dumps(what)}", flush=True)
print("# begins without", sorted(state["bad"]), flush=True)
for text in state["cases"]:
    for name, path in state["variants"] + state["yardsticks"]:
        if name in state["bad"]:
            continue
        if [text, name] not in state["checked"]:
            kind = open(path).read()
            tell("limit", 0.5 if kind == "hangs" else 30, name)
            if kind == "hangs":
                time.sleep(60)
            if kind == "dies":
                print("an illegal address", flush=True)
                os._exit(3)
            if kind == "wrong":
                tell("bad", name, "WRONG RESULT")
                state["bad"].append(name)
                continue
            tell("about", name, "yardstick" if name.startswith("yard") else "ours", "168")
            tell("checked", text, name, [0.002, 0.01, 0.0, ""])
    tell("limit", 30, None)
    for mode in state["modes"]:
        if [text, mode] in state["done"]:
            continue
        if state.get("ends") == mode:
            raise SystemExit(7)
        good = [n for n, p in state["variants"] + state["yardsticks"] if n not in state["bad"]]
        tell("times", text, mode, {n: [1.0, float(len(n)), 50.0] for n in good}, 1980, 700)
'''


def supervise(tmp_path, kinds, modes=("burst", "sustained"), **more):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    entries = []
    for name, kind in kinds.items():
        (tmp_path / f"{name}.ptx").write_text(kind)
        entries.append([name, str(tmp_path / f"{name}.ptx")])
    ours = [e for e in entries if not e[0].startswith("yard")]
    state = {"cases": ["fwd:128:4:16:4096:0:bf16"], "modes": list(modes), "variants": ours,
             "yardsticks": [e for e in entries if e not in ours], **more}
    said = []
    supervisor = variants.Supervisor(state, str(tmp_path), [sys.executable, str(worker)], said.append)
    return supervisor, supervisor.run(), said


def test_supervisor(tmp_path):
    supervisor, complete, said = supervise(tmp_path, {"abc": "good", "stuck": "hangs", "no": "dies", "off": "wrong",
                                                      "last": "good", "yard": "good"})
    assert complete
    assert supervisor.bad == {"stuck": "did not end within 0.5 s", "no": "ended with status 3: an illegal address",
                              "off": "WRONG RESULT"}
    assert [line for line in said if "begins" in line] == [
        "# begins without []", "# begins without ['stuck']", "# begins without ['no', 'stuck']"]
    rows = variants.rows_of(supervisor, ["burst", "sustained"])
    assert [row["name"] for row in rows] == ["abc", "last", "yard"]
    flops = 4.0 * 64 * 4096**2 * 128
    assert rows[0]["burst"] == pytest.approx(flops / 3e9) and rows[0]["burst_ratio"] == pytest.approx(4 / 3)
    printed = []
    variants.print_rows(rows, ["burst", "sustained"], supervisor.clocks, printed.append)
    assert printed[0] == "fwd d=128 b=4 h=16 s=4096 full bf16   (burst 1980 MHz 700 W, sustained 1980 MHz 700 W)"
    assert [line.split()[0] for line in printed[2:]] == ["abc", "last", "*yard"]
    variants.write_csv(rows, tmp_path / "rows.csv")
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 4


def test_supervisor_keeps_what_was_timed(tmp_path):
    supervisor, complete, said = supervise(tmp_path, {"abc": "good", "yard": "good"}, ends="sustained")
    assert not complete and said[-1].startswith("# the worker ended with status 7")
    rows = variants.rows_of(supervisor, ["burst", "sustained"])
    assert rows[0]["burst"] and rows[0]["sustained"] is None
    printed = []
    variants.print_rows(rows, ["burst", "sustained"], supervisor.clocks, printed.append)
    assert " - " in printed[2]


def test_unpack(tmp_path):
    (tmp_path / "v_1.ptx").write_text("one")
    (tmp_path / "v_2.ptx.xz").write_bytes(lzma.compress(b"two"))
    (tmp_path / "to").mkdir()
    made = variants.unpack([str(tmp_path / "v_1.ptx"), str(tmp_path / "v_2.ptx.xz")], str(tmp_path / "to"))
    assert [(name, open(path).read()) for name, path in made] == [("v_1", "one"), ("v_2", "two")]
    with pytest.raises(SystemExit, match="two variants are named v_1"):
        variants.unpack([str(tmp_path / "v_1.ptx")] * 2, str(tmp_path / "to"))


# ---- tables and plots --------------------------------------------------------------------------------


def measured():
    numbers, rows = random.Random(1), []
    for c in cases_of.selected("fwd,bwd:d64,d128:full,causal:512,4k", LENGTHS, "bf16"):
        for mode in ("burst", "sustained"):
            for name, kind in (("tilec", "ours"), ("tilec-det", "ours"), ("yardstick:a", "yardstick"),
                               ("yardstick:b", "yardstick"), ("cudnn", "peer"), ("fa2", "peer")):
                rows.append({"dir": c.direction, "hd": c.d, "heads": c.heads, "seqlen": c.sq, "batch": c.batch,
                             "causal": int(c.causal), "name": name, "kind": kind, "mode": mode,
                             "median_ms": (ms := f"{numbers.uniform(0.3, 0.7):.4f}"),
                             "tflops": f"{c.tflops(float(ms)):.1f}"})
    return rows


def test_table(tmp_path):
    anchors = tmp_path / "anchors.csv"
    anchors.write_text("dir,hd,heads,seqlen,batch,causal,fa3_over_cudnn\nfwd,64,32,512,32,0,0.848\n")
    said = []
    report.against_yardsticks(measured(), ["burst", "sustained"], report.read_anchors(anchors),
                              str(tmp_path / "bench"), said.append)
    assert len(said) == 1 + 2 * 2 * 2 * 2 * 2
    assert said[1].startswith("fwd d64  full   s=512   h=32 burst") and said[1].endswith(" 0.848")
    lines = (tmp_path / "bench-table.csv").read_text().splitlines()
    row = dict(zip(lines[0].split(","), lines[1].split(",")))
    of_case = [r for r in measured() if (r["dir"], r["hd"], r["seqlen"], r["causal"], r["mode"])
               == ("fwd", 64, 512, 0, "burst")]
    best = max(float(r["tflops"]) for r in of_case if r["kind"] == "yardstick")
    assert float(row["yardstick"]) == best
    assert float(row["over_yardstick"]) == pytest.approx(float(row["ours"]) / best, rel=1e-3)
    with pytest.raises(SystemExit, match="--anchors"):
        report.read_anchors(tmp_path / "none.csv")


def test_table_of_peers_alone(tmp_path):
    rows = [r for r in measured() if r["kind"] == "peer"]
    table = report.compared(rows, ["burst", "sustained"], {})
    assert {(r["ours"], r["yardstick"], r["over_yardstick"]) for r in table} == {(None, None, None)}


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    report.plot(measured(), ["burst", "sustained"], str(tmp_path / "bench"))
    assert {p.name for p in tmp_path.iterdir()} == {f"bench-{m}.{k}" for m in ("burst", "sustained")
                                                    for k in ("png", "svg")}


def test_worker_and_supervisor_speak_alike(capsys):
    variants.tell("times", "c", "burst", {"a": [1.0]}, 1.0, 2.0)
    word, _, rest = capsys.readouterr().out.partition(" ")
    assert word == "@times" and json.loads(rest) == ["c", "burst", {"a": [1.0]}, 1.0, 2.0]


def test_gemm_shapes_and_files(tmp_path):
    assert gemm.shape_of("512") == (512, 512, 512)
    assert gemm.shape_of("8x16x24") == (8, 16, 24)
    with pytest.raises(gemm.argparse.ArgumentTypeError):
        gemm.shape_of("8x16")
    for name in ("b.ptx", "a.ptx", "note.txt"):
        (tmp_path / name).write_text("")
    assert gemm.files_of(f"x={tmp_path}/b.ptx") == [("x", f"{tmp_path}/b.ptx")]
    assert gemm.files_of(f"{tmp_path}/b.ptx") == [("b", f"{tmp_path}/b.ptx")]
    assert [name for name, _ in gemm.files_of(f"x-={tmp_path}")] == ["x-a", "x-b"]
    with pytest.raises(SystemExit):
        gemm.files_of(f"{tmp_path}/none.ptx")


def test_products_of_eight_bits(tmp_path):
    shapes = eight.drawn()
    assert len(set(shapes)) == eight.COUNT and all((n, k) in eight.WEIGHTS and k % 128 == 0 for _, n, k in shapes)
    options = types.SimpleNamespace(tilec=os.environ["TILEC"], out=str(tmp_path))
    sizes = ["-D", "TM=64", "-D", "TN=128"]
    for kind, (kernel, flags) in eight.KINDS.items():
        more = [] if kernel == "blocks" else ["-D", "TK=128"]
        done = subprocess.run([options.tilec, os.path.join(eight.HERE, "rows", "eight.tile"), "-arch", "sm_90", "--kernel", kernel,
                               *flags, *sizes, *more, "-o", "-"], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "wgmma.mma_async" in done.stdout, (kind, done.stderr)


def test_scores_and_masks_of_ones_own():
    for name, (file, kernel, flags) in flex.OURS.items():
        done = subprocess.run([os.environ["TILEC"], file, "-arch", "sm_90", "--kernel", kernel, "-D", "M=64", "-D", "N=64", *flags, "-o", "-"],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "wgmma.mma_async" in done.stdout, (name, done.stderr)


# ---- the model's plans -----------------------------------------------------------------------------


def test_plans_to_measure():
    plan = dict.fromkeys(model.PLAN, 1) | {"consumers": 2, "stages": 2, "q_stages": 2}
    work = {"tensor": 512.0, "shared": 400.0, "stage0": 0.5, "first": 0.5, "after": 0.5, "special": 256.0,
            "issue": 100.0, "vectors": 0.0, "added": 0.0, "cooperative": False, "lookahead": False, "held": False, "stored": 16384.0,
            "pipeline_bytes": 32768, "once_bytes": 16384}
    lines = [{"tiles": {"M": 64, "N": n}, "plan": ",".join(f"{k}={v}" for k, v in plan.items()), "coop_k": False,
              "pipelined": True, "variable_trips": False, "sliding": False,
              "trips": {"blocks": 2048.0, "each": 4096 / n, "most": 4096 / n, "masks": 0.0},
              "work": {**work, "tensor": 4.0 * n, "special": 4.0 * n}} for n in (32, 64, 96, 128)]
    chosen = plans.choose(lines, model.read_record(), 2, 1)
    assert [tiles["N"] for tiles, _ in chosen[:2]] == [128, 96]  # the best predicted come first
    assert {plan["stages"] for _, plan in chosen} == {1, 2}      # .. and have variants in one point
    assert all(sum(a[k] != plan[k] for k in model.PLAN) <= 1 for _, a in chosen)


def test_fit_finds_constants():
    right = model.solved([[4.0, 1.0], [1.0, 3.0]], [9.0, 5.0])
    assert right == pytest.approx([2.0, 1.0])


def test_difference_of_infinities():
    torch = pytest.importorskip("torch")
    row = torch.tensor([1.0, -float("inf"), 2.0])
    assert bench.worst_difference([row], [row]) == 0.0
    assert bench.worst_difference([row + 0.5], [row]) == 0.25
    for wrong in (torch.tensor([1.0, 0.0, 2.0]), torch.tensor([1.0, float("inf"), 2.0]), torch.tensor([1.0, float("nan"), 2.0])):
        assert not bench.worst_difference([wrong], [row]) < 0.02


# ---- rows.py -----------------------------------------------------------------------------------------


@pytest.mark.skipif("TILEC" not in os.environ, reason="TILEC names no compiler")
def test_rows_compile(tmp_path, capsys):
    wanted = [(name, *rows.SHAPES[name][0]) for name in rows.PROGRAMS]
    built = rows.compile_all(os.environ["TILEC"], wanted, str(tmp_path))
    assert {name for name, _, _ in built} == set(rows.PROGRAMS) and capsys.readouterr().out == ""
    assert len(built) == sum(len(forms) for *_, forms in rows.PROGRAMS.values())
    for (name, _, _), path in built.items():
        assert {*rows.PROGRAMS[name][1].split()} <= {kernel.name for kernel in tilec_torch.load(path).kernels}


@pytest.mark.skipif("TILEC" not in os.environ, reason="TILEC names no compiler")
def test_rows_ways(tmp_path, monkeypatch):
    """Two kernels over parts of rows where these are few and long; one program for a tile of columns where they are short."""
    class Tensor:
        def __init__(self, *shape):
            self.shape, self.device = shape, "cpu"

        def dim(self):
            return len(self.shape)
    monkeypatch.setattr(tilec_torch, "_torch", lambda: types.SimpleNamespace(Tensor=Tensor, device=str))
    monkeypatch.setattr(tilec_torch, "number_of", lambda device: 0)
    monkeypatch.setattr(tilec_torch.Module, "facts", lambda self, device=None: {"sm_count": 132, "sm_shared": 233472})
    built = rows.compile_all(os.environ["TILEC"], [(name, 1, 1) for name in rows.OTHER_WAY], str(tmp_path))
    # an H200 takes 8.6 us by two kernels for a loss of 16 rows, 16.1 by one; of 128 rows 20.0 by both
    for name, ones, twos in (("softmax", [(2048, 8192)], [(16, 65536)]), ("loss", [], [(1, 128256), (16, 128256)]),
                             ("column-sums", [(16384, 1000)], [(128, 8192)])):
        names = (name, rows.OTHER_WAY[name])
        ways = [tilec_torch.load(built[n, 0, ""]).select(*rows.PROGRAMS[n][1].split()) for n in names]
        for way, shapes in zip(ways, (ones, twos)):
            for few in shapes:
                assert tilec_torch.quickest(*ways, X=Tensor(*few), Y=Tensor(*few[:1 if name == "loss" else 2])) is way, (name, few)
    ways[1].clocks = lambda **_: None
    assert tilec_torch.quickest(*ways, X=Tensor(*few)) is ways[0]


def test_rows_summary(capsys):
    table = [{"kernel": "add", "case": case, "name": name, "us": us} for case, name, us in [
        ("1x8", "eager", "9"), ("1x8", "compile", "4"), ("1x8", "ours", "8"), ("1x8", "ours:M=1", "2"),
        ("2x8", "eager", "6"), ("2x8", "compile", "8"), ("2x8", "ours", "3"), ("2x8", "ours:M=1", "4")]]
    rows.summary(table)
    assert capsys.readouterr().out == ("add            2 cases: own form 1.000, least 0.500 (1x8); best form 2.000, "
                                       "least 2.000\n")


def test_rows_of_the_document():
    """docs/performance.md has, in the order of PROGRAMS, what the times that are kept give."""
    with open(os.path.join(ROOT, "docs", "lab", "rows-auto-h200.csv"), encoding="utf-8") as file:
        kept = rows.ratios(csv.DictReader(file))
    with open(os.path.join(ROOT, "docs", "performance.md"), encoding="utf-8") as file:
        text = file.read().split("\n## Rows and columns\n")[1].split("\n## ")[0]
    table = [[cell.strip() for cell in line.split("|")[2:-1]] for line in text.split("\n") if line.startswith("|")][2:]
    assert len(table) == len(rows.PROGRAMS) == len(kept)
    for name, cells in zip(rows.PROGRAMS, table):
        found, (own, best) = kept[name], rows.means(kept[name])
        least, _, case = min(found)
        rows_of, width = case.split("x")
        assert (name, cells) == (name, [str(len(found)), f"{own:.2f}", f"{least:.2f} ({rows_of} x {width})",
                                        f"{best:.2f}", f"{min(item[1] for item in found):.2f}"])
