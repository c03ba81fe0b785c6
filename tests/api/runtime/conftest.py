def pytest_addoption(parser):
    parser.addoption("--tilerun", required=True, help="the program to test")
    parser.addoption("--fake", required=True, help="the folder of the made-up libcuda.so.1")
    parser.addoption("--sim", default="", help="the folder of the libcuda.so.1 over the simulator")
    parser.addoption("--fixture", default="", help="emit_fixture; without it its header is not tested")
    parser.addoption("--tilec", default="", help="the compiler; without it headers are not tested")
    parser.addoption("--extension", default="", help="the folder of tilec._launch; without it tilec.torch is not tested")
    parser.addoption("--library", default="", help="libtilec, shared")
