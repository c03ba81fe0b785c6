"""figure.py - TFLOPS of all cases of a table of docs/performance.md's kind, as one SVG.

    python3 bench/figure.py docs/lab/attention-h200.csv docs/figures/attention-h200.svg    (needs matplotlib)
"""

import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tilec"  # the same file for the same numbers
import matplotlib.pyplot as plt  # noqa: E402

LINES = {"tilec": ("tilec", "C3", "o"), "fa3": ("FlashAttention-3", "C0", "s"), "cudnn": ("cuDNN", "C2", "^"),
         "fa2": ("FlashAttention-2", "0.6", "v")}


def main(table, picture):
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    depths = sorted({int(r["d"]) for r in rows})
    panels = [(way, mask) for way in ("fwd", "bwd") for mask in ("full", "causal")]
    figure, axes = plt.subplots(len(depths), len(panels), figsize=(14, 9), sharex=True, sharey=True, squeeze=False)
    for line, d in zip(axes, depths):
        for panel, (way, mask) in zip(line, panels):
            here = [r for r in rows if (r["dir"], r["mask"], int(r["d"])) == (way, mask, d)]
            for column, (label, colour, marker) in LINES.items():
                panel.plot([int(r["s"]) for r in here], [float(r[column]) for r in here], color=colour, marker=marker,
                           markersize=4, label=label)
            panel.set_xscale("log", base=2)
            panel.set_title(f"{'forward' if way == 'fwd' else 'backward'}, d = {d}, {mask}", fontsize=9)
            panel.grid(alpha=0.3)
    axes[0][0].set_ylim(bottom=0)  # behind all lines: the axis is shared
    for panel in axes[-1]:
        panel.set_xlabel("length")
    for line in axes:
        line[0].set_ylabel("TFLOPS")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
