#!/usr/bin/env python3
"""house.py - rules of the house that no compiler checks.

    house.py layers            who may include whom
    house.py circles LIBRARY.. no files that call one another but those that CIRCLES has a reason for
    house.py sizes             no source file of more than 900 lines, no function of more than 80; in compiler/ half of
                               the functions have at most 13
    house.py words             words that belong in some rooms, and are counted elsewhere
    house.py machine [REV]     how many lines make roles of a program, judge and time them; at a commit,
                               with the names that files had at 0e17fe4, too, where the count was begun
    house.py format            C sources are as clang-format 14 writes them (other versions differ: skipped, 77)
    house.py mutable LIBRARY.. the libraries have no mutable data but what MUTABLE has a reason for
    house.py limits TILEC [COUNTED [update]]
                               the binary is small; compiling takes little memory and little work,
                               which COUNTED counts (count_blocks.c), so that it does not matter how
                               busy the machine is; `update` writes work.txt anew
"""
import fnmatch
import os
import re
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# room: what its files may include beside their own: rooms (without the folders in them), and files.  Every file of
# compiler/, dsl/ and backends/ is in a room of this table; a room's neighbours stand before it.
LAYERS = {
    "compiler/base": [],
    "stdlib": [],
    "dsl": ["compiler/base"],
    "compiler/ir": ["compiler/base"],
    # three files that are in no room: what rooms share with a target, what a clock asks it, and the C API
    "compiler/clock_rows.h": [],
    "compiler/target.h": ["compiler/base", "compiler/ir", "compiler/clock_rows.h"],
    "compiler/tilec.h": [],
    "backends/ptx": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/clock_rows.h"],
    "compiler/emit": ["compiler/base", "compiler/ir"],
    # what a pass is given, the tables of passes and switches, and what runs them
    "compiler/passes": ["compiler/base", "compiler/ir", "compiler/target.h"],
    "compiler/passes/util": ["compiler/base", "compiler/ir", "compiler/passes/pass.h"],
    "compiler/passes/rewrite": ["compiler/base", "compiler/ir", "compiler/passes/pass.h", "compiler/passes/util"],
    "compiler/passes/masks": ["compiler/base", "compiler/ir", "compiler/passes/pass.h", "compiler/passes/util"],
    "compiler/passes/schedule": ["compiler/base", "compiler/ir", "compiler/passes/pass.h", "compiler/passes/util"],
    "compiler/passes/layout": ["compiler/base", "compiler/ir", "compiler/passes/pass.h", "compiler/passes/util"],
    "compiler/passes/place": ["compiler/base", "compiler/ir", "compiler/passes/pass.h", "compiler/passes/util",
                              "compiler/passes/layout"],
    "compiler/passes/check": ["compiler/base", "compiler/ir", "compiler/passes/pass.h", "compiler/passes/util",
                              "compiler/passes/place/place_sync.h"],
    "compiler/lower": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/passes", "compiler/passes/util",
                       "compiler/passes/schedule/plan.h"],
    # the tree and tile IR meet here only
    "compiler/front": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/tilec.h", "compiler/passes/pass.h",
                       "dsl", "stdlib"],
    "compiler/cost": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/passes/pass.h", "compiler/passes/util",
                      "compiler/passes/schedule/plan.h"],
    "compiler/timeline": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/cost", "compiler/passes/util",
                          "compiler/passes/check/role_cases.h", "compiler/passes/check/role_walk.h"],
    "compiler/choose": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/tilec.h", "compiler/passes",
                        "compiler/passes/util", "compiler/front", "compiler/cost", "compiler/lower/tir_to_lir.h"],
    "compiler/report": ["compiler/base", "compiler/ir", "compiler/target.h"],
    "compiler/driver": ["compiler/base", "compiler/ir", "compiler/target.h", "compiler/tilec.h", "compiler/passes",
                        "compiler/front", "compiler/cost", "compiler/timeline", "compiler/choose", "compiler/report", "compiler/emit",
                        "compiler/lower/tir_to_lir.h", "backends/ptx", "dsl/interpret.h"],
    "compiler/command": ["compiler/base", "compiler/tilec.h", "compiler/report/after_ptxas.h", "compiler/report/sass.h",
                         "compiler/report/page.h", "compiler/front/editor.h", "dsl/names.h"],
    "backends/sim": [],
    "backends/sim/driver": ["backends/sim/sim.h"],
    "backends/clock": ["compiler/base", "compiler/clock_rows.h", "backends/sim/sim.h"],
    "backends/cuda": ["compiler/base", "compiler/command/listing.h", "backends/sim/sim.h", "backends/sim/launch_args.h", "backends/clock"],
}

def sources(*suffixes):
    for folder in ["dsl", "compiler", "backends", "stdlib"]:
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(where, name), ROOT)


def includes(path):
    """What a file of ours includes of ours, as paths from the root."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.M)
    folder = os.path.dirname(path)
    return [name if "/" in name else f"{folder}/{name}" for name in names if not name.endswith(".tab.h")]


def layers():
    rooms, bad = list(LAYERS), []
    for room, others in LAYERS.items():
        for other in others:
            home = other if other in LAYERS else os.path.dirname(other)
            if home not in rooms or rooms.index(home) >= rooms.index(room):
                bad.append(f"the table lets {room} include {other}, which is no room before it")
    for path in sources(".c", ".h", ".l", ".y", ".def"):
        room = path if path in LAYERS else os.path.dirname(path)
        if room not in LAYERS:
            bad.append(f"{path}: its folder is no room of the table")
            continue
        for name in includes(path):
            if not {name, os.path.dirname(name)} & {room, *LAYERS[room]}:
                bad.append(f"{path}: may not include {name}")
    return bad + [f"headers include one another: {' '.join(circle)}" for circle in circles_of(
        {path: set(includes(path)) for path in sources(".h")})]


# Files that call one another: patterns of their names, and why.  A row that nothing needs any more is an error.
CIRCLES = [
    (["roles_steps.c", "roles_issued.c"], "where a role of their own issues the products a consumer's loop is written by the emitter, "
                                          "which asks there what becomes of an operation"),
    (["lower_*.c", "tir_to_lir.c"], "the lowering makes a value when somebody asks for it (lower_elem), whatever operation it is "
                                    "of; an explicit order of evaluation ends that"),
    (["ast_to_tir*.c"], "the grammar: statements have expressions, which have calls, which have statements"),
    (["interpret*.c"], "the grammar, as for ast_to_tir"),
    (["lir.c", "lir_fold.c"], "building an instruction folds it, and folding builds instructions"),
]


def circles_of(edges):
    """The strongly connected sets of more than one, of {node: set of nodes} (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def calls(library):
    """{file: {file whose functions it names: one of them}} of the members of a library."""
    said = subprocess.run(["nm", "-A", library], capture_output=True, text=True, check=True).stdout
    symbols = re.findall(r":([^:\n]+)\.o:\s*(?:[0-9a-f]+)? ([TWU]) (\S+)$", said, re.M)
    home = {name: member for member, kind, name in symbols if kind != "U"}
    edges = {}
    for member, kind, name in symbols:
        if kind == "U" and home.get(name, member) != member:
            edges.setdefault(member, {})[home[name]] = name
    return edges


def circles(*libraries):
    bad, used = [], set()
    for library in libraries:
        edges = calls(library)
        if not edges:
            bad.append(f"nm shows no calls in {library}")
        for circle in circles_of(edges):
            rows = [k for k, (patterns, _) in enumerate(CIRCLES)
                    if all(any(fnmatch.fnmatch(name, p) for p in patterns) for name in circle)]
            used |= set(rows)
            if not rows:
                which = [f"{a} -> {b} ({name})" for a in circle for b, name in sorted(edges[a].items()) if b in circle]
                bad.append("files call one another:\n    " + "\n    ".join(which))
    return bad + [f"no circle needs the row {patterns}" for k, (patterns, _) in enumerate(CIRCLES) if k not in used]


def functions(lines):
    """(name, lines of its body) of each function: clang-format leaves only their braces alone in the first column."""
    begin = None
    for number, line in enumerate(lines):
        if line == "{":
            begin = number
        elif line == "}" and begin is not None:
            above = (re.match(r"(\w+)\(", lines[k]) for k in range(begin - 1, -1, -1))
            yield next((name[1] for name in above if name), "?"), number - begin - 1
            begin = None


def sizes():
    bad, bodies = [], []
    for path in sources(".c", ".h", ".l", ".y"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        if len(lines) > 901:
            bad.append(f"{path}: {len(lines) - 1} lines, at most 900")
        for name, body in functions(lines) if path.endswith(".c") else []:
            if body > 80:
                bad.append(f"{path}: {name} has {body} lines, at most 80")
            if path.startswith("compiler/"):
                bodies.append(body)
    median = sorted(bodies)[len(bodies) // 2]
    if median > 13:
        bad.append(f"compiler/: half of the functions have {median} lines or more, at most 13")
    return bad if len(bodies) > 1000 else [*bad, "where are the functions?"]


# A word, as a regular expression, the rooms that it belongs in, and on how many lines of compiler/ it may stand elsewhere:
# a limit may only fall.  Each is what a new kind of thing would have to be added to.
WORDS = [
    # types of operands: passes ask the product's MmaForm (target.h)
    (r"\bDT_(F16|BF16|TF32|E4M3)\b", ["compiler/ir", "compiler/front"], 3),
    (r"\bINDEX_[A-Z]+\b", ["compiler/ir"], 6), # kinds of subscripts: passes ask tir_dims (tir.h) for places and lengths
    # what operations do along an axis: passes ask tir_axis_use, tir_reduces and tir_can_be_again (tir.h)
    (r"\bTIR_REDUCE\b", ["compiler/ir"], 1),
    # that a role of its own issues products: passes ask which roles a channel connects (TirShared.from, to), what the table of
    # roles counts (tir_plan.c), or as what products are issued (plan_issue)
    (r"\btir_has_issuer\(", ["compiler/ir"], 7),
    (r"\btarget_issuer\(", ["compiler"], 7),
]


def words():
    bad = []
    for word, rooms, most in WORDS:
        found = []
        for path in sources(".c", ".h"):
            if not path.startswith("compiler/") or os.path.dirname(path) in rooms:
                continue
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                found += [f"{path}:{n}" for n, line in enumerate(file, 1) if re.search(word, line)]
        if len(found) > most:
            bad.append(f"{word} stands on {len(found)} lines outside of {' '.join(rooms)}, at most {most}: {' '.join(found)}")
    return bad


# What takes a program apart into roles on the GPU, by part: rows of fnmatch patterns below compiler/.  The count was
# begun at 0e17fe4, whose names come behind the semicolon.  Lines that it may have: that limit, too, may only fall.
MACHINE_LINES = 28649
MACHINE = {
    "plan": "passes/schedule/plan*.[ch] passes/plan_hints.c ; passes/plan.[ch] passes/plan_[!sh]*.c passes/plan_spread.c plan_hints.c",
    "roles": "passes/schedule/roles*.[ch] ; passes/roles*.[ch]",
    "check": "passes/check/*.[ch] passes/util/acc_classes.[ch] ; passes/check_*.[ch] passes/role_*.[ch] passes/homes.[ch]",
    "text of plans": "ir/tir_plan.c ir/tir_verify_plan.c ir/tir_verify_roles.c ;",
    "lowering": "lower/lower_roles.c lower/lower_pipelines.c lower/lower_boxes.c lower/lower_group.c lower/lower_scheduler.c lower/lower_stores.c"
                " lower/lower_staging.c lower/lower_next.c lower/lower_tensor_memory.c ;"
                " lower/lower_rings.c lower/lower_additions.c lower/lower_told.c",
    "cost": "cost/consumer_*.[ch] cost/kernel_time.[ch] cost/trips.[ch] ; band_*.[ch] group_*.[ch] trips.[ch]",
    "choice": "choose/auto_plan.[ch] choose/plan_reason.[ch] choose/search.[ch] choose/search_built.c ;"
              " auto_plan.[ch] plan_reason.[ch] search*.[ch]",
    "timeline": "timeline/*.[ch] ;",
    # what divisions would take that need not be built: it makes, judges and times nothing, and is not counted
    "(accounting)": "cost/flow.[ch] cost/group_plans.[ch] choose/search_divisions.c ;",
}


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout


def machine(commit=None):
    names = git("ls-tree", "-r", "--name-only", commit, "compiler").split() if commit else list(sources(".c", ".h"))
    total = [0, 0]
    for part, patterns in MACHINE.items():
        lines = code = 0
        for name in names:
            below = name.removeprefix("compiler/")
            if not any(below.count("/") == p.count("/") and fnmatch.fnmatch(below, p) for p in patterns.split()):
                continue
            if commit:
                text = git("show", f"{commit}:{name}")
            else:
                with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                    text = file.read()
            lines += text.count("\n")
            bare = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
            code += sum(1 for line in bare.split("\n") if line.strip())
        print(f"{part:14}{lines:7}{code:7}")
        if not part.startswith("("):
            total = [total[0] + lines, total[1] + code]
    print(f"{'together':14}{total[0]:7}{total[1]:7}   (lines; without comments and blank ones)")
    if commit is None and total[0] > MACHINE_LINES:
        return [f"what makes roles of a program has {total[0]} lines, at most {MACHINE_LINES}"]
    return []


def formatted():
    """`clang-format -i` on the files named mends it; a table that reads better as it is stands between
    `clang-format off` and `on`."""
    try:
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        version = "none"
    if " 14." not in version:
        print(f"skipped: clang-format 14 is asked for, here is {version.strip()}")
        sys.exit(77)
    said = subprocess.run(["clang-format", "--dry-run", *sources(".c", ".h")], capture_output=True, text=True, cwd=ROOT)
    return sorted({line.split(":")[0] for line in said.stderr.split("\n") if "clang-format-violations" in line})


# member of a library and section: why there is mutable data after all
MUTABLE = {
    ("sim_arena.c.o", ".tbss"): "a byte for each thread: that an allocation of the launch it runs has failed. A launch is over "
                                "when a thread of it sees that; the 60 places that allocate have no other handle in common, and "
                                "two launches of one process never share a thread's byte (sim_run.c clears it first)",
}


def mutable(*libraries):
    return [line for library in libraries for line in mutable_data(library)]


def mutable_data(library):
    """Sections of writable data; tables of constant pointers are in .data.rel.ro."""
    bad, member = [], ""
    said = subprocess.run(["size", "-A", library], capture_output=True, text=True, check=True).stdout
    for line in said.split("\n"):
        heading = re.match(r"^(\S+)\s+\(ex ", line)
        if heading:
            member = heading[1]
        section = re.match(r"^(\.data|\.bss|\.tdata|\.tbss)(\.\S+)?\s+(\d+)", line)
        if section and int(section[3]) > 0 and not line.startswith(".data.rel.ro") \
                and (member, section[1]) not in MUTABLE:
            bad.append(f"{member}: {section[3]} bytes in {section[1]}{section[2] or ''}")
    return bad if said else ["size said nothing"]


def compile_examples(tilec):
    """(name and target, what it did) for each example."""
    examples = os.path.join(ROOT, "examples")
    for name in sorted(os.listdir(examples)):
        for arch in ["sm_80", "sm_86", "sm_90", "sm_100"] if name.endswith(".tile") else []:
            command = [tilec, os.path.join(examples, name), "-arch", arch, "-o", "/dev/null"]
            yield f"{name[:-5]} {arch}", subprocess.run(command, capture_output=True, text=True)
    large = os.path.join(ROOT, "tests", "large") # thousands of operations: no pass may be quadratic in them
    for name in sorted(os.listdir(large)):
        command = [tilec, os.path.join(large, name), "-arch", "sm_90", "-O1", "-o", "/dev/null"]
        yield f"large/{name[:-5]} sm_90", subprocess.run(command, capture_output=True, text=True)


def limits(tilec, counted=None, update=None):
    """Compiling takes at most a quarter more blocks than work.txt says (in thousands), where it has been counted."""
    bad, work = [], {}
    if os.path.getsize(tilec) > 3 << 20:
        bad.append(f"the binary has {os.path.getsize(tilec)} bytes, at most 3 MiB")
    for what, done in compile_examples(tilec):
        if done.returncode != 0:
            bad.append(f"{what}: {done.stderr.strip()}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    if peak > 23 << 10:
        bad.append(f"{peak / 1024:.1f} MiB of memory, at most 23")
    if counted is None:
        print("only GCC counts blocks: how much is computed is not looked at")
        return bad
    for what, done in compile_examples(counted):
        said = re.search(r"^blocks (\d+)$", done.stderr, re.M)
        work[what] = int(said[1]) if said else 0
    path = os.path.join(ROOT, "tests", "work.txt")
    if update:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{what} {blocks // 1000}\n" for what, blocks in work.items())
        return bad
    with open(path, encoding="utf-8") as file:
        expected = {" ".join(line.split()[:2]): float(line.split()[2]) for line in file}
    for what, blocks in work.items():
        have, want = blocks / 1000, expected.get(what, 0)
        if not 0 < have <= 1.25 * want:
            bad.append(f"{what}: {have:.0f} thousand blocks, work.txt has {want:.0f}")
    return bad


def main():
    checks = {"layers": layers, "circles": circles, "sizes": sizes, "words": words, "machine": machine,
              "format": formatted, "mutable": mutable, "limits": limits}
    bad = checks[sys.argv[1]](*sys.argv[2:])
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
