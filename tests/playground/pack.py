#!/usr/bin/env python3
"""pack.py - the playground without a browser and without WebAssembly: what is compiled for it, what stands for processes, the
page that is packed, and, where node is, the arrays that it draws and reads.

    pack.py --tilec build/tilec --cc cc [--native FILE.c,FILE.c]
"""
import argparse
import base64
import gzip
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "playground"))
sys.dont_write_bytecode = True
import build  # noqa: E402

NUMBERS = """
for (const number of [0, -0, 1, -1, 0.1, 65504, 65519, 65520, 1e-8, 2 ** -24, 3 * 2 ** -25, 6e-5, Infinity, -Infinity, 1 / 3])
  console.log(number, halfOf(number), numberOfHalf(halfOf(number)), bfloatOf(number), numberOfBfloat(bfloatOf(number)));
console.log(JSON.stringify([evaluate("2 * M", n => 3), evaluate("cdiv(M + 1, 2) - M % 2", n => 4), evaluate("(M - 1) / 2", n => 4),
  evaluate("min(M, 2) * -1", n => 9)]));
for (const type in TYPES) {
  const file = npyOf(type, [2, 3], drawing(1));
  require("fs").writeFileSync(type + ".npy", file);
  const {shape, numbers} = numbersOf(type, file);
  console.log(type, JSON.stringify(shape), JSON.stringify(numbers));
}
console.log(shown("Y", "f32", {shape: [2, 10], numbers: Array.from({length: 20}, (_, k) => k + 0.5)}));
"""
bad = 0


def want(what, condition, seen=""):
    global bad
    if not condition:
        print(f"{what}: {str(seen)[:2000]}")
        bad += 1


class Reader(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.stack, self.wrong, self.scripts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if {"src", "href"} & {name for name, _ in attributes}:
            self.wrong.append((tag, attributes))
        if tag not in ("meta", "input"):
            self.stack.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1] += data


def compiled(options):
    """What is compiled is what the program is made of."""
    ours = {os.path.basename(path) for path in build.sources("generated")}
    native = {os.path.basename(path) for path in options.native.split(",") if path}
    if native:
        want("the same sources", ours - {"host.c"} == native - build.WITHOUT | {"lsp_without.c"} and "host.c" in ours,
             (ours ^ native) - build.WITHOUT)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([options.cc, "-Wall", "-Wextra", "-Werror", "-std=c11", "-D_GNU_SOURCE", "-I", ROOT, "-c",
                               os.path.join(ROOT, "playground/host.c"), "-o", f"{folder}/host.o"], capture_output=True, text=True)
        want("host.c", done.returncode == 0, done.stderr)
        names = set(subprocess.run(["nm", "--defined-only", f"{folder}/host.o"], capture_output=True, text=True).stdout.split())
    declared = re.findall(r"^[\w ]+[ *](\w+)\(", "".join(
        build.read(ROOT, f"compiler/command/{name}.h") for name in ("toolkit", "measure", "watch")), re.M)
    want("all that is left out has something in its place", declared and set(declared) <= names, set(declared) - names)


def packed(options, folder):
    module = b"\0asm\1\0\0\0" + bytes(range(256))
    text = build.page(module)
    page = Reader(text)
    want("well-formed, and nothing is fetched", not page.wrong and not page.stack and "://" not in text, (page.wrong, page.stack))
    want("one script", len(page.scripts) == 1 and "/*SCRIPTS*/" not in text)
    wasm = re.search(r'WASM_TEXT = "([^"]*)"', text)[1]
    want("the module", gzip.decompress(base64.b64decode(wasm)) == module)
    want("the same page again", build.page(module) == text)
    listed = subprocess.run([options.tilec, "--list-targets"], capture_output=True, text=True).stdout
    want("targets", build.targets() == [line.split()[0] for line in listed.splitlines()], build.targets())
    examples = json.loads(re.search(r"const EXAMPLES = (.*);", text)[1])
    for one in examples:
        want(one["name"], one["text"] == build.read(ROOT, "examples", one["name"] + ".tile"))
        done = subprocess.run([options.tilec, f"{ROOT}/examples/{one['name']}.tile", *one["options"].split(), "--plan=none", "-O0", "--emit=json",
                               "-o", "-"], capture_output=True, text=True, cwd=folder)
        want(f"{one['name']} compiles", done.returncode == 0 and not done.stderr, done.stderr)
        names = {name for k in json.loads(done.stdout)["kernels"] for name in [*k["sizes"], *(s["name"] for s in k["scalars"])]}
        given = {word.split("=")[0] for word in one["sizes"].split()}
        want(f"{one['name']}: sizes that it has", given <= names, given - names)
    return page.scripts[0]


def arrays(script, folder):
    node = shutil.which("node")
    if node is None:
        print("no node: arrays were not tried")
        return
    import numpy as np
    with open(os.path.join(folder, "page.js"), "w", encoding="utf-8") as file:
        file.write(script)
    done = subprocess.run([node, "--check", "page.js"], cwd=folder, capture_output=True, text=True)
    want("the script is JavaScript", done.returncode == 0, done.stderr)
    with open(os.path.join(folder, "numbers.js"), "w", encoding="utf-8") as file:
        file.write(build.read(ROOT, "playground/arrays.js") + NUMBERS)
    done = subprocess.run([node, "numbers.js"], cwd=folder, capture_output=True, text=True)
    lines = iter(done.stdout.splitlines())
    want("numbers", done.returncode == 0, done.stderr)
    for line in lines:
        if line.startswith("["):
            break
        number, half, of_half, bfloat, of_bfloat = (float(word) for word in line.replace("Infinity", "inf").split())
        with np.errstate(over="ignore"):
            exact = np.float16(np.float32(number))
        want(f"f16 of {number}", exact.view(np.uint16) == half and float(exact) == of_half, line)
        bits = np.float32(number).view(np.uint32).astype(np.uint64)
        want(f"bf16 of {number}", int(bits + 0x7fff + (bits >> np.uint64(16) & np.uint64(1))) >> 16 == bfloat and
             np.uint32(int(bfloat) << 16).view(np.float32) == np.float32(of_bfloat), line)
    want("expressions", json.loads(line) == [6, 3, 1, -2], line)
    for line in lines:
        if line.startswith("Y:"):
            break
        name, shape, numbers = line.split(" ")
        array = np.load(os.path.join(folder, f"{name}.npy"))
        if name == "bf16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        want(f"{name}.npy", list(array.shape) == json.loads(shape) == [2, 3] and array.ravel().tolist() == json.loads(numbers), line)
    rest = list(lines)
    want("a result is shown", line == "Y: f32[2, 10]" and len(rest) == 2 and rest[0].split()[:2] == ["0.50000", "1.5000"]
         and rest[0].endswith("  .."), (line, rest))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--native", default="", help="sources of the program and its library")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    with tempfile.TemporaryDirectory() as folder:
        compiled(options)
        arrays(packed(options, folder), folder)
    print(f"{bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
