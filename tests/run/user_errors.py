#!/usr/bin/env python3
"""user_errors.py - wrong input of all kinds to tilec, `tilec run` and tilerun: a sentence each, exit status 1.

    user_errors.py --tilec T --tilerun R

A sentence says what was expected, or what to do.  No output file appears, and one that is there stays as it
was; so too on a full disk, which a limit of the size of files stands for.
"""
import argparse
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile

import numpy as np

ADD = """kernel add<N: int = 32>(X: in f32[S], Y: in f32[S], Z: out f32[S], a: f32)
{
    grid i in tiles(S, N);
    store Z[i] = a * load X[i] + load Y[i];
}
"""
FEW = "those of tensors are of bool, int32, uint32, int8, uint8, float16, float32, or uint16 (the bits of bf16)"
# What follows the program, and the end of the line that it must say.
BOTH = [  # `tilec run add.tile` and `tilerun add.ptx`
    ("--in X=x.npy --set a=2 --out Z=z.npy", "give it with --in Y=FILE.npy"),
    ("--in X=double.npy --in Y=x.npy --set a=2 --out Z=z.npy", "must hold float32, not float64"),
    ("--in X=half.npy --in Y=x.npy --set a=2 --out Z=z.npy", "must hold float32, not float16"),
    ("--in X=x.npy --in Q=x.npy --set a=2", "--in Q: there is no such tensor; the file has X, Y, Z"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --out Q=z.npy", "--out Q: there is no such tensor; the file has X, Y, Z"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --set b=1", "--set b: there is no such size or scalar; the file has S, a"),
    ("--in X=x.npy --in Y=x.npy --out Z=z.npy", "--set a=VALUE"),
    ("--in X=x.npy --in Y=x.npy --set a=x --out Z=z.npy", "expected a number"),
    ("--in X=x.npy --in Y=x.npy --set a --out Z=z.npy", "--set a: expected NAME=VALUE"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --set S=x", "--set S=x: a size is a whole number from 0 to 2147483647"),
    ("--in X=x.npy --in X=x.npy", "--in X is given twice"),
    ("--in X=absent.npy --in Y=x.npy --set a=2", "cannot open absent.npy: No such file or directory"),
    ("--in X=cut.npy --in Y=x.npy --set a=2", "cut.npy is shorter than its header says (400 bytes of data): save it again"),
    ("--in X=head.npy --in Y=x.npy --set a=2", "head.npy ends in its header"),
    ("--in X=text.npy --in Y=x.npy --set a=2", "text.npy is not a .npy file: save the array with np.save"),
    ("--in X=empty.npy --in Y=x.npy --set a=2", "empty.npy is not a .npy file: save the array with np.save"),
    ("--in X=z.npz --in Y=x.npy --set a=2", "z.npz is not a .npy file: it is an archive; save each array with np.save"),
    ("--in X=words.npy --in Y=x.npy --set a=2", "words.npy: arrays of type <U2 are not supported; " + FEW),
    ("--in X=complex.npy --in Y=x.npy --set a=2", "complex.npy: arrays of type <c8 are not supported; " + FEW),
    ("--in X=fortran.npy --in Y=x.npy --set a=2", "fortran.npy: the array is in Fortran order; save np.ascontiguousarray(x)"),
    ("--in X=big.npy --in Y=x.npy --set a=2", "big.npy: the array is big endian; save it as little endian"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --out Z=/nowhere/z.npy", "cannot write /nowhere/z.npy: No such file or directory"),
    ("--in", "--in needs a value"),
    ("more --in X=x.npy", "add.SUFFIX' and 'more'"),
    ("--sed 3", "unknown option '--sed'"),
]
RUN = [  # `tilec run add.tile`
    ("", "the size of X is not known: give an array with --in, or the size with --set NAME=N"),
    ("--in X=square.npy --in Y=x.npy --set a=2", "X has 1 dimension, but its array has 2: [10, 10]"),
    ("--in X=x.npy --in Y=half_as_long.npy --set a=2", "the size S is 100 by X, and 50 by Y"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --set S=50", "the size S is 100 by X, and 50 by --set"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --set N=3", "--set N: there is no such size or scalar; the file has S, a"),
    ("-D N=x", "'N' of kernel 'add' is an integer of 32 bits"),
    ("-D NN=3", "no kernel has a compile-time parameter 'NN', did you mean 'N'?"),
    ("-D S=3", "no kernel has a compile-time parameter 'S'; it is known at the launch only"),
    ("--kernel sub", "there is no kernel 'sub' in this file; it has add"),
    ("--seed x", "--seed x: expected a number"),
    ("--nan=no", "--nan=no: expected note, error or ignore"),
]
TILERUN = [  # `tilerun add.ptx`
    ("", "add reads X: give it with --in X=FILE.npy"),
    ("--in X=square.npy --in Y=x.npy --set a=2", "add: X must have 1 dimension, not 2"),
    ("--in X=x.npy --in Y=half_as_long.npy --set a=2", "add: dimension 0 of Y is 50, but S is 100"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --set S=50", "add: dimension 0 of X is 100, but S is 50"),
    ("--in X=x.npy --in Y=x.npy --set a=2 --time 3", "--time needs a GPU; this ran on the simulator"),
    ("--entry sub", "--entry sub: the file has add"),
    ("--seeds 0", "--seeds 0: expected a whole number from 1 to 1000000"),
    ("--time 0", "--time 0: expected a whole number from 1 to 1000000"),
    ("--device cpu", "--device cpu: expected gpu or sim"),
    ("--time h100", "--time h100: expected a number of runs on the GPU, or a chip for the simulator's clock: sm_80, sm_86, sm_89, sm_90, sm_100, sm_103 or sm_120"),
    ("--entry add --grid 4 --block 128 --arg in=x.npy --arg in=x.npy --arg out=/nowhere/z.npy:f32:100 --arg i32=100 --arg f32=2",
     "cannot write /nowhere/z.npy: No such file or directory"),
]
PROGRAMS = [  # whole command lines
    ("tilerun", "which file? (tilerun --help)"),
    ("tilerun absent.ptx", "cannot open absent.ptx: No such file or directory"),
    ("tilerun add.tile", "add.tile is no PTX but a program to compile: tilec add.tile -o kernel.ptx"),
    ("tilerun x.npy", "x.npy is no PTX: it is not text"),
    ("tilec run add.ptx --in X=x.npy", "add.ptx is PTX, which `tilerun add.ptx` runs; `tilec run` takes its source"),
    ("tilec", "no input file; see --help"),
    ("tilec run", "no input file; see --help"),
    ("tilec sreach add.tile", "there is no command 'sreach'; did you mean 'tilec search'?"),
    ("tilec absent.tile", "cannot read absent.tile: No such file or directory"),
    ("tilec .", "cannot read .: Is a directory"),
    ("tilec add.tile -arch sm_70", "there is no target 'sm_70'; --list-targets shows them"),
    ("tilec add.tile --arch=sm_90", "unknown option '--arch'; did you mean '-arch sm_90'?"),
    ("tilec add.tile --emit=cuda", "--emit=cuda: expected ptx, cubin, header, json, ast, tir, lir or html"),
    ("tilec add.tile -o /nowhere/add.ptx", "cannot write /nowhere/add.ptx: No such file or directory"),
    ("tilec add.tile -D N", "-D N: expected NAME=VALUE"),
    ("tilec add.tile -D N=19999", "the extent of a tile must be between 1 and 16384, this is 19999"),
    ("tilec add.tile -D a=2", "no kernel has a compile-time parameter 'a'; it is known at the launch only"),
    ("tilec add.tile --in X=x.npy", "'--in' is an option of 'tilec run'"),
    ("tilec add.tile --rows 3", "'--rows' is an option of 'tilec search'"),
    ("tilec add.tile --warps=3", "--warps=3: expected 1, 2, 4, 8 or 16"),
    ("tilec add.tile --emit=header --header-name=9x", "--header-name=9x: expected a name as in C, of letters, digits and _"),
    ("tilec add.tile --emit=header --header-name=a-b", "--header-name=a-b: expected a name as in C, of letters, digits and _"),
    ("tilec run typed.tile --in X=x.npy", "its array must hold uint16 (the bits), not float32; -D T=f32 makes it f32"),
    ("tilec run typed.tile --in X=double.npy", "its array must hold uint16 (the bits), not float64"),
    ("tilec search add.tile -arch sm_90 --mode bwd", "cannot read add_bwd.tile: No such file or directory"),
]


def save_arrays(at):
    x = np.arange(100, dtype=np.float32)
    arrays = {"x": x, "double": x.astype(np.float64), "half": x.astype(np.float16), "square": x.reshape(10, 10),
              "half_as_long": x[:50], "words": np.array(["a", "bb"]), "complex": x.astype(np.complex64),
              "fortran": np.asfortranarray(x.reshape(10, 10)), "big": x.astype(">f4")}
    for name, array in arrays.items():
        np.save(at(name + ".npy"), array)
    np.savez(at("z.npz"), x=x)
    with open(at("x.npy"), "rb") as file:
        whole = file.read()
    for name, content in {"cut": whole[:200], "head": whole[:40], "text": b"hello, world", "empty": b""}.items():
        with open(at(name + ".npy"), "wb") as file:
            file.write(content)


def limited():
    """What is written behind the first 100 bytes of a file fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def full_disk(command, path, folder):
    """A file that can not be written whole is not there, and one that is there stays."""
    bad = 0
    for before in None, b"what was there":
        if before is not None:
            with open(path, "wb") as file:
                file.write(before)
        files = set(os.listdir(folder))
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, preexec_fn=limited)
        after = None
        if os.path.exists(path):
            with open(path, "rb") as file:
                after = file.read()
        if done.returncode != 1 or "File too large" not in done.stderr or after != before \
                or set(os.listdir(folder)) != files:
            print(f"{' '.join(command)}, no room: exit {done.returncode}, {done.stderr}{before} is now {after}; "
                  f"new files {set(os.listdir(folder)) - files}")
            bad += 1
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    programs = {"tilec": os.path.abspath(options.tilec), "tilerun": os.path.abspath(options.tilerun)}
    run, launch = "tilec run add.tile", "tilerun add.ptx --device sim"
    lines = PROGRAMS + [(f"{run} {words}", says) for words, says in RUN]
    lines += [(f"{launch} {words}", says) for words, says in TILERUN]
    for words, says in BOTH:
        lines += [(f"{run} {words}", says.replace("SUFFIX", "tile")), (f"{launch} {words}", says.replace("SUFFIX", "ptx"))]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        with open(at("add.tile"), "w", encoding="utf-8") as file:
            file.write(ADD)
        save_arrays(at)
        with open(at("typed.tile"), "w", encoding="utf-8") as file:
            file.write(ADD.replace("<N", "<T: type = bf16, N").replace("X: in f32", "X: in T").replace("load X[i]", "(load X[i] as f32)"))
        subprocess.run([options.tilec, at("add.tile"), "-arch", "sm_80", "-o", at("add.ptx")], check=True)
        files = set(os.listdir(folder))
        for line, says in lines:
            words = shlex.split(line)
            done = subprocess.run([programs[words[0]], *words[1:]], capture_output=True, text=True, cwd=folder,
                                  stdin=subprocess.DEVNULL)
            if "/nowhere/" in line and "grid " in done.stdout + done.stderr:
                print(f"{line}: a launch before it is known that nothing can be written")
                bad += 1
            if done.returncode != 1 or says not in done.stderr or "error: " not in done.stderr \
                    or set(os.listdir(folder)) != files:
                print(f"{line}: exit {done.returncode}, not 1 and '{says}'\n{done.stderr}{set(os.listdir(folder)) - files}")
                bad += 1
        rest = "--in X=x.npy --in Y=x.npy --set a=2 --out Z=out.npy"
        by_hand = "--entry add --grid 4 --block 128 --arg in=x.npy --arg in=x.npy --arg out=out.npy:f32:100 " \
                  "--arg i32=100 --arg f32=2"
        for line in f"{run} {rest}", f"{launch} {rest}", f"{launch} {by_hand}", "tilec add.tile -o out.npy":
            words = shlex.split(line)
            bad += full_disk([programs[words[0]], *words[1:]], at("out.npy"), folder)
            os.remove(at("out.npy"))
    print(f"{len(lines)} command lines, {bad} wrong")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
