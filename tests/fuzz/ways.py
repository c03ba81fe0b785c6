"""ways.py - the ways in which one program is compiled, and what tilec may refuse.

Passes and the keys of plans are those that tilec itself lists: a pass that is new is switched off in turn
from then on, and a key that no row here knows is an error.
"""
import re
import subprocess

# The values of a plan's keys.
PLAN_KEYS = {"consumers": (1, 4), "stages": (1, 4), "q_stages": (1, 2), "persistent": (0, 1), "dynamic": (0, 1), "clc": (0, 1),
             "pipelined": (0, 1), "pingpong": (0, 1), "cooperative": (0, 1), "cluster": (2, 2),
             "blocks": (1, 2), "correction": (0, 1)}
ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
MOSTLY, TENSOR = ["sm_80", "sm_90", "sm_90", "sm_100"], ["sm_100", "sm_100", "sm_103"]

# What a legal program may be refused for, whatever the flags: limits that the documents name.
LIMITS = [r"needs \d+ bytes of shared memory, but \w+ gives a block \d+", r"needs \d+ shared buffers; \d+ are supported",
          r"a tile of several dimensions is used in two ways, for which it would have to be laid out anew",
          r"several dimensions become a pack beside a list of places",
          r"padding that comes from the outer part of a pack, or of an unfolded axis, alone",
          r"a dimension of one element goes beside another one that may be padding", r"the first dimension that products go over \w+"]
# What a plan that somebody gives may be refused for: the text behind "cannot have this plan:".
PLAN_LIMITS = [
    # nothing to share
    r"its loop has no products", r"its products are in no loop", r"it has no products",
    r"an atomic statement gives what was there, which the threads of a block learn together",
    r"a range stands in a subscript whose indices lie apart",
    r"there are two loops with products", r"@warps fixes the warps of a block",
    r"there are products in a loop and around it", r"the loop around the main loop is split",
    r"there are products outside of the main loop, or in a branch or loop inside it",
    r"the products are in a branch", r"a product stands in a branch of the main loop, or in a loop in it",
    r"an operand is made of a product and of the transpose of one", r"a load reads what the program may have written before",
    r"the bounds of a loop depend on data", r"there are too many (tiles|statistics of products|products in one loop)",
    r"a tile is loaded between the loops around the main loop",
    r"memory is written before the main loop, or in a loop around it",
    r"a program may write what it has read or written before",
    # what lies in memory
    r"a tensor has more than 5 dimensions or rows that are not aligned to 16 bytes", r"a tensor has too many dimensions",
    r"a tile does not run along the tensor's last dimension", r"a tile has some parts of a pack of ranges, but not all",
    r"a range ends elsewhere than (the tensor that a product reads.*|its tensor)", r"where a tile ends depends on data.*",
    r"the kernel writes a tensor that its products read", r"a tile is an operand of a product and used otherwise, too",
    r"a tile has more than 256 rows", r"the place of a tile depends on data",
    r"a tile does not begin at a multiple of 16 bytes", r"TMA can not add to that tensor",
    # products
    r"a product does not run along the (warp groups'|main loop's) axis",
    r"a product adds up over what the warp groups have apart", r"warp groups have no product of these types",
    r"products of its type read an operand only if it lies along the inner dimension",
    r"products of its type take the left operand from shared memory only, and it is computed",
    r"the left operand of a product is computed, and has no 64 rows",
    r"a product of \w+ is added to others in f32 after \d+ of its inner dimension: make its tiles no longer, or say `fast = true`",
    r"a product over all warp groups takes instructions that read both operands in shared memory",
    r"a tile is loaded from a list of places",
    r"a product (over all warp groups|in tensor memory) is added at a list of places",
    r"a product over all warp groups (is added to places that differ|can not be shared out between them|"
    r"has other operands than it may)", r"products over all warp groups have left operands of different types",
    r"a program past the end of the grid would add to a product over all warp groups: the rows of its tile do not end where the "
    r"grid's axis does",
    r"a sum over all warp groups has 64 rows, and up to 256 columns each",
    r"a product of a warp group has a multiple of 64 rows, and a multiple of \d+ columns up to 256",
    r"the right operand of a product is computed, not loaded",
    r"a computed operand's inner dimension is no multiple of \d+",
    r"an inner dimension is no multiple of \d+ and not the whole of a tensor's",
    r"a product of four warps has 64 rows",
    # registers and shared memory
    r"one stage of its tiles takes \d+ KiB of shared memory of \d+, its sums and results \d+ registers of a thread of \d+: make its tiles smaller",
    r"a product has more columns than the registers of so many warp groups hold at once",
    r"a product has more rows and columns than the registers of a warp group hold",
    # a tile that warp groups divide
    r"one warp group has nobody to divide a tile with", r"parts of tiles take instructions that read both operands in shared memory",
    r"the main loop's tiles have no 64 rows for each warp group",
    r"the main loop has a loop or branch in it", r"the main loop carries more than sums",
    r"a pack of ranges or a list of places lies along the loop's axis", r"a tile is (reduced|scanned) along the main loop's axis",
    r"memory is written in a loop that all warp groups go through together",
    r"warp groups that share out a product do not have the same iterations",
    r"all warp groups would write the same", r"what (meets a part of a tile|a sum begins with) can not be divided with it",
    r"a sum of all warp groups is used for more than being stored",
    r"the columns of a sum can not be divided among the warp groups",
    r"the (left operand of a sum of all warp groups is not computed|right operand of a sum of all warp groups is not "
    r"just loaded)",
    # what a key asks for
    r"pipelined=1 does not go with a product that the warp groups share out in each iteration",
    r"pipelined=1 can not be had: (a product needs the result of one that would run under arithmetic|"
    r"the result of a first product is used behind a second one|a branch writes to memory what is made of a second product)",
    r"pipelined=1 needs products that can run while the next iteration's arithmetic does, and this loop has none",
    r"pipelined=1 needs \d+ registers of a thread for results of products and \d+ others, and there are \d+",
    r"pingpong=1 needs (more than one warp group|a pipelined loop, and this one is not|"
    r"warp groups that all have the same iterations)",
    r"pingpong=1 does not go with the products that this loop's warp groups share out",
    r"dynamic=1 (does not go with cluster=2: the blocks of a pair take the same tile|needs persistent=1)",
    r"dynamic=1 is for programs that differ in length, and these do not",
    r"clc=1: \w+ has no cluster launch control", r"clc=1 needs persistent=1",
    r"correction=1 is for (targets on which sums of products lie in tensor memory|a chain of products, without pairs of blocks)",
    r"no sum, or more than one, has its rows multiplied in front of a product with a computed operand",
    r"a sum does not begin with what another role could compute",
    r"what is made of a sum behind the loop takes more than vectors of rows",
    r"blocks=2 is for (targets whose warp groups have registers of their own number|blocks of one computing warp group, not in "
    r"clusters)", r"the results of products take more registers than a warp group has with blocks=2",
    r"cluster=2: (neighbouring blocks do not have the same iterations|"
    r"products of two blocks are for sums and chains of products, not for a graph of them|"
    r"a product of two blocks has \d+ rows of each, and columns in steps of \d+ up to \d+|"
    r"the right operand of a product can not be halved|memory is written in a loop whose products are those of two blocks|"
    r"half of a tile that may begin before its tensor has no multiple of 32 columns|"
    r"the right operand of a product is not the same for neighbouring blocks|"
    r"the target has no products of two blocks|neighbouring blocks add to different places|"
    r"what is added to memory has no halves of whole pieces of 16 bytes|"
    r"a block past the end of the grid would add to what its neighbour adds: the rows that the product adds up over do not end where "
    r"the grid's axis does)",
]


class Way:
    """Flags of tilec, a seed of the simulator, and a plan that stands in the text (@plan)."""

    def __init__(self, flags, seed, plan=None):
        self.flags, self.seed, self.plan = flags, seed, plan


class Ways:
    def __init__(self, tilec):
        said = subprocess.run([tilec, "--list-passes"], capture_output=True, text=True, check=True).stdout
        self.passes = re.findall(r"^(\S+)\s.* (?:-O 1\+|only -f)", said, re.M)  # those that -f and -fno- switch
        self.tile_ir = re.findall(r"^(\S+)\s+tile IR ", said, re.M)
        said = subprocess.run([tilec, "--help"], capture_output=True, text=True, check=True).stdout
        self.keys = re.findall(r"(\w+)=", re.search(r"^  --plan=LIST .*$", said, re.M)[0].split("warp groups:")[1])
        if not self.passes or not self.tile_ir or set(self.keys) != set(PLAN_KEYS):
            raise RuntimeError(f"tilec lists passes or keys of plans that ways.py does not know: {self.keys}")

    def plan(self, r):
        some = sorted(r.permutation(len(self.keys))[:int(r.integers(1, 4))])
        values = [(self.keys[k], PLAN_KEYS[self.keys[k]]) for k in some]
        return ",".join(f"{key}={int(r.integers(lo, hi + 1))}" for key, (lo, hi) in values)

    def of(self, r, number, every):
        """The ways of one program; `number` goes through the passes from program to program."""
        pick = lambda items: items[int(r.integers(len(items)))]
        way = lambda arch, *flags: Way(["-arch", arch, *flags], int(r.integers(1, 1000)))
        n = len(self.passes)
        yield way("sm_80", "-O0")
        for arch in ARCHS:  # what is the same text on two of them is run once
            yield way(arch)
        if r.random() < 0.5:
            yield way("sm_90", "-O0") if r.random() < 0.3 else way("sm_90", "--plan=none")
        if r.random() < 0.3:
            yield way(pick(ARCHS), "-O0")
        if every:
            for k, name in enumerate(self.passes):  # another target from pass to pass and from program to program
                yield way(ARCHS[(number + k) % len(ARCHS)], f"-fno-{name}")
                yield way(ARCHS[(number + k + 1) % len(ARCHS)], "-O0", f"-f{name}")
        else:  # each in turn
            yield way(pick(MOSTLY), f"-fno-{self.passes[number % n]}")
            if r.random() < 0.5:
                yield way(pick(ARCHS), "-O0", f"-f{self.passes[number * 7 % n]}")
        yield way("sm_90", "--plan=" + self.plan(r))
        if r.random() < 0.4:
            made = way("sm_90")
            made.plan = self.plan(r) if r.random() < 0.9 else "none"
            yield made
        if r.random() < 0.6:
            flags = [f"--warps={pick([1, 2, 4, 8, 16])}"] if r.random() < 0.7 else []
            yield way(pick(ARCHS), *flags, *([f"--stages={int(r.integers(1, 5))}"] if r.random() < 0.5 else []))
        if r.random() < 0.3:  # blocks that multiply together, where there are such products
            yield way(pick(TENSOR), f"--plan=consumers={int(r.integers(1, 3))},stages={int(r.integers(1, 5))},"
                                    f"persistent={int(r.random() < 0.7)},cluster=2")
        if r.random() < 0.5:
            yield way(pick(TENSOR), "--plan=" + self.plan(r))


def with_plan(text, plan):
    """The text with @plan before its kernels, in place of one they have; other attributes of a kernel stay."""
    text = re.sub(r"^@plan\([^)]*\)\s*", "", text, flags=re.M)
    return re.sub(r"^((?:@\w+(?:\([^)]*\))?\s*)*)kernel\b", rf"@plan({plan})\n\1kernel", text, flags=re.M)


def refusal(message, way):
    """Of a refused program: "limit" (a document names it), "plan" (what was asked for cannot be had), "unproved",
    "unbuilt" (of a plan that was given), or None: nothing that may be."""
    errors = re.findall(r"error: (.*?)(?: \[E-[A-Z-]+\])?$", message, re.M)
    given = way.plan or any(f.startswith("--plan=") for f in way.flags) or re.search(r"^ *\d+ \| @plan\(", message, re.M)
    kinds = set()
    for text in errors:
        if any(re.search(x, text) for x in LIMITS):
            kinds.add("limit")
        elif given and "-Werror=unproved" in text:
            kinds.add("unproved")
        elif given and "its roles cannot be built" in text:
            kinds.add("unbuilt")
        else:
            about = re.search(r"can ?not have this plan: (.*)|^no plan for warp groups in kernel '\w+': (.*)", text)
            reason = about and (about[1] or about[2])
            known = given and reason and any(re.fullmatch(x, reason) for x in PLAN_LIMITS)
            kinds.add("plan" if known else None)
    for kind in (None, "unbuilt", "unproved", "plan", "limit"):
        if kind in kinds:
            return kind
    return None

