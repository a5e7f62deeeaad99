#!/usr/bin/env python3
"""Rules of the tree that no compiler checks.  Each prints what breaks it.

headers  every public header compiles alone, in C and in C++
arrows   a folder of src/ includes only what lies below it; mpi.h, hdf5.h and
         CUDA only where the design says
calls    no printing, files, clocks or exit() in engine and below; no exit()
         or abort() in the library at all
symbols  the shared library gives out nothing but pl_*
words    nothing names the places it was written in
sizes    files and functions that are too long to read
"""
import argparse
import pathlib
import re
import subprocess
import sys

# What each folder of src/ may include, besides itself and the public headers.
BELOW = {
    "base": "",
    "layout": "base",
    "clock": "base",
    "verify": "layout base",
    "pool": "clock verify layout base",
    "cache": "pool clock layout verify base",
    "engine": "cache pool clock layout verify base",
    "device": "verify layout base",
    "comm": "device verify layout base",
    "attn": "device verify layout base",
    "model": "attn device verify layout base",
    "trace": "base",
    "store": "engine cache pool clock layout verify comm trace base",
    "exec": "engine cache pool clock layout verify device comm attn model "
            "trace base",
    "sim": "exec engine cache pool clock layout verify device comm attn model "
           "trace base",
    "cli": "sim store exec engine cache pool clock layout verify device comm "
           "trace model base",
}
# Headers of others, and the folders of src/ that may include them.
OUTSIDE = {
    r"mpi\.h": {"comm", "store"},
    r"(hdf5|H5\w*)\.h": {"store"},
    r"(cuda\w*|nccl)\.h": {"device", "comm"},
}
PURE = ("base", "layout", "clock", "pool", "verify", "cache", "engine")
# What of them speaks or looks at a clock: the log to stderr, and what `pagelane
# bench` measures.
SPEAKS = re.compile(r"src/base/log\.c|.*_bench\.c")
IMPURE = (r"printf|puts|putchar|fprintf|vprintf|vfprintf|fputs|fputc|fopen|"
          r"open|read|write|perror|time|clock|clock_gettime|gettimeofday|"
          r"rand|random|getenv")
DEADLY = r"exit|_exit|abort|quick_exit"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def code_of(text):
    """The text without comments and strings, lines kept."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text,
                  flags=re.S)


def sources(root, *suffixes):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in suffixes:
            yield path, path.relative_to(root).as_posix()


def check_headers(root, args):
    for path, name in sources(root, ".h"):
        if not name.startswith("src/include/"):
            continue
        for language in ("c", "c++"):
            command = [args.cc, "-x", language, "-fsyntax-only", "-Wall",
                       "-Wextra", "-Werror", "-I", str(root / "src/include")]
            for folder in filter(None, args.includes.split(";")):
                command += ["-isystem", folder]
            done = subprocess.run(command + ["-"], text=True,
                                  input=f"#include <pagelane/{path.name}>\n",
                                  stderr=subprocess.PIPE)
            if done.returncode != 0:
                yield f"{name}: does not compile alone as {language}:\n" \
                      f"{done.stderr}"


def check_arrows(root, _):
    for path, name in sources(root, ".c", ".h"):
        folder = name.split("/")[1]
        for match in INCLUDE.finditer(path.read_text()):
            header = match.group(2)
            other = header.split("/")[0]
            if match.group(1) == '"' and other in BELOW:
                if folder == "include":
                    yield f"{name}: a public header includes {header}"
                elif other not in (BELOW[folder] + " " + folder).split():
                    yield f"{name}: {folder} must not include {header}"
            if match.group(1) == "<" and header.startswith("pagelane/") and \
                    not (root / "src/include" / header).exists():
                yield f"{name}: there is no {header}"
            for pattern, allowed in OUTSIDE.items():
                if re.fullmatch(pattern, header) and folder not in allowed \
                        and name != "src/include/pagelane/mpi.h":
                    yield f"{name}: {folder} must not include {header}"


def check_calls(root, _):
    for path, name in sources(root, ".c", ".h"):
        pure = name.split("/")[1] in PURE and not SPEAKS.fullmatch(name)
        names = DEADLY + ("|" + IMPURE if pure else "")
        call = re.compile(r"(?<![\w.>])(" + names + r")\s*\(")
        for i, line in enumerate(code_of(path.read_text()).split("\n"), 1):
            for match in call.finditer(line):
                yield f"{name}:{i}: calls {match.group(1)}()"


def check_symbols(_, args):
    done = subprocess.run(["nm", "-D", "--defined-only", args.shared_object],
                          text=True, stdout=subprocess.PIPE, check=True)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    if "pl_version" not in names:
        yield "pl_version is missing: is this libpagelane?"
    for name in names:
        # a sanitizer's own names come with the asan preset
        if not re.match(r"pl_|__(asan|ubsan|odr_asan)", name):
            yield f"{args.shared_object} gives out {name}"


def tracked(root):
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-z"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if done.returncode == 0:
        return [root / n for n in done.stdout.decode().split("\0") if n]
    return [p for p in root.rglob("*") if p.is_file()
            and not re.match(r"\.git|build", str(p.relative_to(root)))]


# In pieces, so that this file passes its own rule.
WORDS = re.compile("|".join(["/wor" "k/", "/far" "m/", r"\.librar" "y/",
                             "sub-?agen" "t", "this sessio" "n"]), re.I)


def check_words(root, _):
    for path in tracked(root):
        try:
            text = path.read_text()
        except (UnicodeDecodeError, OSError):
            continue
        for i, line in enumerate(text.split("\n"), 1):
            if WORDS.search(line):
                yield f"{path.relative_to(root)}:{i}: {line.strip()[:80]}"


def functions(code):
    """(name, first line, lines) of each function body in K&R-of-Linux form."""
    lines = code.split("\n")
    start = None
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line == "}" and start is not None:
            head = " ".join(lines[max(0, start - 8):start])
            names = re.findall(r"(\w+)\s*\(", head)
            yield (names[-1] if names else "?", start + 1, i - start + 1)
            start = None


def check_sizes(root, _):
    for path, name in sources(root, ".c", ".h"):
        text = path.read_text()
        n = text.count("\n")
        if n > 800:
            yield f"{name}: {n} lines, at most 800"
        for function, line, length in functions(code_of(text)):
            if length > 100:
                yield f"{name}:{line}: {function} has {length} lines, " \
                      "at most 100"


CHECKS = {name[len("check_"):]: value for name, value in globals().items()
          if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("check", choices=sorted(CHECKS))
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--includes", default="")
    parser.add_argument("--shared-object")
    args = parser.parse_args()
    n = 0
    for line in CHECKS[args.check](args.root, args):
        print(line)
        n += 1
    sys.exit(1 if n > 0 else 0)


if __name__ == "__main__":
    main()
