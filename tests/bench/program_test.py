"""attn-bench from outside: the worked example, checks, results for programs, mistakes in the arguments, a tiny sweep.

usage: program_test.py PATH_OF_ATTN_BENCH [PATH_OF_ITS_MAN_PAGE] [CLASS...]
Every class whose name ends in Test is a ctest entry of its own.
"""

import csv
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

BENCH = os.path.abspath(sys.argv.pop(1))
MAN_PAGE = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1].endswith(".1") else None
HERE = os.path.dirname(os.path.abspath(__file__))

SUBCOMMANDS = ["sweep", "sdpa", "layer", "check", "compare", "example", "explain", "list", "version", "help"]

# What users of the results may rely on.
RESULT_FIELDS = (
    "problem kind engine dtype threads d_model len ms_median ms_min ms_cpu ms_setup spread repeats sampled "
    "sampled_rows flops gflops gflops_best gbytes_per_s speed_up fma_peak_gflops blas_peak_gflops "
    "read_peak_gbytes_per_s share_of_peak bytes_workspace bytes_working_set error_max error_abs error_share "
    "batch heads head_dim threads_busy caches checksum shape"
).split()
MACHINE_FIELDS = "cores instruction_set date blas blas_name blas_version blas_core threads library compiler versions".split()


def run(*arguments, **environment):
    return subprocess.run([BENCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **environment})


def synthetic(points, **machine):
    """A file of --json with the given points: (engine, length, median, spread, repeats)."""
    results = [{"problem": f"h2q{n}d64", "kind": "sdpa", "engine": engine, "dtype": "f32", "threads": 1, "ms_median": ms,
                "spread": spread, "repeats": repeats, "sampled": False} for engine, n, ms, spread, repeats in points]
    return {"machine": {"cpu": "A", "cores": 2, "date": "today", **machine}, "peaks": [], "results": results, "not_timed": []}


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def compare(self, old, new, *options):
        return run("compare", self.write("old.json", old), self.write("new.json", new), *options)

    def test_what_the_bench_writes_equals_itself(self):
        file = os.path.join(self.folder.name, "results.json")
        self.assertEqual(run("sdpa", "h2q64d16", "--min-time", "0.01", "--json", file).returncode, 0)
        done = run("compare", file, file)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("4 points in both, 0 changed beyond their spread", done.stdout)
        self.assertNotIn("differ", done.stdout)
        self.assertEqual(len(re.findall(r"(?m)^ +\+0\.0%.* sdpa ", run("compare", file, file, "--all").stdout)), 4)

    def test_a_change_counts_beyond_spread_and_bound(self):
        old = synthetic([("fused", 64, 10, 0.02, 9), ("fused", 128, 20, 0.02, 9)])
        cases = [
            # new times, options, status, words
            ((10, 20), (), 0, "0 changed"),
            ((10.2, 20), (), 0, "0 changed"),  # within the spread of both, 2.8 %
            ((10.4, 20), (), 0, "1 changed beyond their spread, 0 of them slower"),
            ((11, 20), (), 1, "1 changed beyond their spread, 1 of them slower by more than 5 %"),
            ((11, 20), ("--bound", "12%"), 0, "no regression"),
            ((11, 20), ("--bound", "9.9"), 1, "REGRESSION"),
            ((8, 16), (), 0, "2 changed beyond their spread, 0 of them slower"),
        ]
        for times, options, status, words in cases:
            with self.subTest(times=times, options=options):
                new = synthetic([("fused", 64, times[0], 0.02, 9), ("fused", 128, times[1], 0.02, 9)])
                done = self.compare(old, new, *options)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertIn(words, done.stdout)

    def test_noise_and_few_repeats_are_no_regression(self):
        for spread, repeats in ((0.5, 9), (None, 1), (0.001, 2)):
            done = self.compare(synthetic([("blas", 64, 10, spread, repeats)]), synthetic([("blas", 64, 13, spread, repeats)]))
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("0 changed", done.stdout)

    def test_many_small_changes_are_one(self):
        lengths = range(64, 64 + 12)
        old = synthetic([("blas", n, 10, 0.2, 5) for n in lengths] + [("fused", n, 10, 0.2, 5) for n in lengths])
        new = synthetic([("blas", n, 10.8 + 0.01 * (n % 3), 0.2, 5) for n in lengths] +
                        [("fused", n, 10 + (n % 2 - 0.5), 0.2, 5) for n in lengths])
        done = self.compare(old, new)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^blas .*\+8\.\d%.* !!$")
        self.assertIn("24 points in both, 0 changed", done.stdout)
        self.assertIn("1 engine slower in the mean", done.stdout)
        self.assertEqual(self.compare(old, new, "--bound", "10%").returncode, 0)

    def test_what_only_one_file_has_is_named(self):
        old = synthetic([("blas", 64, 10, 0.02, 9), ("blas", 65, 10, 0.02, 9)])
        new = synthetic([("blas", 64, 10, 0.02, 9), ("blas", 66, 10, 0.02, 9)], cpu="B", cores=4)
        done = self.compare(old, new)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"only in old:\n  blas sdpa h2q65d64")
        self.assertRegex(done.stdout, r"only in new:\n  blas sdpa h2q66d64")
        self.assertIn("machines differ: cpu: old 'A', new 'B'", done.stdout)
        self.assertIn("machines differ: cores: old 2, new 4", done.stdout)
        self.assertNotIn("differ: date", done.stdout)

    def test_a_point_that_fails_now_is_a_regression(self):
        old = synthetic([("blas", 64, 10, 0.02, 9), ("fused", 64, 10, 0.02, 9)])
        new = synthetic([("blas", 64, 10, 0.02, 9)])
        new["not_timed"] = [{"problem": "h2q64d64", "kind": "sdpa", "engine": "fused", "dtype": "f32", "threads": 1,
                             "state": "failed", "reason": "disagrees"}]
        done = self.compare(old, new)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("fused sdpa h2q64d64, f32, 1 thread (failed in the other)", done.stdout)

    def test_nothing_in_common_fails(self):
        done = self.compare(synthetic([("blas", 64, 10, 0.02, 9)]), synthetic([("blas", 65, 10, 0.02, 9)]))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^attn-bench: compare: no point is in both .*old.json and .*new.json: nothing was compared\n$")
        self.assertNotIn("regression", done.stdout)

    def test_layers_are_points_of_their_own(self):
        layer, before = (synthetic([("layer", 64, 10, 0.02, 9)]) for _ in range(2))
        layer["results"][0]["kind"] = "layer"
        before["results"][0]["kind"] = "sdpa"  # as files of the first days have it
        for old, new in ((layer, layer), (before, layer)):
            done = self.compare(old, new, "--all")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"(?m)^ +\+0\.0%.* layer layer ")

    def test_malformed_files_are_refused_in_one_line(self):
        good = synthetic([("blas", 64, 10, 0.02, 9)])
        twice = synthetic([("blas", 64, 10, 0.02, 9)] * 2)
        contents = ["", "{", "[]", "3", "{}", '{"results": []}', '{"machine": {}, "results": {}}', twice,
                    '{"machine": {}, "machine": {}, "results": []}', '{"machine": {}, "results": [3]}']
        for key, value in (("ms_median", 0), ("ms_median", "1"), ("ms_median", None), ("problem", 3), ("threads", 0),
                           ("repeats", -1), ("engine", None)):
            bad = synthetic([("blas", 64, 10, 0.02, 9)])
            bad["results"][0][key] = value
            contents.append(bad)
        for content in contents:
            for first, second in ((content, good), (good, content)):
                with self.subTest(content=content):
                    done = self.compare(first, second)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    self.assertRegex(done.stderr, r"^attn-bench: compare .*(old|new)\.json")


class PageChecker(html.parser.HTMLParser):
    """Tags that are closed in their order, names that are there once, nothing that is loaded from elsewhere."""

    EMPTY = {"meta", "br", "img", "hr"}

    def __init__(self):
        super().__init__()
        self.open, self.names, self.mistakes = [], set(), []

    def handle_starttag(self, tag, attributes):
        if tag not in self.EMPTY:
            self.open.append(tag)
        self.handle_startendtag(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        if tag in ("script", "link", "img", "iframe"):
            self.mistakes.append(tag)
        for name, value in attributes:
            if name == "id" and value in self.names:
                self.mistakes.append("id " + value)
            if name == "id":
                self.names.add(value)
            if name in ("src", "href", "xlink:href") and not value.startswith("#"):
                self.mistakes.append(name + " " + value)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mistakes.append("/" + tag)


class Bench(unittest.TestCase):
    def assert_ends(self, done, status):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)


class ProgramTest(Bench):
    def test_example_is_the_worked_example(self):
        done = run("example")
        self.assert_ends(done, 0)
        with open(os.path.join(HERE, "example.txt"), encoding="utf-8") as expected:
            self.assertEqual(done.stdout, expected.read())

    def test_sdpa_writes_json_with_every_field(self):
        done = run("sdpa", "b1h2q64k64d16,causal", "--json", "-", "--min-time", "0.01")
        self.assert_ends(done, 0)
        report = json.loads(done.stdout)
        for field in MACHINE_FIELDS:
            self.assertIn(field, report["machine"])
        self.assertEqual([r["engine"] for r in report["results"]], ["naive", "cache", "blas", "fused"])
        for result in report["results"]:
            self.assertEqual(sorted(result), sorted(RESULT_FIELDS))
            self.assertEqual(result["problem"], "b1h2q64k64d16,causal")
            self.assertEqual(result["dtype"], "f32")
            self.assertEqual(result["threads"], 1)
            # 2 * visible pairs * (head size + value size) over two heads
            self.assertEqual(result["flops"], 2 * (64 * 65 // 2) * 32 * 2)
            self.assertGreater(result["ms_min"], 0)
            self.assertGreaterEqual(result["ms_median"], result["ms_min"])
            self.assertAlmostEqual(result["gflops"], 1e-6 * result["flops"] / result["ms_median"], delta=1e-3 * result["gflops"])
            self.assertAlmostEqual(result["gflops_best"], 1e-6 * result["flops"] / result["ms_min"], delta=1e-3 * result["gflops_best"])
            self.assertAlmostEqual(result["gbytes_per_s"], 1e-6 * 2 * 2 * 64 * 16 * 4 / result["ms_median"], delta=1e-3 * result["gbytes_per_s"])
            self.assertGreater(result["fma_peak_gflops"], 0)
            self.assertGreater(result["blas_peak_gflops"], 0)
            self.assertGreater(result["bytes_workspace"], 0)
            self.assertGreater(result["error_max"], 0)
            self.assertLessEqual(result["error_share"], 1)
            self.assertGreater(result["threads_busy"], 0)
            self.assertEqual(result["caches"], "hot")
        # The same sums in another order.
        sums = [result["checksum"] for result in report["results"]]
        self.assertNotEqual(sums[0], 0)
        self.assertLess(max(sums) - min(sums), 0.01)

    def test_layer(self):
        done = run("layer", "d24h4/2,packed,cache=99,past=30,rope=half", "b2q41,causal,br", "--json", "-", "--min-time",
                   "0.01", "--dtype", "both", "--threads", "2")
        self.assert_ends(done, 0)
        results = json.loads(done.stdout)["results"]
        self.assertEqual([r["dtype"] for r in results], ["f32", "f64"])
        pairs = sum(30 + i + 1 for i in range(41))
        for result, size in zip(results, (4, 8)):
            self.assertEqual((result["kind"], result["engine"]), ("layer", "layer"))
            self.assertEqual(result["problem"], "layer d24h4/2,packed,cache=99,past=30,rope=half b2q41,causal,br")
            self.assertEqual(result["flops"], 2 * (2 * 41 * 24 * (24 + 24 + 24) + 4 * 2 * pairs * 12))
            # W_Q | W_K | W_V, W_O, and the keys and values of two heads
            read = size * (24 * 48 + 24 * 24 + 2 * 71 * 2 * 12)
            self.assertAlmostEqual(result["gbytes_per_s"], 1e-6 * read / result["ms_median"], delta=1e-3 * result["gbytes_per_s"])
            self.assertGreater(result["error_max"], 0)
            self.assertLessEqual(result["error_share"], 1)
            self.assertNotEqual(result["checksum"], 0)

    def test_cold_caches(self):
        arguments = ["sdpa", "h2q37k53d17,causal,mask,lse", "--engine", "blas,fused", "--min-time", "0", "--json", "-"]
        hot, cold = [json.loads(run(*arguments, *more).stdout)["results"] for more in ([], ["--cold"])]
        self.assertEqual([r["caches"] for r in cold], ["cold", "cold"])
        self.assertEqual([r["checksum"] for r in cold], [r["checksum"] for r in hot])

    def test_options_of_sdpa(self):
        done = run("sdpa", "b1h4/2q3k50d8,br", "--engine", "fused,auto", "--dtype", "both", "--threads", "2",
                   "--repeat", "3", "--min-time", "0", "--json", "-")
        self.assert_ends(done, 0)
        results = json.loads(done.stdout)["results"]
        self.assertEqual([(r["engine"], r["dtype"]) for r in results],
                         [("fused", "f32"), ("auto", "f32"), ("fused", "f64"), ("auto", "f64")])
        for result in results:
            self.assertEqual(result["threads"], 2)
            self.assertGreaterEqual(result["repeats"], 3)
            self.assertIsNone(result["speed_up"])  # nothing to compare with

    def test_options_may_stand_before_the_subcommand(self):
        done = run("--threads", "2", "--engine=blas", "check", "--dtype", "f64", "q4d8")
        self.assert_ends(done, 0)
        self.assertEqual(len(done.stdout.splitlines()), 2)

    def test_refused_problem_is_the_librarys_sentence(self):
        done = run("sdpa", "q4d8,want=weights", "--engine", "fused", "--json", "-", "--min-time", "0")
        self.assert_ends(done, 1)  # nothing could be timed
        report = json.loads(done.stdout)
        self.assertEqual(report["results"], [])
        self.assertEqual(report["not_timed"][0]["state"], "refused")
        self.assertRegex(report["not_timed"][0]["reason"], "weights|intermediate")

    def test_check_passes(self):
        done = run("check", "b2h6/3q37k53d17v11,causal,br,lse")
        self.assert_ends(done, 0)
        lines = done.stdout.splitlines()
        self.assertEqual([line[:4] for line in lines[:8]], ["PASS"] * 8, done.stdout)
        self.assertEqual(lines[8], "8 passed, 0 failed, 0 skipped")

    def test_check_that_checks_nothing_fails(self):
        done = run("check", "q4d8,want=weights", "--engine", "fused")
        self.assert_ends(done, 1)
        self.assertEqual(done.stdout[:4], "SKIP")

    def test_sizes_of_zero(self):
        for problem in ("b0q4d8", "h0q4d8", "q0d8", "q4k0d8", "q4d8v0", "b2q4d8,qlens=0:4,kvlens=4:0"):
            for command in ("check", "explain"):
                self.assert_ends(run(command, problem), 0)
        for problem in ("q0d8", "b2q4d8,qlens=0:4,kvlens=4:0"):
            self.assert_ends(run("sdpa", problem, "--min-time", "0"), 0)

    def test_mistakes_are_one_line_and_status_2(self):
        mistakes = [
            "sdpa", "sdpa a b", "sdpa nonsense", "sdpa q0d0", "sdpa h3/2q4d8", "check", "explain", "foo", "help foo",
            "sweep extra", "example extra", "sweep --bogus", "sweep --len 0", "sweep --len 64,,128", "sweep --len x",
            "sweep --len 64:32:x2", "sweep --len 64:128:x1", "sweep --d-model 100",
            "sweep --heads 0", "sweep --head-dim 7", "sweep --d-model 64 --heads 3", "sweep --heads 65536", "sweep --batch x",
            "sweep --d-model 64 --heads 2 --head-dim 32", "sweep --batch 1:64:+1 --len 1:64:+1 --threads 1:8:+1", "sweep --threads 0",
            "sdpa q4d8 --threads 1,2", "check q4d8 --threads 1:4:x2", "sdpa q4d8 --heads 2", "--d-model 0", "sweep --budget 0",
            "sweep --budget nan", "sdpa q4d8 --engine foo", "sdpa q4d8 --engine", "sdpa q4d8 --dtype f16",
            "sdpa q4d8 --threads 0", "sdpa q4d8 --threads 1e3", "sdpa q4d8 --repeat 0", "sdpa q4d8 --min-time -1",
            "sdpa q4d8 --len 64", "help --man sweep", "sweep --man",
            "compare", "compare a.json", "compare a b c", "compare a b --bound x", "compare a b --bound -1",
            "compare a b --bound 5%%", "compare /no/file /no/file", "compare / /", "sdpa q4d8 --bound 5%", "sdpa q4d8 --json - --csv -", "sweep --seed -1", "check q4d8 -x",
            "explain q4d8 --engine cache", "explain layer", "explain layer d24h3", "explain layer d24h3 q4 q5", "explain layer d24h3 q4 --engine blas", "layer", "layer d24h3", "layer d25h3 q4", "layer d24h3 q4,flat", "layer d24h3 q4,k@h", "layer d24h3 q4,layout=qkv", "layer d24h3,flat q4",
            "layer d24h3 q4k5", "layer d24h3 q4 b1", "layer d24h3,past=1 q4", "layer d24h3 q4 --engine fused",
        ]
        for mistake in mistakes:
            with self.subTest(mistake):
                done = run(*mistake.split())
                self.assert_ends(done, 2)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertTrue(done.stderr.startswith("attn-bench: "), done.stderr)

    def test_unwritable_file_is_told_before_anything_is_measured(self):
        for command in (["sdpa", "q4d8"], ["sweep"]):
            for option in ("--csv", "--json") if command == ["sdpa", "q4d8"] else ("--csv", "--json", "--report"):
                done = run(*command, option, os.path.join(HERE, "no", "folder"))
                self.assert_ends(done, 2)
                self.assertEqual(done.stdout, "")
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertIn("No such file", done.stderr)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk_fails(self):
        for option, what in (("--csv", "CSV"), ("--json", "JSON")):
            for command in (["sdpa", "q4d8", "--engine", "blas"], ["layer", "d8h2", "q4"]):
                done = run(*command, "--min-time", "0", option, "/dev/full")
                self.assert_ends(done, 2)
                self.assertIn("cannot write " + what, done.stderr)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_full_standard_output_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "results.json")
            self.assert_ends(run("sdpa", "q4d8", "--engine", "blas", "--min-time", "0", "--json", file), 0)
            commands = [["sweep", "--len", "64", "--d-model", "64", "--budget", "1"], ["sdpa", "q4d8", "--min-time", "0"],
                        ["sdpa", "q4d8", "--min-time", "0", "--json", "-"], ["layer", "d8h2", "q4", "--min-time", "0"],
                        ["check", "q4d8"], ["compare", file, file], ["example"], ["explain", "q4d8"],
                        ["explain", "layer", "d8h2", "q4"], ["list"], ["version"], ["help"], ["help", "--man"]]
            self.assertEqual({command[0] for command in commands}, set(SUBCOMMANDS))
            for command in commands:
                with self.subTest(command=command), open("/dev/full", "w", encoding="utf-8") as full:
                    done = subprocess.run([BENCH, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("attn-bench: cannot write to standard output\n", done.stderr)

    def test_what_does_not_fit_is_refused_before_data_are_made(self):
        problem = "h2q9999999k9999999d64"
        done = run("sdpa", problem, "--engine", "blas", "--json", "-")
        self.assert_ends(done, 1)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("does not fit", done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["results"], [])
        self.assertEqual([r["state"] for r in report["not_timed"]], ["refused"])

    def test_figures_timed_once_are_marked(self):
        arguments = ["sdpa", "h2q256d64", "--engine", "naive,blas", "--min-time", "0"]
        done = run(*arguments, "--repeat", "1", "--json", "-")
        self.assert_ends(done, 0)
        for result in json.loads(done.stdout)["results"]:
            self.assertEqual(result["repeats"], 1)
            self.assertIsNone(result["spread"])
        self.assertRegex(done.stderr, r"blas +f32 +[0-9.]+\? ")
        self.assertIn("? not to be trusted", done.stderr)
        done = run(*arguments, "--repeat", "3", "--json", "-")
        for result in json.loads(done.stdout)["results"]:
            self.assertIsInstance(result["spread"], float)

    def test_long_runs_are_told_beforehand(self):
        run = subprocess.Popen([BENCH, "sdpa", "q524288d32", "--engine", "fused"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            self.assertRegex(run.stderr.readline(), r"^attn-bench: a run of fused takes [0-9.e+]+ (minutes|hours) or more")
        finally:
            run.kill()
            run.communicate()

    def test_counts_are_whole_numbers(self):
        done = run("sdpa", "h7q1237k1009d61", "--engine", "blas", "--min-time", "0", "--repeat", "1", "--json", "-")
        self.assert_ends(done, 0)
        result = json.loads(done.stdout)["results"][0]
        self.assertIsInstance(result["flops"], int)
        self.assertEqual(result["flops"], 2 * 7 * 1237 * 1009 * 122)
        self.assertIsInstance(result["bytes_working_set"], int)

    def test_columns_of_small_problems_are_apart(self):
        done = run("sdpa", "q2d2", "--min-time", "0", "--repeat", "2", "--quiet")
        self.assert_ends(done, 0)
        lines = done.stdout.splitlines()
        self.assertIn("32.0 FLOP", lines[1])
        for line in lines[4:]:
            self.assertEqual(len(line.split()), 13, line)  # the workspace and its unit are two words
            self.assertNotRegex(line, r" 0\.00[? ]")

    def test_explain_of_a_layer(self):
        done = run("explain", "layer", "d24h4/2c11,packed,outin,rope=half,cache=99,past=30", "b2q41k7,causal,br", "--dtype", "both",
                   "--threads", "2")
        self.assert_ends(done, 0)
        single, double = done.stdout.split("\n\n")
        for text, name in ((single, "float"), (double, "double")):
            for words in (r"(?m)^layer: d_model 24, d_out 24, d_context 11, weights \[out, in\], packed, cross-attention$",
                          r"(?m)^rotary positions: half-split, 6 of 6 elements of a head, own angles, after the keys of the cache$",
                          r"(?m)^cache: capacity 99, up to 7 new keys of a member$",
                          r"(?m)^product w_q: 41 rows of a member, 24 inputs, 24 columns, in blocks, CBLAS products$",
                          r"(?m)^product w_k: 7 rows of a member, 11 inputs, 24 columns, own loops .*few rows$",
                          r"(?m)^layer workspace: \d+ bytes$", r"(?m)^layer workspace of attention.*: \d+ bytes$",
                          r"(?m)^problem: batch 2, q_heads 4, kv_heads 2, q_len 41, kv_len 99, .*, " + name + "$",
                          r"(?m)^engine: fused "):
                self.assertRegex(text, words)
            self.assertNotRegex(text, "product w_v")

    def test_explain_ends_without_a_blank_line(self):
        done = run("explain", "q64d16", "--engine", "blas,fused")
        self.assert_ends(done, 0)
        self.assertFalse(done.stdout.endswith("\n\n"))
        self.assertEqual(done.stdout.count("\n\n"), 1)

    def test_check_names_what_is_worst(self):
        done = run("check", "h2q37k53d17,lse", "--engine", "blas")
        self.assert_ends(done, 0)
        self.assertRegex(done.stdout, r"worst: \d+ % of the tolerance of (out|lse)")

    def test_grammar_page(self):
        done = run("help", "problem")
        self.assert_ends(done, 0)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        for word in ("causal window softcap mask_len bias_len alibi sink qlens kvlens ragged layout want lse data seed "
                     "nan inf poison").split():
            self.assertRegex(done.stdout, r"(?m)^    (.*[ ,])?" + word)

    def test_help_and_lists(self):
        for name in SUBCOMMANDS:
            for arguments in (["help", name], [name, "--help"]):
                done = run(*arguments)
                self.assert_ends(done, 0)
                for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"):
                    self.assertIn("\n" + section + "\n", "\n" + done.stdout)
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)
        overview = run("--help").stdout
        for name in SUBCOMMANDS:
            self.assertIn("\n    " + name, overview)
        self.assertIn(", ".join(SUBCOMMANDS) + ", problem are accepted", run("help", "foo").stderr)
        self.assertIn("libattn", run("--version").stdout)
        self.assertIn("fused", run("list").stdout)
        self.assertRegex(run("explain", "b1h2q64k64d16,causal").stdout, "engine: ")

    def test_man_page_has_everything(self):
        man = run("help", "--man")
        self.assert_ends(man, 0)
        if MAN_PAGE:
            with open(MAN_PAGE, encoding="utf-8") as built:
                self.assertEqual(built.read(), man.stdout)
        text = man.stdout.replace("\\-", "-")
        for name in SUBCOMMANDS:
            self.assertRegex(text, r"(?m)^\.SS " + name + r"\b")
            for option in re.findall(r"(?m)^    (--[a-z-]+)", run("help", name).stdout):
                self.assertRegex(text, r"(?m)^\.TP\n\\fB" + option + r"\b")
        self.assertIn("mask_len=N", text)
        if shutil.which("groff"):
            lint = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=man.stdout, capture_output=True, text=True)
            self.assertEqual(lint.stderr, "")


class CoreTest(Bench):
    def core(self, isa, core="Prescott"):
        """The environment of a BLAS core, by default one that leaves vectors unused; skips where there is none, or no such instruction set."""
        environment = {"OPENBLAS_CORETYPE": core, "ATTN_MAX_ISA": isa}
        version = run("version", **environment).stdout
        if not re.search(rf", {isa}, OpenBLAS \S+ {core} ", version):
            self.skipTest(f"no {isa} here, or no OpenBLAS with a choice of cores: {version}")
        return environment

    def test_advice_on_the_blas_core(self):
        advice = ("OpenBLAS computes with core Prescott, which does not use the avx2 of this CPU: set "
                  "OPENBLAS_CORETYPE=Haswell")
        commands = (["sdpa", "h2q64d16", "--engine", "blas"], ["layer", "d8h2", "q4"],
                    ["sweep", "--d-model", "64", "--len", "64", "--engine", "blas", "--dtype", "f32", "--budget", "1"])
        for isa, wanted in (("avx2", advice), ("generic", None)):
            environment = self.core(isa)
            for command in commands:
                with self.subTest(command=command, isa=isa), tempfile.TemporaryDirectory() as folder:
                    file = os.path.join(folder, "results.json")
                    report = ["--report", folder] if command[0] == "sweep" else ["--min-time", "0", "--json", file]
                    done = run(*command, *report, **environment)
                    self.assert_ends(done, 0)
                    lines = re.findall(r"(?m)^  BLAS advice +(.*)$", done.stdout)
                    self.assertEqual(lines, [wanted] if wanted else [])
                    with open(file, encoding="utf-8") as text:
                        self.assertEqual(json.load(text)["machine"].get("blas_advice"), wanted)
                    if command[0] == "sweep":
                        with open(os.path.join(folder, "report.html"), encoding="utf-8") as text:
                            row = re.findall(r"<td>BLAS advice</td><td>(.*?)</td>", text.read())
                        self.assertEqual(row, [wanted] if wanted else [])
                    self.assertNotIn("BLAS advice", run(*command, *report, "--quiet", **environment).stdout)

    def test_words_follow_who_multiplies(self):
        own = ("own kernel, fused tiles", "multiplied by the library's own kernel", "the chain with engine blas runs ")
        cblas = ("BLAS, fused tiles", "multiplied by CBLAS", "the chain through BLAS runs ")
        both = (*own[:2], cblas[2])
        short, packs = "BLAS falls short of this CPU", "this BLAS core packs whatever it multiplies"
        for core, isa, wanted, others, why in (("Prescott", "avx2", own, cblas, short), ("Prescott", "generic", cblas, own, None),
                                               ("Haswell", "avx2", both, (*cblas[:2], own[2]), packs)):
            environment = self.core(isa, core)
            with self.subTest(core=core, isa=isa), tempfile.TemporaryDirectory() as folder:
                done = run("sweep", "--d-model", "64", "--len", "64", "--engine", "naive,blas,fused", "--dtype", "f32",
                           "--budget", "1", "--report", folder, **environment)
                self.assert_ends(done, 0)
                texts = {"words": done.stdout, "list": run("list", **environment).stdout}
                for name in ("report.html", "plot.gp"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        texts[name] = file.read()
                title, products, chain = zip(wanted, others)
                for name, *pairs in (("words", title, chain), ("list", products), ("report.html", title, chain),
                                     ("plot.gp", title)):
                    for right, wrong in pairs:
                        self.assertIn(right, texts[name], name)
                        self.assertNotIn(wrong, texts[name], name)
                for reason in (short, packs):
                    self.assertEqual(reason in done.stdout, reason == why)

    def test_explain_says_who_multiplies(self):
        own = "products by the library's own kernel\n"
        for core, isa, tiles, panels in (("Prescott", "avx2", own, "weights packed in panels for small " + own),
                                         ("Haswell", "avx2", own, "in blocks, CBLAS products\n"),
                                         ("Prescott", "generic", "CBLAS products\n", "in blocks, CBLAS products\n")):
            environment = self.core(isa, core)
            text = run("explain", "q64d16", **environment).stdout
            self.assertIn("\npath: tiles (q_len above 8), " + tiles, text)
            self.assertEqual("\nadvice: OpenBLAS computes with core Prescott, " in text, (core, isa) == ("Prescott", "avx2"))
            done = run("explain", "layer", "d128h4", "q97", **environment)
            self.assert_ends(done, 0)
            self.assertEqual(done.stdout.count("97 rows of a member, 128 inputs, 128 columns, " + panels), 4, done.stdout)


class SweepTest(Bench):
    def interrupt(self, *arguments, after):
        """Runs attn-bench and presses Ctrl-C when a line that holds `after` has come; what it wrote to both outputs."""
        with subprocess.Popen([BENCH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            seen = ""
            while after not in seen:
                line = process.stderr.readline()
                self.assertTrue(line, seen)
                seen += line
            process.send_signal(signal.SIGINT)
            out, rest = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 130, seen + rest)
        return json.loads(out), seen + rest

    def test_the_header_comes_before_the_runs(self):
        for arguments in (["sdpa", "h2q64d16"], ["layer", "d24h3", "b1q4"]):
            with subprocess.Popen([BENCH, *arguments, "--min-time", "30"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as process:
                self.assertTrue(process.stdout.readline())
                process.send_signal(signal.SIGINT)  # too late for a run that is over
                _, errors = process.communicate()
                self.assertEqual((process.returncode, errors), (130, ""))

    def test_ctrl_c_writes_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "results.csv")
            report, text = self.interrupt("sweep", "--len", "64:1024:x2", "--d-model", "64,256", "--csv", file, "--json", "-",
                                          after="d_model 64 ")
            with open(file, encoding="utf-8") as lines:
                self.assertEqual(len(list(csv.DictReader(lines))), len(report["results"]))
        self.assertGreaterEqual(len(report["results"]), 4)  # the first table was there
        self.assertIn("interrupted", {r["reason"] for r in report["not_timed"]})
        self.assertIn("left out (interrupted)", text)
        report, text = self.interrupt("sdpa", "q64d16", "--min-time", "1000", "--json", "-", after="  versions")
        self.assertEqual(len(report["results"]) + len(report["not_timed"]), 4)
        self.assertLess(len(report["results"]), 4)

    def test_tiny_sweep(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "results.csv")
            done = run("sweep", "--d-model", "64", "--len", "64", "--dtype", "f32", "--budget", "2", "--csv", file,
                       "--json", "-")
            self.assert_ends(done, 0)
            with open(file, encoding="utf-8") as text:
                lines = list(csv.DictReader(text))
            results = json.loads(done.stdout)["results"]
            self.assertEqual(sorted(line["engine"] for line in lines), ["blas", "cache", "fused", "naive"])
            self.assertEqual(len(results), 4)
            for line in lines:
                self.assertEqual(sorted(line), sorted(RESULT_FIELDS))
                self.assertEqual((line["kind"], line["d_model"], line["len"]), ("chain", "64", "64"))
                # three products and one head of attention
                self.assertEqual(float(line["flops"]), 3 * 2 * 64**3 + 2 * 64 * 64 * 128)
                self.assertGreater(float(line["gflops"]), 0)
            self.assertNotIn("\r", done.stderr)  # no progress bar in a pipe
            self.assertIn("times as fast as the textbook loops", done.stderr)

    def test_sweep_over_every_axis(self):
        done = run("sweep", "--d-model", "96", "--heads", "2,12", "--batch", "1,3", "--threads", "1:2:+1", "--len", "37",
                   "--dtype", "both", "--budget", "6", "--json", "-")
        self.assert_ends(done, 0)
        report = json.loads(done.stdout)
        results = report["results"] + report["not_timed"]
        points = {(r["problem"], r["dtype"], r["threads"]) for r in results}
        self.assertEqual(len(points), 2 * 2 * 2 * 2)
        for r in report["results"]:
            self.assertEqual(r["problem"], "b{batch}h{heads}q{len}k{len}d{head_dim},layout=qkv".format(**r))
            self.assertEqual((r["d_model"], r["heads"] * r["head_dim"]), (96, 96))
            self.assertEqual(r["flops"], r["batch"] * (6 * r["len"] * 96**2 + 4 * r["len"]**2 * 96))
            self.assertLessEqual(r["error_share"], 1)
        self.assertEqual({(p["dtype"], p["threads"]) for p in report["peaks"]}, {(t, n) for t in ("f32", "f64") for n in (1, 2)})
        self.assertRegex(done.stderr, r"d_model 96 \(heads: \d+ of \d+\), (float|double), \d threads?, peak")

    def test_two_of_width_heads_and_head_size_decide(self):
        widths = {("--heads", "3", "--head-dim", "5,7"): {(15, 3), (21, 3)}, ("--heads", "2"): {(128, 2)},
                  ("--d-model", "30", "--head-dim", "5,15"): {(30, 6), (30, 2)},
                  ("--head-dim", "2048", "--engine", "blas"): {(2048, 1)}}
        for options, wanted in widths.items():
            done = run("sweep", *options, "--len", "8", "--budget", "1", "--dtype", "f32", "--quiet", "--json", "-")
            self.assert_ends(done, 0)
            report = json.loads(done.stdout)
            found = {tuple(map(int, re.match(r"b1h(\d+)q8k8d(\d+),", r["problem"]).groups()))
                     for r in report["results"] + report["not_timed"]}
            self.assertEqual({(heads * size, heads) for heads, size in found}, wanted)

    def test_sampled_rows_are_marked(self):
        # Whether loops of this size are sampled is for the machine to say; a mark and a count go with it, or neither.
        done = run("sweep", "--d-model", "64,512", "--len", "64,512", "--dtype", "f32", "--budget", "2", "--engine",
                   "naive,blas", "--json", "-")
        self.assert_ends(done, 0)
        results = json.loads(done.stdout)["results"]
        self.assertEqual("~" in done.stderr, any(r["sampled"] for r in results))
        for r in results:
            if r["sampled"]:
                self.assertEqual(r["engine"], "naive")
                self.assertGreater(r["sampled_rows"], 0)
                self.assertLess(r["sampled_rows"], r["len"])
            else:
                self.assertEqual(r["sampled_rows"], 0)

    def test_quiet_names_what_it_leaves_out(self):
        done = run("sweep", "--d-model", "64,4096", "--len", "64,65536", "--engine", "blas", "--budget", "1", "--quiet")
        self.assert_ends(done, 0)
        self.assertRegex(done.stdout, r"left out \(a budget of 1 s\): .*4096 x 65536")
        self.assertNotIn("points were run", done.stdout)

    def test_budget_names_what_it_leaves_out(self):
        done = run("sweep", "--d-model", "64,2048", "--len", "64,8192", "--budget", "2", "--json", "-")
        self.assert_ends(done, 0)
        left_out = [r for r in json.loads(done.stdout)["not_timed"] if r["state"] == "left out"]
        said = re.search(r"(\d+) of (\d+) points were run", done.stderr)
        points = [r for r in left_out if r["engine"] == "all"]
        self.assertEqual(int(said.group(2)) - int(said.group(1)), len(points))
        self.assertTrue(any("q8192" in r["problem"] for r in left_out))
        self.assertIn("left out (a budget of 2 s)", done.stderr)
        planned = re.search(r"plan +(\d+) of (\d+) points", done.stderr)
        slower = [r for r in points if "slower than planned" in r["reason"]]
        self.assertEqual(int(planned.group(2)) - int(planned.group(1)), len(points) - len(slower))


class ReportTest(Bench):
    @unittest.skipUnless(shutil.which("gnuplot"), "there is no gnuplot")
    def test_pictures_ring_what_is_not_to_be_trusted(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "report")
            done = run("sweep", "--d-model", "64", "--len", "64", "--budget", "4", "--report", folder, "--quiet")
            self.assert_ends(done, 0)
            with open(os.path.join(folder, "results.csv"), encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            for repeats, spread, ring in (("9", "0.01", False), ("9", "0.2", True), ("1", "", True)):
                for row in rows:
                    row.update(repeats=repeats, spread=spread)
                for name in ("results.csv", "scaling.csv"):
                    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                        writer = csv.DictWriter(file, rows[0])
                        writer.writeheader()
                        writer.writerows(rows)
                pictures = ["throughput", "speed_up", "roofline", "scaling", "float_double"]
                drawn = subprocess.run(["gnuplot", "-e", "pictures='" + " ".join(pictures) + "'", "plot.gp"], cwd=folder,
                                       stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(drawn.returncode, 0, drawn.stderr)
                for picture in pictures:
                    if picture == "float_double" and not any(row["dtype"] == "f64" for row in rows):
                        continue
                    with open(os.path.join(folder, picture + ".svg"), encoding="utf-8") as file:
                        self.assertEqual("not to be trusted" in file.read(), ring, (picture, repeats, spread))

    def run_report(self, folder, *arguments, **environment):
        # A budget that leaves nothing out, whatever the machine.
        done = subprocess.run([BENCH, "sweep", "--dtype", "f32", "--budget", "300", "--report", folder, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.assert_ends(done, 0)
        with open(os.path.join(folder, "results.json"), encoding="utf-8") as text:
            return done, json.load(text)

    def test_report(self):
        with tempfile.TemporaryDirectory() as parent:
            folder = os.path.join(parent, "new")
            # 600 keys are more than a tile: where fused packs keys it makes Q dense too, whose rows are apart in the chain
            done, report = self.run_report(folder, "--d-model", "64,128", "--len", "600", "--engine", "naive,fused")
            self.assertIn("report.html", done.stdout)
            self.assertEqual(len(report["results"]), 4)
            self.assertEqual({r["caches"] for r in report["cold"]}, {"cold"})
            self.assertEqual({r["engine"] for r in report["cold"]}, {"fused"})
            threads = sorted({r["threads"] for r in report["scaling"]})
            self.assertEqual((threads[0], threads[-1]), (1, os.sysconf("SC_NPROCESSORS_ONLN")))
            self.assertEqual(len({r["problem"] for r in report["scaling"]}), 1)
            self.assertEqual({s["engine"] for s in report["stages"]}, {"naive", "fused"})
            for entry in report["stages"]:
                self.assertIn(entry["problem"], {r["problem"] for r in report["results"]})
                self.assertEqual(sorted(entry["ms"]), ["A V", "Q K^T", "X W", "rest", "softmax"])
                self.assertGreater(entry["ms"]["X W"], 0)
                self.assertGreater(entry["ms"]["softmax"], 0)
                # Measured, where those of the loops are differences. Only a clock that is not in front of the products can
                # find 0 for millions of multiply-adds.
                if entry["engine"] == "fused":
                    self.assertGreater(entry["ms"]["Q K^T"], 0)
                else:  # of as many multiply-adds: a problem without outputs would take no time at all
                    self.assertGreater(entry["ms"]["Q K^T"] + entry["ms"]["softmax"], entry["ms"]["A V"] / 50)
                    self.assertGreater(entry["ms"]["A V"], 0)
            with open(os.path.join(folder, "memory.csv"), encoding="utf-8") as text:
                needs = {(r["engine"], r["d_model"], int(r["len"])): int(r["bytes_workspace"])
                         for r in csv.DictReader(text)}
            # keys seen and scores of one row, 8 and 4 bytes each, and what sanitizers put between them
            self.assertEqual(needs["naive", "64", 1 << 20] >> 20, 12)
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as text:
                page = text.read()
            pictures = [name for name in ("throughput", "speed_up", "stages", "memory", "roofline", "scaling")
                        if name != "scaling" or threads[-1] > 1]
            for name in pictures if shutil.which("gnuplot") else []:
                self.assertGreater(os.path.getsize(os.path.join(folder, name + ".png")), 1000)
                with open(os.path.join(folder, name + ".svg"), encoding="utf-8") as text:
                    xml.dom.minidom.parseString(text.read().encode())
            self.assertEqual(page.count("<svg"), len(pictures) if shutil.which("gnuplot") else 0)
            self.check_page(page)

    def test_report_of_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            shapes = os.path.join(folder, "two.shapes")
            with open(shapes, "w", encoding="utf-8") as text:
                text.write("first h2q17d8,causal\nsecond h4/2q1k33d8,br\n")
            done = subprocess.run([BENCH, "sweep", "--shapes", shapes, "--engine", "naive,blas", "--budget", "300", "--report",
                                   folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assert_ends(done, 0)
            self.assertEqual(done.stderr, "")
            with open(os.path.join(folder, "results.json"), encoding="utf-8") as text:
                report = json.load(text)
            self.assertEqual({entry["ms"]["X W"] for entry in report["stages"]}, {0})
            self.assertEqual({entry["shape"] for entry in report["stages"]}, {"two:first", "two:second"})
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as text:
                page = text.read()
            self.assertIn("<th>shape</th>", page)
            self.assertEqual("<h2 id=\"throughput\">" in page, shutil.which("gnuplot") is not None)
            self.assertNotIn("<h2 id=\"memory\">", page)
            self.check_page(page)

    @unittest.skipUnless(hasattr(signal, "SIGINT"), "no signals")
    def test_interrupted_report(self):
        with tempfile.TemporaryDirectory() as folder:
            bench = subprocess.Popen([BENCH, "sweep", "--d-model", "64,128", "--len", "64", "--budget", "60", "--report", folder],
                                     stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
            for line in bench.stdout:
                if line.startswith("d_model 64"):  # the first table is there
                    break
            bench.send_signal(signal.SIGINT)
            _, errors = bench.communicate()
            self.assertEqual((bench.returncode, errors), (130, ""))
            with open(os.path.join(folder, "results.json"), encoding="utf-8") as text:
                report = json.load(text)
            self.assertGreater(len(report["results"]), 0)
            self.assertIn("interrupted", {r["reason"] for r in report["not_timed"]})
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as text:
                self.check_page(text.read())

    def check_page(self, page):
        checker = PageChecker()
        checker.feed(page)
        checker.close()
        self.assertEqual(checker.open, [])
        self.assertEqual(checker.mistakes, [])
        for text in ("textbook_project", "cache_ordered_attend", "attn_naive_task", "GFLOP/s = flops / median time"):
            self.assertIn(text, page)

    def test_report_without_gnuplot(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "memory.svg"), "w", encoding="utf-8") as stale:
                stale.write("<svg>old</svg>")
            done, _ = self.run_report(folder, "--d-model", "64", "--len", "17", "--engine", "blas", PATH="/nowhere")
            self.assertEqual(done.stdout.count("gnuplot was not found"), 1)
            self.assertEqual(done.stderr, "")
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as text:
                page = text.read()
            self.assertNotIn("<svg", page)
            self.check_page(page)


class ShapesTest(Bench):
    def write_shapes(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "tiny.shapes")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def test_sweep_over_a_shape_file(self):
        path = self.write_shapes("# Tiny model\n\none  h2q5k7d3,causal,br # the first\n\ttwo\tb2h4/2q1k9d8v5\r\nthree q3d4,want=weights")
        folder = os.path.join(os.path.dirname(path), "report")
        done = run("sweep", "--shapes", path, "--engine", "cache,blas,fused", "--dtype", "f64", "--threads", "2", "--budget", "300",
                   "--json", "-", "--report", folder)
        self.assert_ends(done, 0)
        with open(os.path.join(folder, "report.html"), encoding="utf-8") as page:
            results = page.read().split("<h2>All results</h2>")[1]
            self.assertEqual(results.count("<td>tiny:"), 7 + 2)  # timed, refused
        self.assertNotIn("warning", done.stderr)  # of gnuplot
        report = json.loads(done.stdout)
        found = {(r["shape"], r["problem"], r["engine"], r["dtype"], r["threads"]) for r in report["results"]}
        self.assertEqual(found, {(name, problem, engine, "f64", 2)
                                 for name, problem, engines in (("tiny:one", "h2q5k7d3,causal,br", ("cache", "blas", "fused")),
                                                                ("tiny:two", "b2h4/2q1k9d8v5", ("cache", "blas", "fused")),
                                                                ("tiny:three", "q3d4,want=weights", ("blas",)))
                                 for engine in engines})
        for r in report["results"]:
            self.assertEqual(r["kind"], "sdpa")
            self.assertLessEqual(r["error_share"], 1)
        two = next(r for r in report["results"] if r["shape"] == "tiny:two")
        self.assertEqual((two["batch"], two["heads"], two["head_dim"], two["len"], two["flops"]), (2, 4, 8, 1, 2 * 2 * 4 * 9 * 13))
        self.assertEqual({(r["engine"], r["state"]) for r in report["not_timed"]}, {("cache", "refused"), ("fused", "refused")})
        self.assertIn("tiny:two b2h4/2q1k9d8v5, 2 threads", done.stderr)

    def test_shapes_of_models(self):
        text = run("list").stdout
        names = re.findall(r"(?m)^  ([\w-]+): \S", text)
        self.assertEqual(names, ["bert-base", "gpt-2", "llama-3-8b", "llama-7b", "vit-l", "whisper"])
        shapes = re.findall(r"(?m)^    (\S+) +([bq]\S+)$", text)
        self.assertGreaterEqual(len(shapes), 25)
        for shape, problem in shapes:
            self.assert_ends(run("explain", problem), 0)
        by_name, by_problem = (run("explain", p) for p in ("llama-3-8b:decode-8192", "b1h32/8q1k8192d128,causal,br"))
        self.assert_ends(by_name, 0)
        self.assertEqual(by_name.stdout, by_problem.stdout)

    def test_shapes_of_a_file_as_problems(self):
        path = self.write_shapes("one h2q5k7d3,causal\ntwo b2h4/2q1k9d8v5,kvlens=3:9\n")
        for file in (path, "tiny.shapes"):
            done = subprocess.run([BENCH, "explain", file + ":two"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, cwd=os.path.dirname(path))
            self.assert_ends(done, 0)
            self.assertEqual(done.stdout, run("explain", "b2h4/2q1k9d8v5,kvlens=3:9").stdout)
        for operand, words in ((path + ":three", "no such shape"), (path + ":", "no such shape"),
                               ("llama-3-8b", "llama-3-8b:SHAPE; it has prefill-"), ("gpt-2:", "no such shape")):
            for command in ("explain", "check", "sdpa"):
                done = run(command, operand)
                self.assert_ends(done, 2)
                self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
                self.assertIn(words, done.stderr)

    def test_mistakes_in_shapes(self):
        for text, words in (("", "no shape in it"), ("# nothing\n", "no shape in it"), ("q4d8", "line 1: a name"),
                            ("one q4d8\none q4d8", "line 2: a second shape of the name one"), ("\n\none q4", "line 3: problem 'q4': at the end"),
                            ("a/b q4d8", "line 1: a name"), ("one q4d8 two", "line 1: a name"), ("x" * 50 + " q4d8", "more than 40"),
                            ("one q4d8," + "x" * 300, "more than 255")):
            done = run("sweep", "--shapes", self.write_shapes(text))
            self.assert_ends(done, 2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))
            self.assertIn(words, done.stderr)
        for arguments in (["sweep", "--shapes", "/no/file"], ["sweep", "--shapes", HERE], ["sweep", "--shapes", "gpt-2", "--len", "4"],
                          ["sweep", "--shapes", "gpt-2", "--full"], ["explain", "gpt-2:nothing"], ["explain", "gpt-9:decode-256"]):
            done = run(*arguments)
            self.assert_ends(done, 2)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))


if __name__ == "__main__":
    unittest.main()
