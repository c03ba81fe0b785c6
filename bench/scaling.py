"""scaling.py - attention over spread sequences on 8 to 1,024 GPUs, by the model of tilec.torch.scaling.

    python3 bench/scaling.py [--check]       writes the tables of docs/scaling.md and docs/figures/scaling.svg, or
                                             says whether they are what it would write

Nothing here is measured but MEASURED, with which the model is compared first.
"""
import argparse
import importlib.util
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE, PICTURE = os.path.join(ROOT, "docs", "scaling.md"), os.path.join(ROOT, "docs", "figures", "scaling.svg")
FOUND = importlib.util.spec_from_file_location("scaling_model", os.path.join(ROOT, "python", "tilec", "torch", "scaling.py"))
model = sys.modules["scaling_model"] = importlib.util.module_from_spec(FOUND)
FOUND.loader.exec_module(model)

# Two H200 of one host, NVLink, NCCL, causal, d 128, 16 heads of q and of k, bfloat16: TFLOPS a GPU (docs/pytorch.md)
MEASURED = [("ring", 32768, False, 681.4), ("ring", 32768, True, 605.3), ("ring", 131072, False, 711.3),
            ("ring", 131072, True, 629.2), ("ring", 262144, False, 717.9), ("ring", 262144, True, 649.1),
            ("Ulysses", 32768, False, 576), ("Ulysses", 32768, True, 567), ("Ulysses", 131072, False, 680),
            ("Ulysses", 131072, True, 624)]
WORLDS = (8, 16, 32, 64, 128, 256, 512, 1024)
ROWS = {"32k": 2**15, "128k": 2**17, "512k": 2**19, "1M": 2**20, "4M": 2**22, "10M": 10 * 2**20}
HEADS, KEY_HEADS = 64, 8


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def estimates(rows, world, links):
    shape = model.Shape(rows, HEADS, KEY_HEADS)
    every = [model.estimate(shape, world, h, links) for h in model.divisions(shape, world)]
    return min(every, key=lambda e: (e.seconds, e.heads)), every[0], every[-1]


def errors():
    made, links = [], model.Links()
    for way, rows, both, have in MEASURED:
        e = model.estimate(model.Shape(rows, 16, 16), 2, 1 if way == "ring" else 2, links)
        flops = 4 * 16 * rows * rows * 64 * (3.5 if both else 1)
        said = flops / 2 / (e.seconds if both else e.forward) * 1e-12
        made.append((way, f"{rows:,}", "forward and backward" if both else "forward", f"{have:.0f}", f"{said:.0f}",
                     f"{said / have - 1:+.1%}"))
    return table(("", "rows", "", "measured", "model", "off by"), made)


def named(e):
    return f"{e.heads} x {e.ring}"


def divisions(links):
    made = []
    for name, rows in ROWS.items():
        line = [name]
        for world in WORLDS:
            chosen, ring, most = estimates(rows, world, links)
            line.append(f"{named(chosen)}: {chosen.share:.2f} ({ring.share:.2f})")
        made.append(line)
    return table(("rows", *(f"{world:,} GPUs" for world in WORLDS)), made)


def amount(bytes_):
    return f"{bytes_ * 1e-9:.2g}" if bytes_ < 1e10 else f"{bytes_ * 1e-9:.0f}"


def duration(seconds):
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:,.0f}"


def details(links):
    made = []
    for name in ("128k", "1M", "10M"):
        for world in (8, 64, 1024):
            chosen, ring, most = estimates(ROWS[name], world, links)
            ways = {named(e): e for e in (ring, chosen, most)}
            for division, e in ways.items():
                made.append((name, f"{world:,}", division + (" (taken)" if e.heads == chosen.heads else ""),
                             amount(e.sent_inside), amount(e.sent_outside), duration(e.kernels), duration(e.forward),
                             duration(e.backward), f"{e.share:.2f}"))
    return table(("rows", "GPUs", "heads x ring", "GB in the node", "GB to others", "kernels, ms", "forward, ms", "backward, ms",
                  "share"), made)


def hidden():
    return model.Links(lost=0.0)


EIGHT = 910 / 801  # the rate of attention of e4m3 over that of bfloat16, forward, causal, d 128 (docs/performance.md): one GPU


def wire():
    """Keys in 16 bits and in 8 on their way; and all tensors in 8 bits, by a ring alone, forward."""
    links, made = model.Links(), []
    quick = model.Links(forward=links.forward * EIGHT)
    for name in ("128k", "1M"):
        for world in (8, 64, 256, 1024):
            chosen, ring, _ = estimates(ROWS[name], world, links)
            for e in (ring, chosen) if chosen.heads > 1 else (ring,):
                wide, narrow = (model.Shape(ROWS[name], HEADS, KEY_HEADS, wire=bytes_) for bytes_ in (2, 1))
                other = model.estimate(narrow, world, e.heads, links)
                eight = duration(model.estimate(narrow, world, 1, quick).forward) if e.heads == 1 else ""
                made.append((name, f"{world:,}", named(e), *(amount(model.key_bytes(shape, world, e.heads)) for shape in (wide, narrow)),
                             duration(e.forward), duration(other.forward), eight, duration(e.seconds), duration(other.seconds)))
    return table(("rows", "GPUs", "heads x ring", "GB of keys", "in e4m3", "forward, ms", "in e4m3", "float8 inputs", "both, ms", "in e4m3"), made)


def tables():
    links = model.Links()
    return {"errors": errors(), "divisions": divisions(links), "hidden": divisions(hidden()), "details": details(links), "wire": wire()}


def picture():
    """The share that the best division has, and dashed a ring alone, by GPUs."""
    wide, high, left, top = 640, 360, 50, 20
    colours = ("#c33", "#e80", "#393", "#36c", "#939", "#333")
    x = {world: left + (wide - left - 90) * i / (len(WORLDS) - 1) for i, world in enumerate(WORLDS)}

    def y(share):
        return top + (high - top - 40) * (1 - share)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" font-size="12">',
           f'<rect width="{wide}" height="{high}" fill="white"/>']
    for i in range(0, 11, 2):
        out.append(f'<path d="M{left} {y(i / 10):.1f}H{x[WORLDS[-1]]:.1f}" stroke="#ccc"/>'
                   f'<text x="{left - 8}" y="{y(i / 10) + 4:.1f}" text-anchor="end">{i / 10:.1f}</text>')
    for world in WORLDS:
        out.append(f'<text x="{x[world]:.1f}" y="{high - 22}" text-anchor="middle">{world:,}</text>')
    out.append(f'<text x="{x[WORLDS[3]]:.1f}" y="{high - 5}" text-anchor="middle">GPUs, 8 to a node; dashed: a ring alone</text>')
    ends = []
    for colour, (name, rows) in zip(colours, ROWS.items()):
        for index, more in ((0, 'stroke-width="2"'), (1, 'stroke-dasharray="4 3"')):
            shares = [estimates(rows, world, model.Links())[index].share for world in WORLDS]
            points = " ".join(f"{x[world]:.1f},{y(share):.1f}" for world, share in zip(WORLDS, shares))
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" {more}/>')
            if index == 0:
                ends.append((y(shares[-1]), name, colour))
    last = -20.0
    for at, name, colour in sorted(ends):
        last = max(at, last + 13)
        out.append(f'<text x="{x[WORLDS[-1]] + 6:.1f}" y="{last + 4:.1f}" fill="{colour}">{name} rows</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def page(text):
    """The page with its tables anew: what stands between a comment with a table's name and the next empty line."""
    for name, made in tables().items():
        pattern = re.compile(rf"(<!-- scaling: {name} -->\n)(?:\|[^\n]*\n)*")
        assert pattern.search(text), f"docs/scaling.md has no place for the table '{name}'"
        text = pattern.sub(lambda match: match.group(1) + made + "\n", text)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for path, make in ((PAGE, page), (PICTURE, lambda text: picture())):
        have = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                have = file.read()
        want = make(have)
        if check and have != want:
            sys.exit(f"{os.path.relpath(path, ROOT)} is not what bench/scaling.py makes: run it")
        if not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(want)


if __name__ == "__main__":
    main()
