#!/usr/bin/env python3
"""Rebuild every tier of a snapshot from /events alone, and compare.

usage: replay_events.py FILE...

From /events and /layout (docs/schema.md, pagelane/event.h; no other knowledge of
the program): which pages are free in every lane, where each node's pages lie on
device and host and who owns them, what each decode pool holds, who waits and who
decodes.  Compared with /lanes at every sampled tick and with /hicache at the
end.  Exit status 0: agrees; 1: the first difference is printed; 3: no events, or
not from the beginning.
"""
import collections
import sys

import h5py


class Difference(Exception):
    pass


def expect(condition, text, *args):
    if not condition:
        raise Difference(text % args)


Event = collections.namedtuple(
    "Event", "kind tick request node op value value2 pages other")


class Pool:
    """Pages 0 .. n_lanes * pages - 1; page g lies in lane g mod n_lanes."""

    def __init__(self, name, n_lanes, pages, reserved):
        self.name, self.n_lanes, self.n = name, n_lanes, n_lanes * pages
        self.first, self.held = n_lanes * reserved, set()
        self.free = [max(pages - reserved, 0)] * n_lanes

    def take(self, pages):
        for g in pages:
            expect(self.first <= g < self.n, "%s has no page %d", self.name, g)
            expect(g not in self.held, "%s page %d taken twice", self.name, g)
            self.held.add(g)
            self.free[g % self.n_lanes] -= 1

    def give(self, pages):
        for g in pages:
            expect(g in self.held, "%s page %d freed twice", self.name, g)
            self.held.remove(g)
            self.free[g % self.n_lanes] += 1


class Node:
    def __init__(self, parent, first, device, host=None):
        self.parent, self.first, self.n = parent, first, len(device or host)
        self.device, self.host, self.write = device, host, 0


class Storage:
    """Pages of the set that the run writes, as far as events speak of them:
    what the folder held before is not among them."""

    def __init__(self):
        self.held, self.dropped, self.stores = set(), set(), {}

    def take(self, op, pages):
        expect(self.held.isdisjoint(pages), "storage page written over")
        self.held.update(pages)
        self.stores[op] = pages

    def end(self, op, good):
        pages = self.stores.pop(op)
        if not good:
            self.held.difference_update(pages)
            self.dropped.difference_update(pages)

    def drop(self, pages):
        expect(self.dropped.isdisjoint(pages), "storage page dropped twice")
        self.held.update(pages)
        self.dropped.update(pages)

    def publish(self, pages):
        expect(self.held.isdisjoint(set(pages) - self.dropped),
               "a storage page comes free that is kept")
        self.held.difference_update(pages)
        self.dropped.difference_update(pages)


class Replay:
    def __init__(self, layout):
        lanes, homes = int(layout["n_lanes"]), int(layout["n_homes"])
        self.home = int(layout["first_home"])

        def pool(tier, n, name):
            return Pool(name, n, int(layout[tier + "_pages"]),
                        int(layout[tier + "_reserved"]))

        self.device = pool("device", lanes, "device")
        self.host = pool("host", lanes, "host")
        self.decode = [pool("decode", 1, f"decode {i}") for i in range(homes)]
        self.buffer = [pool("decode_host", 1, f"decode host {i}")
                       for i in range(homes)]
        self.storage, self.came = Storage(), (0, [])
        self.nodes, self.ops = {}, {}
        self.waiting, self.running = set(), set()

    def node(self, e):
        expect(e.node in self.nodes, "node %d is not in the tree", e.node)
        return self.nodes[e.node]

    # One method a kind of event that changes something; the rest is news.
    def arrive(self, e): self.waiting.add(e.request)
    def start(self, e): self.running.add(e.request)
    def finish(self, e): self.running.discard(e.request)
    def alloc(self, e): self.device.take(e.pages)
    def free(self, e): self.device.give(e.pages)
    def host_free(self, e): self.host.give(e.pages)

    def node_event(self, e):
        expect(e.node not in self.nodes, "node %d made twice", e.node)
        expect(self.device.held.issuperset(e.pages), "node %d: free page",
               e.node)
        self.nodes[e.node] = Node(e.value, e.value2, e.pages)

    def split(self, e):
        tail, k = self.node(e), e.value2
        head = self.nodes[e.value] = Node(tail.parent, tail.first, [0] * k)
        expect(0 < k < tail.n, "node %d is split at %d", e.node, k)
        for tier in "device", "host":
            pages = getattr(tail, tier)
            setattr(head, tier, pages and pages[:k])
            setattr(tail, tier, pages and pages[k:])
        head.write = tail.write
        tail.parent, tail.first, tail.n = e.value, tail.first + k, tail.n - k

    def adopt(self, e):
        node = self.node(e)
        expect(node.device is None and len(e.pages) == node.n,
               "node %d adopts pages it cannot use", e.node)
        node.device = e.pages

    def evict(self, e):
        expect(self.node(e).device, "node %d has nothing to evict", e.node)
        self.node(e).device = None

    def host_drop(self, e):
        node = self.node(e)
        expect(node.host and not node.write, "node %d has no host copy", e.node)
        node.host = None

    def remove(self, e):
        node = self.node(e)
        expect(not node.device and not node.host,
               "node %d is removed with a copy", e.node)
        del self.nodes[e.node]

    def backup(self, e):
        node = self.node(e)
        expect(node.device == e.pages, "backup of node %d: other pages", e.node)
        self.host.take(e.other)
        node.host, node.write = e.other, e.op

    def backed_up(self, e):
        for node in self.nodes.values():
            if node.write == e.op:
                node.write, node.host = 0, node.host if e.value else None

    def load(self, e):
        expect(self.device.held.issuperset(e.pages), "load to a free page")
        self.ops[e.op] = [list(e.pages), list(e.other), e.request]

    def load_node(self, e):
        node, (pages, other, _) = self.node(e), self.ops[e.op]
        expect(node.host == other[:node.n] and not node.write,
               "load of node %d from elsewhere", e.node)
        expect(node.device is None, "node %d is on device", e.node)
        node.device = pages[:node.n]
        del pages[:node.n], other[:node.n]

    def loaded(self, e):
        request = self.ops.pop(e.op)[2]
        if not e.value:
            self.waiting.add(request)  # its prompt is admitted anew

    def store(self, e):
        node, at = self.node(e), e.value - self.node(e).first
        expect(node.host and node.host[at:at + len(e.other)] == e.other
               and not node.write, "store of node %d: other pages", e.node)
        self.storage.take(e.op, e.pages)

    def stored(self, e): self.storage.end(e.op, e.value)
    def storage_drop(self, e): self.storage.drop(e.pages)
    def published(self, e): self.storage.publish(e.pages)

    def fetch(self, e):
        self.host.take(e.pages)
        self.ops[e.op] = e.value, e.pages

    def fetched(self, e):
        first, pages = self.ops.pop(e.op)
        expect(e.value <= len(pages), "fetch %d brought too much", e.op)
        self.came = first, pages[:e.value]

    def host_node(self, e):
        first, pages = self.came
        at = e.value2 - first
        expect(e.node not in self.nodes, "node %d made twice", e.node)
        expect(at >= 0 and e.pages == pages[at:at + len(e.pages)],
               "node %d: pages that no fetch has brought", e.node)
        self.nodes[e.node] = Node(e.value, e.value2, None, e.pages)

    def decode_alloc(self, e):
        self.waiting.discard(e.request)  # the first thing an admission takes
        self.decode[e.value - self.home].take(e.pages)

    def decode_free(self, e): self.decode[e.value - self.home].give(e.pages)

    def offload(self, e):
        self.running.discard(e.request)
        self.buffer[e.value - self.home].take(e.other)
        self.ops[e.op] = self.buffer[e.value - self.home], e.other

    def resume(self, e):
        self.ops[e.op] = self.buffer[e.value - self.home], e.other

    def offloaded(self, e): self.copied(e, gives_back=e.value == 0)
    def resumed(self, e): self.copied(e, gives_back=e.value == 1)

    def copied(self, e, gives_back):
        pool, pages = self.ops.pop(e.op)
        if gives_back:
            pool.give(pages)

    def reenter(self, e):
        self.running.discard(e.request)
        self.waiting.add(e.request)


HANDLERS = {name: getattr(Replay, name) for name in vars(Replay)}
HANDLERS["node"] = Replay.node_event


def events_of(group):
    """/events, one at a time."""
    kinds = [text.decode() for text in group["kinds"][:]]
    lists = [ragged(group, name) for name in ("pages", "other")]
    columns = [group[name][:].tolist() for name in Event._fields[:7]]
    for kind, *fields in zip(*columns, *lists):
        yield Event(kinds[kind], *fields)


def same(what, got, want):
    expect(got == want, "%s: %s from events, %s in the file", what, got, want)


def compare_lanes(replay, lanes, i):
    at = f"/lanes at tick {lanes['tick'][i]}: "
    same(at + "device_free", replay.device.free, lanes["device_free"][i])
    same(at + "host_free", replay.host.free, lanes["host_free"][i])
    same(at + "decode_free", [p.free[0] for p in replay.decode],
         lanes["decode_free"][i])
    same(at + "decode_host_free", [p.free[0] for p in replay.buffer],
         lanes["decode_host_free"][i])
    same(at + "running", len(replay.running), lanes["running"][i])
    same(at + "waiting", len(replay.waiting), lanes["waiting"][i])


def ragged(group, name):
    items, at = group[name][:].tolist(), group[name + "_offset"][:].tolist()
    return [items[a:b] for a, b in zip(at, at[1:])]


def compare_cache(replay, cache):
    nodes, lanes = cache["nodes"], replay.device.n_lanes
    ids = nodes["id"][:].tolist()
    same("/hicache/nodes/id", sorted(replay.nodes), ids)
    device, host = ragged(nodes, "device_pages"), ragged(nodes, "host_pages")
    columns = {name: nodes[name][:].tolist() for name in (
        "parent", "first_page", "n_pages", "write_op", "device", "host")}
    owners, owned = ragged(cache, "page_owners"), {}
    for r in map(int, cache["rank"]):
        rank = cache["rank"][str(r)]
        at = rank["offset"][:].tolist()
        pairs = list(zip(rank["positions"][:].tolist(),
                         rank["slots"][:].tolist()))
        owned[r] = [pairs[a:b] for a, b in zip(at, at[1:])]
    for i, number in enumerate(ids):
        node, what = replay.nodes[number], f"node {number}: "
        for name, value in (("parent", node.parent), ("first_page", node.first),
                            ("n_pages", node.n), ("write_op", node.write),
                            ("device", int(node.device is not None)),
                            ("host", int(node.host is not None))):
            same(what + name, value, columns[name][i])
        same(what + "device_pages", node.device or [], device[i])
        same(what + "host_pages", node.host or [], host[i])
        same(what + "page_owners", [g % lanes for g in node.host or []],
             owners[i])
        for r in owned:  # with one lane every rank has all of it
            same(what + f"rank {r}", [(p, g // lanes) for p, g in
                                      enumerate(node.host or [])
                                      if lanes == 1 or g % lanes == r],
                 owned[r][i])


def check(path):
    with h5py.File(path, "r") as file:
        if "events" not in file:
            print(f"{path}: has no /events (run with --events all)")
            return 3
        dropped = int(file["events"].attrs.get("dropped", 0))
        if dropped:
            print(f"{path}: its first {dropped} events were dropped, up to tick "
                  f"{file['events'].attrs['first_tick']} (run with --events "
                  "all)")
            return 3
        replay, sample, i, e = Replay(file["layout"].attrs), 0, -1, None
        lanes = {name: file["lanes"][name][:].tolist() for name in
                 file["lanes"]}
        try:
            for i, e in enumerate(events_of(file["events"])):
                while sample < len(lanes["tick"]) and \
                        lanes["tick"][sample] < e.tick:
                    compare_lanes(replay, lanes, sample)
                    sample += 1
                if e.kind in HANDLERS:
                    HANDLERS[e.kind](replay, e)
            e = None
            for sample in range(sample, len(lanes["tick"])):
                compare_lanes(replay, lanes, sample)
            compare_cache(replay, file["hicache"])
        except (Difference, LookupError) as difference:
            where = f"event {i} ({e.kind}, tick {e.tick}): " if e else ""
            print(f"{path}: {where}{difference}")
            return 1
    print(f"{path}: {i + 1} events agree with {len(lanes['tick'])} "
          f"samples of /lanes and {len(replay.nodes)} nodes of /hicache")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(max(check(path) for path in sys.argv[1:]))
