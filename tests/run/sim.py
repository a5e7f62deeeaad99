#!/usr/bin/python3
"""`pagelane sim`: the decisions of a run, in virtual time.

The same line prints the same bytes; what it prints follows from the snapshot it
leaves; it decides as `run --executor cost` does, and with --hardware as a run
that moves bytes does.
"""
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "support"))
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pagelane_run as pl  # noqa: E402

GLM = ("--hardware", "H200", "--model", "GLM-5.2", "--kv-dtype", "fp8",
       "--ep", 32)
# Evictions, and hits in both tiers.
TIERS = ("--trace", pl.SLICE, "--block-tokens", 64, "--chunk", 512,
         "--device-pages", 250, "--host-pages", 600, "--max-new", 16)


class Base(pl.Case):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def sim(self, *args, **more):
        return self.run_program(*args, "--log-level", "warn", verb="sim",
                                **more)

    def parts(self, a, b):
        """What `inspect diff` finds, by part."""
        run = pl.Run(self.program, a, "diff", b, "--json", verb="inspect")
        self.assertIn(run.status, (0, 1), run)
        return {part["part"]: part.get("first") for part in run.json()["parts"]
                if part["different"] > 0}


class Validate(Base):
    """A run's own times of day, held against what is predicted of it."""
    SAME = ("--trace", pl.SLICE, "--limit", 20, "--chunk", 2048,
            "--device-pages", 3000)

    def setUp(self):
        super().setUp()
        self.snapshot = self.path("run.h5")
        self.run_program(*self.SAME, "--executor", "stamp", "--ranks", 2,
                         "--comm", "local", "--verify", "off", "--snapshot",
                         self.snapshot)

    def test_times_of_requests_are_in_order(self):
        with h5py.File(self.snapshot) as file:
            arrival, first, finished = (
                file["timing"][name][...] for name in
                ("arrival_ns", "first_token_ns", "finished_ns"))
            total = file["timing"].attrs["run_ns"]
            virtual = file["requests/arrival_ns"][...]
        self.assertEqual(len(arrival), 20)
        self.assertGreaterEqual(arrival.min(), 0)
        self.assertTrue((np.diff(arrival[np.argsort(virtual)]) >= 0).all())
        self.assertTrue((arrival < first).all() and (first <= finished).all())
        # waiting for requests is counted, computing is not more than there was
        self.assertLess(finished.max(), total + virtual.max())

    def test_a_run_is_a_benchmark(self):
        found = self.sim(*self.SAME, "--cp", 2, "--validate",
                         self.snapshot, "--json").json()
        self.assertEqual((found["format"], found["prompts"], found["requests"],
                          found["failed"], found["unpredicted"]),
                         ("pagelane", "by number", 20, 0, 0))
        self.assertEqual(found["ttft_requests"], 20)
        self.assertGreater(found["measured_median_ttft_ms"], 0)
        self.assertGreaterEqual(found["ttft_median_error"], 0)

    def test_what_has_no_times_is_refused(self):
        planned, broken = self.path("sim.h5"), self.path("broken.h5")
        self.sim(*self.SAME, "--cp", 2, "--snapshot", planned)
        shutil.copy(self.snapshot, broken)
        with h5py.File(broken, "r+") as file:
            file["timing/arrival_ns"][0] = -2
        for path in (planned, broken):
            run = self.sim(*self.SAME, "--validate", path, status=3)
            self.assertEqual(run.stdout, b"")
            self.assertEqual(len(run.stderr.splitlines()), 1, run)


class Benchmarks(Base):
    """Files of benchmark clients, made from a seed: every number anew."""
    TIMES = ("ttft", "tpot", "e2el")

    def setUp(self):
        super().setUp()
        seed = int(os.environ.get("PL_TEST_SEED", time.time()))
        print(f"PL_TEST_SEED={seed}", flush=True)
        self.rng = random.Random(seed)

    def made(self, n):
        """Requests, not in the order in which they began."""
        rng, rows, start = self.rng, [], 1000
        for i in range(n):
            start += rng.expovariate(1)
            out = rng.choice([1, 2, 8, 40])
            rows.append({
                "in": rng.randint(1, 20000), "out": out, "start": start,
                "ttft": rng.uniform(.05, 3), "gaps":
                [rng.uniform(.01, .05) for _ in range(out - 1)],
                "failed": i > 0 and rng.random() < .2,
                "streams": i == 0 or rng.random() < .8})
        rng.shuffle(rows)
        return rows

    def vllm(self, rows):
        bad = [r["failed"] for r in rows]
        return json.dumps({
            "model_id": "m", "request_rate": "inf",
            "input_lens": [r["in"] for r in rows],
            "output_lens": [0 if b else r["out"] for b, r in zip(bad, rows)],
            "ttfts": [0 if b else r["ttft"] if r["streams"] else
                      r["ttft"] + sum(r["gaps"]) for b, r in zip(bad, rows)],
            "itls": [r["gaps"] if r["streams"] and not b else []
                     for b, r in zip(bad, rows)],
            "start_times": [r["start"] for r in rows],
            "errors": ["refused" if b else "" for b in bad]})

    def aiperf(self, rows):
        """Each number in any unit; what failed may not know its prompt."""
        def count(n):
            return {"value": n, "unit": "tokens"}
        lines = []
        for r in rows:
            unit, scale = self.rng.choice((("ns", 1e9), ("us", 1e6),
                                           ("ms", 1e3), ("sec", 1)))

            def timed(t):
                return {"value": t * scale, "unit": unit}
            metrics = {"input_sequence_length": count(r["in"]),
                       "output_sequence_length": count(r["out"]),
                       "request_latency": timed(r["ttft"] + sum(r["gaps"]))}
            if r["streams"]:
                metrics["time_to_first_token"] = timed(r["ttft"])
                metrics["inter_chunk_latency"] = {
                    "value": [g * scale for g in r["gaps"]], "unit": unit}
            if r["failed"]:
                metrics = self.rng.choice(({}, {"error_isl": count(r["in"])}))
            lines.append({"metadata": {
                "request_start_ns": int(1e9 * r["start"]) + 10**18,
                "benchmark_phase": "profiling"}, "metrics": metrics,
                "error": {"code": 499} if r["failed"] else None})
        return "\n".join(map(json.dumps, lines))

    def validated(self, text, *args, **more):
        path = self.path("bench.json")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return self.sim(*GLM, "--cp", 8, "--validate", path, *args, **more)

    def predicted(self):
        r = pl.Snapshot(self.path("sim.h5")).requests
        first, end = (r[k] - r["arrival_ns"] for k in ("first_token_ns",
                                                       "finished_ns"))
        gaps = np.maximum(r["generated_tokens"] - 1, 1)
        return {"ttft": first, "e2el": end, "tpot": (end - first) // gaps}

    @staticmethod
    def measured(row, is_aiperf):
        """In ns; 0: there is none."""
        alone = row["out"] == 1
        rest = sum(row["gaps"])
        return {"ttft": row["ttft"] if row["streams"] or (
                    alone and not is_aiperf) else 0,
                "tpot": 0 if alone or not row["streams"] else
                rest / (row["out"] - 1), "e2el": row["ttft"] + rest}

    def check(self, said, good, is_aiperf):
        predicted, worst = self.predicted(), []
        for name in self.TIMES:
            pairs = [(predicted[name][i],
                      1e9 * self.measured(r, is_aiperf)[name])
                     for i, r in enumerate(good)]
            pairs = np.array([p for p in pairs if min(p) > 0]).reshape(-1, 2)
            self.assertEqual(said[name + "_requests"], len(pairs))
            if len(pairs) == 0:
                self.assertNotIn(name + "_mape", said)
                continue
            errors = abs(pairs[:, 0] - pairs[:, 1]) / pairs[:, 1]
            middle = (len(pairs) - 1) // 2
            for key, want in (
                    ("_mape", errors.mean()),
                    ("_median_error", sorted(errors)[middle])):
                self.assertAlmostEqual(said[name + key], want,
                                       delta=1e-5 * (1 + want))
            for side, key in enumerate(("predicted", "measured")):
                self.assertAlmostEqual(
                    said[f"{key}_median_{name}_ms"],
                    sorted(pairs[:, side])[middle] / 1e6, 4)
            if len(pairs) > 2:
                self.assertAlmostEqual(said[name + "_r"], np.corrcoef(
                    *pairs.T)[0, 1], 4)
        for i, r in enumerate(good):
            errors = [abs(predicted[n][i] - 1e9 * m) / (1e9 * m) for n, m in
                      self.measured(r, is_aiperf).items()
                      if m > 0 and predicted[n][i] > 0]
            worst.append(max(errors))
        np.testing.assert_allclose([w["error"] for w in said["worst"]],
                                   sorted(worst, reverse=True)[:10], 1e-4)

    def test_numbers_are_those_of_the_records(self):
        for n in (1, 3, 60):
            for make in (self.vllm, self.aiperf):
                rows = self.made(n)
                good = sorted((r for r in rows if not r["failed"]),
                              key=lambda r: r["start"])
                said = self.validated(make(rows), "--json", "--snapshot",
                                      self.path("sim.h5")).json()
                self.assertEqual((said["requests"], said["failed"]),
                                 (n, n - len(good)))
                self.assertEqual(said["unstreamed"], sum(
                    not r["streams"] and r["out"] > 1 for r in good))
                self.check(said, good, make == self.aiperf)

    def test_a_fit_says_what_it_came_to(self):
        """And with it the prediction is that again."""
        cal = self.path("cal.json")
        text = self.vllm(self.made(30))
        fitted = self.validated(text, "--fit", cal, "--json").json()["fitted"]
        again = self.validated(text, "--calibrate", cal, "--json").json()
        with open(cal, encoding="ascii") as file:
            fit = json.load(file)["fit"]
        self.assertEqual((fit["prefill_scale"], fit["decode_scale"]),
                         (fitted.pop("prefill_scale"),
                          fitted.pop("decode_scale")))
        self.assertEqual(fitted, {k: again[k] for k in fitted})

    def test_without_a_first_token_there_is_no_fit(self):
        rows = [r for r in self.made(50) if r["out"] > 1][:5]
        for row in rows:
            row["streams"] = row["failed"] = False
        run = self.validated(self.vllm(rows), "--fit", self.path("cal.json"),
                             status=3)
        self.assertIn("run the client with streaming on", run.stderr)
        self.assertFalse(os.path.exists(self.path("cal.json")))

    def test_a_replay_begins_as_its_trace_says(self):
        """SGLang tells no time of it, and makes blocks of its own length."""
        with open(pl.SLICE, encoding="ascii") as file:
            played = [json.loads(line) for line in file][:20]
        bench = {"request_rate": "trace", "max_concurrency": None,
                 "output_lens": [5] * 20, "ttfts": [.2] * 20,
                 "itls": [[.01] * 4] * 20, "errors": [""] * 20,
                 "input_lens": [p["input_length"] for p in played]}
        run = self.validated(json.dumps(bench), status=3)
        self.assertIn("name that trace with --trace", run.stderr)
        named = ("--trace", pl.SLICE, "--snapshot", self.path("sim.h5"))
        said = self.validated(json.dumps(bench), *named, "--json").json()
        self.assertEqual((said["start_times"], said["prompts"]),
                         ("trace", "in order"))
        arrivals = pl.Snapshot(self.path("sim.h5")).requests["arrival_ns"]
        since = [1000000 * (p["timestamp"] - played[0]["timestamp"])
                 for p in played]
        self.assertEqual(list(arrivals), since)
        bench.update(request_rate=float("inf"), dataset_name="mooncake",
                     input_lens=[129 * len(p["hash_ids"]) + 20
                                 for p in played])
        run = self.validated(json.dumps(bench), *named, status=3)
        self.assertIn("--block-tokens", run.stderr)
        self.validated(json.dumps(bench), *named, "--block-tokens", 129)
        r = pl.Snapshot(self.path("sim.h5")).requests
        self.assertEqual(list(r["arrival_ns"]), since)
        for tokens, p in zip(r["prompt_tokens"], played):
            self.assertAlmostEqual(tokens, p["input_length"] * 129 / 512,
                                   delta=1)

    def test_what_is_read_is_not_written_over(self):
        text = self.vllm(self.made(2))
        for option in ("--fit", "--snapshot"):
            run = self.validated(text, option, self.path("bench.json"),
                                 status=2)
            self.assertIn("it is read too", run.stderr)
            with open(self.path("bench.json"), encoding="ascii") as file:
                self.assertEqual(file.read(), text)


class Sim(Base):
    def test_the_same_line_prints_the_same(self):
        for args in ((), GLM, (*GLM, "--decode-ranks", 3, "--explore", 2)):
            lines = [self.sim(*TIERS, "--cp", 4, *args).stdout
                     for _ in range(2)]
            self.assertEqual(*lines)

    def test_run_without_bytes_is_the_same(self):
        """Under the fixed table and under that of a model."""
        for more in ((), GLM):
            files = [self.path(name) for name in ("sim.h5", "run.h5")]
            self.sim(*TIERS, *more, "--cp", 4, "--decode-ranks", 2,
                     "--snapshot", files[0])
            self.run_program(*TIERS, *more, "--executor", "cost", "--ranks", 6,
                             "--decode-ranks", 2, "--comm", "local",
                             "--snapshot", files[1])
            self.assertEqual(self.parts(*files), {})

    def test_a_model_on_hardware_decides_for_a_run_of_stamps_too(self):
        """Time is that of the model's pages, whatever bytes are moved."""
        files = [self.path(name) for name in ("sim.h5", "run.h5")]
        self.sim(*TIERS, *GLM, "--cp", 4, "--snapshot", files[0])
        self.run_program(*TIERS, *GLM, "--executor", "stamp", "--ranks", 4,
                         "--comm", "local", "--snapshot", files[1])
        parts = self.parts(*files)
        for same in ("nodes", "lanes"):
            self.assertNotIn(same, parts)
        with h5py.File(files[0], "r") as a, h5py.File(files[1], "r") as b:
            self.assertEqual([name for name in a["events"] if not
                              np.array_equal(a["events"][name][:],
                                             b["events"][name][:])],
                             ["moved_bytes"])
        # and it is another time than that of the fixed table
        self.sim(*TIERS, "--cp", 4, "--snapshot", files[1])
        self.assertIn("events", self.parts(*files))

    def test_numbers_follow_from_the_records(self):
        path = self.path("a.h5")
        line = (*TIERS, *GLM, "--cp", 4, "--decode-ranks", 2, "--json")
        usual = self.sim(*line).json()
        limits = [int(usual[f"p90_{name}_ms"]) for name in ("ttft", "tpot")]
        said = self.sim(*line, "--snapshot", path, "--slo",
                        "ttft:%dms,tpot:%dms" % tuple(limits)).json()
        r = pl.Snapshot(path).requests
        hit = r["device_hit_tokens"] + r["host_hit_tokens"]
        pages = r["prompt_tokens"] // 64
        self.assertAlmostEqual(said["hit_rate"],
                               hit.sum() / r["prompt_tokens"].sum(), 5)
        self.assertAlmostEqual(said["mean_request_hit_rate"],
                               (hit / r["prompt_tokens"]).mean(), 5)
        self.assertAlmostEqual(said["page_hit_rate"],
                               (hit // 64).sum() / pages.sum(), 5)
        ttft = r["first_token_ns"] - r["arrival_ns"]
        some = r["generated_tokens"] > 1
        tpot = np.where(some, (r["finished_ns"] - r["first_token_ns"]) //
                        np.maximum(r["generated_tokens"] - 1, 1), 0)
        good = ((ttft <= limits[0] * 1e6) & (tpot <= limits[1] * 1e6)).sum()
        self.assertGreater(good, 0)
        self.assertLess(good, len(ttft))
        self.assertEqual(said["good_completed"], good)
        self.assertAlmostEqual(said["request_goodput"],
                               good / said["duration"], 4)
        gaps = (r["finished_ns"] - r["first_token_ns"])[some].sum()
        tokens = (r["generated_tokens"] - 1)[some].sum()
        self.assertAlmostEqual(said["mean_itl_ms"], gaps / tokens / 1e6, 4)
        self.assertEqual(said["evicted_then_needed_pages"],
                         r["miss_evicted"].sum())
        self.assertGreater(said["evicted_then_needed_pages"], 0)
        self.assertGreater(said["host_hit_tokens"], 0)
        self.assertGreater(said["h2d_link_bytes"], 0)
        self.assertAlmostEqual(said["computed_imbalance"], 1, 1)
        self.assertGreaterEqual(said["computed_imbalance"], 1)

    def test_hits_change_time(self):
        """The same requests again: less is computed, and sooner."""
        first, again = (self.sim(
            *TIERS, *GLM, "--cp", 4, "--device-pages", "unlimited", "--passes",
            n, "--json").json() for n in (1, 2))
        spent = [sum(v for k, v in said.items()
                     if k.startswith("prefill_") and k.endswith("_ms"))
                 for said in (first, again)]
        self.assertLess(spent[1], 1.5 * spent[0])
        self.assertLess(again["mean_ttft_ms"], first["mean_ttft_ms"])
        self.assertGreater(again["time_hit_rate"], 0.4)

    def test_faster_hardware_and_measured_rates(self):
        ttft = {}
        for name, more in (("H20", ()), ("H100", ()), ("B200", ())):
            ttft[name] = self.sim(
                *TIERS, "--hardware", name, "--model", "GLM-5.2", "--kv-dtype",
                "fp8", "--cp", 4, "--ep", 32, *more, "--json").json()["mean_ttft_ms"]
        self.assertGreater(ttft["H20"], ttft["H100"])
        self.assertGreater(ttft["H100"], ttft["B200"])
        slow = self.path("slow.json")
        with open(slow, "w", encoding="ascii") as file:
            json.dump({"bench": "kernels", "grouped_tflops": 50}, file)
            json.dump({"bench": "snapshot", "tier_read_mb_s": 900}, file)
        slower = self.sim(*TIERS, *GLM, "--cp", 4, "--calibrate", slow,
                          "--json").json()
        usual = self.sim(*TIERS, *GLM, "--cp", 4, "--json").json()
        self.assertGreater(slower["prefill_expert_ms"],
                           2 * usual["prefill_expert_ms"])
        # what was not measured stays
        for part in ("attend", "index", "materialize"):
            key = f"prefill_{part}_ms"
            self.assertEqual(slower[key] / slower["chunks"],
                             usual[key] / usual["chunks"])

    def test_a_snapshot_is_that_of_a_run(self):
        path = self.path("a.h5")
        self.sim(*TIERS, *GLM, "--cp", 2, "--snapshot", path)
        for words in (("requests",), ("nodes",), ("lanes",)):
            run = pl.Run(self.program, path, *words, verb="inspect")
            self.assertEqual(run.status, 0, run)
        run = pl.Run(self.program, path, verb="check")
        self.assertEqual(run.status, 0, run)
        with h5py.File(path, "r") as file:
            self.assertEqual(file["config"].attrs["ranks"], b"2")
            self.assertEqual(file["config"].attrs["executor"], b"cost")


class Fits(Base):
    """`fit` is what `size` says of the same GPUs."""

    # prompts of up to 16,000 tokens, a view of one
    ROOM = ("--context", 16384)

    def size(self, *args):
        return self.run_program(*args, *GLM, *self.ROOM, "--gpus", 32,
                                "--json", verb="size").json()

    def check(self, gpus, key, pages, option, *line):
        """`pages` of a rank fit into some share of the memory."""
        all_ = self.size(*gpus)
        own = all_["ownership"][key]
        view, each = own["view_bytes"], own["rank_page_bytes"]
        if key == "layer-split": # the view is of all pages
            each += view // own["device"]["pages_per_rank"]
            view = 0
        need = all_["gpu_weight_bytes"]["all"] + view + (pages + 0.5) * each
        share = "%.9f" % (need / all_["memory_bytes"])
        own = self.size(*gpus, "--mem-fraction", share)["ownership"][key]
        self.assertEqual(own["device"]["pages_per_rank"], pages)
        said = [self.sim(*TIERS, *GLM, *self.ROOM, "--mem-fraction", share,
                         *line, option, n, "--json").stdout
                for n in ("fit", pages, pages - 20)]
        self.assertEqual(said[0], said[1])
        self.assertNotEqual(said[1], said[2])

    def test_pages_of_a_lane(self):
        for ownership, key in (("zigzag", "shared"), ("layer", "layer-split"),
                               ("replicated", "replicated")):
            self.check(("--cp", 4), key, 300, "--device-pages", "--cp", 4,
                       "--ownership", ownership)

    def test_a_session_is_no_longer_than_the_model_has_positions(self):
        """Where --context is not said, views are those of small models."""
        tiny = ("--hardware", "Xeon-8480", "--kv-dtype", "fp8", "--model",
                os.path.join(pl.ROOT, "examples", "glm-tiny"), "--cp", 2,
                "--ep", 2, "--page-size", 512, "--json")
        own = self.run_program(*tiny, "--gpus", 2, "--context", 4096,
                               verb="size").json()["ownership"]["shared"]
        said = self.sim("--trace", pl.SLICE, "--limit", 2, *tiny,
                        "--device-pages", "fit", "--decode-pages",
                        "unlimited").json()
        self.assertEqual(said["device_capacity_tokens"],
                         own["device"]["tokens"])

    def test_pages_of_a_home(self):
        """A GPU that decodes keeps pages whole, whatever prefill does."""
        self.check(("--cp", 1), "replicated", 290, "--decode-pages", "--cp", 4,
                   "--decode-ranks", 1)

    def test_pages_of_drafts(self):
        """With `--mtp-kv lost` only who drafts keeps the layer's KV."""
        drafts = ("--cp", 4, "--mtp", "1:0.5", "--mtp-kv")
        for kv in ("kept", "lost"):
            self.check(("--cp", 4, "--mtp-layers", 1), "shared", 300,
                       "--device-pages", *drafts, kv)
            self.check(("--cp", 1, "--mtp-layers", 1), "replicated", 290,
                       "--decode-pages", *drafts, kv, "--decode-ranks", 1)
        self.check(("--cp", 4), "shared", 300, "--device-pages", *drafts,
                   "lost", "--decode-ranks", 1)

    def test_weights_of_a_home(self):
        """On each side those of its own: by the experts over its instances'
        GPUs, and of decode by the GPUs that split a home."""
        for decode, status in (("1x8:dp1", 0), ("1x8:dp8", 4), ("1x16", 0)):
            run = self.sim(*TIERS, "--hardware", "H200", "--model", "GLM-5.2",
                           "--kv-dtype", "fp8", "--mem-fraction", 0.7,
                           "--prefill", "1x16", "--decode", decode,
                           "--decode-pages", "fit", status=status)
            self.assertEqual("on a GPU that decodes" in run.stderr, status == 4)


class Same(Base):
    """What a simulation plans is what a run of stamps did: of each operation
    the pages, bytes, and from which slot to which, summed over the ranks."""

    # (ranks, decode ranks, device pages a rank, options of both)
    TRACE = ("--trace", pl.SLICE, "--block-tokens", 16, "--page-size", 16,
             "--chunk", 128, "--max-new", 16)

    def both(self, ranks, decode, *more, comm="local", run=(), sim=()):
        files = [self.path(name) for name in ("run.h5", "sim.h5")]
        pages = ("--device-pages", 2000 // (ranks - decode) + 10)
        line = (*self.TRACE, *pages, "--host-pages", 700, *more,
                "--decode-ranks", decode)
        self.run_program(*line, *run, "--ranks", ranks, "--comm", comm,
                         "--log-level", "error", "--snapshot", files[0])
        self.sim(*line, *sim, "--cp", ranks - decode, "--log-level", "error",
                 "--snapshot", files[1])
        parts = self.parts(*files)
        self.assertEqual({*parts} - {"config", "requests", "counters",
                                     "other"}, set(), parts)
        self.assertIn("digest", parts["requests"]) # which only a run has
        return files[0]

    def slots(self, path):
        """Recomputes records from the pages that events name."""
        with h5py.File(path, "r") as file:
            lanes = int(file["layout"].attrs["n_lanes"])
            size = int(file["layout"].attrs["page_tokens"])
            events = {k: v[:] for k, v in file["events"].items()}
        kinds = [kind.decode() for kind in events["kinds"]]
        checked = dict.fromkeys(("chunk", "load", "send", "offload", "resume"),
                                0)
        for i, kind in enumerate(kinds[k] for k in events["kind"]):
            if kind not in checked:
                continue
            pages, other = ([int(page) for page in events[name][slice(
                *events[name + "_offset"][i:i + 2])]]
                for name in ("pages", "other"))
            first = {"chunk": int(events["value"][i]) // size,
                     "load": int(events["value"][i]),
                     "send": int(events["value2"][i])}.get(kind, 0)
            hashes = 0
            for at, page in enumerate(pages):
                hashes += sum(place(first + at, *ends) for ends in {
                    "chunk": lambda: [(-1, page // lanes)],
                    "load": lambda: [(other[at] // lanes, page // lanes)],
                    "send": lambda: [(page // lanes, -1), (-1, other[at])],
                    "offload": lambda: [(page, other[at])],
                    "resume": lambda: [(other[at], page)]}[kind]())
            self.assertEqual(int(events["moved_pages"][i]), len(pages), kind)
            self.assertEqual(int(events["moved_hash"][i]), hashes % 2**64,
                             f"event {i}, {kind}")
            checked[kind] += 1
        return checked

    def test_zigzag(self):
        for ranks, decode in ((1, 0), (2, 0), (4, 0), (8, 0), (8, 3)):
            with self.subTest(ranks=ranks, decode=decode):
                seen = self.slots(self.both(ranks, decode))
                self.assertGreater(seen["chunk"], 90)
                self.assertGreater(seen["send"], 90)

    def test_other_rules_and_policies(self):
        for ranks, more in (
                (2, ("--ownership", "replicated")),
                (4, ("--ownership", "replicated", "--evict", "slru")),
                (8, ("--ownership", "round-robin", "--evict", "lfu")),
                (4, ("--ownership", "interleave:3", "--write-policy",
                     "write_through_selective")),
                (8, ("--explore", 3, "--write-policy", "write_back"))):
            with self.subTest(ranks=ranks, more=more):
                self.both(ranks, 0, *more)

    def test_pages_come_back_from_the_host(self):
        for ranks in (1, 2, 4, 8):
            with self.subTest(ranks=ranks):
                seen = self.slots(self.both(
                    ranks, 0, "--passes", 2, "--device-pages",
                    1600 // ranks + 10, "--host-pages", 8000 // ranks))
                self.assertGreater(seen["load"], 5)

    def test_decode_is_put_off(self):
        seen = self.slots(self.both(
            2, 1, "--block-tokens", 64, "--page-size", 64, "--chunk", 512,
            "--decode-pages", 240, "--max-new", 200, "--decode-host-pages",
            300))
        self.assertGreater(seen["offload"], 0)
        self.assertGreater(seen["resume"], 0)

    def test_storage(self):
        for ranks in (1, 2, 4):
            with self.subTest(ranks=ranks):
                path = self.both(
                    ranks, 0, "--passes", 2, "--prefetch-policy",
                    "wait_complete", "--prefetch-threshold", 16,
                    run=("--storage", self.path(f"disk{ranks}")),
                    sim=("--storage-pages", "unlimited"))
                with h5py.File(path, "r") as file:
                    kinds = [k.decode() for k in file["events/kinds"][:]]
                    kind, moved = (file["events/" + name][:] for name in
                                   ("kind", "moved_pages"))
                for name in ("store", "fetch"):
                    self.assertGreater(
                        moved[kind == kinds.index(name)].sum(), 0)

    def test_under_mpi(self):
        self.slots(self.both(3, 1, comm="mpi"))

    def test_other_lanes_are_another_record(self):
        files = [self.path(name) for name in ("run.h5", "sim.h5")]
        for file, more in zip(files, ((), ("--ownership", "round-robin"))):
            self.sim(*TIERS, "--cp", 4, *more, "--snapshot", file)
        self.assertIn("events", self.parts(*files))


RULES = ("replicated", "zigzag", "round-robin", "interleave:3", "layer")
POLICIES = ("lru", "lfu", "slru", "fifo", "s3fifo", "sieve", "lane-aware",
            "belady")


class Ownership(Base):
    """Who keeps what, with any order of eviction."""

    def test_every_rule_goes_with_every_policy(self):
        """Three tiers, all of them too small; what is left is whole."""
        some = dict.fromkeys(("loads", "storage_fetches", "write_backs"), 0)
        for i, rule in enumerate(RULES):
            for evict in POLICIES:
                with self.subTest(rule=rule, evict=evict):
                    file = self.path("sim.h5")
                    one = rule in ("replicated", "layer")
                    pages = (500, 700, 900) if one else (190, 240, 330)
                    said = self.sim(
                        "--trace", pl.SLICE, "--block-tokens", 64, "--chunk",
                        512, "--max-new", 16, "--cp", 3, "--passes", 2,
                        "--limit", 60, "--device-pages", pages[0],
                        "--host-pages", pages[1], "--storage-pages", pages[2],
                        "--prefetch-policy", "wait_complete",
                        "--write-policy", "write_back" if i % 2 else
                        "write_through", "--ownership", rule, "--evict",
                        evict, "--snapshot", file, "--json").json()
                    self.assertEqual(said["completed"], 2 * 60)
                    self.assertGreater(said["evicted_pages"], 0)
                    if one:
                        self.assertEqual(said["lane_alone_deficits"], 0)
                    for name in some:
                        some[name] += said[name]
                    check = pl.Run(self.program, file, verb="check")
                    self.assertEqual(check.status, 0, check)
        self.assertTrue(all(some.values()), some)

    def test_layers_are_a_part_of_each_page(self):
        """Of five layers on two ranks a rank has three at most."""
        said = self.sim(*TIERS, "--cp", 2, "--device-pages", 500,
                        "--stamp-layers", 5, "--ownership", "layer",
                        "--json").json()
        page = 64 * 2 * 64 * 5
        self.assertEqual(said["d2h_link_bytes"],
                         said["backup_pages"] * page * 3 // 5)
        self.assertEqual(said["backup_bytes_moved"],
                         said["backup_pages"] * page)
        self.assertAlmostEqual(said["backup_imbalance"], 6 / 5, 5)

    def test_drafts_are_a_part_of_each_page(self):
        """Where their KV goes along; the link carries what is moved."""
        for kv, token in (("kept", 53940 + 788), ("lost", 53940)):
            said = self.sim(*TIERS, *GLM, "--cp", 1, "--device-pages", 500,
                            "--mtp", "2:0.5", "--mtp-kv", kv, "--json").json()
            self.assertGreater(said["backup_pages"], 0)
            self.assertEqual(said["backup_bytes_moved"],
                             said["backup_pages"] * 64 * token)
            self.assertEqual(said["backup_bytes_moved"],
                             said["d2h_link_bytes"])
            self.assertEqual(said["send_bytes_moved"], said["pd_link_bytes"])

    def test_host_bytes_are_of_a_rank(self):
        """And tiers hold what `size` says of the same bytes."""
        more = (*GLM, "--host-gb", 9, "--context", 120000, "--json")
        size = self.run_program(*more, "--gpus", 32, "--cp", 8,
                                verb="size").json()["ownership"]
        for rule, name in (("replicated", "replicated"), ("zigzag", "shared"),
                           ("layer", "layer-split")):
            with self.subTest(rule=rule):
                said = self.sim(*TIERS[:4], *more, "--cp", 8, "--ownership",
                                rule, "--device-pages", "fit").json()
                for tier in ("device", "host"):
                    self.assertEqual(said[tier + "_capacity_tokens"],
                                     size[name][tier]["tokens"])


class Whole(Base):
    """The whole conversation trace, if it is here."""

    def test_memory_and_misses(self):
        trace = pl.conversation_trace()
        if trace is None:
            self.skipTest("no conversation trace")
        said = self.sim("--trace", trace, "--cp", 8, "--decode-ranks", 8, *GLM,
                        "--decode-pages", 20000, "--json").json()
        self.assertEqual(said["completed"], 12031)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(most, 1 << 20) # KiB
        # whatever was not hit has a cause, and each evicted page is computed
        # again
        pages = sum(v for k, v in said.items()
                    if k.startswith("miss_") and k.endswith("_pages"))
        self.assertLess(said["computed_tokens"], 64 * pages)
        self.assertGreater(said["computed_tokens"], 64 * (pages - 12031))
        self.assertEqual(said["recomputed_tokens"],
                         64 * said["evicted_then_needed_pages"])
        self.assertGreater(said["evicted_then_needed_pages"], 0)


def place(position, old, new):
    """As pl_op_place_hash."""
    m = (1 << 64) - 1

    def fold(h, value):
        return pl.mix64(h ^ ((value + 0x9E3779B97F4A7C15 + (h << 6)) & m))
    return fold(fold(position, old & m), new & m)


if __name__ == "__main__":
    pl.main(__doc__)
