"""scaling.py - what attention over spread sequences is estimated to take: bytes, seconds, and the best division.

A process computes with one part of the keys while the next comes, so a step takes the longer of both; heads that are exchanged
for rows are waited for.  docs/scaling.md says what the numbers below were measured on, and how wrong the estimates are.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Links:
    """Processes side by side in nodes of so many, a GPU each.  What is measured is of an H200 with NVLink, in bfloat16."""
    node: int = 8
    inside: float = 350e9  # bytes a second that one sends and receives at the same time: measured
    outside: float = 45e9  # to other nodes, 400 Gb/s for each GPU less a tenth: assumed
    latency: float = 20e-6  # seconds that a message takes at least: fitted
    forward: float = 740e12  # operations a second of the kernels on long sequences: measured
    backward: float = 627e12
    half_rows: float = 300.0  # rows of a step with which they have half of that: fitted
    full: float = 132 * 128.0  # rows of all heads that fill all multiprocessors once
    beside: float = 20e-6  # seconds that a step takes beside: fitted
    memory: float = 3.2e12  # bytes a second of copies and merges
    lost: float = 0.5  # of the time of a message, what kernels beside it lose: fitted

    def link(self, near):
        return self.inside if near else self.outside


@dataclass(frozen=True)
class Shape:
    """Of the whole: rows of the sequence, heads of q and of k, head dimension, in 16 bits an element; `wire`: the bytes of one of
    K or V on its way in a ring."""
    rows: int
    heads: int
    key_heads: int
    head_dim: int = 128
    causal: bool = True
    wire: int = 2


@dataclass(frozen=True)
class Estimate:
    """Of the process that sends most: seconds forward and backward, bytes that it sends to others of its node and to other
    nodes, and the seconds that its part of the work takes at the rate that kernels have on long sequences."""
    heads: int
    ring: int
    forward: float
    backward: float
    sent_inside: float
    sent_outside: float
    kernels: float

    @property
    def seconds(self):
        return self.forward + self.backward

    @property
    def share(self):
        """Of the rate that kernels have on long sequences."""
        return self.kernels / self.seconds


def divisions(shape, world):
    """How many processes may exchange heads."""
    return [h for h in range(1, world + 1) if world % h == 0 and shape.heads % h == 0
            and (shape.key_heads % h == 0 or h % shape.key_heads == 0)]


def key_bytes(shape, world, heads):
    """Of K and V that a process sends in a ring, forward."""
    ring = world // heads
    return (ring - 1) * 2 * max(shape.key_heads / heads, 1) * shape.rows / ring * shape.head_dim * shape.wire


def estimate(shape, world, heads, links):
    """With `heads` processes that exchange heads for rows."""
    ring, d = world // heads, shape.head_dim
    rows = shape.rows / ring  # that such a group has
    mine, keys = shape.heads / heads, max(shape.key_heads / heads, 1)
    near = ring == 1 or world <= links.node  # of a ring that crosses nodes, every step waits for the crossing
    one = 2 * rows * d  # bytes of a head
    # under a causal mask each step computes half of a square
    pairs = mine * rows * rows * (0.5 if shape.causal else 1.0)
    filled = rows / (rows + links.half_rows) * min(1.0, rows * mine / links.full)
    step_forward = 4 * d * pairs / (links.forward * filled)
    step_backward = 10 * d * pairs / (links.backward * filled)
    inside = outside = 0.0

    def message(bytes_, is_near):
        nonlocal inside, outside
        if is_near:
            inside += bytes_
        else:
            outside += bytes_
        return links.latency + bytes_ / links.link(is_near) if bytes_ else 0.0

    def under(kernels, transfer):
        """Of a step whose kernels have a message beside them."""
        return max(kernels + links.lost * transfer, transfer)

    def exchange(*counts):
        """Heads for rows, or back: what others get, inside the node and outside; copies before and behind it."""
        if heads == 1:
            return 0.0
        bytes_ = one / heads * sum(counts)  # my rows, all heads
        local = min(heads, links.node)
        taken = [message(bytes_ * share, is_near) for share, is_near in
                 (((local - 1) / heads, True), ((heads - local) / heads, False)) if share]
        return max(taken) + 4 * bytes_ / links.memory + links.latency

    replicas = keys * heads  # heads of k that leave, some of them several times
    key_bytes = 2 * keys * one  # of K and V
    wire_bytes = key_bytes * shape.wire / 2
    # of 8 bits: the greatest of each head is found, then all are read and written once; what comes is read and written once
    encode, decode = ((key_bytes + 1.5 * key_bytes) / links.memory, 1.5 * key_bytes / links.memory) if shape.wire < 2 and ring > 1 else (0, 0)
    merge = rows * mine * d * 10 / links.memory  # O in float32 there and back, what comes to it
    forward = exchange(shape.heads, 2 * replicas) + exchange(shape.heads) + links.beside + encode
    backward = exchange(shape.heads) + exchange(shape.heads, 2 * replicas) + links.beside + (encode if ring > 2 else 0.0)
    sum_bytes = key_bytes * (2 if ring > 2 else 1)
    for t in range(ring):
        transfer = message(wire_bytes, near) if t + 1 < ring else 0.0
        forward += under(step_forward, transfer) + (merge * (0.5 if shape.causal else 1.0) + links.beside + decode if t else 0.0)
        # the other keys first, their sums go on while the next come, and come home under my own
        transfer = (message(wire_bytes, near) if t + 2 < ring else 0.0) + (message(sum_bytes, near) if 0 < t < ring else 0.0)
        backward += under(step_backward, transfer) + (sum_bytes * 2 / links.memory + links.beside + decode if t else 0.0)
    return Estimate(heads, ring, forward, backward, inside, outside, ring * (step_forward + step_backward) * filled)


def best(shape, world, links):
    """The quickest division, forward and backward; of equals the one with the fewest exchanged heads."""
    return min((estimate(shape, world, heads, links) for heads in divisions(shape, world)), key=lambda e: (e.seconds, e.heads))
