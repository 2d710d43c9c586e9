# SPDX-License-Identifier: Apache-2.0
"""Tests notebook output, progress, and capture() with tune(), on the cpu."""

import contextlib
import io
import os
import sys
import tempfile
import types
import unittest
import xml.dom.minidom

try:
    import numpy
    import torch
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from None

import dense

import spctune
import spctune.spconv as spconv
from spctune import captures, compiled, nn, progress, tuning
from spctune.network import Step


def parsed(html):
    """Counts elements by name; raises an error at a tag without an end."""
    text = html.replace("<br>", "").replace("&nbsp;", " ")
    root = xml.dom.minidom.parseString(f"<div>{text}</div>")
    return lambda name: root.getElementsByTagName(name)


def cells(html):
    return ["".join(n.data for n in c.childNodes) for c in parsed(html)("td")]


class Notebooks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.coords = dense.scene(100, 12, 2)
        self.x = torch.randn(len(self.coords), 8)

    def test_tensors(self):
        x = spctune.SparseTensor(self.x, self.coords, [12, 13, 14])
        found = cells(x._repr_html_())
        self.assertIn("12x13x14", found)
        self.assertIn(str(len(self.coords)), found)
        self.assertIn("float32 on cpu", found)
        y = spconv.SparseConvTensor(self.x, self.coords, [12] * 3, 2)
        y = spconv.SubMConv3d(8, 8, 3, indice_key="<a>")(y)
        self.assertIn("<a>", cells(y._repr_html_()))
        z = spctune.PointTensor(self.x, self.coords[:, 1:].float())
        self.assertIn("points", cells(z._repr_html_()))
        none = spctune.SparseTensor(self.x[:0], self.coords[:0])
        self.assertIn("0", cells(none._repr_html_()))

    def test_the_picture_has_a_bar_and_a_floor_for_each_step(self):
        steps = compiled.Profile(
            Step(
                "layer", f"s{i}", "a<b", "flow_" + "ab"[i % 2] + " r=1",
                "exact", 9, 9, 0.5, 10.0 * (i + 1), 4.0,
            )
            for i in range(4)
        )  # fmt: skip
        steps.append(Step("concat", "cat", "", "", "", 9, 9, 0.0, 1.0, 0.0))
        find = parsed(steps.svg())
        groups = find("g")
        self.assertEqual(len(groups), 5)
        boxes = [g.getElementsByTagName("rect") for g in groups]
        self.assertEqual([len(b) for b in boxes], [2, 2, 2, 2, 1])
        wide = [float(b[0].getAttribute("width")) for b in boxes]
        for i in range(4):
            self.assertAlmostEqual(wide[i] / wide[3], (i + 1) / 4, 2)
        fills = [b[0].getAttribute("fill") for b in boxes]
        self.assertEqual(fills[0], fills[2])
        self.assertEqual(len(set(fills)), 3)
        # The mark of the floor is at the end of a bar with that time.
        left = float(boxes[0][0].getAttribute("x"))
        mark = float(boxes[0][1].getAttribute("x")) + 1
        self.assertAlmostEqual((mark - left) / wide[0], 0.4, 2)
        self.assertEqual(len(parsed(steps._repr_html_())("tr")), 6)
        self.assertEqual(len(parsed(compiled.Profile([]).svg())("g")), 0)

    def test_reports(self):
        report = tuning.Report("w rows=1", 2.0, 5.0, 9, 8, 7, 1.5)
        self.assertIn("2.50", cells(report._repr_html_()))
        many = tuning.Reports([report, report])
        self.assertEqual(cells(many._repr_html_()).count("w rows=1"), 2)
        found = spctune.explain(
            "subm,cin=8,cout=8,k=3,dtype=f32", 500, device="cpu"
        )
        self.assertIn(found.reason, cells(found._repr_html_()))

    def test_networks(self):
        model = nn.Sequential(nn.Conv3d(8, 8), nn.BatchNorm(8)).eval()
        one = spctune.SparseTensor(self.x, self.coords)
        two = spctune.SparseTensor(self.x[:40], self.coords[:40])
        net = spctune.compile(model, [one, two], dtype="f32", capacity=200)
        plain = net._repr_html_()
        self.assertIn("up to 200", cells(plain))
        self.assertEqual(len(parsed(plain)("svg")), 0)
        net.profile(one)
        self.assertEqual(len(parsed(net._repr_html_())("svg")), 1)


class Progress(unittest.TestCase):
    def lines(self, call):
        """Returns the text that a call writes to standard error without
        tqdm."""
        kept = sys.modules.get("tqdm.auto")
        sys.modules["tqdm.auto"] = None  # importing it fails
        text = io.StringIO()
        try:
            with contextlib.redirect_stderr(text):
                call()
        finally:
            del sys.modules["tqdm.auto"]
            if kept is not None:
                sys.modules["tqdm.auto"] = kept
        return text.getvalue().splitlines()

    def test_a_line_without_tqdm(self):
        def work():
            with progress.Bar("work", 4) as bar:
                for i in range(5):
                    bar.update(i, f"step {i}")

        found = self.lines(work)
        self.assertEqual(found[-1], "work: 100 %, 0 s, step 4")

    def test_a_bar_with_tqdm(self):
        seen = []

        class Tqdm:
            def __init__(self, total, desc, bar_format):
                seen.append((total, desc))
                self.n = 0

            def set_postfix_str(self, text, refresh):
                seen.append((self.n, text))

            def close(self):
                seen.append("closed")

        module = types.ModuleType("tqdm.auto")
        module.tqdm = Tqdm
        kept = {n: sys.modules.get(n) for n in ("tqdm", "tqdm.auto")}
        sys.modules.update({"tqdm": module, "tqdm.auto": module})
        try:
            with progress.Bar("work", 2) as bar:
                bar.update(1, "half")
                bar.update(3)
        finally:
            for name, was in kept.items():
                del sys.modules[name]
                if was is not None:
                    sys.modules[name] = was
        self.assertEqual(
            seen, [(2, "work"), (1, "half"), (2, "half"), "closed"]
        )

    def test_tuning_shows_its_progress(self):
        def work():
            spctune.tune(
                "subm,cin=4,cout=4,k=1,dtype=f32",
                ["gen:uniform,n=60,extent=9,seed=1"],
                "quick",
                device="cpu",
                progress=True,
            )

        self.assertIn("tune: 100 %", "\n".join(self.lines(work)))

    def test_wait_returns_when_nothing_is_left(self):
        nn.Conv3d(8, 8)(
            spctune.SparseTensor(torch.randn(1, 8), torch.zeros(1, 4).int())
        )
        spctune.wait()
        self.assertEqual(self.lines(lambda: spctune.wait(progress=True)), [])


class Capture(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "met")
        self.addCleanup(spctune.capture, None)

    def run_once(self, rows):
        coords = dense.scene(rows, 16)
        x = torch.randn(len(coords), 8)
        y = nn.Conv3d(8, 8, 2, stride=2, bias=False)(
            nn.Conv3d(8, 8, bias=False)(spctune.SparseTensor(x, coords))
        )
        y.features.sum().backward()
        return coords

    def test_layers_are_written_with_their_voxels_and_tuned(self):
        spctune.capture(self.path)
        coords = self.run_once(60)
        self.run_once(60)  # a similar scene is not recorded
        spctune.capture(None)
        self.run_once(500)  # not any more
        found = captures.captured(self.path)
        # Both layers and their passes; the first layer's input has no gradient.
        self.assertEqual(len(found), 5)
        self.assertEqual(
            sum("pass=wgrad" in layer for layer in found), 2, list(found)
        )
        self.assertEqual([len(scenes) for scenes in found.values()], [1] * 5)
        (scene,) = {s for scenes in found.values() for s in scenes}
        self.assertTrue(numpy.array_equal(numpy.load(scene), coords.numpy()))
        told = []
        reports = spctune.tune(
            self.path,
            effort="quick",
            device="cpu",
            progress=lambda part, text: told.append((part, text)),
        )
        self.assertEqual(len(reports), 5)
        self.assertEqual(told[-1], (1, "5 of 5 layers"))
        for layer in found:
            explained = spctune.explain(layer, len(coords), device="cpu")
            self.assertTrue(explained.kernel)
        stored = {row["layer"] for row in spctune.db("cpu") if row["trials"]}
        for layer in found:
            self.assertIn(layer, stored)
        short = spctune.tune(self.path, budget_s=1e-9, device="cpu")
        self.assertEqual(len(short), 0)

    def test_scenes_of_other_sizes_are_added(self):
        spctune.capture(self.path)
        for rows in (20, 50, 100, 200, 400, 800):
            self.run_once(rows)
        spctune.capture(self.path)  # a second run continues
        self.run_once(50)
        for scenes in captures.captured(self.path).values():
            self.assertEqual(len(scenes), 4)

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(spctune.NotFoundError, "has no layers"):
            spctune.tune(self.path, device="cpu")
        os.mkdir(self.path)
        with open(os.path.join(self.path, "layers.txt"), "w") as file:
            file.write("subm,cin=8,cout=8,k=3\tmissing.npy\n")
        with self.assertRaisesRegex(spctune.InvalidError, "layers.txt:1"):
            spctune.tune(self.path, device="cpu")
        with self.assertRaises(OSError):
            spctune.capture("/dev/null/met")


if __name__ == "__main__":
    unittest.main()
