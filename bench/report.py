"""report.py - what bench.py measured against the yardsticks, as a table and CSV; plots, as PNG and SVG."""

import csv


def read_anchors(path):
    """{(direction, head dim, heads, length, batch, causal): ratio of FA3 to cuDNN}, as others measured it."""
    if not path:
        return {}
    try:
        with open(path, newline="") as file:
            return {(r["dir"], *(int(r[c]) for c in ("hd", "heads", "seqlen", "batch", "causal"))):
                    float(r["fa3_over_cudnn"]) for r in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise SystemExit(f"--anchors {path}: {type(error).__name__}: {error}") from None


def compared(rows, modes, anchors):
    """One row a case and mode: the best of ours and of the yardsticks, cuDNN, FA2, and their ratios."""
    groups = {}
    for r in rows:
        key = tuple(r[c] for c in ("dir", "hd", "heads", "seqlen", "batch", "causal"))
        groups.setdefault((key, r["mode"]), []).append(r)
    table = []
    for key, mode in sorted(groups, key=lambda g: (g[0][0] != "fwd", g[0][1], g[0][5], g[0][2:], modes.index(g[1]))):
        group = groups[key, mode]

        def best(chosen):
            return min((r for r in group if chosen(r)), key=lambda r: float(r["median_ms"]), default=None)

        def speed(row):
            return float(row["tflops"]) if row else None
        ours, ruler = best(lambda r: r["kind"] == "ours"), best(lambda r: r["kind"] == "yardstick")
        cudnn, fa2 = (best(lambda r, n=n: r["name"] == n) for n in ("cudnn", "fa2"))

        def ratio(a, b):
            return float(b["median_ms"]) / float(a["median_ms"]) if a and b else None
        table.append({
            "dir": key[0], "d": key[1], "heads": key[2], "s": key[3], "b": key[4],
            "mask": "causal" if key[5] else "full", "mode": mode,
            "ours": speed(ours), "yardstick": speed(ruler), "cudnn": speed(cudnn), "fa2": speed(fa2),
            "over_yardstick": ratio(ours, ruler), "over_cudnn": ratio(ours, cudnn),
            "fa3_over_cudnn": anchors.get(key), "our_name": ours["name"] if ours else "",
            "yardstick_name": ruler["name"] if ruler else ""})
    return table


def against_yardsticks(rows, modes, anchors, base, say=print):
    """Prints the table and writes it to base-table.csv."""
    table = compared(rows, modes, anchors)
    columns = [("ours", "ours", ".1f"), ("yardst", "yardstick", ".1f"), ("cuDNN", "cudnn", ".1f"),
               ("FA2", "fa2", ".1f"), ("/yardst", "over_yardstick", ".3f"), ("/cuDNN", "over_cudnn", ".3f")]
    if anchors:
        columns.append(("FA3/cuDNN, quoted", "fa3_over_cudnn", ".3f"))
    say(f"{'TFLOPS':<34}" + "".join(f" {title:>7}" for title, _, _ in columns))
    for r in table:
        say(f"{r['dir']} d{r['d']:<4}{r['mask']:<7}s={r['s']:<6}h={r['heads']:<3}{r['mode']:<9}"
            + "".join(f" {'-' if r[name] is None else format(r[name], form):>7}" for _, name, form in columns))
    if table:
        with open(base + "-table.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)


def plot(rows, modes, path):
    """TFLOPS over the length, a panel for each direction, head dim and mask; a file for each mode."""
    for mode in modes:
        best = {}  # of the yardsticks one line: the best at each point
        for r in rows:
            if r["mode"] == mode:
                name = "best yardstick" if r["kind"] == "yardstick" else r["name"]
                key = (name, *(r[c] for c in ("dir", "hd", "heads", "seqlen", "batch", "causal")))
                if key not in best or float(best[key]["tflops"]) < float(r["tflops"]):
                    best[key] = {**r, "name": name}
        plot_mode(list(best.values()), path if len(modes) == 1 else f"{path}-{mode}")


def plot_mode(rows, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("# no matplotlib: no plot")
        return
    panels = sorted({(r["dir"], int(r["hd"]), int(r["causal"])) for r in rows},
                    key=lambda p: (p[0] != "fwd", p[1], p[2]))
    columns = min(len(panels), 4)
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 3.2 * lines), squeeze=False)
    names = sorted({r["name"] for r in rows})
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, (direction, d, causal) in zip(axes.flat, panels):
        for name in names:
            points = sorted((int(r["seqlen"]), float(r["tflops"])) for r in rows if r["name"] == name
                            and (r["dir"], int(r["hd"]), int(r["causal"])) == (direction, d, causal))
            if points:
                axis.plot(*zip(*points), marker="o", markersize=3, label=name)
        axis.set_title(f"{direction} d={d} {'causal' if causal else 'full'}", fontsize=9)
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.set_xlabel("length", fontsize=8)
        axis.set_ylabel("TFLOPS", fontsize=8)
        axis.tick_params(labelsize=7)
    lines_of = {}
    for axis in axes.flat:
        for line, name in zip(*axis.get_legend_handles_labels()):
            lines_of.setdefault(name, line)
    axes[0][0].legend(lines_of.values(), lines_of.keys(), fontsize=7)
    figure.tight_layout()
    figure.savefig(path + ".png", dpi=130)
    figure.savefig(path + ".svg")


def plot_ladder(rows, names, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("# no matplotlib: no plot")
        return
    cases = sorted({(r["dir"], r["hd"], r["seqlen"], r["causal"]) for r in rows})
    figure, axes = plt.subplots(1, len(cases), squeeze=False,
                                figsize=(6 * len(cases), 0.4 * len(names) + 1.2))
    for axis, case in zip(axes.flat, cases):
        best = {r["name"]: float(r["tflops"]) for r in rows
                if (r["dir"], r["hd"], r["seqlen"], r["causal"]) == case}
        shown = [n for n in names if n in best]
        axis.barh(range(len(shown)), [best[n] for n in shown])
        for i, n in enumerate(shown):
            axis.text(best[n], i, f" {best[n]:.0f}", va="center", fontsize=8)
        axis.set_yticks(range(len(shown)), shown, fontsize=8)
        axis.invert_yaxis()
        axis.set_title("{} d={} s={} {}".format(*case[:3], "causal" if case[3] == 1 else "full"),
                       fontsize=9)
        axis.set_xlabel("TFLOPS", fontsize=8)
    figure.tight_layout()
    figure.savefig(path + ".png", dpi=130)
    figure.savefig(path + ".svg")
