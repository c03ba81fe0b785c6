#!/usr/bin/env python3
"""mutate.py - does the simulator notice when synchronisation is missing?

    mutate.py SIMRUN [--sample N] [--sample-known N] [--part I/N] [--seeds 32] [--jobs N] [--list] [FILE..]

Takes kernels that are right, breaks one wait, fence, arrive, commit or barrier at a time, and runs
every mutant under up to 32 seeds.  The kernels are mutants/*.ptx (made by tilec, comments and metadata
taken out, or by hand) and some of known_good/ (KNOWN, below):

    drop           the line is gone; a wait that is tried in a loop succeeds at once
    weaken         a wait allows one group more in flight; a fence has the scope of the block
    later, earlier the line moves over the next or last access of memory that it could matter for
    far-later, ..  it moves on to the next (back to the last) synchronisation, label or branch

A mutant is caught by a fault, or by a note that the kernel itself does not give.  A mutant that is not caught is either harmless, that is, the ISA
still guarantees the result, which must be argued in mutants/harmless.txt, or it is missed.
The share of the harmful mutants that are caught must be at least 95 %.  --sample N: N of the mutants
of each file, evenly; --sample-known N: of those of known_good/; those that are listed as harmless then
run under 4 seeds only.  --part I/N (I from 0): every N-th of these mutants from the I-th on, for N processes that
share a run; their last lines add up.  The header of a file in mutants/ (or of a file that is named) says how to
run it; `PATTERN:` buffers are made here:

    // ARGS: simrun arguments;  rand:BYTES is a buffer of small bf16 numbers, ints:BYTES of 0..15
    // SEEDS: N   fewer than 32, for slow ones

Several ARGS lines are several launches; any of them may catch the mutant.
"""
import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import known_good  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
GOAL = 0.95

# Files of known_good/ and the launches of their mutants: small, but rings go round more than once with
# one block doing many tiles, some have as many key blocks as the rings have slots (so that what the
# last block of a tile releases is filled at once), some have a single one (so that the tiles follow each
# other closely), and scores grow, so that the maximum is rescaled.
KNOWN = {
    "sm90a_attention_fwd_d128": [dict(b=1, h=2, s=333), dict(b=1, h=3, s=200, grid=1)],
    "sm90a_attention_fwd_d128_192x64": [dict(b=1, h=2, s=300, grid=1), dict(b=1, h=5, s=192, grid=1),
                                        dict(b=1, h=7, s=60, grid=1), dict(b=1, h=1, s=200, grow=3.0)],
    "sm90a_attention_fwd_d64_causal": [dict(b=2, h=1, s=400), dict(b=1, h=3, s=300, grid=1),
                                       dict(b=1, h=5, s=256, grid=1), dict(b=1, h=7, s=60, grid=1),
                                       dict(b=1, h=1, s=450, grow=3.0)],
    "sm90a_attention_bwd_d128": [dict(b=1, h=1, s=250), dict(b=1, h=1, s=70)],
}

SYNC = re.compile(
    r"^\s*(?:@!?%?\w+\s+)?(bar\.|barrier\.|cp\.async\.(?:commit|wait)|cp\.async\.bulk\.(?:commit|wait)|"
    r"cp\.async\.mbarrier|fence|membar|mbarrier\.|wgmma\.(?:fence|commit|wait)|"
    r"tcgen05\.(?:fence|wait|commit)|griddepcontrol)")
ACCESS = re.compile(
    r"^\s*(?:@!?%?\w+\s+)?(ld\.shared|st\.shared|ldmatrix|stmatrix|cp\.async|red\.|atom\.|"
    r"ld\.(?:acquire|relaxed|volatile)|st\.(?:release|relaxed|volatile)|wgmma\.mma|"
    r"tcgen05\.(?:mma|ld|st|cp|shift)|st\.async|red\.async)")
GLOBAL = re.compile(r"^\s*(?:@!?%?\w+\s+)?(?:ld|st|red|atom)\.[\w.:]*global")
EDGE = re.compile(r"^\s*[\w$%]+:|^\s*(?:@!?%?\w+\s+)?(?:bra|ret|exit|call|brx)\b|[{}]")


def opcode(line):
    return re.sub(r"^\s*(@!?%?\w+\s+)?", "", line).split()[0].rstrip(";")


def is_sync(line):
    return bool(SYNC.match(line))


def matters(sync, line):
    """Could the order of this synchronisation and that line matter?"""
    op = opcode(sync)
    if op.startswith("mbarrier.init") and opcode(line).startswith("mbarrier.init"):
        return False
    if is_sync(line):
        return True
    if op.startswith("cp.async.commit"):
        return "cp.async" in line
    if op.startswith(("fence.acq", "fence.sc", "membar")):
        return bool(ACCESS.match(line) or GLOBAL.match(line))
    return bool(ACCESS.match(line))


def without(line):
    """The line gone; a wait that gives a predicate gives true at once."""
    found = re.match(r"^(\s*(?:@!?%?\w+\s+)?)mbarrier\.(?:try|test)_wait\S*\s+([%\w$]+)\s*,", line)
    return f"{found.group(1)}setp.eq.u32 {found.group(2)}, 0, 0;" if found else ""


def weaker(line):
    found = re.search(r"(wait_group(?:\.read|\.sync\.aligned)?\s+)(\d+)", line)
    if found:
        return line[:found.start(2)] + str(int(found.group(2)) + 1) + line[found.end(2):]
    for wide in (".gpu", ".gl", ".sys", ".cluster"):
        if re.search(r"(fence\.(acq_rel|sc|release|acquire)|membar|\.release|\.acquire)" + re.escape(wide),
                     line):
            return line.replace(wide, ".cta")
    return None


def moved(lines, at, step, far):
    """The lines with line `at` moved; None if that changes nothing."""
    to, crossed = at, 0
    while True:
        nxt = to + step
        if nxt < 0 or nxt >= len(lines) or EDGE.search(lines[nxt]):
            break
        if far and crossed and is_sync(lines[nxt]):
            break
        crossed += matters(lines[at], lines[nxt])
        to = nxt
        if crossed and not far:
            break
    if not crossed:
        return None
    out = lines[:at] + lines[at + 1:]
    return out[:to] + [lines[at]] + out[to:]


def mutants(text, ran):
    """(name, text): the name tells which of its kind the op is, and the change.  An op that does not
    run in this launch cannot be missed in it."""
    lines = text.split("\n")
    count, body = {}, False
    for at, line in enumerate(lines):
        body |= line.startswith("{")
        if not body or not is_sync(line):
            continue
        op = opcode(line)
        count[op] = count.get(op, 0) + 1
        if at + 1 not in ran:
            continue
        name = f"{op}#{count[op]}"
        if op.startswith("mbarrier.inval"):
            continue  # gives memory back; nothing here uses it again
        made = {"drop": lines[:at] + [without(line)] + lines[at + 1:]}
        less = weaker(line)
        if less:
            made["weaken"] = lines[:at] + [less] + lines[at + 1:]
        for word, step, far in (("later", 1, False), ("earlier", -1, False),
                                ("far-later", 1, True), ("far-earlier", -1, True)):
            made[word] = moved(lines, at, step, far)
        seen = []
        for word, change in made.items():
            if change and change not in seen:
                seen.append(change)
                yield f"{name} {word}", "\n".join(change)


class Buffers:
    """The files that arguments name."""

    def __init__(self, folder):
        self.folder, self.random, self.count = folder, np.random.default_rng(3), 0

    def argument(self, text):
        form = re.fullmatch(r"(.*:)?(rand|ints):(\d+)", text)  # maybe the buffer of a tensor map
        if not form:
            return text
        before, kind, size = form.group(1) or "", form.group(2), int(form.group(3))
        if kind == "ints":
            data = self.random.integers(0, 16, size // 4).astype(np.int32)
        else:
            data = self.random.standard_normal(size // 2).astype(np.float32).view(np.uint32) >> 16
            data = data.astype(np.uint16)
        self.count += 1
        path = self.folder / f"in{self.count}.bin"
        data.tofile(path)
        return f"{before}in:{path}"


def simulate(options, path, arguments, seeds):
    done = subprocess.run([options.simrun, str(path), "--threads", "1", "--steps", "3000000",
                           *arguments, "--seeds", str(seeds)],
                          capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout + done.stderr


def harmless_of(stem):
    """{mutant: reason}; a line is `file | mutant | reason`, * in the mutant stands for anything."""
    out, path = {}, HERE / "mutants" / "harmless.txt"
    for line in path.read_text().splitlines() if path.exists() else []:
        parts = [p.strip() for p in line.split("|")]
        if not line.startswith("#") and len(parts) == 3 and parts[0] == stem:
            out[parts[1]] = parts[2]
    return out


def notes_of(said):
    return {line for line in said.split("\n") if line.startswith("note: ")}


class Subject:
    """A kernel that is right, and the launches that show it."""

    def __init__(self, path, folder, options):
        self.name, self.stem, self.seeds = path.name, path.stem, options.seeds
        self.text = path.read_text()
        if path.parent == known_good.FOLDER:
            self.text = known_good.repaired(self.text)
            self.launches = [words for number, sizes in enumerate(KNOWN[path.stem])
                             for words in self.known(options, known_good.Case(path.stem, **sizes),
                                                     folder / f"case{number}")]
            self.sample = options.sample_known or options.sample
            return
        self.sample, buffers = options.sample, Buffers(folder)
        self.launches = [[buffers.argument(a) for a in line.split()]
                         for line in re.findall(r"^// ARGS: *(.*)$", self.text, re.M)]
        fewer = re.search(r"^// SEEDS: *(\d+)$", self.text, re.M)
        if fewer:
            self.seeds = min(self.seeds, int(fewer.group(1)))

    def known(self, options, case, folder):
        """The launches of a case, each by itself: what one writes for the next is made here, once."""
        folder.mkdir()
        case.write_inputs(folder)
        (folder / "clean.ptx").write_text(self.text)
        for words in case.launches(folder):
            copies = []
            for word in words:  # nothing is written while mutants run
                name, _, rest = word.partition(":")
                if name == "out":
                    word = "scratch:" + rest.rsplit(":", 1)[1]
                elif name == "inout":
                    before = pathlib.Path(rest + ".before")
                    before.write_bytes(pathlib.Path(rest).read_bytes())
                    word = f"in:{before}"
                copies.append(word)
            simulate(options, folder / "clean.ptx", words, 1)
            yield copies


def run_file(options, path, folder):
    subject = Subject(path, folder, options)
    text, launches, seeds = subject.text, subject.launches, subject.seeds
    (folder / "clean.ptx").write_text(text)
    ran, usual = set(), set()
    for arguments in launches:
        status, output = simulate(options, folder / "clean.ptx", arguments, seeds)
        usual |= notes_of(output)
        if status != 0:
            print(f"{path.name}: the kernel itself exits with {status}:\n{output[:2000]}")
            return None
        done = subprocess.run([options.simrun, str(folder / "clean.ptx"), "--lines", *arguments],
                              capture_output=True, text=True)
        ran |= {int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("line ")}
    every = list(mutants(text, ran))
    if options.only:
        every = [m for m in every if options.only in m[0]]
    if subject.sample and len(every) > subject.sample:
        every = [every[i * len(every) // subject.sample] for i in range(subject.sample)]
    every = every[options.part[0]::options.part[1]]

    harmless = harmless_of(path.stem)
    argument_of = lambda name: next((h for h in harmless if fnmatch.fnmatchcase(name, h)), None)

    def one(number):
        name, changed = every[number]
        mutant = folder / f"m{number}.ptx"
        mutant.write_text(changed)
        tries = min(seeds, 4) if subject.sample and argument_of(name) else seeds
        for arguments in launches:
            done, said = simulate(options, mutant, arguments, tries)
            noted = done == 0 and notes_of(said) - usual
            if done != 0 or noted:
                break
        mutant.unlink()
        return name, 3 if noted else done, said if not noted else sorted(noted)[0]

    caught, argued, missed, kinds = 0, 0, [], {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, status, said in pool.map(one, range(len(every))):
            argument = argument_of(name)
            if status == 3:
                caught += 1
                level, kind = (word.strip() for word in said.split(":")[:2])
                if level == "note":
                    kind += " (note)"
                kinds[kind] = kinds.get(kind, 0) + 1
                if argument == name:
                    print(f"{path.name}: '{name}' is listed as harmless and yet found:\n{said[:600]}")
                    missed.append(name)
            elif status != 0:
                print(f"{path.name}: {name}: exit {status}: {said[:300]}")
                missed.append(name)
            elif argument:
                argued += 1
            else:
                missed.append(name)
            if options.list:
                print(f"    {name}: {'caught: ' + said.split(chr(10))[0] if status == 3 else status}")
    found = ", ".join(f"{k} {n}" for k, n in sorted(kinds.items(), key=lambda x: -x[1]))
    print(f"{path.name}: {len(every)} mutants, {caught} caught ({found}), {argued} harmless, "
          f"{len(missed)} missed", flush=True)
    for name in missed:
        print(f"    missed: {name}")
    return caught, argued, len(missed)


def part(text):
    at, _, count = text.partition("/")
    if not (at.isdigit() and count.isdigit() and int(at) < int(count)):
        raise argparse.ArgumentTypeError(f"'{text}' is not I/N with I below N")
    return int(at), int(count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("simrun")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--sample-known", type=int, default=0)
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N")
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", help="mutants with this in their name")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_intermixed_args()
    total, bad = np.zeros(3, int), False
    every = sorted((HERE / "mutants").glob("*.ptx"))
    every += [known_good.FOLDER / f"{stem}.ptx" for stem in KNOWN]
    for path in [p.resolve() for p in options.files] or every:
        with tempfile.TemporaryDirectory() as directory:
            result = run_file(options, path, pathlib.Path(directory))
        bad |= result is None
        total += result or (0, 0, 0)
    caught, argued, missed = map(int, total)
    share = caught / max(1, caught + missed)
    print(f"{caught + argued + missed} mutants: {caught} caught, {argued} harmless, {missed} missed: "
          f"{100 * share:.1f} % of the harmful ones are caught within {options.seeds} seeds")
    return 1 if bad or share < GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
