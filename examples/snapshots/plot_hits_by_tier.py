#!/usr/bin/env python3
"""Where the KV of the prompts came from over time: which tier, or computed.

usage: plot_hits_by_tier.py SNAPSHOT.h5 PLOT.png|PLOT.svg
"""
import sys

import h5py
import numpy as np

from plot_style import COLOUR, plt, save

BINS = 60


def tokens_by_source(file):
    """Of admitted requests: when [s], and {source: tokens}, in the order in
    which they are stacked."""
    requests = file["requests"]
    admitted = requests["admitted_ns"][:]
    good = admitted >= 0
    sources = {tier: requests[f"{tier}_hit_tokens"][:][good].astype(np.int64)
               for tier in ("device", "host", "storage")}
    prompt = requests["prompt_tokens"][:][good]
    sources["computed"] = prompt - sum(sources.values())
    return admitted[good] / 1e9, sources


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with h5py.File(sys.argv[1], "r") as file:
        seconds, sources = tokens_by_source(file)
    if len(seconds) == 0:
        sys.exit(f"{sys.argv[1]}: no request was admitted in that run: all "
                 "were finished before (--resume), or none has been yet")

    edges = np.linspace(0, max(seconds.max(), 1e-9), BINS + 1)
    binned = {source: np.histogram(seconds, edges, weights=tokens)[0]
              for source, tokens in sources.items()}
    all_tokens = sum(binned.values())
    hits = all_tokens - binned["computed"]
    some = all_tokens > 0
    total = sum(tokens.sum() for tokens in sources.values())

    figure, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(9, 6), layout="constrained",
        gridspec_kw={"height_ratios": [3, 2]})
    base = np.zeros(BINS)
    for source, tokens in binned.items():
        label = "computed" if source == "computed" else f"hit on {source}"
        top.bar(edges[:-1], tokens / 1e3, np.diff(edges), base / 1e3,
                align="edge", color=COLOUR[source],
                label=f"{label}, {sources[source].sum() / total:.1%}")
        base += tokens
    top.set_title(f"prompt tokens by where their KV came from, "
                  f"{edges[1]:.2g} s a bar")
    top.set_ylabel("prompt tokens [thousand]")
    top.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    middle = (edges[:-1] + edges[1:]) / 2
    bottom.plot(middle[some], 100 * hits[some] / all_tokens[some], ".",
                color="#555555", markersize=4, label="of each bar")
    so_far = np.cumsum(hits) / np.maximum(np.cumsum(all_tokens), 1)
    bottom.plot(edges[1:], 100 * so_far, color="black", linewidth=2,
                label="of all so far")
    bottom.set_title("hit rate")
    bottom.set_ylabel("tokens hit on any tier [%]")
    bottom.set_ylim(0, None)
    bottom.set_xlim(0, edges[-1])
    bottom.set_xlabel("virtual time of admission [s]")
    bottom.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(figure, sys.argv[2])


if __name__ == "__main__":
    main()
