#!/usr/bin/env python3
"""same.py - do two commits make the same PTX of every example?

    same.py A [B]     A and B: commits; without B the working tree, with what is not committed

A commit marked [same] changes no byte of any example's PTX: `tests/same.py HEAD~ HEAD` says so.
Both compilers are built (release, `tilec` alone, with ccache where there is one) in folders that are
removed afterwards; a commit built before is taken from build/same. Each compiles its own examples, for
each target, with the options below. Exit status: 0 the same, 1 another PTX, 2 no answer. Where the PTX
differs in comments alone, or both make none, that is said; with --comments such files are the same.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PLANS = ["none", "consumers=1,stages=4", "consumers=2,stages=2,pingpong=1", "consumers=2,stages=2,q_stages=2",
         "consumers=2,stages=2,pipelined=0,dynamic=0", "consumers=2,stages=1,persistent=0,cooperative=1",
         "consumers=2,stages=3,persistent=0,pingpong=1", "consumers=3,stages=2",
         "consumers=4,stages=4,q_stages=2"]
# what a key was called before
OLD_KEYS = {"consumers": "bands", "q_stages": "slots", "pingpong": "turns", "cooperative": "divide", "pipelined": "overlap"}
# of attention, where nothing depends on the target: parameters
ATTENTION = [["D=64"], ["CAUSAL=true"], ["CAUSAL=true", "WINDOW=1024"], ["SOFTCAP=true"],
             ["D=64", "M=128", "N=64"], ["D=256", "M=128", "N=64"]]


def variants(example, arch):
    """Lists of options of tilec."""
    plans = [f"--plan={plan}" for plan in PLANS] if arch == "sm_90" else []
    for option in ["-O3", "-O0"] + plans:
        yield [option]
    if example.startswith("attention") and "decode" not in example:
        for parameters in ATTENTION:
            defines = [f"-D{p}" for p in parameters]
            yield defines
            for plan in plans[2:4] + plans[5:]:
                yield defines + [plan]


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def unpack(commit, folder):
    """Writes the tree of a commit, or the working tree, to `folder`."""
    if commit is None:
        for name in git("ls-files", "-co", "--exclude-standard").split("\n"):
            source, target = os.path.join(ROOT, name), os.path.join(folder, name)
            if os.path.isfile(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(source, target)
        return
    archive = subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", folder], stdin=archive.stdout, check=True)
    if archive.wait() != 0:
        sys.exit(2)


def build(commit, folder):
    """A folder with the commit's `tilec` and `examples`."""
    kept = os.path.join(ROOT, "build/same", commit or "")
    if commit and os.path.exists(os.path.join(kept, "tilec")):
        return kept
    tree, objects = os.path.join(folder, "tree"), os.path.join(folder, "objects")
    os.makedirs(tree)
    unpack(commit, tree)
    environment = dict(os.environ, CCACHE_BASEDIR=folder, CCACHE_NOHASHDIR="1")
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    generator = ["-GNinja"] if shutil.which("ninja") else []
    for command in [["cmake", "-S", tree, "-B", objects, "-DCMAKE_BUILD_TYPE=Release", *generator, *launcher],
                    ["cmake", "--build", objects, "--target", "tilec", "--parallel"]]:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            print(f"{commit or 'the working tree'} can not be built:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
            sys.exit(2)
    out = kept if commit else os.path.join(folder, "out")
    os.makedirs(out, exist_ok=True)
    shutil.copytree(os.path.join(tree, "examples"), os.path.join(out, "examples"), dirs_exist_ok=True)
    shutil.copy2(os.path.join(objects, "tilec"), os.path.join(out, "tilec"))
    return out


def ptx(folder, example, arch, options):
    """What the compiler makes of an example; None: errors."""
    def run(options):
        return subprocess.run([os.path.join(folder, "tilec"), example, "-arch", arch, *options, "-o", "-"],
                              cwd=os.path.join(folder, "examples"), capture_output=True)
    done = run(options)
    if done.returncode != 0 and b"expected 'none'" in done.stderr:
        for key, old in OLD_KEYS.items():
            options = [re.sub(rf"\b{key}=", f"{old}=", option) for option in options]
        done = run(options)
    if done.returncode not in (0, 1):
        print(f"{example} for {arch}: exit status {done.returncode}: {done.stderr.decode()}")
    return done.stdout if done.returncode == 0 else None


def no_comments(text):
    return None if text is None else re.sub(rb"^[ \t]*//[^\n]*\n|[ \t]*//[^\n]*", b"", text, flags=re.M)


def main():
    parser = argparse.ArgumentParser(usage="same.py [--comments] A [B]")
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--comments", action="store_true")
    arguments = parser.parse_args()
    if len(arguments.commits) > 2:
        parser.error("two commits at most")
    commits = [git("rev-parse", "--verify", f"{c}^{{commit}}") for c in arguments.commits]
    with tempfile.TemporaryDirectory() as work:
        sides = []
        for k, commit in enumerate((commits + [None])[:2]):
            os.makedirs(os.path.join(work, str(k)))
            sides.append(build(commit, os.path.join(work, str(k))))
        examples = sorted({name for side in sides for name in os.listdir(os.path.join(side, "examples"))
                           if name.endswith(".tile")})
        cases = [(example, arch, options) for example in examples for arch in ["sm_80", "sm_90", "sm_100"]
                 for options in variants(example, arch)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            made = [list(pool.map(lambda case: ptx(side, *case), cases)) for side in sides]
    other, comments, none = 0, 0, 0
    for (example, arch, options), a, b in zip(cases, *made):
        none += a is None and b is None
        if a == b:
            continue
        alike = no_comments(a) == no_comments(b)
        comments, other = comments + alike, other + (not alike)
        if other + comments <= 10:
            what = "other comments" if alike else "no PTX before" if a is None else "no PTX now" if b is None else "another PTX"
            print(f"{example} for {arch} {' '.join(options)}: {what}")
    print(f"{len(cases)} compilations: {other} with another PTX, {comments} with other comments alone, "
          f"{none} that both refuse")
    sys.exit(1 if other or (comments and not arguments.comments) else 0)


if __name__ == "__main__":
    main()
