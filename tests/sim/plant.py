#!/usr/bin/env python3
"""plant.py - faults planted into what warp groups hand to one another: does check-roles refuse them?

    plant.py --tilec T --tilerun R [--arch sm_100] [--places] [--every N] [--part K/N] [--seeds S] [--only TEXT] [--jobs J] [--print] [NAME..]

The tile IR of a planned kernel, as text in front of check-roles, is changed in one line: a wait, a release, a copy, a
barrier or a turn is left out, done twice, moved over the next line that its order could matter to, or has
another pipeline, count or, a copy, coordinate or consumer; or a loop has another bound, a number that is found out about the next
tile is another one.  What comes of it is compiled without check-roles and run in the simulator: a finding, a hang or
a wrong number makes the change harmful.  Of the harmful ones check-roles must refuse at least 98 % (--least), and the
simulator finds the rest by what harmful means here.  What the verifier of tile IR refuses (a stage read that nobody holds,
say) cannot be run, and is counted by itself.  A change that does no harm in the simulator may be refused, too: it may do harm
in other launches.  --places: changes of where buffers and their barriers lie, of stages, registers and warps instead; what the verifier refuses counts.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "run"))
import attention  # noqa: E402
import ladder  # noqa: E402
import planned  # noqa: E402

BEFORE, CHECK = "order_accesses", "check-roles"  # the passes between which faults are planted
SYNC = {"consumer_wait", "consumer_release", "producer_acquire", "producer_commit", "mma_wait", "pingpong_wait", "pingpong_arrive",
        "consumer_barrier", "barrier", "tma_load", "copy_async", "async_commit", "async_wait", "tmem_mma", "tmem_write", "staging_write", "staging_empty",
        "tma_reduce_add", "pair_send", "pair_sum", "tile_find", "tile_send", "tile_draw", "tile_take", "tile_late", "tile_advance",
        "tile_ask"}
MATTERS = SYNC | {"shared_read", "shared_write", "mma", "tmem_mma", "tmem_read", "tmem_write", "load", "store", "tma_store",
                  "tma_reduce_add"}

def operation(line):
    found = re.match(r"\s*(?:%\S+:[^=]*= )?([a-z_0-9]+)", line)
    return found[1] if found else ""


def is_edge(line):
    return line.rstrip().endswith("{") or line.strip().startswith(("}", "yield"))


def moved(lines, at, step):
    """The line behind, or in front of, the next one that its order could matter to; None where there is none."""
    to = at + step
    while not is_edge(lines[to]):
        if operation(lines[to]) in MATTERS:
            rest = lines[:at] + lines[at + 1:]
            return rest[:to] + [lines[at]] + rest[to:]
        to += step
    return None


def elsewhere(lines, at):
    """Copies of other tiles: each coordinate is another scalar, of the same copy, the last one before it, or 0."""
    found = re.match(r"(\s*tma_load [^\[]*\[)([^\]]*)(\].*)", lines[at])
    parts = found[2].split(", ") if found else []
    scalars = [re.match(r"\s*(%\w+): i32 = ", line) for line in lines[:at]]
    before = [s[1] for s in scalars if s]
    indent = len(lines[at]) - len(lines[at].lstrip())
    zeros = [z[2] for z in (re.match(r"( *)(%\w+): i32 = const 0$", line) for line in lines[:at]) if z and len(z[1]) <= indent]
    for k, part in enumerate(parts):
        own = re.match(r"%\w+", part)
        others = [o[0] for o in (re.match(r"%\w+", p) for p in parts) if o and own and o[0] != own[0]]
        for other in dict.fromkeys(others + before[-1:] + zeros[-1:]):
            if own and other != own[0]:
                moved_parts = parts[:k] + [other + part[len(own[0]):]] + parts[k + 1:]
                yield f"coordinate {k} is {other}", found[1] + ", ".join(moved_parts) + found[3]


def loops(lines, at):
    """Bounds of loops that are another scalar, one of the last before it."""
    found = re.match(r"(.*for %\w+: i32 in )(%\w+)( \.\. )(%\w+)(.*)", lines[at])
    indent = len(lines[at]) - len(lines[at].lstrip())
    scalars = [re.match(r"( *)(%\w+): i32 = ", line) for line in lines[max(0, at - 60):at]] if found else []
    for other in dict.fromkeys([s[2] for s in scalars if s and len(s[1]) <= indent][-4:]):
        if other != found[2]:
            yield f"from {other}", found[1] + other + found[3] + found[4] + found[5]
        if other != found[4]:
            yield f"to {other}", found[1] + found[2] + found[3] + other + found[5]


def numbers(lines, start):
    """(name, text): numbers that are found out about the next tile are others."""
    first = next((at for at in range(start, len(lines)) if re.match(r" *next_tile at.*\{$", lines[at])), len(lines))
    end = next((at for at in range(first, len(lines)) if lines[at].startswith("    }")), len(lines))
    for at in range(first, end):
        found = re.match(r"(\s*%\w+: i32 = const )(-?\d+)$", lines[at])
        if found:
            yield f"next#{at - first} is {int(found[2]) + 1}", "\n".join(lines[:at] + [f"{found[1]}{int(found[2]) + 1}"] + lines[at + 1:])
    kept = [at for at in range(first, end) if " kept(" in lines[at]]
    for one, other in zip(kept, kept[1:]):
        words = [re.search(r"kept\(\d+\)", lines[at])[0] for at in (one, other)]
        text = [line.replace(words[0], words[1]) if at == one else line.replace(words[1], words[0]) if at == other else line
                for at, line in enumerate(lines)]
        yield f"next: {words[0]} and {words[1]}", "\n".join(text)


def changes(text):
    """(name, text) of each change."""
    lines = text.split("\n")
    pipelines = re.findall(r"^    shared (\$\w+):.* pipeline", text, re.M)
    start = next(i for i, line in enumerate(lines) if re.match(r" *producer\b.*\{$", line))
    count = Counter()
    yield from numbers(lines, start)
    wants = next((at for at, line in enumerate(lines) if re.match(r" *wants\b.*\{$", line)), len(lines))
    for at in range(start, wants):
        op = operation(lines[at])
        for what, line in loops(lines, at):
            count["loop"] += 1
            yield f"loop#{count['loop']} {what}", "\n".join(lines[:at] + [line] + lines[at + 1:])
        if op not in SYNC:
            continue
        count[op] += 1
        name = f"{op}#{count[op]}"
        yield f"{name} left out", "\n".join(lines[:at] + lines[at + 1:])
        yield f"{name} twice", "\n".join(lines[:at + 1] + lines[at:])
        for way, step in (("earlier", -1), ("later", 1)):
            other = moved(lines, at, step)
            if other:
                yield f"{name} {way}", "\n".join(other)
        found = re.match(r"(\s*tma_load .*consumer\()(\d+)(\).*)", lines[at])
        if found:
            line = found[1] + str(int(found[2]) ^ 1) + found[3]
            yield f"{name} for another consumer", "\n".join(lines[:at] + [line] + lines[at + 1:])
        for what, line in elsewhere(lines, at):
            yield f"{name} {what}", "\n".join(lines[:at] + [line] + lines[at + 1:])
        found = re.match(r"(\s*mma_wait )(\d+)(.*)", lines[at])
        if found:
            for other in {int(found[2]) + 1, max(int(found[2]) - 1, 0)} - {int(found[2])}:
                yield f"{name} of {other}", "\n".join(lines[:at] + [f"{found[1]}{other}{found[3]}"] + lines[at + 1:])
        found = re.match(r"(\s*(?:consumer_(?:wait|release)|producer_(?:acquire|commit)) (?:own )?)(\$\w+)(.*)", lines[at])
        if found:
            other = pipelines[(pipelines.index(found[2]) + 1) % len(pipelines)] if found[2] in pipelines else found[2]
            if other != found[2]:
                yield f"{name} of {other}", "\n".join(lines[:at] + [found[1] + other + found[3]] + lines[at + 1:])


def places(text):
    """(name, text) of each change of where something lies."""
    lines = text.split("\n")
    buffers = [at for at, line in enumerate(lines) if re.match(r"    shared \$", line)]
    barriers = re.compile(r"(pipeline[^{]*? )(\d+)(?=[^0-9]*(?:\{|release|$))")

    def changed(at, what, line):
        return lines[at].split()[1] + " " + what, "\n".join(lines[:at] + [line] + lines[at + 1:])

    for at in buffers:
        line = lines[at]
        stages = int(re.search(r"stages (\d+)", line)[1])
        for more in (1, -1) if stages > 1 else (1,):
            yield changed(at, f"{stages + more} stages", line.replace(f"stages {stages}", f"stages {stages + more}", 1))
        if " lookahead" in line:
            yield changed(at, "not lookahead", line.replace(" lookahead", "", 1))
        if re.search(r"swizzle [123]>>", line):
            yield changed(at, "not swizzled", re.sub(r"swizzle \d>>", "swizzle 0>>", line))
        for other in buffers:
            own, place = (re.search(r"offset (\d+)", lines[k]) for k in (at, other))
            if own and place and own[1] != place[1] and ("tmem" in line) == ("tmem" in lines[other]):
                yield changed(at, f"at {place[1]}", line.replace(own[0], place[0], 1))
            own, place = barriers.search(line), barriers.search(lines[other])
            if own and place and own[2] != place[2]:
                yield changed(at, f"with barriers at {place[2]}", barriers.sub(rf"\g<1>{place[2]}", line, count=1))
    words = re.compile(r"(    (?:tiles .* at|tmem_columns \d+ at|mark) )(\d+)(.*)")
    for at, line in enumerate(lines):
        word = words.fullmatch(line)
        for other in dict.fromkeys(re.search(r"offset (\d+)", lines[k])[1] for k in buffers if "tmem" not in lines[k]) if word else ():
            yield f"{line.split()[0]} at {other}", "\n".join(lines[:at] + [word[1] + other + word[3]] + lines[at + 1:])
        role = re.match(r"(    role (\w+) .*?warps )(\d+)(?:( registers )(\d+))?(.*)", line)
        for warps, registers in ((1, 0), (0, 8), (0, 64)) if role else ():
            rest = role[4] + str(int(role[5]) + registers) if role[4] else ""
            if warps or rest:
                yield (f"role {role[2]} +{warps} warps +{registers} registers",
                       "\n".join(lines[:at] + [role[1] + str(int(role[3]) + warps) + rest + role[6]] + lines[at + 1:]))
        if re.match(r"    tiles axis \w+ reversed", line):
            yield "tiles not reversed", "\n".join(lines[:at] + [line.replace(" reversed", "", 1)] + lines[at + 1:])
        if re.match(r"    (shared_bytes|tmem_columns) ", line):
            yield f"half {line.strip()}", "\n".join(lines[:at] + [re.sub(r"\d+", lambda n: str(int(n[0]) // 2), line, count=1)] + lines[at + 1:])


def go_on(options, text, folder, name):
    """Compiles tile IR as text from the pass on that it comes behind."""
    source, ptx = os.path.join(folder, name + ".tir"), os.path.join(folder, name + ".ptx")
    pathlib.Path(source).write_text(text, encoding="utf-8")
    done = subprocess.run([options.tilec, source, "-arch", options.arch, "-o", ptx], capture_output=True, text=True)
    if done.returncode not in (0, 1) and "\ncheck-roles:" not in done.stderr:
        raise RuntimeError(f"exit status {done.returncode}: {done.stderr}")
    return (ptx if done.returncode == 0 else None), done.stderr


def code_of(ptx):
    """The text without what names the file."""
    with open(ptx, encoding="utf-8") as file:
        text = file.read()
    return re.sub(r"^\.visible \.const [^;]*;\n|//.*", "", text, flags=re.M)


def harm(options, case, ptx, folder):
    try:
        planned.simulate(options, case, ptx, folder)
    except attention.Wrong as wrong:
        return str(wrong)
    return None


def judge(options, case, base, name, text):
    """(outcome, message): what the checker and the simulator say of one change."""
    with tempfile.TemporaryDirectory() as folder:
        unchecked = text.replace(f"after {BEFORE}\n", f"after {CHECK}\n", 1)
        ptx, said = go_on(options, unchecked, folder, "unchecked")
        if not ptx:
            return "refused by the verifier", said
        if code_of(ptx) == base:
            return "same code", ""
        refused, why = go_on(options, text, folder, "checked")
        wrong = harm(options, case, ptx, folder)
        if wrong:
            return ("caught" if not refused else "missed"), (why if not refused else wrong)
        return ("harmless, refused" if not refused else "harmless"), why


def dump(options, case, folder):
    program = case.program
    source = str(program.source)
    if "\n" in source:
        source = os.path.join(folder, "program.tile")
        pathlib.Path(source).write_text(program.source, encoding="utf-8")
    command = [options.tilec, source, "-arch", options.arch, "--kernel", program.kernel, "--plan=" + case.plan, *case.flags,
               f"--dump-ir={BEFORE}", "-o", os.path.join(folder, "kernel.ptx")]
    for name, value in program.defines.items():
        command += ["-D", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def case_jobs(options, case):
    """The changes of one case that are to be judged."""
    with tempfile.TemporaryDirectory() as folder:
        text = dump(options, case, folder)
        if not re.search(r"^ *producer\b.*\{$", text, re.M):
            return []
        ptx, said = go_on(options, text, folder, "base")
        if not ptx:
            raise RuntimeError(f"{case.name}: its own text is refused: {said}")
        base = code_of(ptx)
        wrong = harm(options, case, ptx, folder)
        if wrong:
            raise RuntimeError(f"{case.name}: wrong without a change: {wrong}")
    return [(case, base, name, changed) for name, changed in (places if options.places else changes)(text) if re.search(options.only, name)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--arch", default="sm_90", choices=planned.ARCHES)
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="only every N-th case of planned.py")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th change from K on")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.98)
    parser.add_argument("--only", default="", help="only changes in whose name this regular expression is found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--print", action="store_true")
    parser.add_argument("names", nargs="*", help="only cases with one of these words in their name")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    cases = [case for case in planned.WRITTEN[options.arch](ladder.optional_passes(options.tilec))
             if not options.names or any(word in case.name for word in options.names)][::options.every]
    count = Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [job for found in pool.map(lambda case: case_jobs(options, case), cases) for job in found][part::parts]
        for (case, _, name, _), (outcome, said) in zip(jobs, pool.map(lambda job: judge(options, *job), jobs)):
            count[outcome] += 1
            if outcome == "missed" or options.print:
                print(f"{outcome}: {case.name}: {name}: {said.strip()[:600]}", flush=True)
    count["caught"] += count.pop("refused by the verifier", 0) if options.places else 0
    harmful = count["caught"] + count["missed"]
    print(f"{len(cases)} kernels, {len(jobs)} changes: " + ", ".join(f"{n} {k}" for k, n in sorted(count.items())))
    print(f"{count['caught']} of {harmful} harmful changes are refused at compile time")
    return 0 if harmful and count["caught"] >= options.least * harmful else 1


if __name__ == "__main__":
    sys.exit(main())
