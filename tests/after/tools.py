#!/usr/bin/env python3
"""tools.py - tilec around ptxas and the disassemblers, all of them played by scripts.

    tools.py --tilec TILEC

Whether output appears or not, which tool is asked, and what is said when one is missing or fails;
no CUDA Toolkit is needed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ADD = os.path.join(ROOT, "examples", "add.tile")
CLEAN = """ptxas info    : Compiling entry function 'add' for 'sm_90'
ptxas info    : Function properties for add
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers
"""
SPILLS = CLEAN.replace("0 bytes spill stores", "48 bytes spill stores")


class Toolkit:
    """A folder with programs that print what they are told to, and note how they were called."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def add(self, name, out="", err="", status=0, cubin=False):
        path = os.path.join(self.folder, name)
        for kind, text in [("out", out), ("err", err)]:
            with open(f"{path}.{kind}", "w") as file:
                file.write(text)
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\necho "$@" >>"{path}.calls"\ncat "{path}.out"\n'
                       f'cat "{path}.err" >&2\n')
            if cubin:
                file.write('while [ "$1" != -o ]; do shift; done; echo CUBIN >"$2"\n')
            file.write(f"exit {status}\n")
        os.chmod(path, 0o755)
        return self

    def calls(self, name):
        path = os.path.join(self.folder, name + ".calls")
        return open(path).read() if os.path.exists(path) else ""


class Case:
    def __init__(self, tilec, folder):
        self.tilec, self.folder, self.bad = tilec, folder, []
        self.kit = Toolkit(os.path.join(folder, "kit"))
        self.ptxas(CLEAN)

    def ptxas(self, said, status=0):
        self.kit.add("ptxas", err=said, status=status, cubin=status == 0)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *words, status=0, path=None, **environment):
        """tilec with the words; PATH has the kit alone, so that nothing else is found."""
        env = {"PATH": path or self.kit.folder + ":/usr/bin:/bin", **environment}
        done = subprocess.run([self.tilec, *words], cwd=self.folder, env=env, capture_output=True,
                              text=True)
        self.words, self.out, self.err = words, done.stdout, done.stderr
        if done.returncode != status:
            self.wrong(f"exit status {done.returncode}, expected {status}: {self.err}")

    def wrong(self, what):
        self.bad.append(f"{' '.join(self.words)}: {what}")

    def has(self, text, where):
        if where not in (self.out, self.err) or text not in where:
            self.wrong(f"no '{text}' in: {where}")

    def exists(self, name, want):
        if os.path.exists(self.path(name)) != want:
            self.wrong(f"{name} is {'missing' if want else 'there'}")


def output_files(case):
    case.run(ADD, "-arch", "sm_90", "-o", "a.cubin")
    case.exists("a.cubin", True)
    if open(case.path("a.cubin")).read() != "CUBIN\n":
        case.wrong("not what ptxas wrote")
    case.ptxas(SPILLS)
    case.run(ADD, "-o", "b.cubin")  # a warning is no error
    case.has("add.tile: warning: kernel 'add' spills registers to local memory: each thread stores "
             "48 bytes and loads 0, with 18 registers [-Wspill]\n", case.err)
    case.exists("b.cubin", True)
    for words in [["-Werror=spill"], ["-Werror"]]:
        for name in ["c.cubin", "c.ptx"]:
            if name == "c.ptx" and words == ["-Werror"]:
                continue
            case.run(ADD, "-o", name, *words, status=1)
            case.has("error: kernel 'add' spills", case.err)
            case.exists(name, False)
    case.run(ADD, "-o", "d.ptx", "-Werror")  # -Werror by itself does not call ptxas
    case.exists("d.ptx", True)
    case.run(ADD, "-o", "e.cubin", "-Werror", "-Wno-error=spill")
    case.run(ADD, "-o", "e.cubin", "-Wno-spill")
    if case.err:
        case.wrong(f"said: {case.err}")
    case.run(ADD, "--emit=json", "-Werror=spill", status=1)
    case.has("-Werror=NAME is about what ptxas makes of the PTX", case.err)
    if any(name.startswith("tilec-") for name in os.listdir(case.folder)):
        case.wrong("a temporary file is left")


def disassemblers(case):
    recorded = os.path.join(HERE, "recorded")
    nvdisasm = open(os.path.join(recorded, "loop-nvdisasm.txt")).read().replace(".text.k", ".text.add")
    cuobjdump = open(os.path.join(recorded, "loop-cuobjdump.txt")).read().replace(": k\n", ": add\n")
    hot = "    hot loop, 0x140 to 0x2c0: 4 HGMMA, 0 R2UR, 1 MUFU, 4 barriers and waits of 28 instructions\n"
    case.run(ADD, "--report", "-o", "a.ptx")
    case.has("machine code not looked at: neither nvdisasm nor cuobjdump was found", case.out)
    case.has("  add: 18 registers, no spills\n", case.out)
    case.kit.add("cuobjdump", out=cuobjdump)
    case.run(ADD, "--report", "-o", "a.ptx")
    case.has(hot, case.out)
    case.kit.add("nvdisasm", out="half a listing", err="nvdisasm fatal : no such chip\nmore", status=1)
    case.run(ADD, "--report", "-o", "a.ptx")  # the other one is asked
    case.has(hot, case.out)
    case.kit.add("cuobjdump", err="cuobjdump fatal : neither do I\n", status=255)
    case.run(ADD, "--report", "-o", "a.ptx")
    case.has("machine code not looked at: ", case.out)
    case.has("cuobjdump says: cuobjdump fatal : neither do I\n", case.out)
    case.kit.add("nvdisasm", out="", status=0)
    case.run(ADD, "--report", "-o", "a.ptx")
    case.has("machine code not looked at: the disassembler printed none\n", case.out)
    # beside the ptxas that is named, before what is in PATH
    other = Toolkit(case.path("other"))
    other.add("ptxas", err=CLEAN, cubin=True).add("nvdisasm", out=nvdisasm)
    case.run(ADD, "--report", "-o", "a.ptx", "--ptxas=" + os.path.join(other.folder, "ptxas"))
    case.has(hot, case.out)
    # and in CUDA_HOME, where PATH has nothing
    home = Toolkit(case.path("home/bin"))
    home.add("ptxas", err=CLEAN, cubin=True).add("nvdisasm", out=nvdisasm)
    case.run(ADD, "--report", "-o", "a.ptx", path="/usr/bin:/bin", CUDA_HOME=case.path("home"))
    case.has(hot, case.out)
    case.run(ADD, "-o", "a.cubin", path="/usr/bin:/bin", CUDA_PATH=case.path("home"))
    before = home.calls("nvdisasm")
    case.run(ADD, "-o", "a.cubin", path="/usr/bin:/bin", CUDA_PATH=case.path("home"))
    if home.calls("nvdisasm") != before:
        case.wrong("a disassembler runs although there is no report")


def ptx_in(case):
    with open(case.path("k.ptx"), "w") as file:
        file.write(".version 8.0\n.target sm_90a\n.address_size 64\n.entry add()\n{ ret; }\n")
    case.run("k.ptx")
    case.exists("k.cubin", True)
    if "-arch=sm_90a -v k.ptx " not in case.kit.calls("ptxas"):
        case.wrong(f"called with {case.kit.calls('ptxas')}")
    os.remove(case.path("k.cubin"))
    case.run("k.ptx", "--report")  # only looked at
    case.exists("k.cubin", False)
    case.run("k.ptx", "-arch", "sm_90", "-lineinfo", "-o", "j.cubin")  # what the PTX says, closer
    if "-arch=sm_90a -v k.ptx -o" not in case.kit.calls("ptxas").split("\n")[-2]:
        case.wrong(f"called with {case.kit.calls('ptxas')}")
    case.exists("j.cubin", True)
    case.run("k.ptx", "-arch", "sm_100", "-o", "j.cubin")
    if "-arch=sm_100 " not in case.kit.calls("ptxas").split("\n")[-2]:
        case.wrong(f"called with {case.kit.calls('ptxas')}")
    for words in [["-D", "D=64"], ["--emit=lir"], ["-fno-swizzle"], ["--dump-ir"]]:
        case.run("k.ptx", *words, status=1)
        case.has("k.ptx is PTX: options that change what is compiled do not go with it", case.err)
    case.ptxas("ptxas k.ptx, line 4; error : no\n", status=255)
    case.run("k.ptx", status=1)  # the user's mistake
    case.has("ptxas k.ptx, line 4; error : no\n", case.err)
    case.run(ADD, "-o", "a.cubin", status=2)  # ours
    case.has("refused the PTX of tilec for sm_80", case.err)


def old_ptxas(case):
    """It says so, and what it is not needed for is written."""
    version = "ptxas /tmp/x, line 16; fatal   : Unsupported .version 8.1; current version is '8.0'\n"
    chip = "ptxas fatal   : Value 'sm_90' is not defined for option 'gpu-name'\n"
    for said, what in [(version, "it is of CUDA 12.0, which knows PTX 8.0, and this is PTX 8.1: take one of CUDA 12.1 or later"),
                       (chip, "it does not know sm_90: take one of CUDA 12.1 or later")]:
        case.ptxas(said, status=255)
        case.run(ADD, "-arch", "sm_90", "-o", "a.cubin", status=1)
        case.has(f"tilec: error: {case.kit.folder}/ptxas is too old: {what} (--ptxas=PATH) [E-PTXAS]\n", case.err)
        case.exists("a.cubin", False)
        for name, words in {"a.ptx": ["--report"], "a.html": ["--emit=html"]}.items():
            case.run(ADD, "-arch", "sm_90", *words, "-o", name, status=1)
            case.has("ptxas is too old: ", case.err)
            case.exists(name, True)
            os.remove(case.path(name))
            if words == ["--report"]:
                case.has("kernel add, sm_90, -O3", case.out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    options = parser.parse_args()
    bad = []
    for test in [output_files, disassemblers, ptx_in, old_ptxas]:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(os.path.abspath(options.tilec), folder)
            test(case)
            bad += [f"{test.__name__}: {what}" for what in case.bad]
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
