#!/usr/bin/python3
"""`pagelane run --ranks N` starts mpirun and stays with it to its end, and so
does `sweep`.

A signal sent to the program ends mpirun and its ranks; a rank that the system
kills is told of, since it cannot speak for itself; nothing is left behind.
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

# All ranks wait for one, longer than any test waits for them.
ENDLESS = [*pl.SMALL, "--chunk", 64, "--ranks", 3, "--device-pages", 800,
           "--host-pages", 1600, "--timeout", f"{2 * pl.LIMIT_S}s",
           "--inject", "rank.stall@rank:2,tick:9"]


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


def runs_pagelane(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith("/pagelane")
    except OSError:
        return False


class Launcher(pl.Case):
    def start(self):
        """(the program, its ranks, all below it), the ranks in a tick"""
        process = subprocess.Popen(
            [self.program, "run", *map(str, ENDLESS)], text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=pl.environment())
        self.addCleanup(process.stderr.close)
        self.assertIn("rank 2", pl.wait_for_line(process.stderr, "rank.stall"))
        below = descendants(process.pid)
        ranks = [pid for pid in below if runs_pagelane(pid)]
        self.assertEqual(len(ranks), 3, below)
        return process, ranks, below

    def ended(self, process, below):
        """Its exit status, and what it said."""
        try:
            said = process.communicate(timeout=pl.LIMIT_S)[1]
        finally:
            left = pl.wait_for_end(below)
            for pid in [process.pid] + left:  # or the test leaves them
                if pl.is_alive(pid):
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

    def test_no_orphans_of_a_killed_sweep(self):
        """Of points that take minutes: it would come to its end without."""
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "a.h5")
            process = subprocess.Popen(
                [self.program, "sweep", "--trace", pl.SLICE, "--passes", "2000",
                 "--cp", "1,2,4,8", "--evict", "lru,lfu,fifo,sieve,slru",
                 "--ranks", "3", "--output", output],
                text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=pl.environment())
            self.addCleanup(process.stderr.close)
            below = []
            while sum(map(runs_pagelane, below)) < 3:
                self.assertIsNone(process.poll())
                time.sleep(0.01)
                below = descendants(process.pid)
            process.kill()
            status, _ = self.ended(process, below)
            self.assertEqual(status, -signal.SIGKILL)
            self.assertFalse(os.path.exists(output))


if __name__ == "__main__":
    pl.main(__doc__)
