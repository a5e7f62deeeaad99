#!/usr/bin/env python3
"""Time to the first token and KV a rank over the number of ranks.

    scaling.py prefill_1.json prefill_2.json ... [--plot scaling.svg]

Each file is what `pagelane bench prefill --ownership both --json` printed with
another --ranks. A table (Markdown) of all of them; with --plot (needs
matplotlib) what of it depends on the ranks, a column each for the lengths.
"""
import argparse
import json
import os
import sys

KINDS = {"cold": "cold", "device": "device hit", "host": "host hit"}


def read(paths):
    """(context, ranks, ownership) -> row."""
    rows = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
        for row in run["rows"]:
            rows[row["context"], run["ranks"], row["ownership"]] = row
    return rows


def print_table(rows):
    print("| tokens | ranks | ownership | cold, ms | device hit | host hit | "
          "host / cold | cold / replicated | KV a rank, MB |")
    print("|---" * 9 + "|")
    for (context, ranks, ownership), row in sorted(rows.items()):
        beside = row.get("cold_to_replicated", "")
        print(f"| {context:,} | {ranks} | {ownership} | {row['cold_ms']:,.1f} "
              f"| {row['device_ms']:.1f} | {row['host_ms']:.1f} | "
              f"{row['host_ms'] / row['cold_ms']:.3f} | "
              f"{beside if beside == '' else format(beside, '.3f')} | "
              f"{row['kv_rank_bytes'] / 1e6:.3f} |")


def column(rows, context, ownership, member):
    found = sorted((ranks, row[member]) for (c, ranks, o), row in rows.items()
                   if (c, o) == (context, ownership))
    return [ranks for ranks, _ in found], [value for _, value in found]


def draw_times(axes, rows, context):
    for (kind, name), marker in zip(KINDS.items(), "os^"):
        ranks, ms = column(rows, context, "zigzag", kind + "_ms")
        axes.plot(ranks, ms, marker=marker, label=name)
    ranks, ms = column(rows, context, "replicated", "cold_ms")
    axes.plot(ranks, ms, "x--", color="#999999", label="cold, replicated")
    axes.set(title=f"{context:,} tokens", xscale="log", yscale="log",
             ylabel="to the first token, ms")


def draw_bytes(axes, rows, context):
    for ownership, marker in (("replicated", "x--"), ("zigzag", "o-")):
        ranks, held = column(rows, context, ownership, "kv_rank_bytes")
        axes.plot(ranks, [n / 1e6 for n in held], marker, label=ownership)
    axes.set(xscale="log", yscale="log", ylabel="KV a rank, MB",
             xlabel="ranks")


def plot(rows, path):
    sys.path.insert(0, os.path.join(os.path.dirname(
        os.path.abspath(__file__)), "snapshots"))
    from plot_style import plt, save  # needs matplotlib

    contexts = sorted({context for context, _, _ in rows})
    all_ranks = sorted({ranks for _, ranks, _ in rows})
    figure, grid = plt.subplots(2, len(contexts), squeeze=False, sharex=True,
                                figsize=(3.4 * len(contexts), 5.2))
    for i, context in enumerate(contexts):
        draw_times(grid[0][i], rows, context)
        draw_bytes(grid[1][i], rows, context)
        for axes in grid[:, i]:
            axes.set_xticks(all_ranks, [str(n) for n in all_ranks])
            axes.minorticks_off()
    grid[0][0].legend()
    grid[1][0].legend()
    figure.tight_layout()
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--plot", metavar="FILE")
    args = parser.parse_args()
    rows = read(args.files)
    print_table(rows)
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    main()
