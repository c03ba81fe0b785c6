"""error.py - what tilec.torch raises."""


class Error(RuntimeError):
    """A call that a kernel cannot run, or a call of the driver that failed, in words."""
