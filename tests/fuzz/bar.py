"""bar.py - a progress bar on stderr: on a terminal, from the second second on, taken away at the end."""
import sys
import time

WIDTH = 30


class Bar:
    def __init__(self, quiet=False):
        self.on, self.begun, self.last = not quiet and sys.stderr.isatty(), time.monotonic(), 0.0

    def show(self, done, of, rest=""):
        now = time.monotonic()
        if not self.on or now - self.begun < 1 or now - self.last < 0.1:
            return
        self.last = now
        marks = ("#" * int(WIDTH * min(done / of, 1.0))).ljust(WIDTH, ".")
        print(f"\r[{marks}] {rest}\x1b[K", end="", file=sys.stderr, flush=True)

    def clear(self):
        """Before a line is printed, and at the end."""
        if self.last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self.last = 0.0
