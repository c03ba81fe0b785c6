#!/usr/bin/env python3
"""random_gpu.py - the random programs of tests/fuzz on the GPU, against the reference interpreter.

    random_gpu.py --tilec T --tilerun R [--first SEED] [--count N | --minutes M] [--jobs J] [--keep FOLDER]
                  [--log FILE] [--reduce SECONDS] [--device gpu|sim]

Each program runs as sm_80's text, as sm_90's (with warp groups, where it has a plan) and as plain sm_90's.
Every job keeps one tilerun with an open GPU; after a failure, which may have taken the context along, or
a run that does not end, it starts another.
"""
import os
import select
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ.get("TILEC_FUZZ", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz")))
import judge  # noqa: E402
from ways import Way  # noqa: E402


class GpuJudge(judge.Judge):
    child, device, texts = None, "gpu", False

    def start(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen([self.tilerun, "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=self.errors)

    def stop(self):
        if self.child:
            self.child.kill()
            self.child.wait()
            self.child.stdin.close()
            self.child.stdout.close()
            self.errors.close()
        self.child = None

    def execute(self, command, seed):
        if self.child is None:
            self.start()
        self.child.stdin.write((" ".join(command) + f" --device {self.device}\n").encode())
        self.child.stdin.flush()
        said, status = b"", None
        # the driver's compiler takes its time, too: more than a minute for 60,000 lines on an idle processor
        with open(command[0], "rb") as ptx:
            limit = self.timeout + sum(1 for _ in ptx) / 150
        while status is None:
            if not select.select([self.child.stdout], [], [], limit)[0]:
                self.stop()
                return None
            part = os.read(self.child.stdout.fileno(), 65536)
            said += part
            last = said.rstrip(b"\n").split(b"\n")[-1]
            if not part:
                status = -1
            elif said.endswith(b"\n") and last.startswith(b"status "):
                status = int(last.split()[1])
        text = said.decode(errors="replace")
        if status != 0:
            self.errors.seek(0)
            text = self.errors.read() + text
            self.stop()
        return status, text

    def ways(self, r, number, every):
        for flags in (["sm_80"], ["sm_90"], ["sm_90", "--plan=none"]):
            yield Way(["-arch", *flags], 0)


def begin(options):
    judge.work.judge = GpuJudge(options.tilec, options.tilerun, options.timeout)
    judge.work.judge.device = options.device


def main():
    parser = judge.arguments()
    parser.add_argument("--device", default="gpu")
    options = parser.parse_args()
    options.begin, options.all = begin, False
    return judge.many(options)


if __name__ == "__main__":
    sys.exit(main())
