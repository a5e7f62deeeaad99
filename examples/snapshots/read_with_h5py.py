#!/usr/bin/env python3
"""Read a snapshot with h5py alone: groups, units, ragged arrays.

usage: read_with_h5py.py SNAPSHOT.h5
"""
import sys

import h5py


def items_of(group, name, i):
    """Row i of a ragged array: what lies between two offsets."""
    first, end = group[name + "_offset"][i:i + 2]
    return group[name][first:end]


def show_groups(file):
    """Every column says its unit, its dimensions and what it is."""
    for path in ("requests/prompt_tokens", "requests/first_token_ns",
                 "lanes/device_free", "hicache/nodes/host_pages"):
        column = file[path]
        dims = " x ".join(f"{n} {dim.label}s"
                          for n, dim in zip(column.shape, column.dims))
        unit = column.attrs["unit"].decode()
        print(f"/{path}: {dims}, unit {unit}: "
              f"{column.attrs['description'].decode()}")


def show_requests(file):
    requests, layout = file["requests"], file["layout"].attrs
    prompt = requests["prompt_tokens"][:]
    print(f"\n{len(prompt)} requests with {prompt.sum()} prompt tokens on "
          f"{layout['n_lanes']} lanes, pages of {layout['page_tokens']} tokens")
    ran = requests["skipped"][:] == 0
    if not ran.all():
        print(f"{(~ran).sum()} of them were finished before that run "
              "(--resume) and are no part of what follows")
    for tier in ("device", "host", "storage"):
        hit = requests[f"{tier}_hit_tokens"][:].sum()
        print(f"hit on {tier}: {hit} tokens, "
              f"{hit / max(prompt[ran].sum(), 1):.2%}")

    longest = int(prompt.argmax())
    tokens = items_of(requests, "tokens", longest)
    print(f"request {longest} has the longest prompt, {prompt[longest]} tokens; "
          f"it generated {len(tokens)}: {tokens[:8].tolist()} ...")


def show_nodes(file):
    """Who holds the pages of the node that most prompts went through?"""
    hicache, nodes = file["hicache"], file["hicache/nodes"]
    hits = nodes["hits"][:]
    if len(hits) == 0:
        print("\nno node is in the prefix tree")
        return
    i = int(hits.argmax())
    device = items_of(nodes, "device_pages", i)
    lanes = file["layout"].attrs["n_lanes"]
    print(f"\nnode {nodes['id'][i]} was hit {hits[i]} times; its "
          f"{nodes['n_pages'][i]} pages follow {nodes['first_page'][i]} others")
    print(f"  device pages {device[:8].tolist()} lie in lanes "
          f"{(device[:8] % lanes).tolist()}")
    print(f"  owners of the host copy: "
          f"{items_of(hicache, 'page_owners', i)[:8].tolist()}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with h5py.File(sys.argv[1], "r") as file:
        show_groups(file)
        show_requests(file)
        show_nodes(file)


if __name__ == "__main__":
    main()
