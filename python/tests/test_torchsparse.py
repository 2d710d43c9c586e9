# SPDX-License-Identifier: Apache-2.0
"""Tests TorchSparse's interface: layers against the definition in double
precision, a network, and helpers.
"""

import sys
import unittest

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest("no PyTorch here: pip install torch") from missing

import dense
from torch import nn

import spctune
import spctune.torchsparse as torchsparse
import spctune.torchsparse.nn as spnn
import spctune.torchsparse.nn.functional as F
from spctune.compiled import compile

EXTENT = 12


def scene(channels, rows=300, seed=0, batches=2):
    coords = dense.scene(rows, EXTENT, batches, seed)
    draw = torch.Generator().manual_seed(seed)
    feats = torch.randn(len(coords), channels, generator=draw)
    return torchsparse.SparseTensor(
        feats, coords, spatial_range=(batches, EXTENT, EXTENT, EXTENT)
    )


def offsets(size):
    """Returns the offsets of TorchSparse in the order of its weights."""
    axes = [range(-((k - 1) // 2), k // 2 + 1) for k in size]
    x, y, z = axes
    if size[0] * size[1] * size[2] % 2:
        return [(a, b, c) for c in z for b in y for a in x]
    return [(a, b, c) for a in x for b in y for c in z]


def defined(x, coords, layer, stride):
    """Computes the definition: output o reads the input at o * stride plus the
    offset."""
    rows = {tuple(c): i for i, c in enumerate(x.coords.tolist())}
    feats = x.feats.double()
    kernel = layer.kernel.double()
    out = torch.zeros(len(coords), kernel.shape[-1], dtype=torch.float64)
    for i, (b, *o) in enumerate(coords.tolist()):
        for k, off in enumerate(offsets(layer.kernel_size)):
            at = [v * s + d for v, s, d in zip(o, stride, off)]
            row = rows.get((b, *at))
            if row is not None:
                out[i] += feats[row] @ kernel[k]
    return out if layer.bias is None else out + layer.bias.double()


class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def near(self, got, want):
        error = (got.double() - want.double()).abs().max().item()
        self.assertLess(error, 1e-5 * (1 + want.abs().max().item()))

    def test_submanifold_layers_of_any_kernel(self):
        for kernel in (3, 2, (3, 1, 5), (2, 3, 1), 4):
            with self.subTest(kernel=kernel), torch.no_grad():
                x, layer = scene(4), spnn.Conv3d(4, 5, kernel, bias=True)
                y = layer(x)
                self.assertEqual(y.stride, (1, 1, 1))
                self.assertIs(y.coords, x.coords)
                self.near(y.feats, defined(x, x.coords, layer, (1, 1, 1)))

    def test_strides_of_the_kernel_size_round_down(self):
        for kernel in (2, (2, 2, 1), 3):
            stride = (kernel,) * 3 if isinstance(kernel, int) else kernel
            with self.subTest(kernel=kernel), torch.no_grad():
                x = scene(4)
                layer = spnn.Conv3d(4, 5, kernel, stride=stride)
                y = layer(x)
                want = x.coords.clone()
                want[:, 1:] //= torch.tensor(stride)
                want = torch.unique(want, dim=0).int()
                self.assertTrue(torch.equal(y.coords, want))
                self.assertEqual(y.stride, stride)
                self.near(y.feats, defined(x, want, layer, stride))

    def test_other_strides_have_the_footprint(self):
        with torch.no_grad():
            x, layer = scene(4), spnn.Conv3d(4, 5, 3, stride=2, padding=1)
            y = layer(x)
            found = dense.reached(x.coords, 3, 2, 1, (6, 6, 6))
            self.assertEqual([tuple(c) for c in y.coords.tolist()], found)
            self.assertEqual(y.spatial_range, (2, 6, 6, 6))
            weight = F.to_krsc(layer.kernel, (3, 3, 3))
            want = dense.conv(
                x.feats,
                x.coords,
                weight,
                None,
                y.coords,
                (EXTENT,) * 3,
                2,
                (6, 6, 6),
                stride=2,
                padding=1,
            )
            self.near(y.feats, want)
            # Without a range the shape ends at the highest voxel.
            free = torchsparse.SparseTensor(x.feats, x.coords)
            self.assertTrue(torch.equal(layer(free).coords, y.coords))

    def test_transposed_layers_return_to_the_voxels(self):
        with torch.no_grad():
            x = scene(4)
            down = spnn.Conv3d(4, 6, 2, stride=2)
            up = spnn.Conv3d(6, 3, 2, stride=2, transposed=True)
            y = up(down(x))
            self.assertIs(y.coords, x.coords)
            self.assertEqual(y.stride, (1, 1, 1))
            self.assertEqual(y.spatial_range, x.spatial_range)
            coarse = down(x)
            rows = {tuple(c): i for i, c in enumerate(coarse.coords.tolist())}
            order = {o: k for k, o in enumerate(offsets((2, 2, 2)))}
            want = torch.zeros(len(x.coords), 3)
            for i, (b, *c) in enumerate(x.coords.tolist()):
                row = rows[(b, *(v // 2 for v in c))]
                k = order[tuple(v % 2 for v in c)]
                want[i] = coarse.feats[row] @ up.kernel[k]
            self.near(y.feats, want)
            other = spnn.Conv3d(6, 3, 3, stride=2, transposed=True)
            with self.assertRaisesRegex(spctune.InvalidError, "there was none"):
                other(down(x))

    def test_generative_layers_make_their_voxels(self):
        with torch.no_grad():
            x = scene(4, rows=30)
            layer = spnn.Conv3d(
                4, 5, 3, stride=2, transposed=True, generative=True
            )
            y = layer(x)
            found = set()
            for b, *c in x.coords.tolist():
                for off in offsets((3, 3, 3)):
                    at = tuple(v * 2 + d for v, d in zip(c, off))
                    if all(0 <= v < 2 * EXTENT for v in at):
                        found.add((b, *at))
            self.assertEqual({tuple(c) for c in y.coords.tolist()}, found)
            fine = torchsparse.SparseTensor(
                x.feats, x.coords * torch.tensor([1, 2, 2, 2]).int()
            )
            self.near(y.feats, defined(fine, y.coords, layer, (1, 1, 1)))
            even = spnn.Conv3d(4, 5, 2, 2, transposed=True, generative=True)
            with self.assertRaisesRegex(spctune.InvalidError, "even kernels"):
                even(x)

    def test_gradients_are_those_of_the_definition(self):
        x = scene(3, rows=60)
        layer = spnn.Conv3d(3, 4, 2, stride=2, bias=True)
        x.feats.requires_grad_()
        y = layer(x)
        draw = torch.randn(y.feats.shape)
        (y.feats * draw).sum().backward()
        got = [x.feats.grad, layer.kernel.grad, layer.bias.grad]
        leaf = x.feats.detach().requires_grad_()
        twin = torchsparse.SparseTensor(leaf, x.coords)
        layer.zero_grad()
        want = defined(twin, y.coords, layer, (2, 2, 2))
        (want * draw).sum().backward()
        for a, b in zip(got, [leaf.grad, layer.kernel.grad, layer.bias.grad]):
            self.near(a, b)


class Network(unittest.TestCase):
    """A residual U-Net with the shape of MinkUNet, in TorchSparse's
    interface."""

    @staticmethod
    def make():
        def block(cin, cout, kernel=3, **how):
            return nn.Sequential(
                spnn.Conv3d(cin, cout, kernel, **how),
                spnn.BatchNorm(cout),
                spnn.ReLU(True),
            )

        class Residual(nn.Module):
            def __init__(self, cin, cout):
                super().__init__()
                self.net = nn.Sequential(
                    block(cin, cout),
                    spnn.Conv3d(cout, cout, 3),
                    spnn.BatchNorm(cout),
                )
                self.shortcut = (
                    nn.Identity()
                    if cin == cout
                    else nn.Sequential(
                        spnn.Conv3d(cin, cout, 1), spnn.BatchNorm(cout)
                    )
                )
                self.relu = spnn.ReLU(True)

            def forward(self, x):
                return self.relu(self.net(x) + self.shortcut(x))

        class UNet(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem = block(4, 16)
                self.down = block(16, 16, 2, stride=2)
                self.deep = Residual(16, 32)
                self.up = block(32, 24, 2, stride=2, transposed=True)
                self.end = Residual(40, 24)
                self.head = nn.Linear(24, 7)

            def forward(self, x):
                x = self.stem(x)
                y = self.up(self.deep(self.down(x)))
                y = self.end(torchsparse.cat([y, x]))
                return self.head(y.F), y

        model = UNet()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.weight, 0.5, 1.5)
        return model.eval()

    def test_it_compiles_into_one_network(self):
        torch.manual_seed(0)
        model = self.make()
        samples = [scene(4, rows, seed) for seed, rows in ((1, 200), (2, 500))]
        net = compile(model, samples, dtype="f32", capacity=1000)
        self.assertEqual(net._lowered.layers, 10)
        self.assertEqual(len(net._before) + len(net._after), 0)
        x = scene(4, 900, 3)
        with torch.no_grad():
            want, tensor = model(x)
        got, made = net(x)
        scale = want.pow(2).mean().sqrt()
        self.assertLess((got - want).abs().max() / scale, net.tolerance())
        self.assertTrue(torch.equal(made.coords, tensor.coords))
        self.assertEqual(made.stride, tensor.stride)

    def test_a_step_of_training_changes_every_parameter(self):
        torch.manual_seed(0)
        model = self.make().train()
        out, _ = model(scene(4))
        out.square().mean().backward()
        for name, parameter in model.named_parameters():
            self.assertTrue(parameter.grad.abs().sum() > 0, name)


class Helpers(unittest.TestCase):
    def test_voxels_of_points_and_batches(self):
        try:
            import numpy as np
        except ImportError:
            self.skipTest("no NumPy here")
        from spctune.torchsparse.utils.collate import sparse_collate_fn
        from spctune.torchsparse.utils.quantize import sparse_quantize

        points = np.array(
            [[0.1, 0, 0], [0.4, 0, 0], [-0.1, 0, 0], [0.1, 0.2, 0.3]]
        )
        coords, index, inverse = sparse_quantize(
            points, 0.25, return_index=True, return_inverse=True
        )
        self.assertEqual(
            coords.tolist(), [[-1, 0, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
        )
        self.assertEqual(index.tolist(), [2, 0, 3, 1])
        self.assertEqual(inverse.tolist(), [1, 3, 0, 2])
        one = {
            "x": torchsparse.SparseTensor(
                torch.ones(4, 2), torch.tensor(coords)
            ),
            "label": np.arange(3),
            "name": "a",
        }
        batch = sparse_collate_fn([one, one])
        self.assertEqual(batch["x"].coords[:, 0].tolist(), [0] * 4 + [1] * 4)
        self.assertEqual(batch["label"].shape, (2, 3))
        self.assertEqual(batch["name"], ["a", "a"])

    def test_points_read_their_voxels(self):
        coords = dense.scene(200, 6)
        feats = torch.randn(len(coords), 3)
        voxels = coords[:, [1, 2, 3, 0]]
        shift = torch.tensor(
            [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
        ).int()
        at = torch.rand(50, 3) * 6
        floor = torch.cat([at.floor().int(), torch.zeros(50, 1).int()], 1)
        found = F.sphashquery(F.sphash(floor, shift), F.sphash(voxels))
        rows = {tuple(v): i for i, v in enumerate(voxels.tolist())}
        for k, off in enumerate(shift.tolist()):
            for p in range(50):
                corner = [a + b for a, b in zip(floor[p].tolist(), [*off, 0])]
                want = rows.get(tuple(corner), -1)
                self.assertEqual(found[k, p].item(), want)
        index = found.t().int()
        weights = F.calc_ti_weights(at, index)
        out = F.spdevoxelize(feats, index, weights)
        for p in range(50):
            total, value = 0.0, torch.zeros(3)
            for k, off in enumerate(shift.tolist()):
                if index[p, k] < 0:
                    continue
                w = 1.0
                for axis in range(3):
                    part = (at[p, axis] - at[p, axis].floor()).item()
                    w *= part if off[axis] else 1 - part
                total += w
                value += w * feats[index[p, k].item()]
            torch.testing.assert_close(
                out[p], value / (total + 1e-8), atol=1e-4, rtol=1e-4
            )

    def test_voxels_are_the_means_of_their_points(self):
        at = torch.tensor([0, 2, 2, -1, 0])
        counts = F.spcount(at, 3)
        self.assertEqual(counts.tolist(), [2, 0, 2])
        feats = torch.arange(10.0).view(5, 2)
        out = F.spvoxelize(feats, at, counts)
        self.assertEqual(out.tolist(), [[4, 5], [0, 0], [3, 4]])

    def test_pooling_over_batch_elements(self):
        x = scene(3)
        for module, how in (
            (spnn.GlobalAvgPool(), lambda f: f.mean(0)),
            (spnn.GlobalMaxPool(), lambda f: f.max(0).values),
        ):
            want = torch.stack(
                [how(x.feats[x.coords[:, 0] == b]) for b in (0, 1)]
            )
            torch.testing.assert_close(module(x), want)
        y = spnn.GroupNorm(1, 3)(x).feats
        for b in (0, 1):
            part = y[x.coords[:, 0] == b]
            self.assertAlmostEqual(part.mean().item(), 0, places=5)
            self.assertAlmostEqual(part.pow(2).mean().item(), 1, places=3)

    def test_sums_over_two_sets(self):
        a, b = scene(2, 50, 1), scene(2, 50, 2)
        out = torchsparse.generative_add(a, b)
        rows = {tuple(c): f for c, f in zip(out.coords.tolist(), out.feats)}
        total = {}
        for x in (a, b):
            for c, f in zip(x.coords.tolist(), x.feats):
                total[tuple(c)] = total.get(tuple(c), 0) + f
        self.assertEqual(rows.keys(), total.keys())
        for key, value in total.items():
            torch.testing.assert_close(rows[key], value)

    def test_install_serves_imports(self):
        kept = {n: m for n, m in sys.modules.items() if "torchsparse" in n}
        try:
            torchsparse.install()
            import torchsparse as plain
            import torchsparse.nn as plain_nn
            from torchsparse.nn.utils import fapply
            from torchsparse.utils.quantize import sparse_quantize

            self.assertIs(plain.SparseTensor, torchsparse.SparseTensor)
            self.assertIs(plain_nn.Conv3d, spnn.Conv3d)
            self.assertTrue(callable(fapply) and callable(sparse_quantize))
        finally:
            for name in [n for n in sys.modules if n.startswith("torchsparse")]:
                del sys.modules[name]
            sys.modules.update(kept)


if __name__ == "__main__":
    unittest.main()
