#!/usr/bin/python3
"""Each call in which CUDA makes the host wait is counted.

pl_cuda_n_synchronizations is what test_runs.c holds whole runs against, so it
must know of all of them: in front of a call, on one of the five lines before
it, stands pl_cuda_count_synchronization().  bench.cu is timed by such calls and
is no run.
"""
import glob
import os
import re
import sys
import unittest

KERNELS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "kernels")
WAITS = re.compile(r"\b(?:cuda\w*Synchronize|cudaMemcpy(?:2D|3D)?|"
                   r"cudaMemcpy(?:To|From)Symbol|cudaMemset(?:2D|3D)?)\(")
COUNT = "pl_cuda_count_synchronization();"


def uncounted(text):
    """Numbers of the lines that wait and are not counted."""
    lines = [re.sub(r"//.*|/\*.*?\*/", "", line)
             for line in text.splitlines()]
    return [i + 1 for i, line in enumerate(lines) if WAITS.search(line) and
            not any(COUNT in before for before in lines[max(i - 5, 0):i])]


class Counted(unittest.TestCase):
    def test_kernels(self):
        n = 0
        for path in sorted(glob.glob(os.path.join(KERNELS, "*.cu*"))):
            if os.path.basename(path) == "bench.cu":
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            n += len(WAITS.findall(text))
            self.assertEqual(uncounted(text), [], path)
        self.assertGreater(n, 3)

    def test_what_is_not_counted_is_found(self):
        call = "    error = cudaStreamSynchronize(stream);"
        self.assertEqual(uncounted(call), [1])
        self.assertEqual(uncounted(f"  {COUNT}\n{call}\n"), [])
        self.assertEqual(uncounted(f"  {COUNT}\n{call}" + "\n" * 5 + call),
                         [7])
        self.assertEqual(uncounted("cudaMemcpyAsync(a, b, n, kind, s);"), [])
        self.assertEqual(uncounted("x = cudaMemcpy(a, b, n, kind);"), [1])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
