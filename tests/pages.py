#!/usr/bin/env python3
"""pages.py - a page of docs/ is done as a reader would do it: its files are written, its commands and its Python run.

    pages.py PAGE.md --tilec T [--tilerun R] [--arch sm_90] [--level 0]
             [--driver FOLDER] [--extension FOLDER --library FILE]

Fenced blocks behind these comments are done in order, in a fresh folder; others are not looked at:

    <!-- save: copy.tile -->     the block is this file
    <!-- python -->              is run; all such blocks of a page share their names
    <!-- commands -->            shell commands, which must succeed; `<!-- commands: fail -->`: with exit status 1
    <!-- commands: driver -->    those that need a CUDA driver: left out without --driver (the folder of sim_cuda.c's
                                 libcuda.so.1); `torch`: and tilec.torch, from --extension and --library
    <!-- prints -->              what the block before printed, compared as docs.py compares

A line `...` in the last stands for any number of lines, .. in a line for any text.  --arch and --level take the place
of what the page's commands say, and what compiled kernels print is then not compared.  GPUs are not used.
"""
import argparse
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import docs  # noqa: E402

ROOT = docs.ROOT
RUNTIME = os.path.join(ROOT, "tests", "api", "runtime")
BLOCK = re.compile(r"^<!-- (save|python|commands|prints)(?:: ([^\n]*))? -->\n```\w*\n(.*?)^```$", re.M | re.S)


class Page:
    def __init__(self, options, folder):
        self.options, self.folder, self.names, self.printed, self.compared = options, folder, {}, "", True
        self.environment = self.surroundings()

    def surroundings(self):
        """The environment of commands: programs in PATH, $TILEC, and a CUDA Toolkit of what C programs ask for."""
        options, tools = self.options, tempfile.mkdtemp(dir=self.folder, prefix=".tools-")
        os.makedirs(os.path.join(tools, "bin"))
        for program in (options.tilec, options.tilerun):
            if program:
                os.symlink(os.path.abspath(program), os.path.join(tools, "bin", os.path.basename(program)))
        given = dict(os.environ, TILEC=ROOT, CUDA=tools, PYTHONDONTWRITEBYTECODE="1",
                     PATH=os.path.join(tools, "bin") + os.pathsep + os.environ["PATH"])
        if options.driver:
            os.makedirs(os.path.join(tools, "lib64", "stubs"))
            os.symlink(os.path.join(RUNTIME, "include"), os.path.join(tools, "include"))
            os.symlink(os.path.join(os.path.abspath(options.driver), "libcuda.so.1"),
                       os.path.join(tools, "lib64", "stubs", "libcuda.so"))
            given["LD_LIBRARY_PATH"] = os.path.abspath(options.driver)
            given["SIM_CUDA_CAPABILITY"] = f"{int((options.arch or 'sm_90')[3:]) / 10:.1f}"
        if options.extension and options.library:
            with open(os.path.join(tools, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write(f"import tilec\ntilec.__path__.append({os.path.abspath(options.extension)!r})\n")
            given["PYTHONPATH"] = os.pathsep.join([tools, os.path.join(ROOT, "python"),
                                                   os.path.join(RUNTIME, "sim_torch")])
            given.update(TILEC_LIBRARY=os.path.abspath(options.library), TILEC_CACHE_DIR="off",
                         TILEC_TORCH_DEVICE="cpu")
        return given

    def commands(self, text, how):
        options = self.options
        missing = (how in ("driver", "torch") and not options.driver) or (how == "torch" and not options.extension)
        self.compared = not missing
        if missing:
            return None
        text = re.sub(r"^tilerun ", "tilerun --device sim ", text, flags=re.M)
        if options.arch or options.level:
            self.compared = re.search(r"^(tilec (?!run )|tilerun)", text, re.M) is None
        if options.arch:
            text = re.sub(r"-arch sm_\w+", "-arch " + options.arch, text)
        if options.level:
            text = re.sub(r"^(tilec \S+\.tile)", r"\1 -O" + options.level, text, flags=re.M)
        done = subprocess.run(["sh", "-e", "-c", text], cwd=self.folder, env=self.environment, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.printed = done.stdout
        wanted = 1 if how == "fail" else 0
        return None if done.returncode == wanted else f"exit status {done.returncode}\n{text}{done.stdout}"

    def python(self, text, where):
        printed, here = io.StringIO(), os.getcwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(text, where, "exec"), self.names)
        except Exception as error:  # a page's own code may fail in any way
            return f"{type(error).__name__}: {error}"
        finally:
            os.chdir(here)
        self.printed, self.compared = printed.getvalue(), True
        return None

    def do(self, kind, how, text, where):
        """What is wrong with a block, or None."""
        if kind == "save":
            with open(os.path.join(self.folder, how), "w", encoding="utf-8") as file:
                file.write(text)
        elif kind == "python":
            return self.python(text, where)
        elif kind == "commands":
            return self.commands(text, how)
        elif self.compared:
            block = re.sub(r"^\s*\.\.\.\s*$", "..", text, flags=re.M)
            line, _ = docs.place(block, self.printed)
            if line is not None:
                return f"there is no line like\n    {line}\nin\n{self.printed}"
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--tilec", required=True)
    for option in ("tilerun", "arch", "level", "driver", "extension", "library"):
        parser.add_argument("--" + option)
    options = parser.parse_args()
    text, count = docs.read(options.page), 0
    name = os.path.basename(options.page)
    with tempfile.TemporaryDirectory() as folder:
        page = Page(options, folder)
        for match in BLOCK.finditer(text):
            kind, how, block = match.groups()
            where = f"{name}:{text.count(chr(10), 0, match.start()) + 1}"
            problem = page.do(kind, how, block, where)
            count += 1
            if problem:
                print(f"{where}: {problem}")
                return 1
    marked = len(re.findall(r"^<!-- (?:save|python|commands|prints)\b", text, re.M))
    print(f"{name}: {count} blocks")
    if count == 0 or marked != count:
        print(f"{name}: {marked} blocks are marked")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
