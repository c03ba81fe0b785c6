"""case.py - what is measured: one shape of attention, and short names for many."""

DIMS = (64, 128, 256)
TOKENS = 16384  # of a case: batch * length
WIDTH = 2048    # heads * head dim
MASKS = {"full": 0, "causal": 1}


class Case:
    """direction:head dim[/value dim]:batch:heads[/key heads]:length[/key length]:causal[:dtype]"""

    def __init__(self, text):
        try:
            parts = text.split(":")
            self.direction = parts[0]
            self.d, self.dv = self.pair(parts[1])
            self.batch = int(parts[2])
            self.heads, self.kv_heads = self.pair(parts[3])
            self.sq, self.sk = self.pair(parts[4])
            self.causal = bool(int(parts[5]))
            self.dtype = parts[6] if len(parts) > 6 else "bf16"
            if self.direction not in ("fwd", "bwd") or self.dtype not in ("bf16", "f16") or len(parts) > 7:
                raise ValueError
        except (ValueError, IndexError):
            raise SystemExit(f"case '{text}': expected {Case.__doc__}") from None
        self.text = text

    @staticmethod
    def pair(text):
        first, _, second = text.partition("/")
        return int(first), int(second or first)

    def groups_fill(self):
        """Whether the queries of a group's heads in the same tiles need fewer of these: as tilec.torch asks before it looks
        at the estimates of attention_grouped."""
        group = self.heads // self.kv_heads
        return 64 % group == 0 and any(-(-self.sq * group // tile) < group * -(-self.sq // tile) for tile in (128, 192))

    def packs(self):
        """Of how many heads of a group rows may be in a tile: of one, and of all where that is a whole number of rows."""
        group = self.heads // self.kv_heads
        return {1, group} if 64 % group == 0 else {1}

    def shares_keys(self, sm_count=132):
        """Whether programs may share keys: as tilec.torch asks before it looks at the estimates of attention_split."""
        return self.sk >= 512 and -(-self.sq // 64) * self.heads * self.batch < 4 * sm_count

    def flops(self):
        forward = 2.0 * self.batch * self.heads * self.sq * self.sk * (self.d + self.dv)
        return forward * (0.5 if self.causal else 1.0) * (2.5 if self.direction == "bwd" else 1.0)

    def tflops(self, milliseconds):
        return self.flops() / milliseconds / 1e9

    def __str__(self):
        def pair(a, b):
            return f"{a}" if a == b else f"{a}/{b}"
        return (f"{self.direction} d={pair(self.d, self.dv)} b={self.batch} "
                f"h={pair(self.heads, self.kv_heads)} s={pair(self.sq, self.sk)} "
                f"{'causal' if self.causal else 'full'} {self.dtype}")


def shaped(direction, d, length, causal, dtype):
    """The case of this length with TOKENS tokens and heads that are WIDTH wide together."""
    return Case(f"{direction}:{d}:{max(1, TOKENS // length)}:{max(1, WIDTH // d)}:{length}:{int(causal)}:{dtype}")


def number(text):
    """4096, 4k"""
    return int(text[:-1]) * 1024 if text.endswith("k") else int(text)


def selected(text, lengths, dtype):
    """DIRECTIONS:dDIMS:MASKS:LENGTHS, each a list with commas, those at the end may be left out:
    fwd:d128:causal:4k,16k"""
    fields = text.split(":")
    fields += [""] * (4 - len(fields))
    try:
        directions = fields[0].split(",") if fields[0] else ["fwd", "bwd"]
        dims = [int(d.removeprefix("d")) for d in fields[1].split(",")] if fields[1] else list(DIMS)
        masks = [MASKS[m] for m in fields[2].split(",")] if fields[2] else [0, 1]
        lengths = [number(s) for s in fields[3].split(",")] if fields[3] else lengths
        if len(fields) != 4 or not set(directions) <= {"fwd", "bwd"}:
            raise ValueError
    except (ValueError, KeyError):
        raise SystemExit(f"--cases {text}: expected {selected.__doc__}") from None
    return [shaped(r, d, s, c, dtype) for r in directions for d in dims for c in masks for s in lengths]
