#!/usr/bin/env python3
"""page.py - the page of --emit=html: its structure, and, where chromium is installed, what it does.

    page.py --tilec build/tilec [--pictures FOLDER]
"""
import argparse
import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

SOURCE = """use softmax; // a < b && "c" > 'd' <script>alert(1)</script>
kernel k(a: in bf16[M, K] align(16), b: in bf16[K, 128] align(16), c: out f32[M, 128] align(16)) {
    grid m in tiles(M, 128);
    var acc = zeros<f32>[128, 128];
    var st = softmax_init(128);
    for k in tiles(K, 64) {
        acc = mma(load a[m, k], load b[k, :], acc);
    }
    let (p, alpha) = softmax_step(st, acc, 1.0);
    store c[m, :] = p;
}
"""
PTXAS = """#!/bin/sh
echo "ptxas info    : Compiling entry function 'k' for 'sm_90a'" >&2
echo "ptxas info    : Function properties for k" >&2
echo "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads" >&2
echo "ptxas info    : Used 168 registers, used 5 barriers" >&2
"""
NVDISASM = """#!/bin/sh
case "$*" in *" -g"*) ;; *) exit 9 ;; esac
printf '\\t.section\\t.text.k,"ax",@progbits\\nk:\\n.text.k:\\n'
printf '\\t//## File "%s/k.tile", line 7\\n' "$PWD"
printf '        /*0000*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;\\n.L_x_1:\\n'
printf '\\t//## File "%s/<stdlib>/softmax.tile", line 12\\n' "$PWD"
printf '        /*0010*/                   MUFU.EX2 R1, R2 ;\\n        /*0020*/                   EXIT ;\\n'
"""
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VOID = {"meta"}
bad = 0


def want(what, condition, seen=""):
    global bad
    if not condition:
        print(f"{what}: {seen}")
        bad += 1


class Reader(html.parser.HTMLParser):
    """The sections of a page by id: the lines of each with what they are linked to; and what is wrong with it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.stack, self.sections, self.wrong, self.line = [], {}, [], None
        self.links, self.section, self.heads = [], None, []
        self.feed(text)
        if self.stack:
            self.wrong.append(f"open at the end: {self.stack}")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if {"src", "href", "onload", "onclick"} & set(attributes):
            self.wrong.append(f"<{tag} {attributes}>")
        if tag not in VOID:
            self.stack.append(tag)
        if "data-s" in attributes:
            self.links.append(attributes["data-s"])
        if tag == "section":
            self.section = attributes["id"]
            if self.section in self.sections:
                self.wrong.append(f"two sections {self.section}")
            self.sections[self.section] = []
        if tag == "div" and self.section and attributes.get("class") is None:
            self.line = [attributes.get("data-s"), ""]
            self.sections[self.section].append(self.line)
        if tag == "b":
            self.heads.append("")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(f"</{tag}> closes something else")
        if tag == "div":
            self.line = None

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "b":
            self.heads[-1] += data
        elif self.line is not None and self.stack[-1] == "div":
            self.line[1] += data


def compiled(options, folder, *words, path=""):
    environment = dict(os.environ, PATH=path or "/usr/bin:/bin", CUDA_HOME="", CUDA_PATH="")
    return subprocess.run([options.tilec, *words], cwd=folder, capture_output=True, text=True, env=environment, timeout=120)


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def structure(options, folder):
    tools = os.path.join(folder, "tools")
    os.mkdir(tools)
    for name, text in ("ptxas", PTXAS), ("nvdisasm", NVDISASM):
        with open(os.path.join(tools, name), "w") as file:
            file.write(text)
        os.chmod(file.name, 0o755)
    command = ["k.tile", "-arch", "sm_90", "--emit=html"]
    done = compiled(options, folder, *command, path=f"{tools}:/usr/bin:/bin")
    want("it compiles, and says what any compilation does", done.returncode == 0 and "remark" not in done.stderr
         and not done.stdout, done)
    text = read(folder, "k.html")
    page = Reader(text)
    want("well-formed, and nothing is fetched", not page.wrong and "://" not in text.replace("http://www.w3.org/2000/svg", ""),
         page.wrong)
    want("files", page.heads[0] == "k.tile" and "<stdlib>/softmax.tile" in page.heads, page.heads)
    files = {}
    for link, line in page.sections["source"]:
        files.setdefault(link.split(":")[0], []).append(line)
    want("the source is the file", "\n".join(files["1"]) + "\n" == SOURCE, files["1"])
    where = {f"{file}:{k + 1}" for file, lines in files.items() for k in range(len(lines))}
    want("links lead to lines", set(page.links) <= where, set(page.links) - where)
    for pane in "source", "tile-ir", "ptx":
        want(f"the product is in {pane}", any(link == "1:7" for link, _ in page.sections[pane]))
    plain = compiled(options, folder, "k.tile", "-arch", "sm_90", "-lineinfo", "-o", "-").stdout
    kept = [line for line in plain.splitlines() if not re.match(r"\s*\.(loc|file)\s", line)]
    want("the PTX is the PTX", [line.rstrip() for _, line in page.sections["ptx"]] == kept)
    want("wgmma is of the product", all(link == "1:7" for link, line in page.sections["ptx"] if "wgmma.mma_async" in line))
    softmax = str(1 + page.heads.index("<stdlib>/softmax.tile"))
    code = [(link, line.split()[1] if "*/" in line else line) for link, line in page.sections["code"]]
    want("machine code", code == [(None, "k:"), (None, ".text.k:"), ("1:7", "HGMMA.64x128x16.F32.BF16"), ("1:7", ".L_x_1:"),
                                  (f"{softmax}:12", "MUFU.EX2"), (f"{softmax}:12", "EXIT")], code)
    want("registers", "168 registers of a thread, 4 bytes spilled, 12 loaded again, 5 barriers" in text)
    want("the schedule", 'id="timeline"' in text and "<svg xmlns" in text and 'class="why"' in text)
    want("shared memory", re.search(r"k: \d+ bytes of 232448", text) and '<rect class="buffer"' in text)
    banks = re.findall(r"<title>(\w+): eight rows of each of (\d+) columns of 16 bytes take (\d+) passes, at best (\d+)", text)
    want("banks", banks and all(n == best == passes for _, n, passes, best in banks) and 'class="first"' in text
         and 'class="clash"' not in text, banks)
    compiled(options, folder, "k.tile", "-arch", "sm_80", "--emit=html", "-fno-swizzle", "-o", "clash.html", path=folder)
    clash = read(folder, "clash.html")
    # rows of 64 and of 128 elements: the first column of eight rows is in one group of banks
    want("bank conflicts", not Reader(clash).wrong and clash.count('class="clash"') % 8 == 0 and "64 for 8 passes" in clash
         and "no conflicts" not in clash, re.findall(r"take .*", clash))
    keywords = re.search(r"dsl_keywords\[\] = \{(.*?)NULL", read(ROOT, "dsl/tokens.c"), re.S)[1]
    want("every keyword has a colour", set(re.findall(r'"(\w+)"', keywords)) ==
         set(re.search(r"source:.*?\\b\((use\|[\w|]*)\)", text)[1].split("|")))
    want("blocks of an SM", re.search(r"k: an SM has room for 1 block by shared memory, \d by threads \(\d+ of 2048\)", text)
         and "k: an SM has registers for 1 block<" in text, re.findall("an SM has.*", text))
    want("occupancy", re.search(r'<meter max="2048" value="\d+"></meter> k: occupancy \d+ %, 1 block of \d+ threads on an SM, limited by', text))
    # M and K are 4096 where nobody says more
    flops, tensors = 2 * 4096 * 4096 * 128, 2 * (4096 * 4096 + 4096 * 128) + 4 * 4096 * 128
    rows = dict(re.findall(r"<tr[^>]*><td>([\w ]+)</td><td>([\d.]+ ?[kMGT]?) ", text))
    want("roofline", 'class="best"' in text and 'class="predicted"' in text and rows["tensor cores"] == f"{flops / 1e9:.2f} G"
         and rows["memory"] == f"{tensors / 1e6:.1f} M", rows)
    sized = compiled(options, folder, *command, "--size", "M=8192", "--size", "K=64", "-o", "sized.html", path=folder)
    sized = sized.stderr + read(folder, "sized.html")
    want("roofline by sizes", f"M=8192 K=64 (--size says others): bound by memory" in sized and
         f"<td>{2 * 8192 * 64 * 128 / 1e6:.0f} M operations</td>" in sized, re.findall(r"k, for[^<]*|<td>tensor cores.*", sized))
    want("the other sections", {"report", "remarks", "memory", "timeline"} <= set(page.sections), page.sections.keys())
    compiled(options, folder, *command, "-o", "again.html", path=f"{tools}:/usr/bin:/bin")
    want("the same page again", read(folder, "again.html") == text)
    if not os.path.exists("/usr/local/cuda/bin/ptxas"):  # where it is looked for at last
        done = compiled(options, folder, *command, "-o", "bare.html", path=folder)
        bare = Reader(read(folder, "bare.html"))
        want("without ptxas", done.returncode == 0 and not bare.wrong and
             bare.sections["code"] == [[None, "Neither ptxas nor a disassembler was found."]], bare.sections.get("code"))


def refusals(options, folder):
    compiled(options, folder, "k.tile", "--emit=lir", "-o", "k.lir")
    compiled(options, folder, "k.tile", "-o", "k.ptx")
    for name in "k.lir", "k.ptx":
        done = compiled(options, folder, name, "--emit=html", "-o", "no.html")
        want(f"{name} has no page", done.returncode == 1 and "[E-OPTION]" in done.stderr, done)
    with open(os.path.join(folder, "auto.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE.replace("kernel k(", "kernel k<N: int = auto>(").replace("K, 64", "K, N"))
    for words, said in ([], False), (["--remarks", "--report"], True):
        done = compiled(options, folder, "auto.tile", "--emit=html", "-o", "auto.html", *words)
        want("remarks and the report are on the page, and said where asked for", done.returncode == 0
             and ("remark: " in done.stderr) == said and ("shared memory" in done.stdout) == said, done)
        want("remarks are linked", any("remark: " in line and link == "1:2"
                                       for link, line in Reader(read(folder, "auto.html")).sections["remarks"]))


HOVER = """<script>{
const box = document.querySelector('#ptx .lines'), opens = box.scrollTop > 0;
const at_top = [...box.children].find(e => e.offsetTop - box.offsetTop >= box.scrollTop).textContent;
const colours = ['source', 'tile-ir', 'ptx', 'code'].map(id => document.querySelectorAll('#' + id + ' .w3').length);
const keywords = new Set([...document.querySelectorAll('#source .w3')].map(e => e.textContent));
const main = document.querySelector('.panes'), first = main.querySelector('.pane').getBoundingClientRect().top;
const row = [...main.querySelectorAll('.pane')].map(e => e.getBoundingClientRect()).filter(e => e.top === first);
const panes = row.length + ' of ' + Math.round(100 * row.reduce((sum, e) => sum + e.width, 0) / main.getBoundingClientRect().width);
const texts = [...document.querySelectorAll('#source [data-s^="1:"]')].map(e => e.textContent.replace(/^\\d+/, '')).join('\\n');
const line = document.querySelector('#source [data-s="1:7"]');
line.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
const lit = id => document.querySelectorAll('#' + id + ' .lit').length;
const seen = ['source', 'tile-ir', 'ptx', 'code', 'timeline'].map(lit);
const all = [...document.querySelectorAll('.lit')].every(e => e.dataset.s === '1:7');
line.dispatchEvent(new MouseEvent('click', {bubbles: true}));
document.querySelector('#source [data-s="1:3"]').dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
const kept = document.body.dataset.kept === '1:7' && lit('ptx') === seen[2];
const shown = document.querySelector('#ptx .lines').scrollTop > 0;
document.body.insertAdjacentHTML('beforeend', '<output>' + [...seen, all, kept, shown, line.title].join('|') + '</output><output>' +
 [opens && !at_top.startsWith('//'), ...colours, panes, [...keywords].sort()].join('|') + '</output><output>' +
 encodeURIComponent(texts) + '</output>');
}</script></body>"""


OUTPUT = re.compile(r"<output>([^<]*)</output><output>([^<]*)</output><output>([^<]*)</output>\s*</body>")


def browser(options, folder):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium: the page was not tried in a browser")
        want("a browser", not os.environ.get("TILEC_MUST_BROWSE"))  # .ci/run: .ci/prepare installs it
        return
    with open(os.path.join(folder, "hover.html"), "w", encoding="utf-8") as file:
        file.write(read(folder, "k.html").replace("</body>", HOVER))
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", "--window-size=1600,1400"]
    done = subprocess.run([*command, "--dump-dom", f"file://{folder}/hover.html"], capture_output=True, text=True, timeout=300)
    said = OUTPUT.search(done.stdout)
    if not said:
        want("the browser shows the page", False, done.stdout[-500:] + done.stderr[-2000:])
        return
    *counts, all_of_line, kept, scrolled, title = said[1].split("|")
    opens, *colours, panes, words = said[2].split("|")
    want("PTX opens on code", opens == "true", said[2])
    want("colours", all(int(n) > 0 for n in colours) and set(words.split(",")) >= set(
        re.findall(r"\b(?:use|kernel|in|out|grid|var|zeros|for|load|let|store)\b", SOURCE.split("//")[0] + SOURCE.split("\n", 1)[1])), said[2])
    want("colours change no text", urllib.parse.unquote(said[3]) == SOURCE.rstrip("\n"), said[3])
    narrow = subprocess.run([*command[:-1], "--window-size=500,900", "--dump-dom", f"file://{folder}/hover.html"], capture_output=True, text=True,
                            timeout=300).stdout
    shown = OUTPUT.search(narrow)[2].split("|")[5]
    want("panes stand side by side, and below one another where it is narrow",
         re.fullmatch(r"4 of 9[5-9]", panes) and shown == "1 of 100", (panes, shown))
    # where machine code is one line that says why there is none, the others have the whole width
    with open(os.path.join(folder, "hover.html"), "w", encoding="utf-8") as file:
        file.write(read(folder, "k.html").replace('class="pane" id="code"', 'class="pane bare" id="code"').replace("</body>", HOVER))
    bare = subprocess.run([*command, "--dump-dom", f"file://{folder}/hover.html"], capture_output=True, text=True, timeout=300).stdout
    shown = OUTPUT.search(bare)[2].split("|")[5]
    want("panes beside no machine code", re.fullmatch(r"3 of 9[5-9]", shown), shown)
    want("a line lights up in every pane", all(int(n) > 0 for n in counts) and all_of_line == "true", said[1])
    want("a click keeps it, and shows it", kept == "true" and scrolled == "true", said[1])
    want("the line says what it became", re.fullmatch(r"\d+ operations, \d+ lines of PTX, 2 of machine code", title), title)
    if options.pictures:
        subprocess.run([*command, f"--screenshot={options.pictures}/page.png", f"file://{folder}/hover.html"], timeout=300)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--pictures", help="a folder for a screenshot")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8") as file:
            file.write(SOURCE)
        structure(options, folder)
        refusals(options, folder)
        browser(options, folder)
    print(f"{bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
