"""What simrun says of findings, and with which status it ends: levels, limits, seeds."""
import json
import pathlib
import re
import subprocess

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0)
.maxnreg 128
{
    .shared .align 16 .b8 s[1024];
    .reg .b32 t, v, a, x<300>; .reg .b64 g;
    mov.u32 t, %tid.x;
    mov.u32 a, s;
    ld.param.u64 g, [p0];
"""
# Every line reads shared memory that nobody wrote; the last one is a race.
UNINITIALISED = "".join(f"    ld.shared.u32 x{i}, [a+{4 * i}];\n" for i in range(200))
RACE = "    st.shared.u32 [a+900], t;\n"
# A note: the warps of a warpgroup execute different setmaxnreg instructions.
NOTE = """    .reg .pred p;
    setp.ge.u32 p, t, 64;
    @p bra OTHER;
    setmaxnreg.dec.sync.aligned.u32 96;
    bra.uni END;
OTHER:
    setmaxnreg.dec.sync.aligned.u32 96;
END:
"""
ADD_ONE = """    ld.global.u32 v, [g];
    add.u32 v, v, 1;
    bar.sync 0;
    st.global.u32 [g], v;
"""
TAIL = "    ret;\n}\n"


def simulate(simrun, scratch, body, *arguments):
    path = scratch / "report.ptx"
    path.write_text(HEAD + body + TAIL)
    done = subprocess.run([simrun, str(path), *arguments], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def limits(simrun, scratch):
    status, said = simulate(simrun, scratch, UNINITIALISED + RACE, "--block", "64", "zero:16")
    shown = len(re.findall("^fault: uninitialised: read", said, re.M))
    left = re.search("^fault: uninitialised: at other lines ([0-9]+) times more, of ([0-9]+)$", said, re.M)
    total = re.search(r"^([0-9]+) faults and more \(([0-9]+) times\), 0 notes$", said, re.M)
    if status != 3 or "fault: race:" not in said:
        return f"one kind hides another, exit {status}"
    if said.count("tilec explain S-") != 1:
        return f"it does not say who explains:\n{said[-300:]}"
    if shown != 12 or not left or int(left[1]) != 188 * 64 or int(left[2]) != 200 * 64:
        return f"{shown} lines of one kind are shown, the rest is {left and left[0]}"
    return None if total and int(total[1]) == 13 else f"no total in:\n{said[-300:]}"


def levels(simrun, scratch):
    launch = ["--block", "128", "zero:16"]
    status, said = simulate(simrun, scratch, NOTE, *launch)
    if status != 0 or not said.startswith("note: not-uniform:") or "0 faults, 1 note (4 times)\n" not in said:
        return f"a note ends with {status}:\n{said}"
    status, said = simulate(simrun, scratch, NOTE, *launch, "--seeds", "4")
    if status != 0 or said.count("note: not-uniform:") != 1:
        return f"a note of four seeds, exit {status}:\n{said}"
    status, said = simulate(simrun, scratch, NOTE, *launch, "--strict")
    if status != 3 or not said.startswith("fault: not-uniform:") or "1 fault (4 times), 0 notes\n" not in said:
        return f"a note in strict mode ends with {status}:\n{said}"
    status, _ = simulate(simrun, scratch, NOTE, *launch, "--expect", "not-uniform")
    if status != 2:
        return "--expect takes a note for a fault"
    status, said = simulate(simrun, scratch, "    bar.sync 0;\n", *launch)
    return f"a clean run says:\n{said}" if status or said else None


def seeds(simrun, scratch):
    path = scratch / "counter.bin"
    path.write_bytes((41).to_bytes(4, "little"))
    status, said = simulate(simrun, scratch, ADD_ONE, "--block", "32", f"inout:{path}", "--seeds", "8")
    value = int.from_bytes(path.read_bytes(), "little")
    return None if status == 0 and value == 42 else f"after 8 seeds it is {value}, exit {status}:\n{said}"


SOURCE = '    .file 1 "/src/kernels/row.cu"\n'
BOTH = "    .loc 1 42 3\n    st.shared.u32 [a+900], t;\n    .loc 1 50 3\n    ld.shared.u32 v, [a+16];\n"


def sarif(simrun, scratch):
    path, launch = scratch / "findings.sarif", ["--block", "64", "zero:16"]
    status, _ = simulate(simrun, scratch, BOTH + SOURCE, *launch, "--sarif", str(path))
    got = json.loads(path.read_text())
    run, = got["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    found = {(r["ruleId"], r["level"], r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
              r["locations"][0]["physicalLocation"]["region"]["startLine"]) for r in run["results"]}
    wanted = {("S-RACE", "error", "/src/kernels/row.cu", 42), ("S-UNINITIALISED", "error", "/src/kernels/row.cu", 50)}
    if status != 3 or got["version"] != "2.1.0" or found != wanted or not {r[0] for r in found} <= rules:
        return f"exit {status}, {found}"
    race = next(r for r in run["results"] if r["ruleId"] == "S-RACE")
    if race["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] != 42 or "warp" not in race["message"]["text"]:
        return f"the other party: {race}"
    status, _ = simulate(simrun, scratch, NOTE, "--block", "128", "zero:16", "--sarif", str(path), "--seeds", "3")
    levels = [r["level"] for r in json.loads(path.read_text())["runs"][0]["results"]]
    if status != 0 or levels != ["note"]:
        return f"a note of three seeds: exit {status}, {levels}"
    simulate(simrun, scratch, "    bar.sync 0;\n", "--block", "64", "zero:16", "--sarif", str(path))
    return None if json.loads(path.read_text())["runs"][0]["results"] == [] else "a clean run has results"


def suppressions(simrun, scratch):
    path, launch = scratch / "known", ["--block", "64", "zero:16"]
    for known, status, left in [("race kernels/row.cu:42\n", 3, "uninitialised"), ("* row.cu:* # both\n", 0, ""),
                                ("race row.cu:43\nuninitialised report.ptx:*\n", 3, "race"), ("race ow.cu:*\n", 3, "race")]:
        path.write_text("# known\n" + known)
        ended, said = simulate(simrun, scratch, BOTH + SOURCE, *launch, "--suppress", str(path))
        shown = set(re.findall("^fault: ([a-z-]+):", said, re.M))
        if ended != status or (left and left not in shown) or (not left and shown) or ("row.cu:42" in known and "race" in shown):
            return f"{known!r}: exit {ended}, {said}"
        if ("43" in known) != ("line 2 of the suppressions matched nothing" in said) and "ow.cu:*" not in known:
            return f"{known!r}: what matched nothing: {said}"
    for known, wrong in [("rase row.cu:1\n", ":1: expected a kind"), ("\nrace row.cu\n", ":2: expected FILE:LINE"), ("race row.cu:x\n", ":1: expected the number")]:
        path.write_text(known)
        ended, said = simulate(simrun, scratch, BOTH, *launch, "--suppress", str(path))
        if ended != 1 or wrong not in said:
            return f"{known!r}: exit {ended}, {said}"
    return None


def seconds(simrun, scratch):
    status, said = simulate(simrun, scratch, "    bar.sync 0;\n", "--block", "32", "zero:16", "--seconds")
    if status != 0 or not re.fullmatch(r"[0-9.]+ s, [0-9]+ warp instructions\n", said):
        return f"--seconds: {said}"
    status, said = simulate(simrun, scratch, "", "--block", "32", "zero:16", "--time", "sm_90")
    return None if status == 1 and "tilerun --time sm_90" in said and "--seconds" in said else f"--time: {said}"


def readers(simrun, scratch):
    """Of 16 bytes of global memory that four warps read together all four are remembered, whatever the seed, also by a write of 4 bytes."""
    text = (pathlib.Path(__file__).resolve().parent / "faults/race-global-groups.ptx").read_text()
    planted = "".join(re.sub("^//[+]", "", line) for line in text.splitlines(True) if not line.rstrip().endswith("//-"))
    (scratch / "groups.ptx").write_text(planted)
    for seed in range(16):
        done = subprocess.run([simrun, str(scratch / "groups.ptx"), "--block", "160", "--threads", "1", "--seed", str(seed), "zero:64"],
                              capture_output=True, text=True)
        if done.returncode != 3 or done.stdout.count("fault: race") != 1:
            return f"seed {seed}: exit {done.returncode}, {done.stdout}"
    return None


def run(simrun, scratch):
    tests, failed = [limits, levels, seeds, sarif, suppressions, seconds, readers], 0
    for test in tests:
        problem = test(simrun, pathlib.Path(scratch))
        if problem:
            failed += 1
            print(f"FAIL reports, {test.__name__}: {problem}")
    return len(tests), failed
