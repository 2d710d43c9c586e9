# SPDX-License-Identifier: Apache-2.0
"""Tests MinkowskiEngine's interface: layers against the definition in double
precision, networks, and helpers."""

import sys
import unittest
import warnings

try:
    import torch
except ImportError as missing:
    raise unittest.SkipTest("no PyTorch here: pip install torch") from missing

import dense
from torch import nn

import spctune
import spctune.minkowski as ME
from spctune.compiled import compile
from spctune.minkowski.modules.resnet_block import BasicBlock, Bottleneck


def scene(channels, rows=300, seed=0, extent=12, low=0, stride=1):
    """Returns a sparse tensor of voxels from `low` on."""
    coords = dense.scene(rows, extent, 2, seed)
    coords[:, 1:] = (coords[:, 1:] + low) * stride
    draw = torch.Generator().manual_seed(seed)
    feats = torch.randn(len(coords), channels, generator=draw)
    return ME.SparseTensor(feats, coords, tensor_stride=stride)


def offsets(size):
    """Returns the offsets of MinkowskiEngine: the first axis fastest, odd
    kernels centred, even ones from 0."""
    axes = [range(-(k // 2), k // 2 + 1) if k % 2 else range(k) for k in size]
    x, y, z = axes
    return [(a, b, c) for c in z for b in y for a in x]


def defined(x, coords, kernel, size, in_stride, dilation=1, transposed=False):
    """Computes the definition over coordinates that are multiples of their
    strides."""
    rows = {tuple(c): i for i, c in enumerate(x.C.tolist())}
    feats, kernel = x.F.double(), kernel.double()
    out = torch.zeros(len(coords), kernel.shape[-1], dtype=torch.float64)
    for i, (b, *o) in enumerate(coords.tolist()):
        for k, off in enumerate(offsets(size)):
            sign = -1 if transposed else 1
            at = [v + sign * d * in_stride * dilation for v, d in zip(o, off)]
            row = rows.get((b, *at))
            if row is not None:
                out[i] += feats[row] @ kernel[k]
    return out


class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def near(self, got, want):
        self.assertEqual(got.shape, want.shape)
        error = (got.double() - want.double()).abs().max().item()
        self.assertLess(error, 1e-5 * (1 + want.abs().max().item()))

    def test_layers_of_stride_1(self):
        for size, dilation in (((3, 3, 3), 1), ((2, 2, 2), 1), ((3, 1, 5), 2)):
            with self.subTest(size=size), torch.no_grad():
                x = scene(4, low=-5, stride=2)
                layer = ME.MinkowskiConvolution(
                    4, 5, size, dilation=dilation, bias=True, dimension=3
                )
                y = layer(x)
                self.assertEqual(y.tensor_stride, [2, 2, 2])
                self.assertIs(y.coordinate_map_key, x.coordinate_map_key)
                want = defined(x, x.C, layer.kernel, size, 2, dilation)
                self.near(y.F, want + layer.bias.double())

    def test_strides_round_down_and_are_shared(self):
        with torch.no_grad():
            x = scene(4, low=-5)
            outputs = []
            for k in (2, 3, 1):
                layer = ME.MinkowskiConvolution(4, 5, k, stride=2, dimension=3)
                y = layer(x)
                self.assertEqual(y.tensor_stride, [2, 2, 2])
                want = x.C.clone()
                want[:, 1:] = want[:, 1:].div(2, rounding_mode="floor") * 2
                want = torch.unique(want, dim=0)
                self.assertTrue(torch.equal(y.C, want))
                self.near(y.F, defined(x, want, layer.kernel, (k, k, k), 1))
                outputs.append(y)
            keys = {id(y.coordinate_map_key) for y in outputs}
            self.assertEqual(len(keys), 1)
            # A shortcut with another kernel can be added, as both outputs have
            # the same voxels.
            self.assertEqual((outputs[0] + outputs[2]).F.shape, y.F.shape)

    def test_transposed_layers_return_to_the_voxels(self):
        with torch.no_grad():
            x = scene(4, low=-5)
            y = ME.MinkowskiConvolution(4, 6, 2, stride=2, dimension=3)(x)
            for k in (2, 3):
                up = ME.MinkowskiConvolutionTranspose(
                    6, 3, k, stride=2, dimension=3
                )
                z = up(y)
                self.assertIs(z.coordinate_map_key, x.coordinate_map_key)
                want = defined(y, x.C, up.kernel, (k, k, k), 1, transposed=True)
                self.near(z.F, want)
            alone = scene(4, stride=2)
            with self.assertRaisesRegex(
                spctune.InvalidError, "there are none.*Generative"
            ):
                ME.MinkowskiConvolutionTranspose(
                    4, 3, 2, stride=2, dimension=3
                )(alone)

    def test_generative_layers_make_their_voxels(self):
        with torch.no_grad():
            x = scene(4, rows=40, low=-3, stride=2)
            for k in (2, 3):
                layer = ME.MinkowskiGenerativeConvolutionTranspose(
                    4, 3, k, stride=2, dimension=3
                )
                y = layer(x)
                found = {
                    (b, *(v + d for v, d in zip(c, off)))
                    for b, *c in x.C.tolist()
                    for off in offsets((k, k, k))
                }
                self.assertEqual({tuple(c) for c in y.C.tolist()}, found)
                want = defined(
                    x, y.C, layer.kernel, (k, k, k), 1, transposed=True
                )
                self.near(y.F, want)

    def test_two_axes(self):
        with torch.no_grad():
            coords = torch.unique(
                torch.randint(0, 9, (60, 3)) % torch.tensor([2, 9, 9]), dim=0
            ).int()
            x = ME.SparseTensor(torch.randn(len(coords), 4), coords)
            layer = ME.MinkowskiConvolution(4, 5, 3, dimension=2)
            y = layer(x).F
            rows = {tuple(c): i for i, c in enumerate(coords.tolist())}
            want = torch.zeros_like(y)
            steps = [(a, b) for b in (-1, 0, 1) for a in (-1, 0, 1)]
            for i, (b, p, q) in enumerate(coords.tolist()):
                for k, (s, t) in enumerate(steps):
                    row = rows.get((b, p + s, q + t))
                    if row is not None:
                        want[i] += x.F[row] @ layer.kernel[k]
            self.near(y, want)

    def test_channels_by_themselves(self):
        with torch.no_grad():
            x = scene(6)
            layer = ME.MinkowskiChannelwiseConvolution(6, 3, dimension=3)
            full = torch.diag_embed(layer.kernel)
            self.near(layer(x).F, defined(x, x.C, full, (3, 3, 3), 1))

    def test_pooling(self):
        x = scene(3)
        for module, how in (
            (ME.MinkowskiMaxPooling(2, 2, dimension=3), "amax"),
            (ME.MinkowskiAvgPooling(2, 2, dimension=3), "mean"),
        ):
            y = module(x)
            at = x.C.clone()
            at[:, 1:] //= 2
            cells, inverse = torch.unique(at, dim=0, return_inverse=True)
            index = inverse[:, None].expand_as(x.F)
            want = torch.zeros(len(cells), 3).scatter_reduce(
                0, index, x.F, how, include_self=False
            )
            self.near(y.F, want)
        for module, how in (
            (ME.MinkowskiGlobalAvgPooling(), "mean"),
            (ME.MinkowskiGlobalMaxPooling(), "amax"),
            (ME.MinkowskiGlobalSumPooling(), "sum"),
        ):
            index = x.C[:, :1].long().expand_as(x.F)
            want = torch.zeros(2, 3).scatter_reduce(
                0, index, x.F, how, include_self=False
            )
            self.near(module(x).F, want)
        glob = ME.MinkowskiGlobalAvgPooling()(x)
        y = ME.MinkowskiBroadcastMultiplication()(x, glob)
        self.near(y.F, x.F * glob.F[x.C[:, 0].long()])

    def test_gradients_are_those_of_the_definition(self):
        x = scene(3, rows=60)
        layer = ME.MinkowskiConvolution(3, 4, 3, stride=2, dimension=3)
        x.F.requires_grad_()
        y = layer(x)
        draw = torch.randn(y.F.shape)
        (y.F * draw).sum().backward()
        got = [x.F.grad, layer.kernel.grad]
        twin = ME.SparseTensor(x.F.detach().requires_grad_(), x.C)
        layer.zero_grad()
        want = defined(twin, y.C, layer.kernel, (3, 3, 3), 1)
        (want * draw).sum().backward()
        self.near(got[0], twin.F.grad)
        self.near(got[1], layer.kernel.grad)

    def test_what_is_not_offered_is_refused(self):
        with self.assertRaisesRegex(spctune.UnsupportedError, "cubes"):
            ME.KernelGenerator(
                3, region_type=ME.RegionType.HYPER_CROSS, dimension=3
            )
        with self.assertRaisesRegex(spctune.InvalidError, "same voxels"):
            ME.cat(scene(2), scene(2))


class Networks(unittest.TestCase):
    @staticmethod
    def settle(model):
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.weight, 0.5, 1.5)
        return model.eval()

    @staticmethod
    def unet():
        def short(cin, cout, stride=1):
            return nn.Sequential(
                ME.MinkowskiConvolution(cin, cout, 1, stride, dimension=3),
                ME.MinkowskiBatchNorm(cout),
            )

        class MinkUNet(ME.MinkowskiNetwork):
            def __init__(self):
                super().__init__(3)
                self.conv0 = ME.MinkowskiConvolution(4, 16, 5, dimension=3)
                self.bn0 = ME.MinkowskiBatchNorm(16)
                self.relu = ME.MinkowskiReLU(inplace=True)
                self.block1 = BasicBlock(
                    16, 32, stride=2, downsample=short(16, 32, 2), dimension=3
                )
                self.block2 = Bottleneck(
                    32, 16, downsample=short(32, 64), dimension=3
                )
                self.up = ME.MinkowskiConvolutionTranspose(
                    64, 24, 2, stride=2, dimension=3
                )
                self.bn = ME.MinkowskiBatchNorm(24)
                self.elu = ME.MinkowskiELU()
                self.final = ME.MinkowskiConvolution(
                    40, 7, 1, bias=True, dimension=3
                )

            def forward(self, x):
                first = self.relu(self.bn0(self.conv0(x)))
                y = self.block2(self.block1(first))
                y = self.elu(self.bn(self.up(y)))
                return self.final(ME.cat(y, first))

        return MinkUNet()

    def test_a_network_compiles_into_one(self):
        torch.manual_seed(0)
        model = self.settle(self.unet())
        samples = [scene(4, rows, seed) for seed, rows in ((1, 200), (2, 500))]
        net = compile(model, samples, dtype="f32", capacity=1200)
        self.assertEqual(net._lowered.layers, 10)
        self.assertEqual(len(net._before) + len(net._after), 0)
        x = scene(4, 900, 3)
        with torch.no_grad():
            want = model(x)
        got = net(x)
        scale = want.F.pow(2).mean().sqrt()
        self.assertLess((got.F - want.F).abs().max() / scale, net.tolerance())
        self.assertTrue(torch.equal(got.C, want.C))

    def test_parameters_have_minkowskis_names(self):
        names = set(self.unet().state_dict())
        for name in (
            "conv0.kernel",
            "bn0.bn.running_mean",
            "block1.conv1.kernel",
            "block1.norm2.bn.weight",
            "block1.downsample.0.kernel",
            "block1.downsample.1.bn.bias",
            "final.kernel",
            "final.bias",
        ):
            self.assertIn(name, names)
        state = self.unet().state_dict()
        self.assertEqual(state["final.kernel"].shape, (40, 7))
        self.assertEqual(state["final.bias"].shape, (1, 7))
        self.assertEqual(state["block1.downsample.0.kernel"].shape, (1, 16, 32))

    def test_a_step_of_training_changes_every_parameter(self):
        torch.manual_seed(0)
        model = self.unet().train()
        model(scene(4)).F.square().mean().backward()
        for name, parameter in model.named_parameters():
            self.assertTrue(parameter.grad.abs().sum() > 0, name)

    def test_completion_generates_adds_and_prunes(self):
        torch.manual_seed(0)
        with torch.no_grad():
            x = scene(4, rows=60)
            coarse = ME.MinkowskiConvolution(4, 8, 2, 2, dimension=3)(x)
            fine = ME.MinkowskiGenerativeConvolutionTranspose(
                8, 4, 2, stride=2, dimension=3
            )(coarse)
            total = fine + x
            rows = {tuple(c): f for c, f in zip(fine.C.tolist(), fine.F)}
            for c, f in zip(x.C.tolist(), x.F):
                rows[tuple(c)] = rows.get(tuple(c), 0) + f
            self.assertEqual(len(total), len(rows))
            for c, f in zip(total.C.tolist(), total.F):
                torch.testing.assert_close(f, rows[tuple(c)])
            mask = total.F[:, 0] > 0
            kept = ME.MinkowskiPruning()(total, mask)
            self.assertEqual(len(kept), int(mask.sum()))
            after = ME.MinkowskiConvolution(4, 4, 3, dimension=3)(kept)
            self.assertEqual(len(after), len(kept))


class Helpers(unittest.TestCase):
    def test_equal_voxels_become_one(self):
        coords = torch.tensor(
            [[0, 3, 0, 0], [0, 1, 0, 0], [0, 3, 0, 0], [1, 3, 0, 0]]
        ).int()
        feats = torch.tensor([[1.0], [2.0], [5.0], [7.0]])
        modes = ME.SparseTensorQuantizationMode
        for mode, want in (
            (modes.RANDOM_SUBSAMPLE, [1, 2, 7]),
            (modes.UNWEIGHTED_AVERAGE, [3, 2, 7]),
            (modes.UNWEIGHTED_SUM, [6, 2, 7]),
        ):
            x = ME.SparseTensor(feats, coords, quantization_mode=mode)
            self.assertEqual(x.F.flatten().tolist(), want)
            self.assertEqual(
                x.C.tolist(), [[0, 3, 0, 0], [0, 1, 0, 0], [1, 3, 0, 0]]
            )
            self.assertEqual(x.inverse_mapping.tolist(), [0, 1, 0, 2])
        self.assertEqual(x.features_at(1).tolist(), [[7]])
        self.assertEqual(x.coordinates_at(0).tolist(), [[3, 0, 0], [1, 0, 0]])
        self.assertEqual([len(c) for c in x.decomposed_coordinates], [2, 1])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ME.SparseTensor(feats, coords.float() + 0.5)
        self.assertIn("rounded down", str(caught[0].message))

    def test_fields_of_points(self):
        points = torch.tensor([[0, 0.2, 0, 0], [0, 0.9, 0, 0], [0, 1.5, 0, 0]])
        field = ME.TensorField(torch.tensor([[1.0], [3.0], [8.0]]), points)
        x = field.sparse()
        self.assertEqual(x.F.flatten().tolist(), [2, 8])
        back = (x * 2).slice(field)
        self.assertEqual(back.F.flatten().tolist(), [4, 4, 16])
        joined = x.cat_slice(field)
        self.assertEqual(joined.F.tolist(), [[2, 1], [2, 3], [8, 8]])
        far = ME.SparseTensor(torch.ones(1, 1), torch.tensor([[0, 0, 0, 0]]))
        with self.assertRaisesRegex(spctune.InvalidError, "first point 2 at"):
            far.slice(field)

    def test_fields_at_other_strides(self):
        torch.manual_seed(0)
        points = torch.rand(60, 4) * 12 - 6
        points[:, 0] = torch.randint(0, 2, (60,)).float()
        feats = torch.randn(60, 3, requires_grad=True)
        field = ME.TensorField(feats, points)
        stride = torch.tensor([1, 2, 2, 2])
        cell = torch.div(points.floor(), stride, rounding_mode="floor")
        cells = [tuple(c) for c in cell.int().tolist()]

        x = field.sparse(tensor_stride=2)
        self.assertEqual(x.tensor_stride, [2, 2, 2])
        of = {tuple(c): f for c, f in zip((x.C // stride).tolist(), x.F)}
        self.assertEqual(set(of), set(cells))
        for at, f in of.items():
            rows = [i for i, c in enumerate(cells) if c == at]
            self.assertTrue(torch.allclose(f, feats[rows].mean(0)))

        # After a strided layer, each point has the features of its voxel.
        down = ME.MinkowskiConvolution(3, 4, 2, stride=2, dimension=3)
        y = down(field.sparse())
        of = {tuple(c): f for c, f in zip((y.C // stride).tolist(), y.F)}
        back = y.slice(field)
        for at, f in zip(cells, back.F):
            self.assertTrue(torch.equal(f, of[at]))
        back.F.sum().backward()
        self.assertTrue((feats.grad != 0).any(1).all())

        # Outputs on existing voxels.
        z = field.sparse(coordinate_map_key=y.coordinate_map_key)
        self.assertIs(z.coordinate_map_key, y.coordinate_map_key)
        for at, f in zip((z.C // stride).tolist(), z.F):
            rows = [i for i, c in enumerate(cells) if c == tuple(at)]
            self.assertTrue(torch.allclose(f, feats[rows].mean(0)))
        one = ME.SparseTensor(
            torch.ones(2, 1),
            torch.tensor([[0, 9, 9, 9], list(points[5].floor().int())]),
        )
        first = ME.SparseTensorQuantizationMode.RANDOM_SUBSAMPLE
        w = field.sparse(
            coordinate_map_key=one.coordinate_map_key, quantization_mode=first
        )
        self.assertTrue(torch.equal(w.F[0], torch.zeros(3)))
        same = (points.floor() == points[5].floor()).all(1).nonzero()[0, 0]
        self.assertTrue(torch.equal(w.F[1], feats[same]))

    def test_fields_that_are_refused(self):
        points, feats = torch.zeros(2, 4), torch.zeros(2, 1)
        with self.assertRaisesRegex(spctune.UnsupportedError, "the stride 1"):
            ME.TensorField(feats, points, tensor_stride=2)
        with self.assertRaisesRegex(spctune.InvalidError, "1 rows of features"):
            ME.TensorField(feats[:1], points)
        flat = ME.SparseTensor(feats[:1], torch.zeros(1, 3).int())
        with self.assertRaisesRegex(spctune.InvalidError, "3 axes and .* 2"):
            flat.slice(ME.TensorField(feats, points))

    def test_four_axes_in_the_wrong_place(self):
        four = ME.SparseTensor(torch.zeros(1, 2), torch.zeros(1, 5).int())
        three = ME.SparseTensor(torch.zeros(1, 2), torch.zeros(1, 4).int())
        self.assertEqual(four.D, 4)
        generative = ME.MinkowskiGenerativeConvolutionTranspose
        for layer, x, sentence in (
            (ME.MinkowskiConvolution(2, 2, 3, dimension=4), three, "input 3"),
            (ME.MinkowskiConvolution(2, 2, 3, dimension=3), four, "input 4"),
            (generative(2, 2, 2, stride=2, dimension=4), four, "not 4"),
        ):
            with self.assertRaisesRegex(spctune.Error, sentence):
                layer(x)
        with self.assertRaisesRegex(spctune.Error, "1 to 4 axes"):
            ME.MinkowskiConvolution(2, 2, 3, dimension=5)

    def test_arithmetic_and_dense(self):
        x = scene(2)
        self.assertTrue(torch.equal((x + x).F, x.F * 2))
        self.assertTrue(torch.equal((x - x).F, x.F * 0))
        self.assertTrue(torch.equal((x * 3 / 2).F, x.F * 3 / 2))
        volume, low, stride = x.dense(
            torch.Size([2, 2, 12, 12, 12]), torch.zeros(3)
        )
        at = x.C.long()
        self.assertTrue(
            torch.equal(volume.permute(0, 2, 3, 4, 1)[tuple(at.T)], x.F)
        )
        self.assertEqual((low.tolist(), stride.tolist()), ([0] * 3, [1] * 3))

    def test_batches_and_voxels_of_points(self):
        coords, feats, labels = ME.utils.sparse_collate(
            [torch.zeros(2, 3), torch.ones(1, 3)],
            [torch.ones(2, 4), torch.ones(1, 4)],
            [torch.tensor([1, 2]), torch.tensor([3])],
        )
        self.assertEqual(coords[:, 0].tolist(), [0, 0, 1])
        self.assertEqual(coords.dtype, torch.int32)
        self.assertEqual(labels.tolist(), [1, 2, 3])
        collate = ME.utils.SparseCollation(limit_numpoints=3)
        one = (torch.zeros(2, 3), torch.ones(2, 4), torch.ones(2))
        rows, _, _ = collate([one, one])
        self.assertEqual(len(rows), 2)
        with self.assertRaisesRegex(spctune.InvalidError, "at most 1"):
            ME.utils.SparseCollation(1)([one])
        points = torch.tensor([[0.1, 0, 0], [0.6, 0, 0], [0.2, 0, 0]])
        voxels, features, label, index, inverse = ME.utils.sparse_quantize(
            points,
            torch.arange(3),
            torch.tensor([4, 5, 6]),
            return_index=True,
            return_inverse=True,
            quantization_size=0.5,
        )
        self.assertEqual(voxels.tolist(), [[0, 0, 0], [1, 0, 0]])
        self.assertEqual(features.tolist(), [0, 1])
        self.assertEqual(label.tolist(), [-100, 5])
        self.assertEqual(index.tolist(), [0, 1])
        self.assertEqual(inverse.tolist(), [0, 1, 0])

    def test_norms_and_functions(self):
        x = scene(3)
        y = ME.MinkowskiInstanceNorm(3)(x).F
        for b in (0, 1):
            part = y[x.C[:, 0] == b]
            self.assertLess(part.mean(0).abs().max(), 1e-5)
            self.assertLess((part.pow(2).mean(0) - 1).abs().max(), 1e-3)
        self.assertTrue(
            torch.equal(ME.MinkowskiFunctional.relu(x).F, x.F.relu())
        )
        self.assertTrue(torch.equal(ME.MinkowskiSigmoid()(x).F, x.F.sigmoid()))
        self.assertEqual(ME.MinkowskiLinear(3, 5)(x).F.shape[1], 5)

    def test_install_serves_imports(self):
        kept = {n: m for n, m in sys.modules.items() if "Minkowski" in n}
        try:
            ME.install()
            import MinkowskiEngine as plain
            import MinkowskiEngine.MinkowskiFunctional as MF
            from MinkowskiEngine.modules.resnet_block import BasicBlock as B

            self.assertIs(plain.SparseTensor, ME.SparseTensor)
            self.assertIs(B, BasicBlock)
            self.assertTrue(callable(MF.relu))
        finally:
            for name in [n for n in sys.modules if n.startswith("Minkowski")]:
                del sys.modules[name]
            sys.modules.update(kept)


if __name__ == "__main__":
    unittest.main()
