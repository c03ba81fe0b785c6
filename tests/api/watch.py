#!/usr/bin/env python3
"""watch.py - `tilec watch`: what is saved is compiled, errors are shown and survived, modules count, and SIGINT ends it.

    watch.py --tilec build/tilec [--browser]

--browser: also that a page in Chromium loads itself anew, and shows errors.
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = "use mine;\nkernel k(X: in f32[N], Y: out f32[N]) {\n    grid n in tiles(N, 128);\n    store Y[n] = twice(load X[n]);\n}\n"
MODULE = "fn twice(x) {\n    return x * 2.0;\n}\n"
LIMIT = 60
bad = 0


def want(what, condition, seen=""):
    global bad
    if not condition:
        print(f"{what}: {str(seen)[:1500]}")
        bad += 1


def write(folder, name, text):
    """As editors do: another file takes its place."""
    with open(os.path.join(folder, name + "~"), "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(file.name, os.path.join(folder, name))


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


class Watch:
    def __init__(self, options, folder, *words):
        self.said, self.path = open(os.path.join(folder, "said.txt"), "w+", encoding="utf-8"), os.path.join(folder, "said.txt")
        self.seen = 0
        self.process = subprocess.Popen([options.tilec, "watch", *words], cwd=folder, stderr=self.said, stdout=self.said,
                                        env=dict(os.environ, PATH="/usr/bin:/bin", CUDA_HOME="", CUDA_PATH=""))

    def round(self):
        """What is said up to the end of the next round."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()[self.seen:]
            if "waiting for changes\n" in text:
                at = text.index("waiting for changes\n") + len("waiting for changes\n")
                self.seen += at
                return text[:at]
            if self.process.poll() is not None:
                return f"it ended: {text}"
            time.sleep(0.02)
        return "nothing came"

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(timeout=LIMIT)


def page(options, folder):
    write(folder, "k.tile", PROGRAM)
    watch = Watch(options, folder, "k.tile")
    said = watch.round()
    want("a module that is not there", "errors" in said and "mine" in said and "no page yet" in read(folder, "k.html"), said)
    want("and what the page shows", "mine" in read(folder, "k.html.js"), read(folder, "k.html.js"))
    write(folder, "mine.tile", MODULE)
    said = watch.round()
    first = read(folder, "k.html.js")
    want("it comes", "compiled" in said and "error" not in said and "mul" in read(folder, "k.html"), said)
    own = re.search(r"own='(\w{16})'", read(folder, "k.html"))
    want("page and script agree", own and first == f"tilecWatch('{own[1]}',\"\");\n", first)
    write(folder, "mine.tile", MODULE.replace("2.0", '"zwei"\\'))
    said, script = watch.round(), read(folder, "k.html.js")
    want("an error is said, in the page, too; the page stays", "errors" in said and "^" in said and own[1] in script and
         "mine.tile:2" in script and script.count('"') == 2, (said, script))
    write(folder, "mine.tile", MODULE.replace("2.0", "3.0"))
    said, script = watch.round(), read(folder, "k.html.js")
    want("mended, and another page", "compiled" in said and own[1] not in script and "3.0" in read(folder, "k.html"), (said, script))
    want("it ends", watch.end(signal.SIGINT) == 0 and not os.path.exists(os.path.join(folder, "k.html.js")))
    want("and leaves the page", "</html>" in read(folder, "k.html"))


def ptx(options, folder):
    write(folder, "k.tile", PROGRAM)
    write(folder, "mine.tile", MODULE)
    watch = Watch(options, folder, "k.tile", "-arch", "sm_90", "-o", "out.ptx")
    want("PTX", "compiled" in watch.round() and "sm_90" in read(folder, "out.ptx"))
    before = read(folder, "out.ptx")
    with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8") as file: # in several steps
        for piece in PROGRAM.replace("128", "256").split(" "):
            file.write(piece + " ")
            file.flush()
            time.sleep(0.004)
    said = watch.round()
    want("another PTX", "compiled" in said and read(folder, "out.ptx") != before and not os.path.exists(os.path.join(folder, "out.ptx.js")), said)
    os.unlink(os.path.join(folder, "k.tile"))
    want("the file goes", "errors" in watch.round())
    write(folder, "k.tile", PROGRAM)
    want("and comes back", "compiled" in watch.round() and read(folder, "out.ptx") == before)
    time.sleep(0.4)
    with open(watch.path, encoding="utf-8") as file:
        want("nothing happens where nothing changes", file.read()[watch.seen:] == "")
    want("SIGTERM", watch.end(signal.SIGTERM) == 0)


def refusals(options, folder):
    for words in [], ["-"], ["k.ptx"], ["k.tile", "--help"], ["k.tile", "--emit=html", "-o", "-"], ["k.tile", "-archh"], ["run", "k.tile"]:
        done = subprocess.run([options.tilec, "watch", *words], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        want(f"watch {words}", done.returncode == 1 and "error: " in done.stderr, done)


def browser(options, folder):
    sys.path.insert(0, os.path.join(ROOT, "tests/playground"))
    from browser import Browser
    write(folder, "k.tile", PROGRAM)
    write(folder, "mine.tile", MODULE)
    watch = Watch(options, folder, "k.tile")
    watch.round()
    chromium = Browser(folder, "1200,900")
    chromium.call("Page.navigate", url=f"file://{folder}/k.html")
    time.sleep(1.5)

    def shown():
        time.sleep(1.5)
        return chromium.ask("[document.querySelector('#source').textContent,!document.getElementById('watched').hidden,"
                            "document.getElementById('watched').textContent]")
    want("the page", "x * 2.0" in shown()[0])
    write(folder, "mine.tile", MODULE.replace("2.0", "4.0"))
    watch.round()
    want("it loads itself", "x * 4.0" in shown()[0])
    write(folder, "mine.tile", MODULE.replace("2.0", "nix"))
    watch.round()
    text, visible, error = shown()
    want("it shows errors", "x * 4.0" in text and visible and "mine.tile:2" in error and "^" in error, (visible, error))
    write(folder, "mine.tile", MODULE)
    watch.round()
    text, visible, error = shown()
    want("until they are mended", "x * 2.0" in text and not visible, (visible, error))
    chromium.close()
    watch.end(signal.SIGINT)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    for test in (page, ptx, refusals, *([browser] if options.browser else [])):
        with tempfile.TemporaryDirectory() as folder:
            test(options, folder)
    print(f"{bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
