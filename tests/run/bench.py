#!/usr/bin/python3
"""`pagelane bench`: each measured thing beside its yardstick.  No times are
judged here; docs/performance.md has those."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402


class Bench(pl.Case):
    def test_tables(self):
        text = self.run_program("lanes", "tree", verb="bench").stdout.decode()
        for heading in ("# lanes: 2048 pages", "# tree: "):
            self.assertIn(heading, text)
        for row in (r"take, zigzag owners .* ns/page .* stack, take",
                    r"free, all checks .* ns/page .* stack, free",
                    r"match .* ns .* memcmp of the tokens"):
            match = re.search(row + r" +(\d+\.\d+)$", text, re.M)
            self.assertIsNotNone(match, row + "\n" + text)
            self.assertGreater(float(match.group(1)), 0)

    def test_json(self):
        lines = [json.loads(line) for line in self.run_program(
            "lanes", "snapshot", "--json", verb="bench").stdout.splitlines()]
        self.assertEqual([line["bench"] for line in lines],
                         ["lanes", "snapshot"])
        for line in lines:
            yardsticks = [name for name in line if name.endswith("_yardstick")]
            self.assertGreaterEqual(len(yardsticks), 1)
            for name in yardsticks:
                self.assertGreater(line[name], 0)
                self.assertGreater(line[name.removesuffix("_yardstick")], 0)

    def test_unknown(self):
        run = self.run_program("lanse", verb="bench", status=2)
        self.assertRegex(run.stderr, r"^pagelane: .*'?lanse'?.*lanes.*\n$")


if __name__ == "__main__":
    pl.main(__doc__)
