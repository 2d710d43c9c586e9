# SPDX-License-Identifier: Apache-2.0
"""The examples that train, in their smallest setting, on the processor."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from None

sys.path.append(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
)
import curves
import rooms
import train_detector
import train_rooms

import spctune


class Verdicts(unittest.TestCase):
    def runs(self, shift=0.0, seed=0):
        """Three seeds of a falling curve of ten points."""
        draw = numpy.random.default_rng(seed)
        falling = numpy.linspace(2, 1, 10) + shift
        return (falling + draw.normal(0, 0.05, (3, 10))).tolist()

    def test_curves_of_one_kind_agree(self):
        found = curves.compare(self.runs(), self.runs(seed=1))
        self.assertTrue(found.agree)

    def test_a_curve_that_lies_higher_is_seen(self):
        found = curves.compare(self.runs(), self.runs(0.4, 1))
        self.assertFalse(found.agree)

    def test_a_curve_that_is_no_number_is_seen(self):
        broken = self.runs()
        broken[1][4] = float("nan")
        self.assertFalse(curves.compare(broken, self.runs()).agree)


class Training(unittest.TestCase):
    """Both scripts with three seeds, against dense convolution."""

    def train(self, script, folder):
        kept = spctune.options()
        self.addCleanup(lambda: spctune.options(**kept))
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        words = ["--out", folder, "--device", "cpu", "--small"]
        words += ["--seeds", "3", "--steps", "20", "--engines", "spctune,dense"]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            agree = script.main(words)
        return agree, said.getvalue()

    def test_rooms(self):
        made = rooms.room(3, 0.2, small=True)
        self.assertEqual(
            len(numpy.unique(made.coords, axis=0)), len(made.labels)
        )
        self.assertEqual(set(made.labels.tolist()), set(range(5)))
        # The floor is low, and walls reach the ceiling.
        height = made.coords[:, 2]
        self.assertLessEqual(height[made.labels == rooms.FLOOR].max(), 1)
        self.assertGreater(height[made.labels == rooms.WALL].max(), 10)

    def test_curves_lie_in_each_others_spread(self):
        with tempfile.TemporaryDirectory() as folder:
            agree, said = self.train(train_rooms, folder)
            with open(f"{folder}/rooms.json", encoding="utf-8") as file:
                runs = json.load(file)["runs"]["spctune"]
            self.assertGreater(os.path.getsize(f"{folder}/rooms.svg"), 1000)
        self.assertTrue(agree, said)
        self.assertIn("lie in each other's spread", said)
        for run in runs:
            self.assertLess(run["loss"][-1], run["loss"][0])

    def test_loss_of_a_detector_falls_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            agree, said = self.train(train_detector, folder)
            with open(f"{folder}/detector.json", encoding="utf-8") as file:
                runs = json.load(file)["runs"]["spctune"]
        self.assertTrue(agree, said)
        for run in runs:
            self.assertLess(run["loss"][-1], 0.5 * run["loss"][0])

    def test_a_wrong_gradient_is_seen(self):
        right = spctune.ops._backward_input

        def wrong(*arguments):
            return -right(*arguments)

        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.object(spctune.ops, "_backward_input", wrong):
                agree, said = self.train(train_rooms, folder)
        self.assertFalse(agree, said)


if __name__ == "__main__":
    unittest.main()
