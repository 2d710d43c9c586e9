# SPDX-License-Identifier: Apache-2.0
"""Tests spctune.compile(): compiled against eager models, and refused
models."""

import collections
import os
import tempfile
import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest("no PyTorch here: pip install torch") from missing
import backbones
from torch import nn

import spctune
import spctune.spconv as sp
from spctune import SparseTensor
from spctune import nn as snn
from spctune.compiled import compile, load
from spctune.trace import TraceError

SEED = 1
EXTENT = 24


def voxels(rows, generator, batches=2, extent=EXTENT):
    """Returns distinct voxels in random order."""
    cells = batches * extent**3
    at = torch.randperm(cells, generator=generator)[:rows]
    columns = [
        at // extent**3,
        at // extent**2 % extent,
        at // extent % extent,
        at % extent,
    ]
    return torch.stack(columns, 1).to(torch.int32)


def settle(model, generator):
    """Sets statistics and weights of normalisations as after some training."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            with torch.no_grad():
                module.running_mean.normal_(0, 0.1, generator=generator)
                module.running_var.uniform_(0.5, 2, generator=generator)
                module.weight.uniform_(0.5, 1.5, generator=generator)
                module.bias.normal_(0, 0.1, generator=generator)
    return model.eval()


def relu(x):
    return x.replace(torch.relu(x.features))


class Block(nn.Module):
    """A block of two layers and a shortcut, as in ResNets."""

    def __init__(self, c):
        super().__init__()
        self.conv1 = snn.Conv3d(c, c, 3, bias=False)
        self.bn1 = nn.BatchNorm1d(c)
        self.conv2 = snn.Conv3d(c, c, 3)
        self.bn2 = nn.BatchNorm1d(c)

    def forward(self, x):
        y = self.conv1(x)
        y = self.conv2(relu(y.replace(self.bn1(y.features))))
        y = y.replace(self.bn2(y.features))
        return relu(y.replace(y.features + x.features))


def layer(cin, cout, **more):
    return snn.Sequential(
        snn.Conv3d(cin, cout, 3, bias=False, **more),
        nn.BatchNorm1d(cout),
        nn.ReLU(inplace=True),
    )


class Backbone(nn.Module):
    """A model like a detector's: strided levels, a dense plane, and a dict as
    input and output."""

    def __init__(self):
        super().__init__()
        strided = dict(stride=2, padding=1, rule="footprint")
        self.first = layer(5, 16)
        self.level1 = snn.Sequential(layer(16, 16), layer(16, 32, **strided))
        self.level2 = snn.Sequential(layer(32, 32), layer(32, 64, **strided))
        self.head = nn.Conv2d(64 * 6, 8, 1)

    def forward(self, batch):
        counts = batch["points"].abs().sum(2).ne(0).sum(1).clamp(min=1)
        features = batch["points"].sum(1) / counts[:, None]
        x = SparseTensor(
            features, batch["coords"], (EXTENT,) * 3, batch["batch_size"]
        )
        a = self.level1(self.first(x))
        b = self.level2(a)
        plane = b.dense()
        n, c, d, h, w = plane.shape
        batch["plane"] = self.head(plane.view(n, c * d, h, w))
        batch["levels"] = {"a": a, "b": b}
        return batch


class UNet(nn.Module):
    """A model that goes down, up again by the inverse layer, and concatenates
    with the finer level."""

    def __init__(self):
        super().__init__()
        self.first = snn.Conv3d(4, 16, 5)
        self.block = Block(16)
        self.down = snn.Conv3d(16, 32, 2, stride=2)
        self.deep = Block(32)
        self.up = snn.InverseConv3d(32, 16, 2, bias=False)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 7)

    def forward(self, features, coords):
        x = self.block(self.first(SparseTensor(features, coords)))
        y = self.deep(self.down(x))
        z = torch.cat([self.up(y, x).features, x.features], dim=1)
        z = nn.functional.gelu(self.norm(z))
        # The channel reduction of UNetV2.
        reduced = z.view(z.shape[0], 16, -1).sum(dim=2)
        return Result(self.head(z), reduced, y)


Result = collections.namedtuple("Result", "logits reduced coarse")


class Compiled(unittest.TestCase):
    def setUp(self):
        self.generator = torch.Generator().manual_seed(SEED)
        torch.manual_seed(SEED)

    def random(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def coords(self, rows, **more):
        return voxels(rows, self.generator, **more)

    def close(self, got, want, tolerance):
        self.assertEqual(got.shape, want.shape)
        self.assertEqual(got.dtype, want.dtype)
        if want.numel():
            scale = want.double().pow(2).mean().sqrt().item() + 1e-30
            error = (got.double() - want.double()).abs().max().item() / scale
            self.assertLess(error, tolerance)


class Whole(Compiled):
    """Models of three shapes."""

    def backbone_batch(self, rows):
        return {
            "points": self.random(rows, 3, 5),
            "coords": self.coords(rows),
            "batch_size": 2,
            "frame": [f"frame of {rows}"],
        }

    def test_a_backbone_returns_the_models_own_structure(self):
        model = settle(Backbone(), self.generator)
        for dtype in ("f32", "f16"):
            net = compile(
                model,
                [self.backbone_batch(n) for n in (400, 900)],
                dtype=dtype,
                capacity=2000,
            )
            for rows in (2000, 1, 700):
                batch = self.backbone_batch(rows)
                with torch.no_grad():
                    want = model(dict(batch))
                before = dict(batch)
                got = net(batch)
                self.assertEqual(batch.keys(), before.keys())
                self.assertEqual(list(got), list(want))
                self.assertEqual(got["frame"], [f"frame of {rows}"])
                self.close(got["plane"], want["plane"], net.tolerance())
                for level in ("a", "b"):
                    one, other = got["levels"][level], want["levels"][level]
                    self.assertTrue(torch.equal(one.coords, other.coords))
                    self.assertEqual(one.shape, other.shape)
                    self.close(one.features, other.features, net.tolerance())

    def test_a_u_net_is_one_network_with_few_steps(self):
        model = settle(UNet(), self.generator)

        def batch(rows):
            return self.random(rows, 4), self.coords(rows)

        for dtype in ("f32", "bf16"):
            net = compile(
                model, [batch(300), batch(800)], dtype=dtype, capacity=1500
            )
            for rows in (1500, 30):
                features, coords = batch(rows)
                with torch.no_grad():
                    want = model(features, coords)
                got = net(features, coords)
                self.assertIsInstance(got, Result)
                self.close(got.logits, want.logits, net.tolerance())
                self.close(got.reduced, want.reduced, 4 * net.tolerance())
                self.assertTrue(
                    torch.equal(got.coarse.coords, want.coarse.coords)
                )
        steps = net.network.steps()
        self.assertEqual(sum(s.kind == "conv" for s in steps), 8)
        # Normalisations, shortcuts and activations are in epilogues; the only
        # other steps are the norm with its gelu and the channel reduction.
        self.assertLessEqual(sum(s.kind == "feature" for s in steps), 3)
        self.assertIn(
            "epilogue=scale+bias+add+relu", "".join(s.text for s in steps)
        )

    def test_the_oracle_agrees(self):
        model = settle(UNet(), self.generator)
        batches = [(self.random(n, 4), self.coords(n)) for n in (200, 400)]
        net = compile(model, batches, dtype="f16", capacity=800)
        verdict = net.verify(*batches[1])
        self.assertGreater(verdict.layers, 7)
        self.assertLessEqual(verdict.error, 1)

    def test_a_saved_network_gives_the_same_bits(self):
        model = settle(UNet(), self.generator)
        batches = [(self.random(n, 4), self.coords(n)) for n in (200, 400)]
        net = compile(model, batches, dtype="f16", capacity=800, name="unet")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "unet.db")
            net.save(path)
            again = load(
                path, "unet", capacity=800, batches=2, extent=net.extent
            )
            features, coords = batches[0]
            outputs = again(features, coords)
            got = net(features, coords)
            self.assertTrue(
                torch.equal(outputs["logits"].features.float(), got.logits)
            )
            with self.assertRaisesRegex(spctune.NotFoundError, "tunet|unet2"):
                load(path, "unet2")
        with self.assertRaisesRegex(spctune.InvalidError, "no database"):
            load("/nowhere/x.db", "unet")

    def test_profile_and_tuning_name_every_layer(self):
        model = settle(Block(8), self.generator)
        wrapped = On(model).eval()
        batches = [(self.random(n, 8), self.coords(n)) for n in (100, 200)]
        net = compile(wrapped, batches, dtype="f32", capacity=400)
        profile = net.profile(*batches[0])
        self.assertIn("inner.conv1: subm", str(profile))
        self.assertGreater(profile.total(), 0)
        self.assertIn("<table>", profile._repr_html_())
        seen = []
        reports = net.tune(
            batches[0],
            budget_s=0.5,
            progress=lambda i, n, words: seen.append(words),
        )
        self.assertEqual(len(reports), len(seen))
        self.assertTrue(all(r.winner_us > 0 for r in reports))
        with torch.no_grad():
            want = wrapped(*batches[1])
        self.close(net(*batches[1]).features, want.features, net.tolerance())

    def test_a_number_that_all_samples_have_is_compiled_in(self):
        model = settle(Backbone(), self.generator)
        net = compile(
            model, [self.backbone_batch(n) for n in (40, 90)], dtype="f32"
        )
        batch = self.backbone_batch(50)
        batch["batch_size"] = 3
        with self.assertRaisesRegex(
            spctune.InvalidError,
            r"argument 0\['batch_size'\]: 2 in all samples, 3 here",
        ):
            net(batch)
        del batch["coords"]
        with self.assertRaisesRegex(spctune.InvalidError, "the keys points, "):
            net(batch)


class DropIn(Compiled):
    """Models that are written for spconv."""

    def test_backbones_are_one_network(self):
        for make in (backbones.detector, backbones.unet):
            model = backbones.settle(make(sp)).eval()
            samples = [backbones.scene(i, rows=500 + 300 * i) for i in (0, 1)]
            for dtype in ("f32", "f16"):
                net = compile(model, samples, dtype=dtype, capacity=2000)
                self.assertEqual(len(net._before) + len(net._after), 0)
                given = backbones.scene(7, rows=1500)
                with torch.no_grad():
                    want = model(*given)
                got = net(*given)
                for x, y in zip(got, want):
                    self.assertIs(type(x), sp.SparseConvTensor)
                    self.assertTrue(torch.equal(x.indices, y.indices))
                    self.assertEqual(x.spatial_shape, y.spatial_shape)
                    self.close(x.features, y.features, net.tolerance())
        self.assertIn(
            "merge: subm,cin=32,cout=16,k=1", str(net.profile(*given))
        )

    def test_levels_that_the_result_does_not_have_are_no_outputs(self):
        class Plane(nn.Module):
            def __init__(self):
                super().__init__()
                self.backbone = backbones.detector(sp)

            def forward(self, *given):
                levels = self.backbone(*given)
                return levels[-1].dense(), levels[2].indices[:, 0] * 2

        model = backbones.settle(Plane()).eval()
        samples = [backbones.scene(i, rows=500 + 300 * i) for i in (0, 1)]
        net = compile(model, samples, dtype="f32", capacity=2000)
        self.assertEqual(len(net.network.output_names), 2)
        self.assertEqual(len(net._lowered.voxels), 1)
        given = backbones.scene(7, rows=1500)
        with torch.no_grad():
            want = model(*given)
        got = net(*given)
        self.close(got[0], want[0], net.tolerance())
        self.assertTrue(torch.equal(got[1], want[1]))

    def test_a_model_that_ran_before_on_the_same_voxels(self):
        """Eager layers of several shapes may share one wide shape; the network
        has the shape of each layer."""
        model = backbones.settle(backbones.detector(sp)).eval()
        samples = [
            (*backbones.scene(i, rows=300 + 200 * i)[:2], [81, 96, 80], 2)
            for i in (0, 1)
        ]
        with torch.no_grad():
            want = model(*samples[0])[-1]
        net = compile(model, samples, dtype="f32", capacity=2000)
        got = net(*samples[0])[-1]
        self.assertTrue(torch.equal(got.indices, want.indices))
        self.close(got.features, want.features, net.tolerance())

    def test_pooling_is_a_step_of_the_network(self):
        class Pooled(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = sp.SubMConv3d(4, 8, 3)
                self.pool = sp.SparseMaxPool3d(2, 2)
                self.b = sp.SubMConv3d(8, 8, 3)

            def forward(self, features, coords, shape, batches):
                x = sp.SparseConvTensor(features, coords, shape, batches)
                y = self.b(self.pool(self.a(x)))
                return y.features, y.dense()

        model = Pooled().eval()
        samples = [backbones.scene(i, rows=500 + 300 * i) for i in (0, 1)]
        net = compile(model, samples, dtype="f32", capacity=2000)
        given = backbones.scene(3, rows=900)
        with torch.no_grad():
            want = model(*given)
        for x, y in zip(net(*given), want):
            self.close(x, y, net.tolerance())
        self.assertIn("pool=max", str(net.profile(*given)))


class On(nn.Module):
    """A module on features and voxels."""

    def __init__(self, inner, after=None):
        super().__init__()
        self.inner, self.after = inner, after

    def forward(self, features, coords):
        y = self.inner(SparseTensor(features, coords))
        return y if self.after is None else self.after(y)


class Sizes(Compiled):
    """Numbers that are sizes, and torch functions after the network."""

    def check(self, after, rows=(150, 90, 400)):
        model = settle(On(snn.Conv3d(4, 8, 3), after), self.generator)
        batches = [(self.random(n, 4), self.coords(n)) for n in rows]
        net = compile(model, batches[:2], dtype="f32", capacity=500)
        with torch.no_grad():
            want = model(*batches[2])
        self.close(net(*batches[2]), want, 2e-5)
        return net

    def test_rows_in_arguments_are_those_of_the_batch(self):
        def after(y):
            n = y.features.shape[0]
            mask = torch.zeros(n, 1)
            mask[::2] = 1
            return y.features.reshape(n * 2, -1).view(n, 8) * mask

        self.check(after)

    def test_unknown_functions_are_torchs(self):
        net = self.check(lambda y: torch.softmax(y.features.abs().sqrt(), 1))
        self.assertEqual(len(net._after), 3)

    def test_layers_behind_a_torch_function_run_one_by_one(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = snn.Conv3d(4, 8, 3)
                self.down = snn.Conv3d(8, 8, 2, stride=2)
                self.b = snn.Conv3d(8, 8, 3)
                self.up = snn.InverseConv3d(8, 4, 2)

            def forward(self, features, coords):
                x = self.a(SparseTensor(features, coords))
                y = self.down(x.replace(torch.sin(x.features)))
                y = self.b(y.replace(torch.cos(y.features)))
                return self.up(y, x).features, y.coords

        model = Model().eval()
        batches = [(self.random(n, 4), self.coords(n)) for n in (50, 90, 200)]
        net = compile(model, batches[:2], dtype="f32", capacity=500)
        self.assertEqual(net._lowered.layers, 1)
        with torch.no_grad():
            want = model(*batches[2])
        got = net(*batches[2])
        self.close(got[0], want[0], 2e-5)
        self.assertTrue(torch.equal(got[1], want[1]))

    def test_writes_in_place_keep_their_order(self):
        def after(y):
            f = y.features
            g = f * 2
            g[:, 0] = 5
            g.mul_(3)
            f.add_(1)
            return g + f

        self.check(after)

    def test_voxels_of_outputs_can_be_read(self):
        model = settle(
            On(
                snn.Conv3d(4, 8, 2, stride=2),
                lambda y: y.features * y.coords[:, 1:2].to(torch.float32),
            ),
            self.generator,
        )
        batches = [(self.random(n, 4), self.coords(n)) for n in (50, 90, 200)]
        net = compile(model, batches[:2], dtype="f32", capacity=500)
        with torch.no_grad():
            want = model(*batches[2])
        self.close(net(*batches[2]), want, 2e-5)


class Refused(Compiled):
    """The error of a refused model names its line."""

    def refused(self, forward, words, rows=(60, 130), inner=None):
        model = On(inner or snn.Conv3d(4, 4, 3), forward).eval()
        batches = [(self.random(n, 4), self.coords(n)) for n in rows]
        with self.assertRaises(TraceError) as caught:
            compile(model, batches, dtype="f32")
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_a_branch_on_the_number_of_voxels(self):
        def forward(y):
            if y.features.shape[0] > 100:
                return torch.exp(y.features)
            return torch.sin(y.features)

        self.refused(
            forward, ["test_compile.py:", "branches on its data", "sin", "exp"]
        )

    def test_a_branch_on_a_value(self):
        self.refused(
            lambda y: (
                y.features
                if y.features.shape[0] * 1.0
                > y.features.count_nonzero().item() - 3
                else None
            ),
            ["test_compile.py:", "item()", "a number of Python's"],
        )

    def test_one_path_is_longer(self):
        def forward(y):
            f = y.features
            for _ in range(f.shape[0] // 50):
                f = torch.exp(f)
            return f

        self.refused(forward, ["test_compile.py:", "branches on its data"])

    def test_a_number_that_is_no_size(self):
        self.refused(
            lambda y: torch.roll(y.features, y.features.shape[0] ** 2),
            ["test_compile.py:", "roll", "3600", "size of no tensor"],
        )

    def test_a_model_without_layers(self):
        self.refused(
            lambda y: y.features, ["no layer of spctune"], inner=nn.Identity()
        )

    def test_training_mode(self):
        model = On(Block(4))
        batch = (self.random(9, 4), self.coords(9))
        with self.assertRaisesRegex(spctune.InvalidError, "model.eval()"):
            compile(model, [batch, batch])
        model.eval()
        model.inner.bn1.train()
        with self.assertRaisesRegex(TraceError, "training mode"):
            compile(model, [batch, batch])

    def test_bad_arguments_of_compile(self):
        model = On(Block(4)).eval()
        batch = (self.random(9, 4), self.coords(9))
        with self.assertRaisesRegex(spctune.InvalidError, "two samples"):
            compile(model, [batch])
        with self.assertRaisesRegex(spctune.InvalidError, "f16, bf16"):
            compile(model, [batch, batch], dtype="float16")

    def test_bad_batches(self):
        model = On(Block(4)).eval()
        batches = [(self.random(n, 4), self.coords(n)) for n in (50, 99)]
        net = compile(model, batches, dtype="f32", capacity=100)
        with self.assertRaisesRegex(spctune.InvalidError, "have 2 parts"):
            net(batches[0][0])
        with self.assertRaisesRegex(spctune.InvalidError, "capacity of 100"):
            net(self.random(101, 4), self.coords(101))
        with self.assertRaisesRegex(spctune.InvalidError, r"\[50, 4\]"):
            net(self.random(50, 3), batches[0][1])
        twice = batches[0][1].clone()
        twice[1] = twice[0]
        with self.assertRaisesRegex(spctune.Error, "same|equal|twice|dupl"):
            net(batches[0][0], twice)
        # Other models still work afterwards.
        with torch.no_grad():
            want = model(*batches[0])
        self.close(net(*batches[0]).features, want.features, 2e-5)


if __name__ == "__main__":
    unittest.main()
