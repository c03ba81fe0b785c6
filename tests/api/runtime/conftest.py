def pytest_addoption(parser):
    parser.addoption("--tilerun", required=True, help="the program to test")
    parser.addoption("--fake", required=True, help="the folder of the made-up libcuda.so.1")
    parser.addoption("--tilec", default="", help="the compiler; without it headers are not tested")
