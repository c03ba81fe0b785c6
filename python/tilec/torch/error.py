"""error.py - what tilec.torch raises."""


class Error(RuntimeError):
    """A call that a kernel cannot run, or a call of the driver that failed, in words."""


class Unsupported(Error, NotImplementedError):
    """What PyTorch may be asked for and kernels have not, as it says so itself."""
