#!/usr/bin/env python3
"""oom.py - every command, with its n-th allocation failing, for n = 1, 2, 3, ..

    oom.py --build FOLDER [--all] [--only TEXT] [--jobs N] [--part I/N]

FOLDER has tilec_oom, tilerun_oom and simrun_oom: the programs with oom.c in them, whose arenas take
memory in small blocks.  A command may end in two ways: as it does with enough memory, or with its exit
status for errors and a sentence, and without an output file (one that is there must be whole).  It may
not crash, hang, leak (in a build with sanitizers) or leave temporary files behind.

Twice for each n: the n-th allocation fails alone, or all behind it, too.  Without --all a sample of n:
the first ones, and then every k-th.  --part I/N runs every N-th piece of the work, from the I-th on (I
from 0): N machines, or N processes, do all of it between them.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import stat
import struct
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
FIRST, SAMPLES = 60, 40  # all n up to FIRST, and so many above
PIECE = 64  # so many n are walked by one process
SANITIZER = 99

COPY = '''kernel copy(X: in f32[S], Y: out f32[S])
{
    grid i in tiles(S, 32);
    store Y[i] = load X[i] + 1.0;
}
'''
GEMM = '''kernel gemm<TM: int = 64, TN: int = 64>(A: in f16[M, K] align(16), B: in f16[K, N] align(16), C: out f16[M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, 64) { acc = mma(load A[m, k], load B[k, n], acc); }
    store C[m, n] = acc as f16;
}
'''
AUTO = GEMM.replace('TM: int = 64', 'TM: int = auto')
USES = 'use part;\n' + COPY.replace('load X[i] + 1.0', 'plus(load X[i])')
PART = 'fn plus(x) { return x + 1.0; }\n'
TUNING = ('{"tuning":1,"target":"sm_90","kernel":"gemm","constants":{"TN":"64"},"sizes":{"M":64},'
          '"tiles":{"TM":128},"warps":8,"stages":3,"microseconds":1.5}\n')
PTXAS = '''#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in -o) out=$2; shift;; -*) ;; *) in=$1;; esac
    shift
done
cat "$in" > "$out"
echo "ptxas info    : Compiling entry function 'copy' for 'sm_80'"
echo "ptxas info    : Function properties for copy"
echo "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads"
echo "ptxas info    : Used 40 registers"
'''
NVDISASM = '''#!/bin/sh
printf '.section .text.copy\\n        /*0000*/  MOV R1, R2 ;\\n.L_x_1:\\n        /*0010*/  HMMA.16816.F32 R4, R8, R12, R4 ;\\n        /*0020*/  @P0 BRA `(.L_x_1) ;\\n        /*0030*/  EXIT ;\\n'
'''


def npy(values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}\n".encode()
    return (b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header
            + struct.pack(f'<{len(values)}f', *values))


def commands(work, sim):
    """(name, program, words, statuses beside 0)."""
    c, g, a, u = (work / f'{name}.tile' for name in ('copy', 'gemm', 'auto', 'uses'))
    tools = ['--ptxas=' + str(work / 'ptxas')]
    yield 'ptx', 'tilec', [c, '-o', 'out.ptx']
    yield 'ptx-roles', 'tilec', [g, '-arch', 'sm_90', '--verify', '-o', 'out.ptx']
    yield 'default-output', 'tilec', [u, '-O0', '-lineinfo']
    for kind in 'header', 'json', 'tir', 'lir', 'ast':
        yield kind, 'tilec', [c, f'--emit={kind}', '-o', 'out']
    yield 'to-stdout', 'tilec', [c, '-arch', 'sm_100', '-o', '-']
    yield 'header-ptx', 'tilec', [c, '--emit=header', '--header-ptx', '--header-name=x', '-o', 'out.h']
    yield 'auto', 'tilec', [a, '-arch', 'sm_90', '--remarks', '-DTN=64', '--size', 'M=4096', '-o', 'out.ptx']
    yield 'cubin', 'tilec', [c, *tools, '-o', 'out.cubin']
    yield 'report', 'tilec', [c, *tools, '--report', '-o', 'out.cubin']
    yield 'spill', 'tilec', [c, *tools, '-Werror=spill', '-o', 'out.ptx']
    yield 'from-ptx', 'tilec', [work / 'given.ptx', *tools, '-o', 'out.cubin']
    yield 'dump', 'tilec', [c, '--dump-ir=simplify', '-o', 'out.ptx']
    yield 'run-pass', 'tilec', [c, '--run-pass=simplify,imply_masks', '-o', 'out.tir']
    yield 'schedule', 'tilec', [g, '-arch', 'sm_90', '--dump-schedule', '-o', 'out.ptx']
    yield 'picture', 'tilec', [g, '-arch', 'sm_90', '--dump-schedule=out.svg', '-o', 'out.ptx']
    yield 'errors', 'tilec', [work / 'wrong.tile', '-o', 'out.ptx']
    yield 'unknown-option', 'tilec', [c, '--emti=ptx']
    yield 'search', 'tilec', ['search', g, '-arch', 'sm_90', '--rows', '3', '--size', 'M=4096']
    yield 'search-built', 'tilec', ['search', a, '-arch', 'sm_90', '--built', '--json', '--rows', '2',
                                    '--tile-m', '64,128', '-o', 'out.txt']
    yield 'run', 'tilec', ['run', c, '--in', f"X={work / 'x.npy'}", '--out', 'Y=out.npy', '--tolerance',
                           'Y=far.npy', '--seed', '3']
    yield 'run-used', 'tilec', ['run', u, '--in', f"X={work / 'x.npy'}", '--out', 'Y=out.npy']
    yield 'run-error', 'tilec', ['run', c, '--in', f"Z={work / 'x.npy'}"]
    yield 'run-says', 'tilec', ['run', work / 'says.tile', '--in', f"X={work / 'x.npy'}", '--out', 'Y=out.npy']
    yield 'measure', 'tilec', ['search', a, '-arch', 'sm_90', '--measure', '--rows', '2', '--tuning=out.tuning',
                               '--tilerun', work / 'tilerun', '--size', 'M=256', '--tile-m', '64,128']
    yield 'time-report', 'tilec', [a, '-arch', 'sm_90', f"--tuning={work / 'auto.tuning'}", '--warps=4', *tools,
                                   '-I', work, '--time-report', '-o', 'out.ptx']
    yield 'help', 'tilec', ['--help']
    yield 'list-passes', 'tilec', ['--list-passes']
    yield 'list-targets', 'tilec', ['--list-targets']
    if not sim:
        return
    x = f"X={work / 'x.npy'}"
    yield 'tilerun', 'tilerun', [work / 'copy.ptx', '--device', 'sim', '--in', x, '--out', 'Y=out.npy',
                                 '--seeds', '2']
    yield 'tilerun-random', 'tilerun', [work / 'roles.ptx', '--device', 'sim', '--random', '--set',
                                        'M=64', '--set', 'N=64', '--set', 'K=64', '--out', 'C=out.npy']
    yield 'tilerun-gpu', 'tilerun', [work / 'copy.ptx', '--device', 'gpu', '--in', x, '--out', 'Y=out.npy']
    yield 'batch', 'tilerun', ['--batch']
    yield 'by-hand', 'tilerun', [work / 'raw.ptx', '--device', 'sim', '--entry', 'k', '--grid', '1',
                                 '--block', '32', '--arg', f"in={work / 'x.npy'}", '--arg',
                                 'out=out.npy:f32:32', '--arg', 'scratch=64', '--arg', 'i32=7']
    yield 'simrun', 'simrun', [work / 'raw.ptx', '--threads', '1', '--banks', '--block', '32',
                               f"inout:{work / 'raw.bin'}", 'out:out.bin:128', 'zero:64', 'u32:7']
    for name in 'sm90-mma-fence', 'sm90-tensor-early', 'race-blocks-fence', 'sm100-fence-after':
        path = TREE / 'tests/sim/faults' / f'{name}.ptx'
        words = [line.split(':', 1)[1].split() for line in path.read_text().splitlines()
                 if line.startswith('// ARGS:')]
        yield name, 'simrun', [path, '--threads', '1', *(words[0] if words else [])]


SAYS = '''kernel says(X: in f32[S], Y: out f32[S])
{
    grid i in tiles(S, 32);
    let x = load X[i];
    print("x", x);
    store Y[i] = (x - x) / (x - x);
    assert(x > 0.0, "none below 0");
}
'''
TILERUN = '''#!/bin/sh
[ "$1" = --gpu ] && echo "a false GPU" && exit 0
echo "time: median 1.5 ms, fastest 1.0 ms, slowest 9.0 ms, of 3 runs"
'''
RAW = '''.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .b64 %d<8>;
    .reg .b32 %r<8>;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d4, %d1, %d3;
    add.s64 %d5, %d2, %d3;
    ld.global.u32 %r2, [%d4];
    bar.sync 0;
    st.global.u32 [%d5], %r2;
    ret;
}
'''


def prepare(work, tilec):
    (work / 'copy.tile').write_text(COPY)
    (work / 'gemm.tile').write_text(GEMM)
    (work / 'auto.tile').write_text(AUTO)
    (work / 'auto.tuning').write_text(TUNING)
    (work / 'uses.tile').write_text(USES)
    (work / 'part.tile').write_text(PART)
    (work / 'wrong.tile').write_text(COPY.replace('load X[i]', 'load Z[j, i]'))
    (work / 'says.tile').write_text(SAYS)
    (work / 'raw.ptx').write_text(RAW)
    (work / 'raw.bin').write_bytes(bytes(range(128)))
    (work / 'x.npy').write_bytes(npy([float(k) for k in range(40)]))
    for name, text in ('ptxas', PTXAS), ('nvdisasm', NVDISASM), ('tilerun', TILERUN):
        (work / name).write_text(text)
        (work / name).chmod(stat.S_IRWXU)
    for name, words in (('copy', ['copy.tile']), ('given', ['copy.tile']),
                        ('roles', ['gemm.tile', '-arch', 'sm_90'])):
        subprocess.run([tilec, *words, '-o', f'{name}.ptx'], cwd=work, check=True)


def is_whole(name, data, plain):
    """A tuning database grows by a line for each plan; all else is there as a whole or not at all."""
    return data == plain or (name.endswith('.tuning') and plain.startswith(data) and data[-1:] == b'\n')


def outputs(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != 'stderr'}


class Walk:
    def __init__(self, options, work, name, program, words):
        self.options, self.name = options, name
        self.words = [str(options.build / f'{program}_oom'), *map(str, words)]
        self.folder = work / 'walks' / name
        self.faults = []
        self.ends = []  # exit statuses

    def start(self, folder, scope, then_on):
        folder.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ, OOM_LIST='%d:%d:%d' % scope,
                           ASAN_OPTIONS=f'exitcode={SANITIZER}:allocator_may_return_null=1',
                           LSAN_OPTIONS=f'exitcode={SANITIZER}', UBSAN_OPTIONS=f'exitcode={SANITIZER}')
        driver = self.options.build.parent / 'api/runtime/fake'
        environment.update(LD_LIBRARY_PATH=f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}", FAKE_CUDA_CAPABILITY='9.0')
        if then_on:
            environment['OOM_FROM_THEN_ON'] = '1'
        subprocess.run(self.words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True)
        lines = (folder / 'status').read_text().split('\n')[:-1]
        return [tuple(map(int, line.split())) for line in lines]

    def fault(self, n, then_on, what, folder):
        text = (folder / 'stderr').read_text(errors='replace') if folder else ''
        self.faults.append(f'{self.name}, allocation {n}{" and all behind" if then_on else ""}: {what}\n'
                           + '\n'.join('    ' + line for line in text.split('\n')[:12]))

    def check(self, n, status, then_on, folder):
        said = (folder / 'stderr').read_text(errors='replace')
        found = outputs(folder)
        self.ends.append(status)
        if status == self.plain_status and found == self.plain:
            pass  # the program did without
        elif status not in (1, 2):
            self.fault(n, then_on, f'exit status {status}', folder)
        elif not said.strip() and not found.get('stdout', b'').strip():
            self.fault(n, then_on, f'exit status {status} and no sentence', folder)
        elif any(name != 'stdout' and not is_whole(name, data, self.plain.get(name, b''))
                 for name, data in found.items()):
            self.fault(n, then_on, 'a file that is not whole', folder)
        if 'left behind' in said:
            self.fault(n, then_on, 'a temporary file is left', folder)

    def plainly(self):
        """With memory enough: what comes out, and how many allocations there are."""
        plain = self.folder / 'plain'
        (_, self.plain_status, self.count), = self.start(plain, (1 << 60, 1 << 60, 1), False)
        self.plain = outputs(plain / str(1 << 60))
        if self.plain_status == SANITIZER or self.plain_status > 100:
            self.fault(0, False, f'exit status {self.plain_status}', plain / str(1 << 60))
            self.count = 0
        return self

    def pieces(self):
        """(self, whether all behind n fail too, (first n, last n, step))."""
        limit = self.count
        scopes = [(n, min(n + PIECE - 1, limit), 1) for n in range(1, limit + 1, PIECE)]
        if not self.options.all and limit > FIRST + SAMPLES:
            step = max(1, (limit - FIRST) // SAMPLES)
            scopes = [(1, FIRST, 1), (FIRST + 1, limit, step)]
        return [(self, then_on, scope) for then_on in (False, True) for scope in scopes]

    def walk(self, then_on, scope):
        at = self.folder / ('behind' if then_on else 'alone') / str(scope[0])
        for n, status, _ in self.start(at, scope, then_on):
            self.check(n, status, then_on, at / str(n))
            shutil.rmtree(at / str(n))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--all', action='store_true')
    parser.add_argument('--only', default='')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--part', default='0/1')
    options = parser.parse_args()
    options.build = options.build.resolve()
    part, parts = map(int, options.part.split('/'))
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        prepare(work, options.build / 'tilec_oom')
        sim = (options.build / 'simrun_oom').exists()
        walks = [Walk(options, work, *command) for command in commands(work, sim)
                 if options.only in command[0]]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            pieces = [piece for walk in pool.map(Walk.plainly, walks) for piece in walk.pieces()]
            list(pool.map(lambda piece: piece[0].walk(*piece[1:]), pieces[part::parts]))
    for walk in walks:
        print(f'{walk.name}: {walk.count} allocations, {len(walk.ends)} runs, status '
              f'{walk.plain_status} with all of them, {len(walk.faults)} faults')
        for fault in walk.faults[:5]:
            print(fault)
    faults = sum(len(walk.faults) for walk in walks)
    print(f'{sum(len(walk.ends) for walk in walks)} runs, {faults} faults')
    return faults > 0


if __name__ == '__main__':
    sys.exit(main())
