"""The examples that take arguments: what they print for good ones, and one sentence, not a traceback, for bad ones.
usage: examples_test.py OWN_WEIGHTS CALLER_PY"""

import os
import struct
import subprocess
import sys
import tempfile
import unittest

CALLER_PY = os.path.abspath(sys.argv.pop())
OWN_WEIGHTS = os.path.abspath(sys.argv.pop())


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class ExamplesTest(unittest.TestCase):
    def run_with_numbers(self, numbers, *arguments, more=b""):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "weights.raw")
            with open(file, "wb") as out:
                out.write(struct.pack(f"={len(numbers)}f", *numbers) + more)
            return run(OWN_WEIGHTS, file, *arguments)

    def test_weights_of_a_file(self):
        # W_Q = W_K = 0 make all weights of attention alike, W_V = 1, W_O = 2: twice the mean of the rows so far
        d = 4
        zero, one = [0.0] * (d * d), [float(i % (d + 1) == 0) for i in range(d * d)]
        done = self.run_with_numbers(zero + zero + one + [2 * n for n in one], "4", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [[(i % 7 - 3) / 4 for i in range(r * d, r * d + d)] for r in range(5)]
        self.assertEqual(done.stdout.count("\n"), len(rows))
        for r, line in enumerate(done.stdout.splitlines()):
            name, numbers = line.split(":")
            self.assertEqual(name, f"token {r}")
            for c, number in enumerate(map(float, numbers.split())):
                self.assertAlmostEqual(number, 2 * sum(row[c] for row in rows[:r + 1]) / (r + 1), places=5)

    def test_files_of_another_size(self):
        for numbers, more, words in (([1.0] * 63, b"", "holds 252 bytes, but"), ([1.0] * 64, b"x", "holds at least 257 bytes, but"),
                                     ([], b"", "holds 0 bytes, but")):
            done = self.run_with_numbers(numbers, "4", "2", more=more)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(words + " 4 * d_model * heads * size floats are 256 bytes", done.stderr)
        done = run(OWN_WEIGHTS, "no-such-file", "4", "2")
        self.assertEqual((done.returncode, done.stderr), (1, "no-such-file: cannot be opened\n"))

    def test_usage(self):
        for arguments in ([], ["x"], ["x", "4"], ["x", "4", "3"], ["x", "0", "1"], ["x", "4", "2", "5"]):
            done = run(OWN_WEIGHTS, *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.startswith("usage: own_weights FILE D_MODEL HEADS"), done.stderr)

    def test_usage_of_python(self):
        for arguments in ([], ["a", "b"]):
            done = run(sys.executable, CALLER_PY, *arguments)
            self.assertEqual((done.returncode, done.stderr), (2, "usage: caller.py PATH_OF_LIBATTN_SO\n"))
        done = run(sys.executable, CALLER_PY, "no-such-library.so")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("no-such-library.so", done.stderr)


unittest.main()
