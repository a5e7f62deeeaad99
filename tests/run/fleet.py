#!/usr/bin/python3
"""`pagelane sim --prefill --decode`: several instances in one virtual time.

One instance alone is the engine alone; what instances say adds up; routers and
links do what their names say; the points of a sweep are these simulations.
"""
import itertools
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import pagelane_run as pl  # noqa: E402

GLM = ("--hardware", "H200", "--model", "GLM-5.2", "--kv-dtype", "fp8",
       "--ep", 32)
TRACE = ("--trace", pl.SLICE, "--log-level", "warn")
# Evictions, and hits in both tiers.
TIERS = (*TRACE, "--block-tokens", 64, "--chunk", 512, "--device-pages", 250,
         "--host-pages", 600, "--max-new", 16)
ROUTERS = ("round-robin", "random", "best-prefix", "least-loaded",
           "prefix+load")


class Base(pl.Case):
    def sim(self, *args):
        return self.run_program(*args, verb="sim")

    def json(self, *args):
        return self.sim(*args, "--json").json()


class Fleet(Base):
    def test_the_same_line_prints_the_same(self):
        for router in ROUTERS:
            lines = [self.sim(*TIERS, "--prefill", "3x2", "--decode", "2x4:dp2",
                              "--router", router).stdout for _ in range(2)]
            self.assertEqual(*lines)

    def test_one_instance_is_the_engine(self):
        """--prefill 1xC is --cp C, whatever its tiers and table."""
        for more, c in itertools.product(((), GLM), (1, 8)):
            with self.subTest(more=more, c=c):
                fleet = self.json(*TIERS, *more, "--prefill", f"1x{c}")
                alone = self.json(*TIERS, *more, "--cp", c)
                # idle ticks are other ones: an instance is woken
                same = fleet.keys() & alone.keys() - {"ticks"}
                self.assertGreater(len(same), 80)
                self.assertEqual({k: fleet[k] for k in same},
                                 {k: alone[k] for k in same})

    def test_one_engine_points_to_instances(self):
        """Its decode waits for chunks; the line that does not is named, and is
        one that runs."""
        one = self.run_program("--trace", pl.SLICE, *GLM, "--cp", 8,
                               "--decode-ranks", 4, "--decode-pages",
                               "unlimited", "--json", verb="sim")
        self.assertEqual(one.stderr.count("--pd 1x8+1x4"), 1, one.stderr)
        self.assertLess(self.json(*TRACE, *GLM, "--pd", "1x8+1x4",
                                  "--decode-pages", "unlimited")["mean_tpot_ms"],
                        0.8 * one.json()["mean_tpot_ms"])
        for without in (("--cp", 8), ("--pd", "1x8+1x4")):
            run = self.run_program("--trace", pl.SLICE, *GLM, *without,
                                   verb="sim")
            self.assertNotIn("--pd", run.stderr)

    def test_instances_add_up(self):
        for shape in (("--prefill", "3x2"),
                      ("--prefill", "3x2", "--decode", "2x4:dp2"),
                      ("--decode", "3x2", "--cp", 4)):
            with self.subTest(shape=shape):
                said = self.json(*TIERS, *shape)
                sides = {name: [i for i in said["instances"]
                                if i["side"] == name]
                         for name in ("prefill", "decode")}
                self.assertEqual(len(sides["prefill"]),
                                 said["prefill_instances"])
                self.assertEqual(len(sides["decode"]),
                                 said["decode_instances"])
                self.check_sums(said, sides["prefill"],
                                sides["decode"] or sides["prefill"])

    def check_sums(self, said, prefill, decode):
        def total(side, name):
            return sum(instance[name] for instance in side)
        for name in ("completed", "total_input_tokens", "computed_tokens"):
            self.assertEqual(
                said[name], total(prefill, {"completed": "requests",
                                            "total_input_tokens":
                                                "prompt_tokens"}.get(name,
                                                                     name)))
        self.assertEqual(total(decode, "requests"), said["completed"])
        # the first token of each is prefill's
        self.assertEqual(total(decode, "decode_steps"),
                         said["total_output_tokens"] - said["completed"])
        self.assertEqual(total(prefill, "sent_bytes"),
                         total(decode, "received_bytes"))
        ms = sum(v for k, v in said.items() if k.startswith("prefill_")
                 and k.endswith("_ms")) / len(prefill)
        self.assertAlmostEqual(said["prefill_utilization"],
                               ms / said["duration"] / 1e3, 4)
        waits = sum(said[f"mean_wait_{name}_ms"] for name in
                    ("prefill", "home"))
        self.assertAlmostEqual(waits, sum(
            i["mean_wait_ms"] * i["requests"] for i in prefill) /
            said["completed"], 3)

    def test_the_trap_of_best_prefix(self):
        """All prompts begin alike, and the first is done before the second
        comes: one instance has the longest hit for ever, and gets all work.
        With prefix+load its queue counts too."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.jsonl")
            with open(path, "w", encoding="ascii") as file:
                for i in range(100):
                    print(json.dumps({
                        "timestamp": 700 * i + 5000 * (i > 0), "input_length": 8192,
                        "output_length": 4,
                        "hash_ids": [0, *range(16 * i + 1, 16 * i + 16)]}),
                        file=file)
            said = {router: self.json(
                "--trace", path, "--log-level", "warn", "--prefill", "4x2",
                "--decode", "1x8", "--router", router) for router in ROUTERS}
        trap = said["best-prefix"]
        self.assertEqual(trap["prefill_imbalance"], 4)
        self.assertEqual(trap["limiting_side"], "prefill")
        for router in ("round-robin", "least-loaded", "prefix+load"):
            self.assertLess(said[router]["prefill_imbalance"], 3, router)
            self.assertLess(said[router]["mean_ttft_ms"],
                            trap["mean_ttft_ms"] / 2, router)

    def test_a_slow_link_limits(self):
        shape = (*TRACE, *GLM, "--prefill", "2x8", "--decode", "1x16:dp2",
                 "--decode-pages", "unlimited")
        said = [self.json(*shape, "--pd-link", rate)
                for rate in ("20MB/s", "400MB/s", "50GB/s")]
        self.assertEqual(said[0]["limiting_side"], "link")
        for slow, fast in zip(said, said[1:]):
            for name in ("mean_wait_transfer_ms", "decode_link_utilization",
                         "mean_e2el_ms"):
                self.assertGreater(slow[name], fast[name], name)
        self.assertIn(b"Links between instances limit:",
                      self.sim(*shape, "--pd-link", "20MB/s").stdout)

    def test_decode_without_room_limits(self):
        said = self.json(*TRACE, "--prefill", "2x8", "--decode", "1x2",
                         "--decode-pages", 2000)
        self.assertEqual(said["limiting_side"], "decode")
        self.assertGreater(said["mean_wait_home_ms"],
                           said["mean_wait_prefill_ms"])
        self.assertGreater(sum(i["refusals"] for i in said["instances"]), 0)
        more = self.json(*TRACE, "--prefill", "2x8", "--decode", "1x2",
                         "--decode-pages", "unlimited")
        self.assertEqual(more["mean_wait_home_ms"], 0)

    def test_a_limit_says_which_side(self):
        """The side that the verdict names is the one that helps; with no limit
        broken it is what is waited for."""
        def keep(pd):
            return self.json(*TRACE, *GLM, "--ep", 0, "--speedup", 2, "--pd", pd,
                             "--slo", "ttft:5s,tpot:40ms")
        said = keep("2x8+1x8")
        self.assertEqual((said["most_broken"], said["limiting_side"],
                          said["limiting_part"]), ("tpot", "decode", "steps"))
        self.assertEqual(said["broke_tpot"],
                         said["completed"] - said["good_completed"])
        self.assertLessEqual(keep("3x8+1x8")["good_completed"],
                             said["good_completed"])
        more = keep("2x8+2x8")
        self.assertGreater(more["good_completed"], 2 * said["good_completed"])
        # prompts that wait, or that take long by themselves
        for pd, limit, part in (("1x8+1x8", "ttft:2s", "first_chunk"),
                                ("24x1+1x8", "ttft:1s", "prefill")):
            slow = self.json(*TRACE, *GLM, "--pd", pd, "--slo", limit)
            self.assertEqual((slow["most_broken"], slow["limiting_side"],
                              slow["limiting_part"]), ("ttft", "prefill", part))
        # nothing is waited for
        free = (*TRACE, *GLM, "--ep", 0, "--pd", "2x8+1x8")
        self.assertEqual(self.json(*free)["limiting_side"], "none")
        self.assertNotIn("most_broken", self.json(*free))
        self.assertIn(b"Nothing is waited for: of the ",
                      self.sim(*free).stdout)

    def test_chunks_between_steps(self):
        """Instances that decode too: what is slow is others' chunks."""
        said = self.json(*TRACE, *GLM, "--prefill", "3x8", "--slo", "tpot:60ms")
        self.assertEqual((said["most_broken"], said["limiting_side"],
                          said["limiting_part"]), ("tpot", "prefill", "chunks"))

    def test_a_batch_of_one(self):
        """`batch` counts those that step, not those that wait to."""
        said = self.json(*TRACE, *GLM, "--pd", "2x8+1x8", "--max-batch", 1)
        decode = said["instances"][-1]
        self.assertGreater(decode["batch"], 0.1)
        self.assertLessEqual(decode["batch"], decode["decode_utilization"])
        self.assertEqual(said["limiting_part"], "batch")

    def test_where_nothing_is_sent_no_link_limits(self):
        """Instances that decode too: a place in the batch, or chunks, is what
        comes between the first token and the first step."""
        for more in ((), ("--max-batch", 1), ("--slo", "tpot:1ms"),
                     ("--slo", "ttft:1s,tpot:1ms", "--max-batch", 1)):
            said = self.json(*TRACE, *GLM, "--prefill", "3x8", *more)
            self.assertNotEqual(said["limiting_side"], "link", more)
            self.assertEqual(said["mean_wait_transfer_ms"], 0)
            self.assertEqual(said["mean_wait_batch_ms"] > 0,
                             "--max-batch" in more, more)
            if more == ("--max-batch", 1):
                self.assertEqual(said["limiting_part"], "batch", more)

    def test_what_is_waited_for_is_what_is_said(self):
        """Without limits the verdict is the longest of the four waits, or none
        if they are little."""
        parts = ("first_chunk", "home", "transfer", "batch")
        seen = set()
        for more in (("--pd", "2x8+1x8", "--max-batch", 1),
                     ("--pd", "2x8+1x8", "--pd-link", "20MB/s"),
                     ("--pd", "1x8+2x8"), ("--pd", "4x8+4x8"),
                     ("--prefill", "2x8", "--max-batch", 1),
                     ("--pd", "2x8+1x2:dp1", "--decode-pages", 2000)):
            said = self.json(*TRACE, *GLM, *more)
            waits = [said[f"mean_wait_{part}_ms"]
                     for part in ("prefill", *parts[1:])]
            if sum(waits) < 0.05 * said["mean_e2el_ms"]:
                self.assertEqual(said["limiting_part"], "none", more)
            else:
                self.assertEqual(said["limiting_part"],
                                 parts[waits.index(max(waits))], more)
            seen.add(said["limiting_part"])
        self.assertGreater(len(seen), 3, seen)

    def test_drafts(self):
        """A step makes a token and what was right of its draft."""
        shape = (*TRACE, *GLM, "--prefill", "2x8", "--decode", "1x8",
                 "--decode-pages", "unlimited")
        usual = self.json(*shape)
        said = {mtp: self.json(*shape, "--mtp", mtp)
                for mtp in ("3:1", "2:0.8", "1:0")}
        lost = self.json(*shape, "--mtp", "2:0.8", "--mtp-kv", "lost")
        for one in (*said.values(), lost):
            steps = sum(i["decode_steps"] for i in one["instances"])
            self.assertEqual(steps + one["spec_decode_accepted_tokens"],
                             one["total_output_tokens"] - one["completed"])
        self.assertLess(said["3:1"]["mean_tpot_ms"],
                        said["2:0.8"]["mean_tpot_ms"])
        self.assertLess(said["2:0.8"]["mean_tpot_ms"], usual["mean_tpot_ms"])
        self.assertLess(usual["mean_tpot_ms"], said["1:0"]["mean_tpot_ms"])
        # prompts go through the layer too, if anyone keeps its KV of them: a
        # 78th of the model's, an indexer and the joint more
        self.assertEqual((usual["prefill_draft_ms"], lost["prefill_draft_ms"]),
                         (0, 0))
        for one in said.values():
            whole = sum(one[f"prefill_{part}_ms"] for part in (
                "launch", "project", "index", "topk", "attend", "expert",
                "exchange", "reduce", "draft"))
            self.assertGreater(one["prefill_draft_ms"], whole / 79)
            self.assertLess(one["prefill_draft_ms"], whole / 50)
        self.assertGreater(said["1:0"]["prefill_materialize_ms"],
                           lost["prefill_materialize_ms"])
        # the fixed table knows rows, kept or not
        plain = (*TRACE, "--prefill", "2x8", "--decode", "1x8")
        self.assertLess(self.json(*plain)["mean_tpot_ms"],
                        self.json(*plain, "--mtp", "1:0")["mean_tpot_ms"])
        # of two drafts 0.8 + 0.8 * 0.8 are right; without the prompt's KV less
        rate, less = (one["spec_decode_accepted_tokens"] /
                      one["spec_decode_draft_tokens"]
                      for one in (said["2:0.8"], lost))
        self.assertAlmostEqual(rate, 0.72, 2)
        self.assertLess(less, 0.7)
        # pages have the drafting layer's KV, or not
        sent = [sum(i["sent_bytes"] for i in one["instances"])
                for one in (usual, lost, said["2:0.8"])]
        self.assertEqual(sent[0], sent[1])
        self.assertGreater(sent[2], 1.01 * sent[0])

    def test_goodput_by_gpu(self):
        said = self.json(*TRACE, "--prefill", "2x8", "--decode", "2x8",
                         "--slo", "ttft:1s,tpot:30ms")
        self.assertEqual(said["gpus"], 32)
        self.assertGreater(said["good_completed"], 0)
        self.assertLess(said["good_completed"], said["completed"])
        self.assertAlmostEqual(said["request_goodput_per_gpu"],
                               said["request_goodput"] / 32, 5)


class Split(Base):
    """`sweep --pd auto`."""

    def sweep(self, folder, *args):
        return self.run_program(
            *TRACE, "--limit", 60, *args, "--output",
            os.path.join(folder, "a.h5"), "--json", verb="sweep").json()

    def test_points_are_simulations(self):
        options = ("--slo", "ttft:2s,tpot:60ms", "--decode-pages", "unlimited")
        with tempfile.TemporaryDirectory() as folder:
            points = self.sweep(folder, *options, "--pd", "auto", "--gpus", 32,
                                "--router", "round-robin,prefix+load")["points"]
        self.assertEqual({(p["options"]["pd"], p["options"]["router"])
                          for p in points},
                         {*itertools.product(
                             ("1x8+3x8:dp8", "2x8+2x8:dp8", "2x8+1x16:dp16",
                              "3x8+1x8:dp8"), ("round-robin", "prefix+load"))})
        for point in points[:2] + points[-2:]:
            alone = self.json(*TRACE, "--limit", 60, *options, *(
                word for name, value in point["options"].items()
                for word in ("--" + name, value)))
            for name, value in point["metrics"].items():
                if not name.startswith("broke_"):
                    # a sum of reals may differ in its last digit
                    self.assertAlmostEqual(value, alone[name], 5, name)
            self.assertEqual(point["metrics"]["gpus"], 32)
            self.assertIn("prefill busy", point["limited_by"])

    def test_weights_that_do_not_fit(self):
        """Such a split is a point that cannot be run, and is no best one."""
        with tempfile.TemporaryDirectory() as folder:
            points = self.sweep(folder, *GLM, "--ep", 0, "--pd", "auto",
                                "--gpus", 24, "--cp", "4,8", "--device-pages", "fit",
                                "--decode-pages", "fit")["points"]
        said = [(p["options"]["pd"], p["exit_status"]) for p in points]
        self.assertEqual({*said[:3]}, {("1x8+1x16:dp16", 0), ("1x8+2x8:dp8", 0),
                                       ("2x8+1x8:dp8", 0)})
        self.assertEqual({*said[3:]}, {("2x4+2x8:dp8", 4), ("4x4+1x8:dp8", 4),
                                       ("2x4+1x16:dp16", 4)})
        self.assertIn("the weights do not fit", points[-1]["limited_by"])

    def test_experts_on_gpus_of_nobody_are_told(self):
        """Once, of the side that has the fewest of them."""
        plan = ("--trace", pl.SLICE, "--limit", 1, *GLM)
        for ep, shape, says in (
                (32, ("--cp", 8), "prefill together are 8;"),
                (32, ("--pd", "1x32+1x16"), "decode together are 16;"),
                (16, ("--pd", "2x8+1x16"), "prefill together are 8;"),
                (16, ("--pd", "1x16+2x16"), None), (0, ("--cp", 8), None)):
            run = self.run_program(*plan, "--ep", ep, *shape, verb="sim")
            self.assertEqual(run.stderr.count("not counted in gpus"),
                             0 if says is None else 1, run.stderr)
            if says is not None:
                self.assertIn(f"the experts lie over {ep} GPUs, of which "
                              f"those that {says}", run.stderr)

    def test_what_would_make_them_fit_does(self):
        """One --ep is of both sides: that which is named is enough for both,
        and the next smaller in whole groups is not."""
        plan = (*TRACE, "--limit", 1, *GLM)
        for shape, group in ((("--prefill", "2x8", "--decode", "1x1"), 8),
                             (("--pd", "2x8+2x3:dp1"), 8),
                             (("--pd", "2x3+2x3:dp1"), 3),
                             (("--pd", "1x1+1x6:dp2"), 1),
                             (("--prefill", "2x3"), 3)):
            run = self.run_program(*plan, "--ep", 0, *shape, verb="sim",
                                   status=4)
            ep = int(re.search(r"over (\d+) GPUs \(--ep\)", run.stderr)[1])
            self.assertEqual(ep % group, 0)
            self.run_program(*plan, "--ep", ep, *shape, verb="sim")
            if ep > group:
                run = self.run_program(*plan, "--ep", ep - group, *shape,
                                       verb="sim", status=4)
                self.assertIn(f"over {ep} GPUs (--ep)", run.stderr)


if __name__ == "__main__":
    pl.main(__doc__)
