"""bench/peers/peers.py from outside, with none of the peers: mistakes in the arguments, what is not installed, a small run.

usage: peers_test.py PATH_OF_PEERS_PY PATH_OF_LIBATTN_SO [CLASS]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PEERS, LIB = sys.argv.pop(1), sys.argv.pop(1)
ABSENT = "raise ImportError('taken away by the test')\n"
# Hands back the queries: an answer of the right shape, and wrong.
WRONG_TORCH = """
import contextlib, types
__version__ = '2.0.test'
set_num_threads = lambda n: None
inference_mode = contextlib.nullcontext
from_numpy = lambda x: x
attention = lambda q, k, v, **options: types.SimpleNamespace(numpy=lambda: q)
nn = types.SimpleNamespace(functional=types.SimpleNamespace(scaled_dot_product_attention=attention))
"""


class Case(unittest.TestCase):
    modules = {}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in self.modules.items():
            with open(os.path.join(self.folder, name + ".py"), "w", encoding="utf-8") as out:
                out.write(text)

    def run_peers(self, *arguments, lib=LIB):
        # No oneDNN either, whatever this machine has.
        none = os.path.join(self.folder, "none.so")
        return subprocess.run([sys.executable, PEERS, "--lib", lib, "--onednn", none, *arguments], text=True,
                              env={**os.environ, "PYTHONPATH": self.folder}, capture_output=True)


class ArgumentsTest(Case):
    modules = {"numpy": ABSENT}

    def refused(self, sentence, *arguments, **options):
        done = self.run_peers(*arguments, **options)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(sentence, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_mistakes_are_told_before_anything_runs(self):
        self.refused("'b1h12' is neither one of prefill, causal, batch, decode, all, nor a problem", "--shapes", "b1h12")
        self.refused("'h3/2q5d7': 2 key heads do not divide 3 query heads", "--shapes", "h3/2q5d7")
        self.refused("'h2q5k7d3,causal': causal needs as many queries as keys", "--shapes", "h2q5k7d3,causal")
        self.refused("'h2q0d3' has a size of 0", "--shapes", "h2q0d3")
        self.refused("'0' is not a number of 1 or more", "--threads", "1,0")
        self.refused("'' is not a number of 1 or more", "--threads", "1,")
        self.refused("'-3' is not a number of 1 or more", "--repeat=-3")
        self.refused("nowhere.so does not exist", lib="nowhere.so")

    def test_without_numpy_it_says_so(self):
        self.refused("NumPy is not installed", "--shapes", "h2q5d3")


class RunTest(Case):
    modules = {"onnxruntime": ABSENT, "onnx": ABSENT, "torch": ABSENT}

    def test_without_peers_libattn_and_numpy_run(self):
        file = os.path.join(self.folder, "results.json")
        shapes = ["b2h4q131d61", "b2h4/2q67d31,causal", "b3h10/2q1k257d64"]
        done = self.run_peers("--threads", "1,2", "--repeat", "3", "--json", file, "--shapes", *shapes)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("ort attention", "ort mha", "ort gqa", "torch"):
            self.assertRegex(done.stdout, rf"(?m)^  {name} +not installed: taken away by the test$")
        self.assertRegex(done.stdout, r"(?m)^  onednn +not installed: .*none\.so")
        with open(file, encoding="utf-8") as text:
            results = json.load(text)
        self.assertEqual(set(results["versions"]), {"libattn", "numpy"})
        self.assertEqual(results["refused"], [])
        rows = {(row["problem"], row["threads"], row["engine"]): row for row in results["results"]}
        self.assertEqual(set(rows), {(shape, n, name) for shape in shapes for n in (1, 2) for name in ("libattn", "numpy")})
        flops = dict(zip(shapes, (2 * 4 * 131 * 131 * 61 * 4, 2 * 4 * 67 * 68 // 2 * 31 * 4, 3 * 10 * 257 * 64 * 4)))
        kv_bytes = dict(zip(shapes, (2 * 4 * 131 * 61 * 8, 2 * 2 * 67 * 31 * 8, 3 * 2 * 257 * 64 * 8)))
        for (shape, _, name), row in rows.items():
            self.assertLess(row["error"], 3 if name == "libattn" else 100, row)
            self.assertGreater(row["error"], 0, row)
            self.assertGreater(row["ms_best"], 0)
            self.assertLessEqual(row["ms_best"], row["ms_median"])
            self.assertAlmostEqual(row["gflops"] * row["ms_median"] * 1e6 / flops[shape], 1, places=9)
            self.assertAlmostEqual(row["gbytes_per_s"] * row["ms_median"] * 1e6 / kv_bytes[shape], 1, places=9)
            self.assertEqual(row["best_peer"], "numpy")
            if name == "numpy":
                self.assertEqual(row["times_best_peer"], 1)
            else:
                self.assertIs(row["same_bits"], True, row)
            self.assertIn(f"{row['ms_median']:.3f}", done.stdout)

    def test_one_number_of_threads_says_nothing_about_bits(self):
        done = self.run_peers("--threads", "1", "--repeat", "1", "--shapes", "h2q5d3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^ +1  libattn .*  -$")

    def test_a_library_that_is_not_libattn(self):
        other = os.path.join(self.folder, "other.so")
        with open(other, "w", encoding="utf-8") as out:
            out.write("not a library\n")
        done = self.run_peers("--shapes", "h2q5d3", lib=other)
        self.assertEqual(done.returncode, 1)
        self.assertIn("peers.py: libattn: ", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_file_that_cannot_be_written(self):
        done = self.run_peers("--shapes", "h2q5d3", "--json", os.path.join(self.folder, "no", "such.json"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("--json: ", done.stderr)
        self.assertEqual(done.stdout, "")


class WrongTest(Case):
    modules = {"onnxruntime": ABSENT, "onnx": ABSENT, "torch": WRONG_TORCH}

    def test_a_peer_that_is_wrong_is_not_timed(self):
        done = self.run_peers("--threads", "1", "--repeat", "1", "--shapes", "h4/2q1k17d3", "h2q11d3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  torch +2\.0\.test$")
        self.assertEqual(done.stdout.count("left out: torch: WRONG: its largest error is "), 2)
        self.assertNotRegex(done.stdout, r"(?m)^ +1  torch ")


if __name__ == "__main__":
    unittest.main()
