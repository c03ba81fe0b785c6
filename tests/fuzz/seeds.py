#!/usr/bin/env python3
"""seeds.py - texts for the fuzz targets of this folder, as tilec writes them today.

    seeds.py --tilec BUILD/tilec FOLDER

makes FOLDER/tile, run, ir, ptx, metadata, npy and options: what the tree has, and what tilec makes of a few
programs (tile IR before and after some passes, lane IR, PTX, metadata).
"""
import argparse
import pathlib
import shutil
import struct
import subprocess

TREE = pathlib.Path(__file__).resolve().parents[2]
LARGEST = 40000  # a longer text has its faults in a shorter one, too

# program, target, further options
COMPILED = [
    ('examples/copy.tile', 'sm_80', ['-DN=64']),
    ('examples/add.tile', 'sm_80', []),
    ('examples/row_softmax.tile', 'sm_100', []),
    ('examples/gemm.tile', 'sm_80', ['-DTM=32', '-DTN=32', '-DTK=32', '-DBIAS=false']),
    ('examples/gemm.tile', 'sm_90', ['-DTM=64', '-DTN=64', '-DTK=64', '-DBIAS=false']),
    ('examples/mlp.tile', 'sm_90', []),
    ('examples/attention.tile', 'sm_80', ['-DM=64', '-DN=32', '-DD=64']),
    ('examples/attention.tile', 'sm_90', ['-DD=64']),
    ('examples/gemm.tile', 'sm_100', ['-DTM=128', '-DTN=64', '-DTK=64', '-DBIAS=false']),
    ('examples/mlp.tile', 'sm_100', []),
    ('examples/attention.tile', 'sm_100', ['-DD=64']),
    ('examples/attention_bwd.tile', 'sm_90', ['-DD=64']),
    ('examples/attention_varlen.tile', 'sm_90', ['-DD=64']),
    ('examples/attention_decode.tile', 'sm_90', []),
    ('tests/sim/programs/*.tile', 'sm_80', []),
    ('tests/ptx/pack.tile', 'sm_90', []),
    ('tests/ptx/kept-places.tile', 'sm_80', []),
]
PASSES = ['simplify', 'simplify,imply_masks,split-loops', 'simplify,imply_masks,plan',
          'simplify,imply_masks,fuse,plan,stages', 'simplify,imply_masks,fuse,plan,stages,roles',
          'simplify,imply_masks,schedule,assign_layout',
          'simplify,imply_masks,plan,stages,roles,schedule,assign_layout,plan_shared,place_sync',
          'simplify,imply_masks,plan,stages,roles,schedule,assign_layout,plan_shared,place_sync,check-roles']

OPTIONS = [
    '\n\n\n',
    'consumers=2,stages=3\nTM=128 M=4096 N=4096 K=512\nno-swizzle pipeline\n',
    'consumers=3,q_stages=2,persistent=1,pipelined=0,dynamic=1\nTM=192 TN=128\nno-next-tile\n',
    'none\nTM=auto BIAS=true M=8192\nno-pipeline no-refill\n',
    '\nM=1000 N=64\n\n'
    '{"tuning":1,"target":"sm_90","kernel":"gemm","constants":{"T":"f16","TN":"64","BIAS":"false"},'
    '"sizes":{"M":8192,"N":8192,"K":8192},"tiles":{"TM":128},"warps":8,"stages":3,'
    '"microseconds":1890.4}\n'
    '{"tuning":1,"target":"sm_90","kernel":"gemm","constants":{"T":"f16","TN":"64","BIAS":"false"},'
    '"sizes":{"M":8192,"N":8192,"K":8192},"tiles":{"TM":64},"plan":"consumers=2,stages=2",'
    '"microseconds":189.4}\n',
]
EXPRESSIONS = ['cdiv(M, 64) * H', 'min(sm_count, cdiv(cdiv(Sq, 64), 2) * Hq)', 'min(2, sm_shared / 100000)',
               'M % 16 == 0 && (N <= 65535 || -K < 0.5)', 'a >= 0 && max(b, c) / 2 != !d']
SASS = '''.section .text.k
        Function : k
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
        /*0020*/                   R2UR UR4, R2 ;
        /*0030*/              @P0  BRA `(.L_x_1) ;
        /*0040*/                   EXIT ;
.L_x_2:
        /*0050*/                   BRA `(.L_x_2);
'''
PTXAS = '''ptxas info    : 0 bytes gmem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'k'
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 32 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 168 registers, used 9 barriers, 16 bytes cumulative stack size
ptxas x.ptx, line 12; warning : setmaxnreg ignored; unable to determine register count at entry
.visible .entry k(
'''


def run(tilec, *words):
    done = subprocess.run([tilec, *map(str, words)], capture_output=True)
    return done.stdout if done.returncode == 0 else b''


def save(path, data):
    if 0 < len(data) <= LARGEST:
        path.write_bytes(data)


def npy(descr, shape, data, version=1, order='False'):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    length = struct.pack('<H' if version == 1 else '<I', len(header) + 1)
    return b'\x93NUMPY' + bytes([version, 0]) + length + header + b'\n' + data


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--tilec', required=True)
    parser.add_argument('folder', type=pathlib.Path)
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    at = {}
    for name in ('tile', 'run', 'ir', 'ptx', 'metadata', 'npy', 'options'):
        at[name] = options.folder / name
        at[name].mkdir(parents=True)

    for pattern in ('examples/*.tile', 'stdlib/*.tile', 'tests/*/*.tile'):
        for path in TREE.glob(pattern):
            save(at['tile'] / f'{path.parent.name}-{path.name}', path.read_bytes())
            save(at['run'] / f'{path.parent.name}-{path.name}', path.read_bytes())
    for pattern in ('tests/*/*.tir', 'tests/lir/*.lir', 'tests/lir/bad/*.lir'):
        for path in TREE.glob(pattern):
            save(at['ir'] / f'{path.parent.name}-{path.name}', path.read_bytes())
    for pattern in ('tests/sim/faults/*.ptx', 'tests/sim/mutants/*.ptx'):
        for path in TREE.glob(pattern):
            save(at['ptx'] / f'{path.parent.name}-{path.name}', path.read_bytes())

    for number, (pattern, arch, further) in enumerate(COMPILED):
        for path in sorted(TREE.glob(pattern)):
            words = [path, '-arch', arch, '--tuning=none', *further]
            name = f'{number}-{path.stem}-{arch}'
            save(at['ir'] / f'{name}.tir', run(options.tilec, *words, '--emit=tir'))
            for k, passes in enumerate(PASSES):
                save(at['ir'] / f'{name}-{k}.tir', run(options.tilec, *words, f'--run-pass={passes}'))
            for level in '-O0', '-O3':
                save(at['ir'] / f'{name}{level}.lir', run(options.tilec, *words, level, '--emit=lir'))
                save(at['ptx'] / f'{name}{level}.ptx', run(options.tilec, *words, level, '-o', '-'))
            save(at['metadata'] / f'{name}.json', run(options.tilec, *words, '--emit=json'))
            if number % 4 == 0:
                save(at['metadata'] / f'{name}.ptx', run(options.tilec, *words, '-o', '-'))

    for name in 'gemm', 'attention':
        words = [TREE / f'examples/{name}.tile', '-arch', 'sm_90', '--tuning=none', '--variants=auto']
        save(at['metadata'] / f'variants-{name}.json', run(options.tilec, *words, '--emit=json'))

    for number, text in enumerate(OPTIONS):
        save(at['options'] / f'{number}.txt', text.encode())
    for number, text in enumerate(EXPRESSIONS):
        save(at['metadata'] / f'{number}.expr', text.encode())
    save(at['metadata'] / 'loop.sass', SASS.encode())
    save(at['metadata'] / 'said.ptxas', PTXAS.encode())
    arrays = [('<f4', (2, 3), bytes(24)), ('<f2', (5,), bytes(10)), ('<u2', (), bytes(2)),
              ('|b1', (4, 0, 2), b''), ('<i4', (1, 1, 2), bytes(8)), ('<f8', (2,), bytes(16)),
              ('>f4', (1,), bytes(4)), ('|V2', (3,), bytes(6))]
    for number, (descr, shape, data) in enumerate(arrays):
        save(at['npy'] / f'{number}.npy', npy(descr, shape, data))
        save(at['npy'] / f'{number}-2.npy', npy(descr, shape, data, 2, 'True'))


if __name__ == '__main__':
    main()
