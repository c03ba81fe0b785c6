#!/usr/bin/env python3
"""build.py - the playground: tilec as WebAssembly in one static page, which no server has to run.

    cmake --build build --target playground             # build/playground.html
    playground/build.py --generated build/generated [-o playground.html] [--cc clang] [--sysroot /usr] [--wasm tilec.wasm]

A clang that knows the target wasm32-wasi, wasi-libc and lld are needed: on Debian, `apt-get install clang lld wasi-libc
libclang-rt-14-dev-wasm32`; elsewhere `--cc "python3 -m ziglang cc"` with the package ziglang of PyPI, which has its own library
(--sysroot "" then).  --generated: what flex, bison and the build write.  --wasm: a module that is there already is packed, and
none is compiled.
"""
import argparse
import base64
import concurrent.futures
import glob
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# what the menu has: options, and sizes and scalars of a run, which the interpreter should end within a second
EXAMPLES = [
    ("add", "", "R=4 C=10 a=2"),
    ("row_softmax", "", "R=4 C=10"),
    ("gemm", "", "M=32 K=64 N=32"),
    ("mlp", "", ""),
    ("attention", "-D D=64 -D CAUSAL=true", "B=1 Sq=64 Hq=2 Sk=64 Hk=1 scale=0.125"),
    ("attention_decode", "-D D=64 -D G=2", "B=1 Sq=1 Hq=2 Hk=1 Sk=64 P=2 X=1 scale=0.125"),
    ("attention_grouped", "-D D=64", ""),
    ("attention_bwd", "-D D=64", "B=1 Sq=64 Hq=1 Sk=64 Hk=1 P=1 scale=0.125"),
]
WITHOUT = {"toolkit.c", "measure.c", "watch.c", "lsp.c", "lsp_places.c", "lsp_views.c"}  # playground/host.c stands for the first three


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def sources(generated):
    """What CMakeLists.txt makes `tilec` of, but for what needs processes; and host.c."""
    text = read(ROOT, "CMakeLists.txt")
    rooms = re.search(r"set\(rooms\n(.*?)\)", text, re.S)[1]
    rooms = [line.split("#")[0].strip() for line in rooms.splitlines()]
    found = []
    for folder in ["dsl", *filter(None, rooms), "backends/ptx", "compiler/command"]:
        found += sorted(path for path in glob.glob(os.path.join(ROOT, folder, "*.c")) if os.path.basename(path) not in WITHOUT)
    found += [os.path.join(generated, f"{name}.c") for name in ("tile.tab", "tile.lex", "stdlib", "errors", "findings")]
    return [*found, os.path.join(HERE, "host.c")]


def compile_all(options, folder):
    """The module, as bytes."""
    base = [*shlex.split(options.cc), "--target=wasm32-wasi", *([f"--sysroot={options.sysroot}"] if options.sysroot else [])]
    flags = ["-I", os.path.join(HERE, "include"), "-include", os.path.join(HERE, "include/host.h"), "-std=c11", "-D_GNU_SOURCE", "-DNDEBUG", "-Os", "-w", "-I", ROOT,
             "-I", os.path.dirname(os.path.abspath(options.generated)), "-I", options.generated]

    def one(numbered):
        n, path = numbered
        made = os.path.join(folder, f"{n}.o")
        subprocess.run([*base, *flags, "-c", path, "-o", made], check=True)
        return made

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        objects = list(pool.map(one, enumerate(sources(options.generated))))
    module = os.path.join(folder, "tilec.wasm")
    subprocess.run([*base, *objects, "-Wl,-z,stack-size=8388608", "-Wl,--strip-all", "-o", module], check=True)
    with open(module, "rb") as file:
        return file.read()


def targets():
    """The names of the table of targets, in its order."""
    table = re.search(r"tilec_targets\[\] = \{(.*?)\}", read(ROOT, "backends/ptx/targets.c"), re.S)[1]
    return [f"sm_{number}" for number in re.findall(r"target_sm(\d+)", table)]


def script(text):
    """Text as a script may hold it."""
    return json.dumps(text).replace("</", "<\\/")


def page(module):
    examples = [{"name": name, "options": options, "sizes": sizes, "text": read(ROOT, "examples", f"{name}.tile")}
                for name, options, sizes in EXAMPLES]
    packed = base64.b64encode(gzip.compress(module, 9, mtime=0)).decode()
    wasi = read(HERE, "wasi.js")
    scripts = "\n".join([
        f'const WASM_TEXT = "{packed}";', f"const WASI_TEXT = {script(wasi)};",
        f"const EXAMPLES = {json.dumps(examples).replace('</', '<' + chr(92) + '/')};", f"const TARGETS = {json.dumps(targets())};",
        read(HERE, "arrays.js"), read(HERE, "playground.js")])
    return read(HERE, "page.html").replace("/*SCRIPTS*/", scripts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--generated", default=os.path.join(ROOT, "build/generated"))
    parser.add_argument("-o", dest="output", default="playground.html")
    parser.add_argument("--cc", default="clang")
    parser.add_argument("--sysroot", default="/usr")
    parser.add_argument("--wasm")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.wasm:
        with open(options.wasm, "rb") as file:
            module = file.read()
    else:
        with tempfile.TemporaryDirectory() as folder:
            try:
                module = compile_all(options, folder)
            except (OSError, subprocess.CalledProcessError) as fault:
                what = f"{options.cc} ended with {fault.returncode}" if isinstance(fault, subprocess.CalledProcessError) else fault
                sys.exit(f"build.py: {what}\nbuild.py: a clang for wasm32-wasi with its C library is needed; see the head of {__file__}")
    text = page(module)
    with open(options.output, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{options.output}: {len(text) / 1e6:.1f} MB, of which tilec {len(module) / 1e6:.1f} MB before it was packed")


if __name__ == "__main__":
    main()
