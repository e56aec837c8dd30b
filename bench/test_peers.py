"""Test the tables of peers.py: python3 -m unittest discover -s bench"""

import contextlib
import io
import unittest

import peers
import peersession


def row(ours, ort, ov, error=0.0):
    sides = dict(zip(peers.SIDES, ({"step": t} if t else {} for t in (ours, ort, ov)), strict=True))
    return {"1": sides, "error": dict.fromkeys(peers.SIDES, error)}


class Tables(unittest.TestCase):
    def lines(self, rows):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            peers.table("peers/x", rows, "1", "step")
        return said.getvalue().splitlines()

    def test_ratio_to_the_faster(self):
        lines = self.lines({"a": row(2.0, 4.0, 1.0), "b": row(1.0, 1.0, 4.0)})
        self.assertEqual(lines[0], "<!-- table: peers/x -->")
        self.assertIn("| a | 2.00 | 4.00 | 1.00 | 2.00 | 1.05 |", lines)
        self.assertIn("| b | 1.00 | 1.00 | 4.00 | 1.00 |  |", lines)
        self.assertIn("| geometric mean |  | 0.71 | 0.71 | 1.41 | 1 of 2 |", lines)

    def test_one_that_cannot_run_it(self):
        self.assertIn("| a | 2.00 | 4.00 |  | 0.50 |  |", self.lines({"a": row(2.0, 4.0, None)}))

    def test_wrong_results_are_named(self):
        self.assertIn("OpenVINO: error 2.0e-03", self.lines({"a": row(1.0, 1.0, 1.0, 2e-3)})[-2])
        self.assertIn("|  |", self.lines({"a-fp16": row(1.0, 1.0, 1.0, 2e-3)})[-2])


class Probe(unittest.TestCase):
    def test_takes_the_time_of_its_processors(self):
        self.assertGreaterEqual(peersession.cores(2, 0.01)["ratio"], 0.9)


if __name__ == "__main__":
    unittest.main()
