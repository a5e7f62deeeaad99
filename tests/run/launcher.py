#!/usr/bin/python3
"""`pagelane run --ranks N` starts mpirun and stays with it to its end.

A signal sent to the program ends mpirun and its ranks; a rank that the system
kills is told of, since it cannot speak for itself; nothing is left behind.
"""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

# Longer than any test waits.
ENDLESS = [*pl.SMALL, "--chunk", 64, "--passes", 1000, "--pace", "none",
           "--ranks", 3, "--device-pages", 800, "--host-pages", 1600]


def descendants(pid):
    """Of a process, in order of depth; without those that have ended."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child] + descendants(child)
    except OSError:
        pass
    return found


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def runs_pagelane(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith("/pagelane")
    except OSError:
        return False


class Launcher(pl.Case):
    def start(self):
        """(the program, its ranks, all below it), the ranks at work"""
        process = subprocess.Popen(
            [self.program, "run", *map(str, ENDLESS)], text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=pl.environment())
        self.addCleanup(process.stderr.close)
        for _ in range(600):
            below = descendants(process.pid)
            ranks = [pid for pid in below if runs_pagelane(pid)]
            if len(ranks) == 3:
                break
            time.sleep(0.1)
        self.assertEqual(len(ranks), 3, below)
        time.sleep(1)  # past MPI_Init
        return process, ranks, below

    def ended(self, process, below):
        """Its exit status, and what it said."""
        try:
            said = process.communicate(timeout=300)[1]
        finally:
            for _ in range(100):
                left = [pid for pid in below if lives(pid)]
                if not left:
                    break
                time.sleep(0.1)
            for pid in [process.pid] + left:  # or the test leaves them
                if lives(pid):
                    os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [])
        return process.returncode, said

    def test_a_killed_rank_is_told_of(self):
        process, ranks, below = self.start()
        os.kill(ranks[1], signal.SIGKILL)
        status, said = self.ended(process, below)
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertRegex(said, r"pagelane: one of 3 ranks was ended by signal "
                         r"9 \(Killed\); if memory ran out, lower ")

    def test_a_signal_ends_all(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            process, _, below = self.start()
            process.send_signal(number)
            status, _ = self.ended(process, below)
            self.assertEqual(status, 128 + number)

    def test_no_orphans_of_a_killed_program(self):
        process, _, below = self.start()
        process.kill()
        status, _ = self.ended(process, below)
        self.assertEqual(status, -signal.SIGKILL)


if __name__ == "__main__":
    pl.main(__doc__)
