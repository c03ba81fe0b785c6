#!/usr/bin/env python3
"""docs.py - what README.md and docs/*.md say is what the programs do.

    docs.py excerpts --tilec T      blocks that show what the compiler prints, or what a file has;
                                    --update: takes over the numbers of values in blocks that hold
    docs.py flags --tilec T [--tilerun R]
    docs.py limits --tilec T
    docs.py speed --tilec T

An excerpt is a fenced block behind a comment:

    <!-- run: tilec attention.tile -arch sm_90 --dump-ir=plan -o %T/x.ptx -->      standard output
    <!-- messages: tilec attention.tile --remarks -o %T/x.ptx -->                  standard error
    <!-- file: examples/attention.tile -->                                        a file

Commands run in examples/, %T is a fresh folder.  The lines of the block stand in the output in that
order, one directly after the other; where a line is `..`, others may lie between, and `..` in a line
stands for any text.  Blanks at the begin of lines do not count, nor do the numbers of values,
registers and labels, so that an excerpt lives as long as what it shows.

flags: every option and every pass that --help and --list-passes show is in some document, and every
option that a document gives to one of the programs exists.

limits: numbers in the tables of docs/limits.md are the constants and the targets of the sources.

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
DOCUMENTS = [os.path.join(ROOT, "README.md")] + sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
EXCERPT = re.compile(r"^<!-- (run|messages|file): ([^\n]*) -->\n```\w*\n(.*?)^```$", re.M | re.S)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# ---- excerpts ----


def plain(line):
    """A line without what may differ."""
    line = re.sub(r"\s+", " ", line.strip())
    return re.sub(r"\$L\d+", "$L", re.sub(r"(%[A-Za-z_]*?)_?\d+\b", r"\1", line))


def same(want, line):
    return re.fullmatch(".*".join(re.escape(part) for part in plain(want).split("..")), line) is not None


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
                    outputs[what] = read(os.path.join(ROOT, what))
                elif (kind, what) not in outputs:
                    words = [w.replace("%T", folder) for w in shlex.split(what)]
                    words[0] = {"tilec": options.tilec}[words[0]]
                    done = subprocess.run(words, cwd=os.path.join(ROOT, "examples"), capture_output=True, text=True,
                                          timeout=60)
                    outputs["run", what], outputs["messages", what] = done.stdout, done.stderr
                    if done.returncode != 0:
                        problems.append(f"{where}: exit status {done.returncode}\n{done.stderr}")
                line, now = place(block, outputs[what] if kind == "file" else outputs[kind, what])
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
    parser.add_argument("what", choices=["excerpts", "flags", "limits", "speed"])
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    problems, counted = {"excerpts": excerpts, "flags": flags, "limits": limits, "speed": speed}[options.what](options)
    for problem in problems:
        print(problem)
    print(f"{counted}, {len(problems)} problems")
    return 1 if problems or counted.startswith("0 ") else 0


if __name__ == "__main__":
    sys.exit(main())
