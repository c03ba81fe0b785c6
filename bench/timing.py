"""timing.py - times contenders against each other, in an order shuffled in every repetition, since a
kernel that follows a cooler one gets more clock; 256 MB are written before each timed call.

burst       4 ms idle and a short spin on the GPU before each call: a cool chip, at its full clock
sustained   no pause: a chip at its power limit.  PyTorch's own calls get a short spin, or the time the
            host needs for them would be measured; tilec's and the yardsticks' launches need none
spin        a short spin before each call, no idle time
"""

import subprocess
import threading
import time

import torch

MODES = ("burst", "sustained", "spin")
IDLE = 0.004  # seconds
FLUSH_BYTES = 256 << 20


class Watch:
    """SM clock and power while something runs, from nvidia-smi in the background."""

    def __init__(self):
        self.samples = []
        try:
            self.process = subprocess.Popen(
                ["nvidia-smi", "-i", str(torch.cuda.current_device()), "-lms", "50",
                 "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            self.process = None
            return
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                clock, power = (float(part) for part in line.split(","))
                self.samples.append((clock, power))
            except ValueError:
                pass

    def since(self, first):
        """Medians (MHz, W) of the samples from number `first` on."""
        samples = self.samples[first:]
        if not samples:
            return 0.0, 0.0
        return tuple(sorted(column)[len(column) // 2] for column in zip(*samples))

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def measure(contenders, mode, flush, order, reps, warmups, spin, warm_seconds=0.4, announce=lambda name: None):
    """{name: [milliseconds of each repetition]}.  `order` is a random.Random; `spin` are cycles;
    `announce` is told what runs alone in the first warm-up."""
    names = list(contenders)
    times = {name: [] for name in names}
    for name in names:
        announce(name)
        contenders[name].run()
        torch.cuda.synchronize()
    announce(None)
    torch.cuda.synchronize()

    def cycle():
        order.shuffle(names)
        events = []
        for name in names:
            if mode == "burst":
                torch.cuda.synchronize()
                time.sleep(IDLE)
            flush.zero_()
            if mode != "sustained":
                torch.cuda._sleep(spin)
            elif contenders[name].kind == "peer":
                torch.cuda._sleep(spin * 3 // 4)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            contenders[name].run()
            stop.record()
            events.append((name, start, stop))
        return events

    before = []  # the host runs two cycles ahead, no more
    began, done = time.perf_counter(), 0
    while done < warmups or (mode == "sustained" and time.perf_counter() - began < warm_seconds):
        before.append(cycle())
        done += 1
        if len(before) > 2:
            before.pop(0)[-1][2].synchronize()
    measured = []
    for _ in range(reps):
        measured.append(cycle())
        if len(measured) > 2:
            measured[-3][-1][2].synchronize()
    torch.cuda.synchronize()
    for events in measured:
        for name, start, stop in events:
            times[name].append(start.elapsed_time(stop))
    return times
