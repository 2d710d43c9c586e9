# SPDX-License-Identifier: Apache-2.0
"""Runs the Python code of docs/python.md as it is written."""

import os
import re
import tempfile
import unittest

try:
    import numpy
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from None

import dense

import spctune
import spctune.compiled

PAGE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md"
)


class OneLayer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = spctune.nn.Conv3d(16, 8, 3)

    def forward(self, x):
        return self.layer(x)


class Page(unittest.TestCase):
    def test_blocks_run(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        voxels = dense.scene(200, 10)
        rng = numpy.random.default_rng(0)

        def draw(*shape):
            return rng.standard_normal(shape).astype(numpy.float32)

        tensors = {
            "features": torch.randn(len(voxels), 16),
            "coords": voxels,
            "points": voxels[:, 1:].float() / 40,
            "batch": voxels[:, 0],
        }
        arrays = {
            "coords": voxels.numpy(),
            "x": draw(len(voxels), 16),
            "weight": draw(8, 3, 3, 3, 16),
            "dy": draw(len(voxels), 8),
        }
        batches = []
        for rows in (60, 90, 75):
            at = dense.scene(rows, 20)
            x = torch.randn(len(at), 16)
            batches.append(spctune.SparseTensor(x, at))
        nets = dict(zip(("batch1", "batch2", "batch"), batches))
        nets.update(model=OneLayer(), coords=voxels, spctune=spctune)
        ran = 0
        kept = spctune.options()
        for block in blocks:
            if "net" in block:  # later blocks continue earlier ones
                with tempfile.TemporaryDirectory() as folder:
                    text = block.replace("cuda:0", "cpu")
                    text = text.replace('"second.db"', f'"{folder}/second.db"')
                    exec(compile(text, "python.md", "exec"), nets)
                ran += 1
                continue
            # Blocks that install or tune would affect other tests; test_jax
            # covers JAX.
            if "install()" in block or "tune(" in block or "jax" in block:
                compile(block, "python.md", "exec")
                continue
            names = dict(arrays if "array." in block else tensors)
            names["spctune"] = spctune
            try:
                exec(compile(block, "python.md", "exec"), names)
            finally:
                spctune.options(**kept)
            ran += 1
            if "z" in names:
                self.assertEqual(names["z"].features.shape, (len(voxels), 16))
            if "dw" in names:
                self.assertEqual(names["dw"].shape, (8, 3, 3, 3, 16))
        self.assertIsInstance(nets["again"], spctune.compiled.LoadedNetwork)
        self.assertGreaterEqual(ran, 6)


if __name__ == "__main__":
    unittest.main()
