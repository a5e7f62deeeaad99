#!/usr/bin/env python3
"""The columns of a snapshot as pandas tables.

usage: tables_with_pandas.py SNAPSHOT.h5 [REQUESTS.csv]
"""
import sys

import h5py
import pandas as pd


def requests_of(file):
    requests = file["requests"]
    count = len(requests["arrival_ns"])
    frame = pd.DataFrame({name: column[:] for name, column in requests.items()
                          if column.shape == (count,)
                          and f"{name}_offset" not in requests})
    frame.index.name = "request"
    hit = (frame.device_hit_tokens + frame.host_hit_tokens +
           frame.storage_hit_tokens)
    frame["hit_share"] = hit / frame.prompt_tokens
    frame["ttft_ms"] = (frame.first_token_ns - frame.arrival_ns) / 1e6
    frame["queue_ms"] = (frame.admitted_ns - frame.arrival_ns) / 1e6
    return frame[frame.finished_ns >= 0]


def lanes_of(file):
    """Free pages of the device tier by time and lane."""
    lanes = file["lanes"]
    time = pd.to_timedelta(lanes["time_ns"][:], unit="ns")
    return pd.DataFrame(lanes["device_free"][:], index=time).add_prefix("lane ")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with h5py.File(sys.argv[1], "r") as file:
        requests, lanes = requests_of(file), lanes_of(file)
    if requests.empty:
        sys.exit(f"{sys.argv[1]}: no request was answered in that run: all "
                 "were finished before (--resume), or none has been yet")

    print("time to the first token by how much of the prompt was a hit, ms")
    shares = pd.cut(requests.hit_share, [-0.001, 0, 0.25, 0.5, 0.75, 1],
                    labels=["none", "to 25 %", "to 50 %", "to 75 %", "more"])
    print(requests.groupby(shares).ttft_ms.describe(percentiles=[0.5, 0.99])
          [["count", "mean", "50%", "99%"]].round(2).to_string())

    print("\nwhere the tokens of the prompts came from")
    tokens = requests.filter(regex="^(device|host|storage)_hit_tokens").sum()
    tokens["computed"] = requests.prompt_tokens.sum() - tokens.sum()
    print(tokens.to_string())

    print("\nwhy pages were not hit")
    misses = requests.filter(like="miss_").sum().rename("pages")
    print(misses[misses > 0].sort_values(ascending=False).to_string())

    print("\nfree device pages by lane")
    print(lanes.describe().loc[["min", "mean", "max"]].round(1).to_string())

    if len(sys.argv) == 3:
        requests.to_csv(sys.argv[2])
        print(f"\n{len(requests)} requests in {sys.argv[2]}")


if __name__ == "__main__":
    main()
