#!/usr/bin/env python3
"""install.py - what is installed can be used: each way in a fresh prefix.

    install.py --build BUILD --cmake CMAKE --cc CC WAY

    package      a user's program by find_package(tilec), against the shared and the static library; a kernel by tilec_kernel(..)
    pkg-config   the same by pkg-config, in a prefix that was moved
    subproject   the same by add_subdirectory, with warnings that tilec does not have
    debian       the package that CPack makes: unpacked, it compiles and runs a kernel, and a program is built against it
    commands     tilec, tilerun, the man pages and the completion
    wheel        `pip install .` into a fresh environment: the programs, and a compilation from Python
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIPPED = 77  # as CMakeLists.txt tells ctest
SUBPROJECT = """
cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES C)
set(CMAKE_C_FLAGS "-Wall -Wpedantic -Wunused-macros -Werror=strict-aliasing")
add_subdirectory({root} tilec)
tilec_kernel(k.ptx k.tile ARCH sm_90)
add_custom_target(kernels DEPENDS k.ptx)
add_executable(program {here}/program.c)
target_link_libraries(program PRIVATE tilec::tilec_static)
get_target_property(leaked tilec::tilec_static INTERFACE_COMPILE_OPTIONS)
if(leaked OR TARGET test_base)
  message(FATAL_ERROR "tilec gives its own options or tests to those who use it: ${{leaked}}")
endif()
"""
KERNEL = """
tilec_kernel(k.ptx k.tile ARCH sm_90 OPTIONS -D M=32)
tilec_kernel(k.h k.tile)
add_custom_target(kernels DEPENDS k.ptx k.h)
"""
PACKAGE = """
cmake_minimum_required(VERSION 3.21)
project(user LANGUAGES C)
find_package(tilec {version} REQUIRED)
add_executable(shared {here}/program.c)
target_link_libraries(shared PRIVATE tilec::tilec)
add_executable(static {here}/program.c)
target_link_libraries(static PRIVATE tilec::tilec_static)
""" + KERNEL


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def needs(*programs):
    for name in programs:
        if shutil.which(name) is None:
            print(f"{name} is not installed: skipped")
            sys.exit(SKIPPED)


def check_program(path, **options):
    if ".visible .entry copy(" not in run(path, **options):
        sys.exit(f"{path} has not compiled the kernel")


def installed(options, folder):
    prefix = os.path.join(folder, "prefix")
    run(options.cmake, "--install", options.build, "--prefix", prefix)
    return prefix


def version():
    with open(os.path.join(ROOT, "compiler", "tilec.h")) as file:
        return next(line.split('"')[1] for line in file if "TILEC_VERSION" in line)


def configure(options, folder, text, *more):
    os.makedirs(os.path.join(folder, "user"))
    with open(os.path.join(folder, "user", "k.tile"), "w") as file:
        file.write("use of_ours; kernel k<M: int = 64>(X: in f32[S], Y: out f32[S]) "
                   "{ grid m in tiles(S, M); store Y[m] = ours(load X[m]); }")
    with open(os.path.join(folder, "user", "of_ours.tile"), "w") as file:
        file.write("fn ours(x) { return x * 0.5; }")
    with open(os.path.join(folder, "user", "CMakeLists.txt"), "w") as file:
        file.write(text.format(here=HERE, root=ROOT, version=version()))
    out = os.path.join(folder, "out")
    run(options.cmake, "-S", os.path.join(folder, "user"), "-B", out, "-G", "Ninja",
        f"-DCMAKE_C_COMPILER={options.cc}", *more)
    return out


def package(options, folder):
    out = configure(options, folder, PACKAGE, f"-DCMAKE_PREFIX_PATH={installed(options, folder)}")
    run(options.cmake, "--build", out)
    for name in ("shared", "static"):
        check_program(os.path.join(out, name))
    check_kernels(options, folder, out)


def check_kernels(options, folder, out):
    """They are made, and made again when a module has changed, and not else."""
    made = [os.path.join(out, name) for name in ("k.ptx", "k.h")]
    run(options.cmake, "--build", out, "--target", "kernels")
    before = [os.path.getmtime(name) for name in made]
    run(options.cmake, "--build", out, "--target", "kernels")
    if before != [os.path.getmtime(name) for name in made]:
        sys.exit("kernels of which nothing has changed are made again")
    with open(os.path.join(folder, "user", "of_ours.tile"), "w") as file:
        file.write("fn ours(x) { return x * 3.25; }")
    run(options.cmake, "--build", out, "--target", "kernels")
    with open(made[0]) as file:
        if "0f40500000" not in file.read():
            sys.exit("a kernel whose module has changed is not made again")


def pkg_config(options, folder):
    needs("pkg-config")
    moved = os.path.join(folder, "moved")
    os.rename(installed(options, folder), moved)
    by_pkg_config(options, moved, folder)


def by_pkg_config(options, moved, folder):
    where = glob.glob(os.path.join(moved, "lib*", "**", "tilec.pc"), recursive=True)[0]
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(where))
    flags = run("pkg-config", "--cflags", "--libs", "tilec", env=env).split()
    program = os.path.join(folder, "program")
    run(options.cc, os.path.join(HERE, "program.c"), "-o", program, *flags)
    check_program(program, env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(os.path.dirname(where))))


def subproject(options, folder):
    out = configure(options, folder, SUBPROJECT)
    run(options.cmake, "--build", out, "--target", "program", "kernels")
    check_program(os.path.join(out, "program"))
    if not os.path.isfile(os.path.join(out, "k.ptx")):
        sys.exit("tilec_kernel has made no k.ptx")


def debian(options, folder):
    needs("dpkg-deb", "dpkg-shlibdeps")
    cpack = os.path.join(os.path.dirname(options.cmake), "cpack")
    run(cpack, "--config", os.path.join(options.build, "CPackConfig.cmake"), "-B", folder)
    made = glob.glob(os.path.join(folder, "tilec_*.deb"))
    if len(made) != 1:
        sys.exit(f"CPack made {made}")
    tree = os.path.join(folder, "tree")
    run("dpkg-deb", "-x", made[0], tree)
    use_commands(os.path.join(tree, "usr"), folder)
    if shutil.which("pkg-config"):
        by_pkg_config(options, os.path.join(tree, "usr"), folder)


def use_commands(prefix, folder):
    ptx = os.path.join(folder, "add.ptx")
    run(os.path.join(prefix, "bin", "tilec"), os.path.join(prefix, "share/tilec/examples/add.tile"),
        "-arch", "sm_80", "-o", ptx)
    run(os.path.join(prefix, "bin", "tilerun"), ptx, "--random", "--device", "sim", "--set", "R=20", "--set", "C=300")


def commands(options, folder):
    prefix = installed(options, folder)
    use_commands(prefix, folder)
    for name in ("tilec", "tilerun"):
        with open(os.path.join(prefix, "share/man/man1", f"{name}.1")) as file:
            page = file.read()
        if not page.startswith(f".TH {name.upper()} 1") or ".SH OPTIONS" not in page:
            sys.exit(f"{name}.1 is not a man page")
    ptx = os.path.join(folder, "add.ptx")
    for program, words, answer in (("tilec", "-arch sm_", "sm_90"), ("tilec", "-fno-swi", "-fno-swizzle"), ("tilec", "explain E-SHA", "E-SHAPE"),
                                   ("tilerun", f"{ptx} --device s", "sim"), ("tilerun", f"{ptx} --entry a", "add"),
                                   ("tilerun", "--sm-", "--sm-count"), ("tilerun", ptx[:-4], ptx)):
        script = os.path.join(prefix, "share/bash-completion/completions", program)
        ask = (f"source {script}; COMP_WORDS=({prefix}/bin/{program} {words}); COMP_CWORD={len(words.split())}; _{program}; "
               'echo "${COMPREPLY[@]}"')
        said = run("bash", "-c", ask)
        if answer not in said.split():
            sys.exit(f"completion of {program} {words}: {said}, and not {answer}")
    for name in ("share/tilec/examples/host_c/main.c", "share/tilec/editors/vim/syntax/tile.vim", "share/doc/tilec/docs/tutorial.md"):
        if not os.path.isfile(os.path.join(prefix, name)):
            sys.exit(f"{name} is not installed")
    if os.path.exists(os.path.join(prefix, "bin/simrun")):
        run(sys.executable, os.path.join(ROOT, "tests/sim/driver.py"), "--script", os.path.join(prefix, "bin/tilec-sim"), "--driver", "")


PYTHON = """
import os
import tilec
text = "use mine; kernel copy(X: in f32[S, N], Y: out f32[S, N]) {{ grid i in tiles(S, 8); store Y[i, :] = same(load X[i, :]); }}"
text = text.replace("copy(", "copy<N: int>(")
made = tilec.compile(text, "sm_90", defines={{"N": 64}}, modules=["{folder}"])
assert ".visible .entry copy(" in made.ptx and made.messages == "", made.messages
try:
    tilec.compile("kernel", "sm_90")
except tilec.Error as error:
    assert "kernel.tile:1:" in str(error) and error.status == 1
else:
    raise SystemExit("a wrong program was taken")
import tilec._launch
assert tilec._launch.Plans and os.path.isfile(os.path.join(os.path.dirname(tilec.__file__), "torch", "kernels", "attention.tile"))
assert os.path.isfile(os.path.join(os.path.dirname(tilec.__file__), "torch", "node.cpp"))
try:
    import tilec.torch
except ImportError as error:
    assert "needs PyTorch" in str(error), error
"""


def check_needed(package):
    """Only what every manylinux tag allows, so that auditwheel gives the wheel one without copying anything into it."""
    if shutil.which("readelf") is None:
        return
    for path in filter(os.path.isfile, glob.glob(os.path.join(package, "*")) + glob.glob(os.path.join(package, "*", "*"))):
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", path)):
            if not re.match(r"(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.\d", name):
                sys.exit(f"{path} needs {name}")


def wheel(options, folder):
    run(sys.executable, "-m", "venv", os.path.join(folder, "venv"))
    python = os.path.join(folder, "venv", "bin", "python")
    source = os.path.join(folder, "source")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns("build", ".git", "tests"))
    # what lies where is looked at, not speed: quick to build
    run(python, "-m", "pip", "install", "-q", "--config-settings=cmake.build-type=Debug", source, env=dict(os.environ, CC=options.cc))
    libraries = glob.glob(os.path.join(folder, "venv", "lib", "python*", "site-packages", "tilec", "lib*", "*"))
    if [os.path.basename(path) for path in libraries] != ["libtilec.so"]:
        sys.exit(f"the wheel has the libraries {libraries}")
    check_needed(os.path.dirname(os.path.dirname(libraries[0])))
    with open(os.path.join(folder, "mine.tile"), "w") as file:
        file.write("fn same(x) { return x; }")
    run(python, "-c", PYTHON.format(folder=folder), cwd=folder)
    for name in ("tilec", "tilerun"):
        if version() not in run(os.path.join(folder, "venv", "bin", name), "--version"):
            sys.exit(f"{name} of the wheel says another version")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("way")
    options = parser.parse_args()
    ways = {"package": package, "pkg-config": pkg_config, "subproject": subproject, "debian": debian,
            "commands": commands, "wheel": wheel}
    with tempfile.TemporaryDirectory() as folder:
        ways[options.way](options, folder)


if __name__ == "__main__":
    main()
