#!/usr/bin/env python3
"""reduce.py - makes a case that fails small, while it fails in the same way.

    reduce.py --tilec T --tilerun R FILE.tile [--seed N] [--attribute PLAN] [--seconds S] [-o OUT] -- FLAGS of tilec

Statements, branches, operands, attributes, parameters and sizes are taken away one after the other.  What
is left must be legal (the interpreter takes it) and fail as before: the same kind, and for crashes and
findings the same words.  judge.py does so with what it finds.
"""
import argparse
import re
import sys
import tempfile
import time

from case import Case
from judge import CrossedFailure, Failure, Illegal, Judge, Refused, Undecided, plain
from ways import Way

TOKEN = re.compile(r"\s+|//[^\n]*|\d+\.\d+(?:e-?\d+)?|\w+|\.\.|&&|\|\||[<>=!]=|<<|>>|[-+*/]=|.", re.S)
OPEN, CLOSE = "([{", ")]}"


def tokens(text):
    return [t for t in TOKEN.findall(text) if t.strip() and not t.startswith("//")]


def join(ts):
    """Text that the grammar takes; a line a statement."""
    made, depth = [], 0
    for i, t in enumerate(ts):
        if t == "}":
            depth -= 1
            made.append("\n" + "    " * depth if made and made[-1][-1:] in (";", "}", "{") else " ")
        made.append(t)
        if t == "{":
            depth += 1
        after = ts[i + 1] if i + 1 < len(ts) else ""
        if t in (";", "{", "}") and after not in (";", ")", ",", "else", "}"):
            made.append("\n" + "    " * depth)
        elif t not in ("(", "[", "@", ".", "<") and after not in (")", "]", ",", ";", ".", "(", "[", "<", ">") or t in ("in", "=", ","):
            made.append(" ")
    return "".join(made)


def matching(ts, i):
    depth = 0
    for j in range(i, len(ts)):
        depth += (ts[j] in OPEN) - (ts[j] in CLOSE)
        if depth == 0:
            return j
    raise ValueError


def statements(ts, lo, hi):
    """[(start, end)] of the statements in ts[lo:hi]."""
    made, i = [], lo
    while i < hi:
        j = i
        while j < hi and ts[j] not in (";", "{"):
            j = matching(ts, j) + 1 if ts[j] in "([" else j + 1
        if j >= hi:
            break
        if ts[j] == "{":
            j = matching(ts, j)
            while j + 1 < hi and ts[j + 1] == "else":
                j += 1
                while ts[j] != "{":
                    j += 1
                j = matching(ts, j)
        made.append((i, j + 1))
        i = j + 1
    return made


def blocks(ts):
    """[(open, close)] of all braces."""
    return [(i, matching(ts, i)) for i, t in enumerate(ts) if t == "{"]


def cut_statements(ts):
    """Candidates without some statements, many at once first."""
    for lo, hi in blocks(ts):
        body = statements(ts, lo + 1, hi)
        n = len(body)
        size = n
        while size >= 1:
            for at in range(n - size, -1, -max(1, size)):
                yield ts[:body[at][0]] + ts[body[at + size - 1][1]:]
            size //= 2
    for lo, hi in statements(ts, 0, len(ts)):  # functions, kernels, use
        yield ts[:lo] + ts[hi:]


def unwrap(ts):
    """A branch by one of its sides, a scope by what is in it, an attribute by nothing."""
    for lo, hi in blocks(ts):
        i = lo - 1
        while i >= 0 and ts[i] not in (";", "{", "}"):
            i -= 1
        head = ts[i + 1:lo]
        if head[:1] == ["if"] or head[:1] == ["else"] or (head[:1] == ["@"] and "if" in head):
            end = next((e for s, e in statements(ts, i + 1, len(ts)) if s == i + 1), hi + 1) \
                if head[:1] != ["else"] else hi + 1
            yield ts[:i + 1] + ts[lo + 1:hi] + ts[end:]
        if head[:1] == ["else"] or (hi + 1 < len(ts) and ts[hi + 1] == "else"):
            if head[:1] == ["else"]:
                yield ts[:i + 1] + ts[hi + 1:]
    for i, t in enumerate(ts):
        if t == "@":
            end = matching(ts, i + 2) + 1 if i + 2 < len(ts) and ts[i + 2] == "(" else i + 2
            yield ts[:i] + ts[end:]
        if t == "align":
            yield ts[:i] + ts[matching(ts, i + 1) + 1:]


OPERATORS = {"+", "-", "*", "/", "%", "&&", "||", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "<<", ">>", "as"}


def parts(ts, lo, hi):
    """The operands of ts[lo:hi], split at commas, or else at operators."""
    for by in ({","}, OPERATORS):
        made, at, i = [], lo, lo
        while i < hi:
            if ts[i] in OPEN:
                i = matching(ts, i) + 1
                continue
            if ts[i] in by and i > at:
                made.append((at, i))
                at = i + 1
            i += 1
        if made:
            return made + [(at, hi)]
    return []


def simpler(ts):
    """A group, a call or a right side by one of its operands; a smaller load."""
    for i, t in enumerate(ts):
        if t == "(":
            j = matching(ts, i)
            start = i
            while start > 0 and re.fullmatch(r"\w+", ts[start - 1]) and ts[start - 1] not in (
                    "load", "return", "in", "if", "for", "as", "let", "var", "align"):
                start -= 1
                break
            if start > 0 and ts[start - 1] in ("kernel", "fn"):
                continue
            inner = parts(ts, i + 1, j) or [(i + 1, j)]
            for a, b in inner:
                if b - a != j - i - 1 or start != i:
                    yield ts[:start] + ["("] + ts[a:b] + [")"] + ts[j + 1:]
            if start == i and j == i + 2:
                yield ts[:i] + [ts[i + 1]] + ts[j + 1:]
        elif t in ("=", "+=", "-=", "*=", "/="):
            j = i + 1
            while j < len(ts) and ts[j] not in (";", ",", ")", "{"):
                j = matching(ts, j) + 1 if ts[j] in OPEN else j + 1
            if j < len(ts) and ts[j] == ";":
                for a, b in parts(ts, i + 1, j):
                    yield ts[:i + 1] + ts[a:b] + ts[j:]
                for word in ("0.5", "1"):
                    if ts[i + 1:j] != [word]:
                        yield ts[:i + 1] + [word] + ts[j:]
        elif t == "if":
            j = i + 1
            while ts[j] != "{":
                j = matching(ts, j) + 1 if ts[j] in OPEN else j + 1
            for a, b in parts(ts, i + 1, j):
                yield ts[:i + 1] + ts[a:b] + ts[j:]
        elif t == ".." or t in ("+", "-") and ts[i + 1:i + 2] and re.fullmatch(r"\w+", ts[i + 1]):
            if t != "..":
                yield ts[:i] + ts[i + 2:]


def literals(ts):
    """Smaller numbers, everywhere at once and then one by one."""
    numbers = sorted({int(t) for t in ts if re.fullmatch(r"\d+", t)}, reverse=True)
    for n in numbers:
        for m in (1, 2, 8, 16, 32, 64):
            if m < n:
                yield [str(m) if t == str(n) else t for t in ts]
    for i, t in enumerate(ts):
        if re.fullmatch(r"\d+", t) and int(t) > 1 and ts[i - 1] != ".":
            yield ts[:i] + ["1"] + ts[i + 1:]


def drop_parameters(ts):
    """Parameters of kernels that nobody names."""
    for i, t in enumerate(ts):
        if t != "kernel":
            continue
        j = i + 2
        while ts[j] not in "(<":
            j += 1
        lists = []
        if ts[j] == "<":
            k = j
            while ts[k] != ">":
                k += 1
            lists.append((j, k))
            j = k + 1
        lists.append((j, matching(ts, j)))
        for lo, hi in lists:
            for a, b in parts(ts, lo + 1, hi) or []:
                made = ts[:a] + ts[b + 1:] if b < hi else ts[:a - 1] + ts[b:]
                yield made


class Reducer:
    def __init__(self, judge, case, way, seconds):
        self.judge, self.way = judge, way
        self.end = time.monotonic() + seconds
        self.how, self.tried, self.seen = case.how, 0, set()
        self.ts = tokens(case.text)
        self.wanted = self.fails(self.ts, self.how)

    def fails(self, ts, how):
        """How the program fails; None when it is right, or not legal."""
        text = Case.join(join(ts) + "\n", how)
        self.tried += 1
        try:
            case = Case(text)
            with tempfile.TemporaryDirectory(prefix="reduce") as folder:
                with open(f"{folder}/k.tile", "w", encoding="utf-8") as file:
                    file.write(case.text)
                done = self.judge.call([self.judge.tilec, "--emit=ast", f"{folder}/k.tile", "-o", f"{folder}/ast"])
                if done.returncode != 0:
                    return None
                self.judge.write(case, folder)
                if self.wanted_is("crash") and not self.judge.interpreter:
                    found = self.judge.outputs_of(case, folder, self.way)[0]
                else:
                    want = {tuple(case.defines.items()): self.judge.expect(case, folder)}
                    found = self.judge.try_way(case, folder, self.way, want)
        except Refused as refused:
            if refused.kind:
                return None
            found = Failure("refused", str(refused), self.way.flags, self.way.seed)
        except CrossedFailure as crossed:
            found = crossed.failure
        except (Undecided, Illegal, RuntimeError, KeyError, ValueError, IndexError, OSError, TypeError):
            return None
        except Exception as problem:  # of subprocess
            if "Timeout" not in type(problem).__name__:
                raise
            return None
        if not isinstance(found, Failure):
            return None
        words = "" if found.kind in ("wrong", "hang") else plain(re.sub(r"\b[XYZ]\d+\b", "#", found.text))
        if found.kind == "fault":  # the kind of finding
            words = " ".join(re.findall(r"[a-z-]+", words)[:6])
        return found.kind, words

    def wanted_is(self, kind):
        return getattr(self, "wanted", None) and self.wanted[0] == kind

    def take(self, candidates):
        """Takes the first candidate that still fails, again and again; True when any did."""
        any_taken, again = False, True
        while again and time.monotonic() < self.end:
            again = False
            for ts in candidates(self.ts):
                if time.monotonic() > self.end:
                    break
                key = " ".join(ts)
                if key in self.seen or ts == self.ts:
                    continue
                self.seen.add(key)
                if self.fails(ts, self.how) == self.wanted:
                    self.ts, again, any_taken = ts, True, True
                    break
        return any_taken

    def sizes(self):
        for kind in ("sizes", "scalars"):
            for name, value in list(self.how.get(kind, {}).items()):
                for smaller in (0, 1, 2, value // 2 if kind == "sizes" else 3, value - 1):
                    if time.monotonic() > self.end or smaller == value or (kind == "sizes" and smaller > value):
                        continue
                    how = {**self.how, kind: {**self.how[kind], name: smaller}}
                    if self.fails(self.ts, how) == self.wanted:
                        self.how = how
                        break
        for name in self.how.get("layout", {}):
            how = {**self.how, "layout": {n: v for n, v in self.how["layout"].items() if n != name}}
            if time.monotonic() < self.end and self.fails(self.ts, how) == self.wanted:
                self.how = how
        text = join(self.ts)
        for kind in ("sizes", "scalars", "data", "layout"):
            self.how = {**self.how, kind: {n: v for n, v in self.how.get(kind, {}).items()
                                           if re.search(rf"\b{n}\b", text)}}

    def run(self):
        if self.wanted is None:
            return None
        again = True
        while again and time.monotonic() < self.end:
            again = False
            for candidates in (cut_statements, unwrap, drop_parameters, simpler, literals):
                again |= self.take(candidates)
            self.sizes()
        return Case.join(join(self.ts) + "\n", self.how)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=1, help="of the simulator")
    parser.add_argument("--attribute", help="with @plan(..) of this in the text")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("-o", dest="out", default="-")
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:at])
    options.flags = sys.argv[at + 1:]
    with open(options.file, encoding="utf-8") as file:
        case = Case(file.read())
    way = Way(options.flags, options.seed, options.attribute)
    reducer = Reducer(Judge(options.tilec, options.tilerun, 20), case, way, options.seconds)
    text = reducer.run()
    if text is None:
        print("the case does not fail", file=sys.stderr)
        return 1
    text = f"// {reducer.wanted[0]}: {reducer.wanted[1]}\n// tilec {' '.join(options.flags)}\n" + text
    if options.out == "-":
        print(text)
    else:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)
    print(f"{len(reducer.ts)} tokens left, {reducer.tried} tried", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
