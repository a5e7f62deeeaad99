#!/usr/bin/env python3
"""How full the lanes were over time: one line a lane, the mean in bold.

usage: plot_lane_occupancy.py SNAPSHOT.h5 PLOT.png|PLOT.svg
"""
import sys

import h5py
import numpy as np

from plot_style import COLOUR, plt, save


def used_share(file, tier):
    """[sample][lane] in percent of the pages that can be handed out; None: the
    run had no such tier."""
    pages = int(file["layout"].attrs[f"{tier}_pages"])
    usable = pages - int(file["layout"].attrs[f"{tier}_reserved"])
    if pages == 0:
        return None
    return 100 * (1 - file["lanes"][f"{tier}_free"][:] / usable), usable


def draw(axes, seconds, tier, share, usable):
    colour = COLOUR[tier]
    apart = share.max(axis=1) - share.min(axis=1)

    for lane in range(share.shape[1]):
        axes.plot(seconds, share[:, lane], color=colour, alpha=0.35,
                  linewidth=0.8, drawstyle="steps-post",
                  label="each lane" if lane == 0 else None)
    axes.plot(seconds, share.mean(axis=1), color=colour, linewidth=2,
              drawstyle="steps-post", label="mean of all lanes")
    axes.set_title(f"{tier} tier: {share.shape[1]} lanes of {usable} pages, "
                   f"fullest and emptiest {apart.mean():.1f} points apart on "
                   f"average, {apart.max():.1f} at most")
    axes.set_ylabel("pages in use [%]")
    axes.set_ylim(0, 105)
    axes.set_yticks(range(0, 101, 25))
    axes.legend(loc="lower right", ncols=2)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with h5py.File(sys.argv[1], "r") as file:
        seconds = file["lanes/time_ns"][:] / 1e9
        tiers = [(tier, *found) for tier in ("device", "host")
                 if (found := used_share(file, tier)) is not None]

    if len(seconds) < 2:
        sys.exit(f"{sys.argv[1]}: nothing happened in that run: all requests "
                 "were finished before (--resume), or none has begun")

    figure, axes = plt.subplots(len(tiers), 1, sharex=True, squeeze=False,
                                figsize=(9, 1 + 2.6 * len(tiers)),
                                layout="constrained")
    for at, (tier, share, usable) in zip(axes[:, 0], tiers):
        draw(at, seconds, tier, np.atleast_2d(share), usable)
    axes[-1, 0].set_xlabel("virtual time [s]")
    axes[-1, 0].set_xlim(seconds.min(), seconds.max())
    save(figure, sys.argv[2])


if __name__ == "__main__":
    main()
