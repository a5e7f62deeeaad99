#!/usr/bin/python3
"""The README's "Plan a deployment in ten minutes": its commands, run as they
stand there, print the lines that stand below them.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

SECTION = "## Plan a deployment in ten minutes\n"
VERBS = ["size", "sim", "sweep", "report", "sweep", "sim", "report"]


def steps():
    """[(command, lines it prints)] of the section."""
    with open(os.path.join(pl.ROOT, "README.md"), encoding="utf-8") as file:
        section = file.read().split(SECTION, 1)[1].split("\n## ", 1)[0]
    found = []
    for line in re.sub(r" \\\n *", " ", section).split("\n"):
        if line.startswith("    $P "):
            found.append((line.strip(), []))
        elif line.startswith("    "):
            found[-1][1].append(line.strip())
    return found


class Plan(pl.Case):
    def test_readme(self):
        self.assertEqual([command.split()[1] for command, _ in steps()], VERBS)
        names = f"P={shlex.quote(self.program)}; T={shlex.quote(pl.SLICE)}; "
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "build"))
            for command, lines in steps():
                done = subprocess.run(
                    names + command, shell=True, cwd=folder, text=True,
                    capture_output=True, timeout=pl.LIMIT_S,
                    env=pl.environment(**pl.MPIRUN))
                self.assertEqual(done.returncode, 0, command + done.stderr)
                said = [line.strip() for line in done.stdout.split("\n")]
                for line in lines:
                    self.assertIn(line, said, command)
            for name, says in (
                    ("plan.html", "Prefill limits this deployment. 3 of 200 "),
                    ("plan-sweep.html", "Cheapest that meets the limits: "
                     "chunk 16384, pd 2x8+1x8<")):
                with open(os.path.join(folder, "build", name),
                          encoding="utf-8") as file:
                    self.assertIn(says, file.read())


if __name__ == "__main__":
    pl.main(__doc__)
