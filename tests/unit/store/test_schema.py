#!/usr/bin/env python3
"""Is the tree in docs/schema.md the tree of a file?

usage: test_schema.py docs/schema.md FILE...

Every object of the file stands in the document, with type, dimensions and unit,
and every object of the document that is not optional stands in the file.  The
kinds of events are those of the document's table.
"""
import re
import sys

import h5py

LINE = re.compile(r"^( *)(\\--|\+--) (\(?)([\w<>]+)\)?(?:: (\w+)((?:\[[^\]]*\])+))?"
                  r"(?: \{(\S+)\})?")
# Optional, but for files of several instances, or of one engine.
OF_SEVERAL = {"/instances", "/requests/prefill_instance",
              "/requests/decode_instance", "/lanes/instance_running",
              "/lanes/instance_waiting", "/lanes/instance_busy_ns"}
OF_ONE = {"/hicache", "/events"}
DRAWN_ONCE = {"unit", "description", "DIMENSION_LABELS", "xxh3_64"}


def document(text):
    """{path: (what, type, dimensions, unit)}, and the optional paths."""
    tree, optional, stack = {"/": ("group", None, None, None)}, set(), []
    for line in text.split("```")[1].splitlines():
        match = LINE.match(line)
        if not match:
            continue
        indent, sign, bracket, name, kind, dims, unit = match.groups()
        while stack and stack[-1][0] >= len(indent):
            stack.pop()
        path = (stack[-1][1] if stack else "") + "/" + name
        if sign == "+--":
            path, what = path + "@", "attribute"
        else:
            what = "dataset" if kind else "group"
            stack.append((len(indent), path))
        if path in tree:
            yield_error(f"{path} is drawn twice")
        tree[path] = what, kind, re.findall(r"\[([^\]]*)\]", dims or ""), unit
        if bracket:
            optional.add(path)
    return tree, optional


errors = []


def yield_error(text):
    errors.append(text)


def type_of(type_id):
    if isinstance(type_id, h5py.h5t.TypeStringID):
        variable = type_id.is_variable_str()
        ascii_ = type_id.get_cset() == h5py.h5t.CSET_ASCII
        ended = type_id.get_strpad() == h5py.h5t.STR_NULLTERM
        return "String" if not variable and ascii_ and ended else "other string"
    if isinstance(type_id, h5py.h5t.TypeIntegerID) and \
            type_id.get_order() == h5py.h5t.ORDER_LE:
        sign = "U" if type_id.get_sign() == h5py.h5t.SGN_NONE else "I"
        return f"{sign}{8 * type_id.get_size()}"
    return "other"


def attributes(path, item, tree):
    for name in item.attrs:
        attribute = h5py.h5a.open(item.id, name.encode())
        tree[path.rstrip("/") + "/" + name + "@"] = \
            "attribute", type_of(attribute.get_type()), \
            [str(n) for n in attribute.shape] or [""], None


def contents(file):
    tree = {"/": ("group", None, None, None)}
    attributes("/", file, tree)

    def visit(name, item):
        path = "/" + name
        if isinstance(item, h5py.Dataset):
            labels = [d.label for d in item.dims]
            tree[path] = "dataset", type_of(item.id.get_type()), labels, \
                item.attrs["unit"].decode()
            if set(item.attrs) != DRAWN_ONCE:
                yield_error(f"{path} has attributes {sorted(item.attrs)}")
            if h5py.h5g.get_objinfo(item.id).mtime != 0:
                yield_error(f"{path} has times")
        else:
            tree[path] = "group", None, None, None
            attributes(path, item, tree)

    file.visititems(visit)
    return tree


def drawn_as(path, shape, tree):
    """The path in the document that means `path`: itself, or one with <x>."""
    if path in tree:
        return path
    for other in tree:
        pattern = re.sub(r"<\w+>", "[a-z0-9][a-z0-9_]*", re.escape(other))
        if "<" in other and re.fullmatch(pattern, path) and \
                tree[other][1] == shape[1]:
            return other
    return None


def compare(path, drawn, optional, kinds):
    with h5py.File(path, "r") as file:
        found = contents(file)
        if "events" in file:
            texts = [t.decode() for t in file["events/kinds"][:]]
            if texts != kinds:
                yield_error(f"kinds are {texts}, in the document {kinds}")
    if "/instances" in found:  # or it is of one engine
        required, barred = OF_SEVERAL, OF_ONE
    else:
        required, barred = {"/hicache"}, OF_SEVERAL
    for name in found.keys() & barred:
        yield_error(f"{path}: {name} should not be there")
    optional = optional - required
    seen = set()
    for name, shape in found.items():
        other = drawn_as(name, shape, drawn)
        if other is None:
            yield_error(f"{path}: {name} {shape} is not in the document")
        elif drawn[other] != shape and \
                drawn[other][:2] + (drawn[other][2] or None,) + \
                drawn[other][3:] != shape:
            yield_error(f"{path}: {name} is {shape}, "
                        f"in the document {drawn[other]}")
        seen.add(other)
    for name in drawn:
        if name not in seen and "<" not in name and \
                not any(name.startswith(o) for o in optional):
            yield_error(f"{path}: {name} is missing")


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        text = file.read()
    drawn, optional = document(text)
    kinds = re.findall(r"^\| (\w+) \| ", text.split("## Events")[1], re.M)[1:]
    if len(drawn) < 100:
        yield_error("the document's tree was not understood")
    for path in sys.argv[2:]:
        compare(path, drawn, optional, kinds)
    print("\n".join(errors) or f"{len(drawn)} objects agree")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
