# SPDX-License-Identifier: Apache-2.0
"""Runs the examples that train, in their smallest setting, on the processor."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from None

import curves
import rooms
import train_detector
import train_rooms

import spctune

EXAMPLES = os.path.dirname(os.path.abspath(curves.__file__))


class Verdicts(unittest.TestCase):
    def runs(self, shift=0.0, seed=0):
        """Returns three seeds of a falling curve of ten points."""
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
    """Runs both scripts with three seeds, against dense convolution."""

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


UTILS = """
import spconv
import spconv.pytorch as spconv

def replace_feature(out, features):
    return out.replace_feature(features)
"""
BACKBONE = """
import torch.nn as nn
from ...utils.spconv_utils import replace_feature, spconv

class VoxelBackBone8x(nn.Module):
    def __init__(self, model_cfg, input_channels, grid_size, **kwargs):
        super().__init__()
        assert model_cfg.get("RETURN", None) is None
        self.sparse_shape = grid_size[::-1] + [1, 0, 0]
        conv = spconv.SubMConv3d(input_channels, 4, 3, bias=False)
        self.conv_input = spconv.SparseSequential(conv, nn.ReLU())
        self.down = spconv.SparseSequential(
            spconv.SparseConv3d(4, 4, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm1d(4),
        )

    def forward(self, batch_dict):
        x = spconv.SparseConvTensor(
            features=batch_dict["voxel_features"],
            indices=batch_dict["voxel_coords"].int(),
            spatial_shape=self.sparse_shape,
            batch_size=batch_dict["batch_size"],
        )
        one = self.conv_input(x)
        two = self.down(one)
        two = replace_feature(two, two.features.relu())
        batch_dict.update({
            "encoded_spconv_tensor": two,
            "multi_scale_3d_features": {"x_conv1": one, "x_conv2": two},
            "multi_scale_3d_strides": {"x_conv1": 1, "x_conv2": 2},
        })
        return batch_dict
"""


class OpenPcdet(unittest.TestCase):
    """Runs the example on a package with OpenPCDet's names, or on the clone
    that $SPC_OPENPCDET names."""

    def test_a_backbone_trains_and_compiles_without_spconv(self):
        with tempfile.TemporaryDirectory() as folder:
            clone = os.environ.get("SPC_OPENPCDET", "")
            if not clone:
                clone = f"{folder}/clone"
                for name, text in (
                    ("utils/spconv_utils.py", UTILS),
                    ("models/backbones_3d/spconv_backbone.py", BACKBONE),
                ):
                    path = f"{clone}/pcdet/{name}"
                    os.makedirs(os.path.dirname(path))
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
            words = [sys.executable, "-B", f"{EXAMPLES}/openpcdet.py", clone]
            words += ["--out", folder, "--device", "cpu", "--scale", "0.02"]
            package = os.path.dirname(os.path.dirname(spctune.__file__))
            done = subprocess.run(
                words,
                env=dict(os.environ, PYTHONPATH=package),
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            made = os.listdir(folder)
        self.assertIn("layers are of spctune.spconv.conv", done.stdout)
        self.assertIn("second.db", made)
        self.assertIn("openpcdet_levels.svg", made)
        self.assertIn("openpcdet_profile.svg", made)


if __name__ == "__main__":
    unittest.main()
