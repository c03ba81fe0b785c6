[Taichi] version 1.7.4, llvm 15.0.4, commit b4b956fd, linux, python 3.11.7
[Taichi] Starting on arch=x64
0.05 fixed(6, max 2): 0.0625 unsigned fixed(4, max 1): 0.0625 float(5, 6): 0.0498046875
1.9 fixed(6, max 2): 1.875 unsigned fixed(4, max 1): 0.875 float(5, 6): 1.90625
1.97 fixed(6, max 2): -2.0 unsigned fixed(4, max 1): 0.0 float(5, 6): 1.96875
1.99 fixed(6, max 2): -2.0 unsigned fixed(4, max 1): 0.0 float(5, 6): 2.0
2 fixed(6, max 2): -2.0 unsigned fixed(4, max 1): 0.0 float(5, 6): 2.0
2.5 fixed(6, max 2): -1.5 unsigned fixed(4, max 1): 0.5 float(5, 6): 2.5
-2 fixed(6, max 2): -2.0 unsigned fixed(4, max 1): 0.9375 float(5, 6): -2.0
-2.5 fixed(6, max 2): 1.5 unsigned fixed(4, max 1): 0.9375 float(5, 6): -2.5
100 fixed(6, max 2): 0.0 unsigned fixed(4, max 1): 0.0 float(5, 6): 100.0
1 fixed(6, max 2): 1.0 unsigned fixed(4, max 1): 0.0 float(5, 6): 1.0
-0.05 fixed(6, max 2): -0.0625 unsigned fixed(4, max 1): 0.9375 float(5, 6): -0.0498046875
nan fixed(6, max 2): 0.0 unsigned fixed(4, max 1): 0.9375 float(5, 6): 1.625
