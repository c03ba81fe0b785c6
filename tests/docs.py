#!/usr/bin/env python3
"""docs.py - what README.md and docs/*.md say is what the programs do.

    docs.py excerpts --tilec T      blocks that show what the compiler prints, or what a file has;
                                    --update: takes over the numbers of values in blocks that hold
    docs.py flags --tilec T [--tilerun R]
    docs.py limits --tilec T
    docs.py speed --tilec T
    docs.py names --tilec T

An excerpt is a fenced block behind a comment:

    <!-- run: tilec attention.tile -arch sm_90 --dump-ir=plan -o %T/x.ptx -->      standard output
    <!-- messages: tilec attention.tile --remarks -o %T/x.ptx -->                  standard error
    <!-- file: examples/attention.tile -->                                        a file
    <!-- layout @1, rows 0 1 8, columns 0 1 2 9: tilec .. -->    which lane and register of each warp has which element,
                                                                  by the layout of that number in the output
    <!-- swizzle $K_1, rows 0 1 2: tilec .. -->                  where the 16-byte pieces of a buffer's rows lie

Commands run in examples/, %T is a fresh folder.  The lines of the block stand in the output in that
order, one directly after the other; where a line is `..`, others may lie between, and `..` in a line
stands for any text (more dots are dots).  Blanks at the begin of lines do not count, nor do the numbers of values,
registers and labels, so that an excerpt lives as long as what it shows.

flags: every option and every pass that --help and --list-passes show is in some document, and every
option that a document gives to one of the programs exists.

limits: numbers in the tables of docs/limits.md are the constants and the targets of the sources.

names: files that docs/internals.md and docs/decisions name, in `..`, exist; so do the commits that they name as
`hash` "subject" (where there is no history, that is skipped).  The table of docs/language.md has all built-in functions.

speed: the table of speeds in README.md sums up the first table of docs/performance.md: smallest and greatest
TFLOPS, the geometric means of the ratios to FlashAttention-3, to cuDNN and to the better, and the least of these.
"""
import argparse
import glob
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INTERNALS = [os.path.join(ROOT, "docs", "internals.md")] + sorted(glob.glob(os.path.join(ROOT, "docs", "decisions", "*.md")))
DOCUMENTS = [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))) + INTERNALS[1:]
EXCERPT = re.compile(r"^<!-- (run|messages|file|layout [^:\n]*|swizzle [^:\n]*): ([^\n]*) -->\n```\w*\n(.*?)^```$", re.M | re.S)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# ---- excerpts ----


def plain(line):
    """A line without what may differ."""
    line = re.sub(r"\s+", " ", line.strip())
    return re.sub(r"\$L\d+", "$L", re.sub(r"(%[A-Za-z_]*?)_?\d+\b", r"\1", line))


def same(want, line):
    return re.fullmatch(".*".join(re.escape(part) for part in re.split(r"(?<!\.)\.\.(?!\.)", plain(want))), line) is not None


def place(block, text):
    """The first line of a block that the text does not have where it should, or None; and the block
    as the text has it."""
    raw = [line for line in text.split("\n") if line.strip()]
    lines = [plain(line) for line in raw]
    runs, found, at = [[]], {}, 0
    for number, line in enumerate(block.split("\n")):
        if line.strip() == "..":
            runs.append([])
        elif line.strip():
            runs[-1].append((number, line))
    for run in runs:
        best = 0
        for start in range(at, len(lines) + 1):
            n = 0
            while n < len(run) and start + n < len(lines) and same(run[n][1], lines[start + n]):
                n += 1
            best = max(best, n)
            if n == len(run):
                found.update((number, raw[start + k]) for k, (number, _) in enumerate(run))
                at = start + n
                break
        else:
            return run[best][1], block
    own = block.split("\n")
    for number, line in found.items():
        if ".." not in own[number].replace(" .. ", " "):
            own[number] = line
    return None, "\n".join(own)


def picture(kind, text):
    """The picture that a dump's text describes; see the head of this file."""
    name, *lists = kind.split(", ")
    numbers = [[int(number) for number in some.split()[1:]] for some in lists]
    what, name = name.split()
    if what == "layout":
        return layout_picture(re.search(rf"layout {name} = {{(.*)}}", text)[1], *numbers)
    bits, shift = map(int, re.search(rf"shared {re.escape(name)}: .* swizzle (\d+)>>(\d+)", text).groups())
    rows = [[piece ^ (row >> shift) % (1 << bits) for piece in range(8)] for row in numbers[0]]
    return "\n".join(f"row {row:2} |" + "".join(f"{have.index(place):4}" for place in range(8))
                     for row, have in zip(numbers[0], rows))


def layout_picture(text, rows, columns):
    """The digits of register, lane and warp, least significant first: "2:0,1" steps by (0, 1) twice."""
    held = {(0, 0): (0, 0, 0)}
    for index, part in enumerate(re.split(r"\|", text.split(" ", 1)[1])):
        weight = 1
        for extent, r, c in re.findall(r"(\d+):(\d+),(\d+)", part):
            old, held = held, {}
            for k in range(int(extent)):
                for (row, column), holder in old.items():
                    new = list(holder)
                    new[index] += k * weight
                    held[row + k * int(r), column + k * int(c)] = tuple(new)
            weight *= int(extent)
    lines = ["       |" + "".join(f"{'col ' + str(c):>12}" for c in columns)]
    for row in rows:
        cells = ["w{2} l{1} r{0}".format(*held[row, column]) for column in columns]
        lines.append(f"row {row:2} |" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def excerpts(options):
    problems, count, outputs = [], 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for path in DOCUMENTS:
            text = read(path)
            for match in list(EXCERPT.finditer(text)):
                kind, what, block = match.groups()
                where = f"{os.path.relpath(path, ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
                count += 1
                if kind == "file":
                    outputs[kind, what] = read(os.path.join(ROOT, what))
                elif ("run", what) not in outputs:
                    words = [w.replace("%T", folder) for w in shlex.split(what)]
                    words[0] = {"tilec": options.tilec}[words[0]]
                    done = subprocess.run(words, cwd=os.path.join(ROOT, "examples"), capture_output=True, text=True,
                                          timeout=60)
                    outputs["run", what], outputs["messages", what] = done.stdout, done.stderr
                    if done.returncode != 0:
                        problems.append(f"{where}: exit status {done.returncode}\n{done.stderr}")
                drawn = kind.startswith(("layout", "swizzle"))
                line, now = place(block, picture(kind, outputs["run", what]) if drawn else outputs[kind, what])
                if line is not None:
                    problems.append(f"{where}: there is no line like\n    {line}")
                elif options.update:
                    text = text.replace(match[0], match[0].replace(block, now))
            if options.update and text != read(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
    return problems, f"{count} excerpts"


# ---- flags ----


def told(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60).stdout


def options_of(help_text):
    """The options that a help text lists: words at the begin of a line."""
    found = set()
    for line in help_text.split("\n"):
        match = re.match(r" +(-[^ ]*)(.*)", line)
        if match:
            found |= set(re.findall(r"(?<![^ ])--?[A-Za-z][A-Za-z0-9-]*", line))
    return found


def flags(options):
    problems, count = [], 0
    text = {path: read(path) for path in DOCUMENTS}
    everything = "\n".join(text.values())
    known = {"tilec": options_of(told(options.tilec, "--help"))}
    passes = [line.split()[0] for line in told(options.tilec, "--list-passes").split("\n") if line]
    if options.tilerun:
        known["tilerun"] = options_of(told(options.tilerun, "--help"))
    for program, flags_of in known.items():
        for flag in sorted(flags_of):
            count += 1
            stem = {"-fNAME": "-f", "-fno-NAME": "-fno-", "-Wno-NAME": "-Wno-"}.get(flag, flag)
            if not re.search(r"(?<![\w-])" + re.escape(stem) + ("" if stem != flag else r"(?![\w-])"), everything):
                problems.append(f"{program} {flag}: in no document")
    for name in passes:
        count += 1
        if not re.search(r"(?<![\w-])" + re.escape(name) + r"(?![\w-])", everything):
            problems.append(f"pass {name}: in no document")
    # what documents give to the programs: lines of commands, joined where they go on
    switches = {f"-f{no}{name}" for name in passes for no in ("", "no-")}
    hidden = {"-O1", "-O2", "--version", "--help", "-Wno-error"}
    for path, content in text.items():
        joined = re.sub(r"\\\n\s*", " ", content)
        for line in re.findall(r"(?:^    |`|^<!-- \w+: )((?:tilec|tilerun) [^`\n]*)", joined, re.M):
            line = re.split(r"\s#\s|->| \.\. ", line)[0]
            words = line.split()
            allowed = known.get(words[0])
            for word in words[1:]:
                flag = re.match(r"\[?(--?[A-Za-z][A-Za-z0-9-]*)", word)
                if not flag or allowed is None:
                    continue
                count += 1
                name = flag[1]
                if name not in allowed | switches | hidden and not re.match(r"-(Wno-|D|I)", name):
                    problems.append(f"{os.path.relpath(path, ROOT)}: {words[0]} has no option {name}: {line}")
    return problems, f"{count} options and passes"


# ---- limits ----

CHIP = ["shared_per_block", "shared_per_sm", "registers_per_sm", "registers_per_thread", "threads_per_sm",
        "blocks_per_sm"]  # the columns of the table


def number(text):
    """Of a table or of C: 131,072, 1 << 17, 163 * 1024."""
    return eval(text.replace(",", ""), {"__builtins__": {}})


def limits(_):
    problems, rows = [], 0
    sources = [read(path) for folder in ("compiler", "backends/ptx") for suffix in ("h", "c")
               for path in glob.glob(os.path.join(ROOT, folder, "**", "*." + suffix), recursive=True)]
    chips = {match[1]: source for source in sources for match in [re.search(r"\.name = \"(sm_\d+)\"", source)] if match}
    for source in sources: # several of one kind, whose fields are a macro's
        for match in re.finditer(r"(\w+_KIND)\(\s*\"(sm_\d+)\"", source):
            chips[match[2]] = next(other for other in sources if f"#define {match[1]}(" in other)
    for line in read(os.path.join(ROOT, "docs", "limits.md")).split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.fullmatch(r"`[A-Z_]+`", cells[-1]):
            found = {number(m[1]) for source in sources
                     for m in re.finditer(rf"\b{cells[-1][1:-1]} = ([\d<* ]+)", source)}
            have, want = [number(cells[1])], sorted(found)
        elif re.fullmatch(r"`sm_\d+`", cells[0]):
            have, target = list(map(number, cells[1:])), cells[0][1:-1]
            want = [number(re.search(rf"\.{field} = ([\d* ]+)", chips[target])[1]) for field in CHIP]
            want[:2] = [n // 1024 for n in want[:2]]
            chips.pop(target)
        else:
            continue
        rows += 1
        if have != want:
            problems.append(f"docs/limits.md: {line}\n    the sources have {want}")
    return problems + [f"docs/limits.md: {name} is not in the table" for name in chips], f"{rows} rows"


# ---- names ----


def names(_):
    problems, count = [], 0
    log = subprocess.run(["git", "log", "--format=%h %s", "--abbrev=7"], capture_output=True, text=True, cwd=ROOT)
    commits = dict(line.split(" ", 1) for line in log.stdout.split("\n") if line)
    for path in INTERNALS:
        text, here = re.sub(r"^```.*?^```$", "", read(path), flags=re.M | re.S), os.path.relpath(path, ROOT)
        for name in re.findall(r"`((?:backends|bench|compiler|docs|dsl|examples|python|stdlib|tests)/[\w./*-]*)`", text):
            count += 1
            if not glob.glob(os.path.join(ROOT, name)):
                problems.append(f"{here}: there is no {name}")
        for commit, subject in re.findall(r'`([0-9a-f]{7})`\s"([^"]*)"', text):
            count += 1
            if len(commits) > 1 and not commits.get(commit, "").startswith(re.sub(r"\s+", " ", subject)):
                problems.append(f"{here}: there is no commit {commit} {subject}")
    language = read(os.path.join(ROOT, "docs", "language.md")).split("## 8. Built-in functions")[1].split("\n## ")[0]
    first = " ".join(re.findall(r"^\|([^|]*)\|", language, re.M))
    for name in re.findall(r'^BUILTIN\(\w+, "(\w+)"', read(os.path.join(ROOT, "dsl", "builtins.def")), re.M):
        count += 1
        if not re.search(rf"\b{name}\b", " ".join(re.findall(r"`([^`]*)`", first))):
            problems.append(f"docs/language.md: no row of the built-in functions has {name}")
    hints = read(os.path.join(ROOT, "compiler", "passes", "plan_hints.c"))
    keys = re.findall(r'^\s+\{"(\w+)", ', hints, re.M)
    for page in "language", "warp-groups":  # the tables of @plan's and --plan's keys, of which the first is consumers
        table = re.search(r"^\| `consumers` .*?\n\n", read(os.path.join(ROOT, "docs", page + ".md")), re.M | re.S)[0]
        count += len(keys)
        if not keys or sorted(re.findall(r"^\| `(\w+)` ", table, re.M)) != sorted(keys):
            problems.append(f"docs/{page}.md: the keys of plans are {', '.join(keys)}")
    return problems, f"{count} names"


# ---- speed ----


def speed(_):
    groups = {}
    for line in read(os.path.join(ROOT, "docs", "performance.md")).split("\n"):
        match = re.match(r"\| (fwd|bwd) (d\d+) (full|causal) s=\d+ \|", line)
        if match:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            for group in (match[1], match[2]), ("all", ""):
                groups.setdefault(group, []).append((int(cells[1]), *map(float, cells[5:8])))
    problems, said = [], read(os.path.join(ROOT, "README.md"))
    for (way, depth), cases in groups.items():
        rates, *ratios = zip(*cases)
        name = {"fwd": "forward, ", "bwd": "backward, ", "all": "all"}[way] + depth.replace("d", "head dimension ")
        means = " | ".join(f"{math.exp(sum(map(math.log, these)) / len(these)):.2f}" for these in ratios)
        row = f"| {name} | {len(cases)} | {min(rates)} to {max(rates)} | {means} | {min(ratios[-1]):.2f} |"
        if row not in said:
            problems.append(f"README.md has no row\n    {row}")
    return problems, f"{len(groups)} rows"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["excerpts", "flags", "limits", "names", "speed"])
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    checks = {"excerpts": excerpts, "flags": flags, "limits": limits, "names": names, "speed": speed}
    problems, counted = checks[options.what](options)
    for problem in problems:
        print(problem)
    print(f"{counted}, {len(problems)} problems")
    return 1 if problems or counted.startswith("0 ") else 0


if __name__ == "__main__":
    sys.exit(main())
