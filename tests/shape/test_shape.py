#!/usr/bin/env python3
"""Each rule of shape.py finds what breaks it, and passes what does not."""
import argparse
import pathlib
import tempfile
import unittest

import shape

ARGS = argparse.Namespace(cc="cc", includes="", shared_object=None)


class Rules(unittest.TestCase):
    def found(self, check, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(shape.CHECKS[check](root, ARGS))

    def test_headers(self):
        good = {"src/include/pagelane/a.h": "typedef int a_t;\n"}
        bad = {"src/include/pagelane/a.h": "a_t *f(size_t n);\n"}
        cpp = {"src/include/pagelane/a.h": "int f(int class);\n"}
        self.assertEqual(self.found("headers", good), [])
        self.assertEqual(len(self.found("headers", bad)), 2)
        self.assertEqual(len(self.found("headers", cpp)), 1)

    def test_arrows(self):
        for folder, include, n in (
                ("cache", '"pool/lanes.h"', 0), ("cache", '"cache/x.h"', 0),
                ("pool", '"cache/tree.h"', 1), ("base", '"layout/x.h"', 1),
                ("engine", "<mpi.h>", 1), ("comm", "<mpi.h>", 0),
                ("cli", "<hdf5.h>", 1), ("store", "<hdf5.h>", 0),
                ("comm", "<H5Dpublic.h>", 1), ("exec", "<cuda_runtime.h>", 1),
                ("device", "<nccl.h>", 0), ("cli", "<pagelane/no.h>", 1)):
            files = {f"src/{folder}/a.c": f"#include {include}\n"}
            self.assertEqual(len(self.found("arrows", files)), n,
                             (folder, include))

    def test_calls(self):
        for folder, code, n in (
                ("engine", 'printf("x");', 1), ("cli", 'printf("x");', 0),
                ("cache", "/* printf(x) */", 0), ("pool", "time(NULL);", 1),
                ("pool", "pl_time(NULL); p->read(1); a.write(2);", 0),
                ("cli", "exit(1);", 1), ("store", "abort();", 1),
                ("base", 'x("exit(1)"); snprintf(a, 1, "b");', 0)):
            files = {f"src/{folder}/a.c": code + "\n"}
            self.assertEqual(len(self.found("calls", files)), n, code)

    def test_words(self):
        self.assertEqual(self.found("words", {"a.md": "a hard day's work\n"}),
                         [])
        self.assertEqual(len(self.found("words", {"a": "x /wor" "k/y\n"})), 1)

    def test_sizes(self):
        body = "void f(int a)\n{\n" + "    g();\n" * 99 + "}\n"
        self.assertEqual(len(self.found("sizes", {"src/a/a.c": body})), 1)
        short = body.replace("    g();\n", "", 2)
        self.assertEqual(self.found("sizes", {"src/a/a.c": short}), [])
        self.assertEqual(len(self.found("sizes", {"src/a.c": "\n" * 801})), 1)


if __name__ == "__main__":
    unittest.main()
