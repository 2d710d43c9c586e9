# SPDX-License-Identifier: Apache-2.0
"""Tests layers of four axes against the definition in double precision."""

import gc
import itertools
import types
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import spctune
import spctune.minkowski as ME
import spctune.spconv as sp

SEED = 20261128


def pairs(inputs, outputs, layer, transposed):
    """Returns (offset, output row, input row) of all pairs of a layer: with
    `transposed` an output o sees the input i if o = i * stride - padding +
    dilation * place, otherwise if i = o * stride - padding + dilation *
    place."""
    sizes = zip(layer.kernel_size, layer.dilation, layer.padding)
    first = [-d * ((k - 1) // 2) if layer.subm else -p for k, d, p in sizes]
    stride = [1] * 4 if layer.subm else layer.stride
    fine, coarse = (outputs, inputs) if transposed else (inputs, outputs)
    rows = {tuple(v): i for i, v in enumerate(fine.tolist())}
    found = []
    places = itertools.product(*map(range, layer.kernel_size))
    for k, place in enumerate(places):
        for c, (batch, *at) in enumerate(coarse.tolist()):
            to = [
                a * s + f + d * p
                for a, s, f, d, p in zip(
                    at, stride, first, layer.dilation, place
                )
            ]
            f = rows.get((batch, *to))
            if f is not None:
                found.append((k, f, c) if transposed else (k, c, f))
    return torch.tensor(found, dtype=torch.long).reshape(-1, 3)


def definition(x, layer, inputs, outputs, transposed=False):
    """Returns the outputs of a layer in double precision, with gradients."""
    k, o, i = pairs(inputs, outputs, layer, transposed).unbind(1)
    weight = layer.weight.double().flatten(1, 4)  # cout, K, cin
    made = torch.einsum("nc,onc->no", x.double()[i], weight[:, k])
    out = torch.zeros(len(outputs), len(weight), dtype=torch.float64)
    return out.index_add(0, o, made)


def visible(x, layer, shape, transposed=False):
    """Returns all voxels that see an input, by the definition, sorted."""
    size = [range(s) for s in shape]
    every = torch.tensor(
        list(itertools.product(range(x.batch_size), *size)), dtype=torch.int32
    )
    return every[torch.unique(pairs(x.indices, every, layer, transposed)[:, 1])]


# shape, kernel, stride, padding, dilation
CASES = (
    ([6, 7, 5, 4], 3, 2, 1, 1),
    ([4, 5, 9, 4], 3, [1, 2, 3, 2], [1, 0, 2, 1], 1),
    ([5, 6, 7, 8], 2, [2, 2, 2, 3], [0, 0, 0, 1], 2),
    ([5, 4, 8, 7], [3, 1, 3, 3], [2, 1, 1, 2], [1, 0, 1, 1], 1),
    ([5, 4, 8, 7], [3, 1, 4, 3], [2, 1, 4, 1], [1, 0, 3, 0], 1),
    ([4, 3, 9, 9], [1, 1, 3, 2], [1, 1, 3, 2], [0, 0, 4, 0], [1, 1, 2, 1]),
)


class FourAxes(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)

    def scene(self, shape, rows=120, channels=3, batches=2):
        cells = batches
        for size in shape:
            cells *= size
        numbers = torch.randperm(cells)[:rows]
        columns = []
        for size in reversed(shape):
            columns.append(numbers % size)
            numbers = numbers // size
        indices = torch.stack([numbers, *columns[::-1]], 1).int()
        features = torch.randn(len(indices), channels, requires_grad=True)
        return sp.SparseConvTensor(features, indices, shape, batches)

    def check(self, x, y, layer, transposed=False):
        """Compares outputs and both gradients with the definition."""
        want = definition(x.features, layer, x.indices, y.indices, transposed)
        # fp32 rounds each of the K * cin products, and each sum.
        bound = 2.0**-23 * layer.weight[0].numel()
        scale = max(want.abs().max().item(), 1e-3)
        self.assertLess(
            (y.features.double() - want).abs().max().item(), bound * scale
        )
        grad = torch.randn_like(want)
        ends = (x.features, layer.weight)
        theirs = torch.autograd.grad(want, ends, grad)
        ours = torch.autograd.grad(y.features, ends, grad.float())
        for a, b in zip(ours, theirs):
            scale = max(b.abs().max().item(), 1e-3)
            rows = bound + 2.0**-23 * len(want)
            self.assertLess((a - b).abs().max().item(), rows * scale)

    def test_submanifold_layers(self):
        for shape, kernel, _, _, dilation in CASES:
            x = self.scene(shape)
            layer = sp.SubMConv4d(3, 5, kernel, dilation=dilation, bias=False)
            y = layer(x)
            self.assertIs(y.indices, x.indices)
            self.check(x, y, layer)

    def test_strided_layers_and_their_way_back(self):
        for shape, kernel, *rest in CASES:
            x = self.scene(shape)
            layer = sp.SparseConv4d(
                3, 5, kernel, *rest, bias=False, indice_key="a"
            )
            y = layer(x)
            want = visible(x, layer, y.spatial_shape)
            self.assertTrue(torch.equal(y.indices, want))
            self.check(x, y, layer)
            back = sp.SparseInverseConv4d(5, 4, kernel, "a", bias=False)
            back.stride, back.padding = layer.stride, layer.padding
            back.dilation = layer.dilation
            y = y.replace_feature(y.features.detach().requires_grad_())
            z = back(y)
            self.assertIs(z.indices, x.indices)
            self.assertEqual(list(z.spatial_shape), shape)
            self.check(y, z, back, transposed=True)

    def test_transposed_layers(self):
        for shape, kernel, *rest in CASES:
            x = self.scene(shape, rows=30)
            layer = sp.SparseConvTranspose4d(3, 5, kernel, *rest, bias=False)
            y = layer(x)
            want = visible(x, layer, y.spatial_shape, transposed=True)
            self.assertTrue(torch.equal(y.indices, want))
            self.check(x, y, layer, transposed=True)

    def test_a_network_of_several_levels_is_dense(self):
        """A dense plane of the last level has one axis more."""
        x = self.scene([8, 8, 8, 6])
        net = sp.SparseSequential(
            sp.SubMConv4d(3, 8, 3, indice_key="s"),
            torch.nn.BatchNorm1d(8),
            torch.nn.ReLU(),
            sp.SubMConv4d(8, 8, 3, indice_key="s"),
            sp.SparseConv4d(8, 16, 3, 2, 1),
            sp.ToDense(),
        )
        plane = net(x)
        self.assertEqual(list(plane.shape), [2, 16, 4, 4, 4, 3])
        plane.square().sum().backward()
        self.assertTrue(bool(x.features.grad.isfinite().all()))

    def test_layers_share_the_folded_voxels(self):
        x = self.scene([6, 6, 6, 6])
        for _ in range(2):
            sp.SubMConv4d(3, 3, 3)(x)
        self.assertEqual(len(x.indices._spctune_folded), 1)
        x.indices[0, 1] += 0  # a write makes them stale
        sp.SubMConv4d(3, 3, 3)(x)
        self.assertEqual(len(x.indices._spctune_folded), 1)

    def test_scenes_of_one_voxel_and_of_none(self):
        for rows in (0, 1):
            x = self.scene([4, 4, 4, 4], rows=rows)
            y = sp.SparseConv4d(3, 5, 3, 2, 1)(sp.SubMConv4d(3, 3, 3)(x))
            self.assertEqual(y.features.shape[1], 5)
            self.assertEqual(len(y.features), len(y.indices))

    def test_minkowski_engines_layers(self):
        """Coordinates have no limits, and may be negative."""
        torch.manual_seed(SEED + 1)
        rows = torch.randint(-90, 90, (400, 5)) // torch.tensor(
            [45, 9, 9, 1, 9]
        )
        rows[:, 0] = rows[:, 0] % 2
        rows = torch.unique(rows, dim=0).int()
        features = torch.randn(len(rows), 3, requires_grad=True)
        x = ME.SparseTensor(features, rows)
        for kernel, stride in (
            (3, 1),
            (2, 2),
            (3, 2),
            ([3, 1, 3, 2], [1, 2, 4, 3]),
        ):
            down = ME.MinkowskiConvolution(
                3, 5, kernel, stride=stride, dimension=4
            )
            up = ME.MinkowskiConvolutionTranspose(
                5, 4, kernel, stride=stride, dimension=4
            )
            y = down(x)
            z = up(y)
            by = torch.tensor(
                [1, *down.kernel_generator.kernel_stride], dtype=torch.int32
            )
            low = torch.div(x.C, by, rounding_mode="floor")
            want = torch.unique(low, dim=0)
            coarse = torch.div(y.C, by, rounding_mode="floor")
            self.assertTrue(torch.equal(torch.unique(coarse, dim=0), want))
            self.assertTrue(torch.equal(z.C, x.C))
            for layer, a, b, back in ((down, x, y, False), (up, y, z, True)):
                self.check_minkowski(layer, a, b, x.C, coarse, back)
        for kind in (ME.MinkowskiMaxPooling, ME.MinkowskiAvgPooling):
            y = kind(2, stride=2, dimension=4)(x)
            self.check_pool(x, y, kind is ME.MinkowskiMaxPooling)

    def check_minkowski(self, layer, x, y, fine, coarse, back):
        g = layer.kernel_generator
        like = types.SimpleNamespace(
            kernel_size=g.kernel_size,
            stride=g.kernel_stride,
            dilation=g.kernel_dilation,
            padding=[k // 2 if k % 2 else 0 for k in g.kernel_size],
            subm=False,
        )
        ends = (coarse, fine) if back else (fine, coarse)
        k, o, i = pairs(*ends, like, back).unbind(1)
        # Their first axis is the fastest.
        place = torch.arange(g.kernel_volume).view(*g.kernel_size[::-1])
        theirs = place.permute(3, 2, 1, 0).flatten()[k]
        weight = layer.kernel.double()[theirs]
        made = torch.einsum("nc,nco->no", x.F.double()[i], weight)
        want = torch.zeros(len(y.F), made.shape[1], dtype=torch.float64)
        want = want.index_add(0, o, made)
        bound = 2.0**-23 * layer.kernel[..., 0].numel()
        bound *= max(want.abs().max().item(), 1e-3)
        self.assertLess((y.F.double() - want).abs().max().item(), bound)
        grad = torch.autograd.grad(
            y.F, layer.kernel, want.float(), retain_graph=True
        )
        theirs = torch.autograd.grad(
            want, layer.kernel, want.detach(), retain_graph=True
        )
        scale = max(theirs[0].abs().max().item(), 1e-3) * 2.0**-23
        self.assertLess(
            (grad[0] - theirs[0]).abs().max().item(), scale * len(want) * 4
        )

    def check_pool(self, x, y, is_max):
        at = torch.div(
            x.C, torch.tensor([1, 2, 2, 2, 2]), rounding_mode="floor"
        )
        to = torch.div(
            y.C, torch.tensor([1, 2, 2, 2, 2]), rounding_mode="floor"
        )
        for row, voxel in zip(y.F, to):
            seen = x.F[(at == voxel).all(1)]
            want = seen.amax(0) if is_max else seen.mean(0)
            self.assertLess((row - want).abs().max().item(), 1e-6)

    def test_a_compiled_model(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = sp.SparseSequential(
                    sp.SubMConv4d(3, 8, 3),
                    torch.nn.BatchNorm1d(8),
                    torch.nn.ReLU(),
                    sp.SubMConv4d(8, 8, 3),
                )

            def forward(self, features, indices):
                x = sp.SparseConvTensor(features, indices, [6] * 4, 2)
                return self.net(x).features

        model = Model().eval()
        batches = [
            (x.features.detach(), x.indices)
            for x in (self.scene([6] * 4, rows=n) for n in (50, 120, 200))
        ]
        with torch.no_grad():
            want = model(*batches[2])
        net = spctune.compile(model, batches[:2], dtype="f32", capacity=300)
        self.assertEqual(net._lowered.layers, 2)
        gc.collect()
        kept = batches[0][1]._spctune_folded.values()
        self.assertTrue(all(tape() is None for _, tape, _ in kept))
        got = net(*batches[2])
        off = (got - want).abs().max().item() / want.square().mean().sqrt()
        self.assertLess(off, net.tolerance())
        outside = batches[2][1].clone()
        outside[5, 3] = 6
        with self.assertRaisesRegex(spctune.Error, "row 5: .*outside"):
            net(batches[2][0], outside)

    def test_errors(self):
        x = self.scene([4, 4, 4, 4])
        outside = x.indices.clone()
        outside[3, 3] = 4
        y = sp.SparseConvTensor(x.features, outside, [4] * 4, 2)
        rows = x.indices.clone()
        rows[7, 4] = 1 << 28
        late = sp.SparseConvTensor(x.features, rows, [4, 4, 4, 1 << 29], 2)
        huge = sp.SparseConvTensor(x.features, x.indices, [4, 4, 1 << 15, 4], 2)
        three = sp.SparseConvTensor(
            torch.zeros(1, 3), torch.zeros(1, 4).int(), [4] * 3, 1
        )
        cases = (
            (y, 3, "row 3 is .*the third axis has 4 voxels from 0"),
            (late, 3, r"row 7 is .*268435456\].*times 8 must fit 32 bits"),
            (x, 5, "625 offsets; a layer has at most 343"),
            (huge, 3, "an offset of 65537, .*at most 32767"),
            (three, 3, "SubMConv4d has 4 axes, and its input 3"),
        )
        for given, kernel, sentence in cases:
            with self.assertRaisesRegex(spctune.InvalidError, sentence):
                sp.SubMConv4d(3, 3, kernel)(given)
        with self.assertRaisesRegex(spctune.InvalidError, "1 to 4 axes"):
            sp.SparseConvolution(5, 3, 3)


if __name__ == "__main__":
    unittest.main()
