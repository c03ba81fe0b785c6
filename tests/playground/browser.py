#!/usr/bin/env python3
"""browser.py - the playground in a headless Chromium: every example on targets, errors, runs, the page, what is typed.

    browser.py playground.html --tilec build/tilec [--pictures FOLDER]

Beside continuous integration, which builds no WebAssembly: `cmake --build build --target playground` first.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "playground"))
import build  # noqa: E402

bad = 0


def want(what, condition, seen=""):
    global bad
    if not condition:
        print(f"{what}: {str(seen)[:2000]}")
        bad += 1


class Browser:
    """One page of Chromium, by its debugging protocol over pipes."""

    def __init__(self, folder, size):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            sys.exit("no chromium")
        ours, theirs = os.pipe(), os.pipe()  # what it reads, what it writes
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile",
                   f"--window-size={size}", "about:blank"]
        wired = f"exec 3<&{ours[0]} 4>&{theirs[1]}; exec \"$@\""
        self.process = subprocess.Popen(["bash", "-c", wired, "bash", *command], pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.out, self.into, self.rest, self.number, self.session = ours[1], theirs[0], b"", 0, None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method, **values):
        self.number += 1
        message = {"id": self.number, "method": method, "params": values, **({"sessionId": self.session} if self.session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                piece = os.read(self.into, 1 << 16)
                if not piece:
                    raise EOFError("the browser is gone")
                self.rest += piece
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path):
        import base64
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.call("Browser.close")
        self.process.wait(timeout=30)


def settled(browser, before, limit=120):
    """Waits for a result behind turn `before`; its exit code."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        turn, code, state = browser.ask("[+(document.body.dataset.turn||0),document.body.dataset.code,document.getElementById('state').textContent]")
        if turn > before and not state.startswith("work"):
            return int(code)
        time.sleep(0.05)
    raise TimeoutError(f"nothing after {limit} s")


def turn(browser):
    return browser.ask("+(document.body.dataset.turn||0)")


def do(browser, statements):
    before = turn(browser)
    browser.ask(f"{{{statements};0}}")
    return settled(browser, before)


def set_to(name, value):
    return f"{{const e=document.getElementById('{name}');e.value={json.dumps(value)};e.dispatchEvent(new Event('input'));e.dispatchEvent(new Event('change'))}}"


def native(options, folder, name, arch, words):
    text = build.read(ROOT, "examples", f"{name}.tile")
    with open(os.path.join(folder, "kernel.tile"), "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([options.tilec, "kernel.tile", "-arch", arch, *words.split(), "-o", "out.ptx"], cwd=folder, capture_output=True, text=True)
    with open(os.path.join(folder, "out.ptx"), encoding="utf-8") as file:
        return file.read(), done.stderr


def examples(browser, options, folder):
    for name, words, sizes in build.EXAMPLES:
        do(browser, set_to("examples", name))
        for arch in ("sm_90", "sm_100") if name in ("attention", "gemm") else ("sm_90",):
            code = do(browser, set_to("target", arch))
            seen = browser.ask("[document.querySelector('#ptx pre').textContent,document.getElementById('messages').textContent]")
            ptx, said = native(options, folder, name, arch, words)
            want(f"{name}, {arch}: the PTX of the program", code == 0 and seen[0] == ptx, seen[1])
            top, line = browser.ask("{const e=document.querySelector('#ptx pre');[e.scrollTop,parseFloat(getComputedStyle(e).lineHeight)]}")
            want(f"{name}, {arch}: it opens on code", abs(top / line - ptx[:ptx.index("\n.visible .entry")].count("\n")) < 40, top / line)
            want(f"{name}, {arch}: its messages", seen[1] == (said or "no errors, no warnings"), seen[1])
        do(browser, set_to("target", "sm_90"))
        code = do(browser, "pane('run')")
        text = browser.ask("document.querySelector('#run pre').textContent")
        want(f"{name} runs", code == 0 and "[" in text and "NaN" not in text, (browser.ask("document.getElementById('messages').textContent"), text))
        do(browser, "pane('ptx')")


def panes(browser, options):
    do(browser, set_to("examples", "attention"))
    do(browser, "pane('page')")
    page = browser.ask("document.querySelector('#page iframe').srcdoc")
    want("the page", 'id="roofline"' in page and 'id="timeline"' in page and "kernel.tile" in page, page[:300])
    time.sleep(1.5)
    if options.pictures:
        browser.picture(os.path.join(options.pictures, "playground-page.png"))
    do(browser, "pane('schedule')")
    text = browser.ask("document.querySelector('#schedule pre').textContent")
    want("the schedule", "kernel attention, sm_90" in text and "consumer 0" in text, text)
    do(browser, "pane('run')")
    if options.pictures:
        browser.picture(os.path.join(options.pictures, "playground-run.png"))


def typed(browser, options):
    do(browser, "pane('ptx')")
    do(browser, set_to("examples", "add"))
    good = browser.ask("document.getElementById('source').value")
    code = do(browser, set_to("source", good.replace("load X", "load Xs")))
    text = browser.ask("document.getElementById('messages').textContent")
    want("an error with its caret", code == 1 and "kernel.tile:" in text and "error: " in text and "^" in text and "did you mean" in text, text)
    want("what was there is dimmed", browser.ask("document.querySelector('.pane.on').className").endswith("stale"))
    want("what was there stays", browser.ask("document.querySelector('#ptx pre').textContent").startswith("//"))
    if options.pictures:
        browser.picture(os.path.join(options.pictures, "playground-error.png"))
    browser.ask("document.querySelector('#messages a').click();0")
    place = browser.ask("document.getElementById('source').selectionStart")
    want("a click goes there", "Xs" in good.replace("load X", "load Xs")[place:place + 8], place)
    want("the message has a colour", browser.ask("getComputedStyle(document.querySelector('#messages a')).color") == "rgb(176, 0, 32)")
    want("mended", do(browser, set_to("source", good)) == 0)
    want("an option", do(browser, set_to("options", "-arch sm_1")) == 1)
    want("no option", do(browser, set_to("options", "")) == 0)
    code = do(browser, set_to("source", "kernel k(X: in f32[N, M], Y: out f32[N, 2 * M], s: f32) {\n grid n in N, m in tiles(M, 4);\n"
                              " print(s);\n store Y[n, m] = load X[n, m] * s;\n}\n"))
    want("print is an error of PTX", code == 1)
    do(browser, "pane('run')" + ";" + set_to("sizes", "N=1 M=4 s=2"))
    before = turn(browser)
    browser.ask("document.getElementById('go').click();0")
    settled(browser, before)
    text = browser.ask("document.querySelector('#run pre').textContent")
    want("print, follows and scalars of a run", "s: f32 = 2." in text and "Y: f32[1, 8]" in text, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--pictures")
    options = parser.parse_args()
    options.tilec = os.path.abspath(options.tilec)
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder, "1500,950")
        browser.call("Page.navigate", url=f"file://{os.path.abspath(options.page)}")
        time.sleep(1)
        settled(browser, 0)
        if options.pictures:
            browser.picture(os.path.join(options.pictures, "playground.png"))
        examples(browser, options, folder)
        panes(browser, options)
        typed(browser, options)
        browser.close()
        if options.pictures: # of a phone
            browser = Browser(folder + "/phone", "500,1100")
            browser.call("Page.navigate", url=f"file://{os.path.abspath(options.page)}")
            time.sleep(1)
            settled(browser, 0)
            browser.picture(os.path.join(options.pictures, "playground-phone.png"))
            browser.close()
    print(f"{bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
