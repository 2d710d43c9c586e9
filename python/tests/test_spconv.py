# SPDX-License-Identifier: Apache-2.0
"""Tests spconv's interface against dense layers in double precision and, if it
is installed, against spconv's build for the processor."""

import copy
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import backbones

import spctune
import spctune.spconv as sp
from spctune import context, maps

HERE = os.path.dirname(os.path.abspath(__file__))


def error(got, want):
    """Returns the largest difference relative to the largest value."""
    return (got.double() - want).abs().max().item() / max(
        want.abs().max().item(), 1e-30
    )


def ordered(x):
    """Returns features sorted by voxel, and the sorted voxels."""
    rows = x.indices.long()
    order = sorted(range(len(rows)), key=lambda i: rows[i].tolist())
    return x.features[order], rows[order]


class Networks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_inference_is_that_of_the_definition(self):
        for make in (backbones.detector, backbones.unet):
            model = backbones.settle(make(sp)).eval()
            given = backbones.scene()
            with torch.no_grad():
                found = model(*given)
                want = backbones.definition(make, model)(*given)
            for x, y in zip(found, want):
                (a, at), (b, there) = ordered(x), ordered(y)
                self.assertTrue(torch.equal(at, there))
                self.assertEqual(list(x.spatial_shape), list(y.shape))
                self.assertLess(error(a, b), 2e-5)

    def test_a_step_of_training_is_that_of_the_definition(self):
        for make in (backbones.detector, backbones.unet):
            model = make(sp)
            twin = backbones.definition(make, model)
            features, *rest = backbones.scene()
            grads = []
            for net, x in ((model, features), (twin, features.double())):
                x = x.clone().requires_grad_()
                last = net(x, *rest)[-1]
                f, _ = ordered(last)
                # Gives both the same random numbers in the order of voxels.
                draw = torch.Generator().manual_seed(1)
                (f * torch.randn(f.shape, generator=draw)).sum().backward()
                grads.append([x.grad, *(p.grad for p in net.parameters())])
            for got, want in zip(*grads):
                self.assertLess(error(got, want), 1e-3)
            for a, b in zip(model.buffers(), twin.buffers()):
                self.assertLess(error(a, b.double()), 1e-4)

    def test_checkpoints_of_every_layout_load(self):
        model = backbones.settle(backbones.detector(sp)).eval()
        given = backbones.scene()
        with torch.no_grad():
            want = model(*given)[-1].features
        state = model.state_dict()
        for name, axes in (
            ("spconv 2", None),
            ("spconv 2.0", (1, 2, 3, 0, 4)),
            ("spconv 1", (1, 2, 3, 4, 0)),
        ):
            with self.subTest(name):
                other = {}
                for key, value in state.items():
                    if axes is not None and value.dim() == 5:
                        same = value.shape[0] == value.shape[4]
                        # If inputs and outputs have equal channels, spconv 2.0
                        # and 1 have equal shapes.
                        order = (1, 2, 3, 4, 0) if same else axes
                        value = value.permute(order).contiguous()
                    other[key] = value
                fresh = backbones.detector(sp).eval()
                fresh.load_state_dict(other)
                with torch.no_grad():
                    got = fresh(*given)[-1].features
                self.assertTrue(torch.equal(got, want))

    def test_a_layer_of_one_offset_multiplies_by_the_memory(self):
        layer = sp.SubMConv3d(4, 6, 1, bias=False)
        old = {"weight": torch.randn(1, 1, 1, 4, 6)}  # spconv 1
        layer.load_state_dict(old)
        f, c, shape, batches = backbones.scene()
        y = layer(sp.SparseConvTensor(f, c, shape, batches))
        self.assertLess(
            error(y.features, (f @ old["weight"][0, 0, 0]).double()), 1e-6
        )

    def test_a_wrong_shape_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "size mismatch for weight"):
            sp.SubMConv3d(4, 6, 3).load_state_dict(
                {"weight": torch.zeros(5, 3, 3, 3, 4), "bias": torch.zeros(6)}
            )

    def test_copies_and_files(self):
        model = backbones.settle(backbones.unet(sp)).eval()
        given = backbones.scene()
        with torch.no_grad():
            want = model(*given)[-1].features
            twin = copy.deepcopy(model)
            self.assertTrue(torch.equal(twin(*given)[-1].features, want))
        layer = pickle.loads(pickle.dumps(sp.SubMConv3d(4, 8, 3)))
        self.assertIs(type(layer), sp.SubMConv3d)

    def test_compiled_graphs_share_kernels_of_shapes_that_differ(self):
        down = sp.SparseConv3d(4, 8, 3, 2, 1, indice_key="k")
        back = sp.SparseInverseConv3d(8, 4, 3, indice_key="k")
        torch._dynamo.reset()
        plans = context.Context.get("cpu").plans
        counts = []
        for i in range(4):
            f, c, *_ = backbones.scene(i, rows=100)
            shape = [200 + i, 201, 202]

            def run(f, c, shape=shape):
                return back(down(sp.SparseConvTensor(f, c, shape, 9))).features

            compiled = torch.compile(
                run, backend="aot_eager", fullgraph=True, dynamic=False
            )
            got = compiled(f, c)
            self.assertTrue(torch.equal(got, run(f, c.clone())))
            counts.append(len(plans))
        self.assertEqual(counts[3], counts[2])

    def test_compile_has_the_results_of_eager(self):
        for make in (backbones.detector, backbones.unet):
            model = backbones.settle(make(sp)).eval()
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
            for seed in (0, 1):
                given = backbones.scene(seed, rows=700 - 200 * seed)
                with torch.no_grad():
                    want, got = model(*given), compiled(*given)
                for x, y in zip(got, want):
                    self.assertTrue(torch.equal(x.indices, y.indices))
                    self.assertLess(
                        error(x.features, y.features.double()), 1e-5
                    )

    @unittest.skipUnless(
        importlib.util.find_spec("spconv"), "spconv is not installed"
    )
    def test_spconv_itself_agrees(self):
        """spconv's build for the processor is correct with one thread only."""
        for name in ("detector", "unet"):
            make = getattr(backbones, name)
            model = backbones.settle(make(sp)).eval()
            given = backbones.scene()
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "case.pt")
                torch.save((name, model.state_dict(), given), path)
                done = subprocess.run(
                    [
                        sys.executable,
                        "-B",
                        os.path.join(HERE, "referee.py"),
                        path,
                    ],
                    env=dict(os.environ, OMP_NUM_THREADS="1"),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                theirs = torch.load(path)
            with torch.no_grad():
                ours = model(*given)
            for x, (features, indices) in zip(ours, theirs):
                other = sp.SparseConvTensor(
                    features, indices, x.spatial_shape, x.batch_size
                )
                (a, at), (b, there) = ordered(x), ordered(other)
                self.assertTrue(torch.equal(at, there))
                self.assertLess(error(a, b.double()), 1e-5)


class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        f, c, self.shape, self.batches = backbones.scene()
        self.x = sp.SparseConvTensor(f, c, self.shape, self.batches)

    def volume(self, x):
        return x.dense().double()

    def test_dense(self):
        d = self.x.dense()
        self.assertEqual(list(d.shape), [2, 4, *self.shape])
        at = tuple(self.x.indices.long().T)
        self.assertTrue(
            torch.equal(d.permute(0, 2, 3, 4, 1)[at], self.x.features)
        )
        self.assertEqual((d != 0).sum(), (self.x.features != 0).sum())
        last = self.x.dense(channels_first=False)
        self.assertTrue(torch.equal(last.permute(0, 4, 1, 2, 3), d))
        back = sp.SparseConvTensor.from_dense(last)
        self.assertTrue(torch.equal(back.dense(), d))

    def test_two_axes(self):
        c = torch.unique(self.x.indices[:, [0, 2, 3]], dim=0)
        f = torch.randn(len(c), 4)
        x = sp.SparseConvTensor(f, c, self.shape[1:], 2)
        y = sp.SubMConv2d(4, 8, 3, indice_key="a")
        want = torch.nn.functional.conv2d(
            self.volume(x),
            y.weight.detach().double().permute(0, 3, 1, 2),
            y.bias.detach().double(),
            padding=1,
        )
        at = tuple(c.long().T)
        got = y(x).features.detach()
        self.assertLess(error(got, want.permute(0, 2, 3, 1)[at]), 1e-5)
        down = sp.SparseConv2d(4, 8, 3, 2, 1, indice_key="b", bias=False)
        z = down(x)
        want = torch.nn.functional.conv2d(
            self.volume(x),
            down.weight.detach().double().permute(0, 3, 1, 2),
            stride=2,
            padding=1,
        )
        self.assertEqual(list(want.shape[2:]), z.spatial_shape)
        self.assertLess(error(z.dense().detach(), want), 1e-5)
        up = sp.SparseInverseConv2d(8, 4, 3, indice_key="b")(z)
        self.assertTrue(torch.equal(up.indices, x.indices))

    def test_a_transposed_layer_is_the_dense_one(self):
        layer = sp.SparseConvTranspose3d(4, 8, 3, 2, 1, bias=False)
        y = layer(self.x)
        want = torch.nn.functional.conv_transpose3d(
            self.volume(self.x),
            layer.weight.detach().double().permute(4, 0, 1, 2, 3),
            stride=2,
            padding=1,
        )
        self.assertEqual(list(want.shape[2:]), y.spatial_shape)
        self.assertLess(error(y.dense().detach(), want), 1e-5)

    def test_pooling_and_its_gradient(self):
        f = self.x.features.clone().abs_().add_(0.1).requires_grad_()
        x = self.x.replace_feature(f)
        fd = f.detach().double().requires_grad_()
        spread = backbones.dense.spread(fd, x.indices, self.shape, 2)
        y = sp.SparseMaxPool3d(3, 2, 1)(x)
        want = torch.nn.functional.max_pool3d(spread, 3, 2, 1)
        self.assertLess(error(y.dense().detach(), want.detach()), 1e-6)
        y.features.square().sum().backward()
        want.square().sum().backward()
        self.assertLess(error(f.grad, fd.grad), 1e-5)
        f.grad = fd.grad = None
        z = sp.SparseAvgPool3d(2, 2)(x)
        sums = torch.nn.functional.avg_pool3d(
            backbones.dense.spread(fd, x.indices, self.shape, 2), 2, 2
        )
        ones = torch.ones_like(fd[:, :1])
        count = torch.nn.functional.avg_pool3d(
            backbones.dense.spread(ones, x.indices, self.shape, 2), 2, 2
        )
        mean = sums / count.clamp(min=1e-9)
        self.assertLess(error(z.dense().detach(), mean.detach()), 1e-6)
        z.features.square().sum().backward()
        mean.square().sum().backward()
        self.assertLess(error(f.grad, fd.grad), 1e-5)

    def test_global_pooling(self):
        most = sp.SparseGlobalMaxPool()(self.x)
        mean = sp.SparseGlobalAvgPool()(self.x)
        for b in range(2):
            part = self.x.features[self.x.indices[:, 0] == b]
            self.assertTrue(torch.equal(most[b], part.max(0).values))
            self.assertLess(error(mean[b], part.double().mean(0)), 1e-5)

    def test_added_features(self):
        layer = sp.SubMConv3d(4, 8, 3)
        other = self.x.replace_feature(torch.randn(len(self.x.indices), 8))
        got = layer(self.x, add_input=other).features
        want = layer(self.x).features + other.features
        self.assertTrue(torch.equal(got, want))

    def test_voxels_that_were_changed_in_place(self):
        """Does the same as VoxelNeXt with coarser levels."""
        down = sp.SparseConv3d(4, 8, 3, 2, 1, bias=False)
        y = down(self.x)
        kept = y.indices.clone()
        y.indices[:, 1:] *= 2
        wide = sp.SparseConvTensor(y.features, y.indices, self.shape + [], 2)
        wide.spatial_shape = [2 * s for s in y.spatial_shape]
        layer = sp.SubMConv3d(8, 8, 3, dilation=2, bias=False)
        got = layer(wide)
        again = layer(
            sp.SparseConvTensor(
                y.features, y.indices.clone(), wide.spatial_shape, 2
            )
        )
        self.assertTrue(torch.equal(got.features, again.features))
        self.assertTrue(torch.equal(down(self.x).indices, kept))

    def test_voxels_that_are_assigned_behind_their_features(self):
        """Joins levels as VoxelNeXt does."""
        low = sp.SparseConv3d(4, 8, 3, 2, 1)(self.x)
        both = low.replace_feature(torch.cat([low.features, low.features]))
        layer = sp.SubMConv3d(8, 8, 3)
        with self.assertRaisesRegex(spctune.Error, "rows and the kernel map"):
            layer(both)
        with self.assertRaisesRegex(spctune.Error, "rows of features and"):
            both.dense()
        far = low.indices + torch.tensor([0, 100, 0, 0], dtype=torch.int32)
        both.indices = torch.cat([low.indices, far])
        both.spatial_shape = [200, 200, 200]
        want = layer(low).features
        self.assertTrue(torch.equal(layer(both).features[: len(want)], want))

    def test_record_voxel_count(self):
        layer = sp.SparseConv3d(4, 8, 3, 2, 1, record_voxel_count=True)
        rows = layer(self.x).indices.shape[0]
        name = "_max_num_voxels_during_training"
        self.assertEqual(layer.state_dict()[name].item(), rows)


class Keys(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        sp.conv._said.clear()
        f, c, self.shape, self.batches = backbones.scene()
        self.x = sp.SparseConvTensor(f, c, self.shape, self.batches)

    def test_a_right_key_says_nothing(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            a = sp.SubMConv3d(4, 4, 3, indice_key="a")
            down = sp.SparseConv3d(4, 8, 3, 2, 1, indice_key="b")
            up = sp.SparseInverseConv3d(8, 4, 3, indice_key="b")
            before = len(maps.relations)
            y = up(down(a(a(self.x))))
            self.assertEqual(len(maps.relations), before + 2)
            self.assertTrue(torch.equal(y.indices, self.x.indices))

    def test_a_key_of_another_kernel_warns_and_the_result_is_right(self):
        one = sp.SubMConv3d(4, 4, 3, indice_key="a")(self.x)
        layer = sp.SubMConv3d(4, 4, 5, indice_key="a")
        with self.assertWarnsRegex(UserWarning, "indice_key 'a' belongs to"):
            got = layer(one)
        layer.indice_key = None
        self.assertTrue(torch.equal(got.features, layer(one).features))

    def test_a_key_of_other_voxels_warns_and_the_result_is_right(self):
        x = sp.SubMConv3d(4, 4, 3, indice_key="a")(self.x)
        low = sp.SparseConv3d(4, 4, 3, 2, 1)(x)
        layer = sp.SubMConv3d(4, 4, 3, indice_key="a")
        with self.assertWarnsRegex(UserWarning, "uses its own kernel map"):
            got = layer(low)
        fresh = sp.SparseConvTensor(
            low.features, low.indices, low.spatial_shape, 2
        )
        self.assertTrue(torch.equal(got.features, layer(fresh).features))

    def test_an_inverse_layer_with_a_wrong_key_finds_the_right_layer(self):
        low = sp.SparseConv3d(4, 8, 3, 2, 1, indice_key="b")(self.x)
        up = sp.SparseInverseConv3d(8, 4, 3, indice_key="c")
        with self.assertWarnsRegex(UserWarning, "these voxels are of 'b'"):
            got = up(low)
        up.indice_key = "b"
        self.assertTrue(torch.equal(got.features, up(low).features))

    def test_an_inverse_layer_without_its_strided_layer_is_refused(self):
        with self.assertRaisesRegex(spctune.Error, "no strided layer with the"):
            sp.SparseInverseConv3d(4, 4, 3, indice_key="b")(self.x)
        low = sp.SparseConv3d(4, 8, 3, 2, 1, indice_key="b")(self.x)
        with self.assertRaisesRegex(spctune.Error, "has the kernel 3x3x3, its"):
            sp.SparseInverseConv3d(8, 4, 2, indice_key="b")(low)


class Surface(unittest.TestCase):
    def test_the_tensor(self):
        f, c, shape, batches = backbones.scene()
        x = sp.SparseConvTensor(f, c, torch.tensor(shape), torch.tensor(2))
        self.assertEqual(x.spatial_shape, shape)
        self.assertEqual(x.batch_size, 2)
        for name in (
            "_features _timer grid voxel_num thrust_allocator force_algo "
            "benchmark benchmark_record int8_scale indice_dict"
        ).split():
            self.assertTrue(hasattr(x, name), name)
        with self.assertRaisesRegex(AttributeError, "replace_feature"):
            x.features = f
        y = x.replace_feature(f * 2)
        self.assertIs(y.indice_dict, x.indice_dict)
        self.assertIs(y.indices, x.indices)
        with self.assertRaisesRegex(spctune.Error, "with 3 axes it is"):
            sp.SparseConvTensor(f, c[:, :3], shape, 2)
        with self.assertRaisesRegex(spctune.Error, "rows of features and"):
            sp.SparseConvTensor(f[1:], c, shape, 2)

    def test_a_sequence_leaves_dense_modules_out_without_voxels(self):
        x = sp.SparseConvTensor(
            torch.zeros(0, 4), torch.zeros(0, 4, dtype=torch.int32), [8] * 3, 1
        )
        net = sp.SparseSequential(
            sp.SubMConv3d(4, 8, 3),
            torch.nn.BatchNorm1d(8),
            sp.SparseConv3d(8, 8, 3, 2, 1),
            sp.ToDense(),
            torch.nn.Conv3d(8, 2, 1),
        )
        self.assertEqual(net(x).shape, (1, 2, 4, 4, 4))
        named = sp.SparseSequential(
            {"a": sp.SubMConv3d(4, 8, 3)}, b=torch.nn.ReLU()
        )
        self.assertEqual(list(named._modules), ["a", "b"])
        named.add(sp.Identity())
        self.assertIsInstance(named[-1], sp.Identity)
        self.assertEqual(len(named), 3)

    def test_arguments_in_their_order(self):
        layer = sp.SparseConv3d(4, 8, 3, 2, 1, 1, 1, False, "k")
        self.assertEqual(
            (layer.stride, layer.padding, layer.bias, layer.indice_key),
            ([2] * 3, [1] * 3, None, "k"),
        )
        inverse = sp.SparseInverseConv3d(4, 8, 3, "k", False)
        self.assertEqual((inverse.indice_key, inverse.bias), ("k", None))
        self.assertEqual(list(layer.weight.shape), [8, 3, 3, 3, 4])
        with self.assertRaisesRegex(TypeError, "takes a SparseConvTensor"):
            layer(torch.zeros(3, 4))

    def test_install_in_a_process_of_its_own(self):
        done = subprocess.run(
            [sys.executable, "-B", "-c", INSTALL],
            env=dict(
                os.environ,
                PYTHONPATH=os.path.dirname(os.path.dirname(spctune.__file__)),
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(
            (done.returncode, done.stdout), (0, "installed\n"), done.stderr
        )


INSTALL = """
import spctune
spctune.install()
import spconv
import spconv.pytorch as sp
from spconv.pytorch.conv import SparseConvolution
from spconv.pytorch.modules import SparseModule, is_spconv_module
from spconv.pytorch import ops
from spconv.core import ConvAlgo
from spconv.utils import VoxelGeneratorV2
spconv.constants.SPCONV_USE_DIRECT_TABLE = False
assert float(spconv.__version__[2:]) >= 2.2
layer = sp.SubMConv3d(4, 8, 3, algo=ConvAlgo.Native)
assert isinstance(layer, spconv.conv.SparseConvolution)
assert isinstance(layer, sp.conv.SparseConvolution)
assert isinstance(layer, SparseModule) and sp.modules.is_spconv_module(layer)
assert spconv.SparseConvTensor is sp.SparseConvTensor
assert sp is spctune.spconv
print("installed")
"""


class Voxels(unittest.TestCase):
    def test_points_are_grouped_as_by_hand(self):
        import numpy as np

        from spctune.spconv.utils import VoxelGenerator, VoxelGeneratorV2

        rng = np.random.default_rng(0)
        points = rng.uniform(-1, 5, (3000, 5)).astype(np.float32)
        size, low, high = [0.5, 0.25, 1.0], [0, 0, 0], [4, 4, 4]
        for most, room in ((5, 10**6), (2, 50)):
            made = VoxelGeneratorV2(size, low + high, most, room).generate(
                points
            )
            voxels, order = {}, []
            for p in points:
                at = tuple(
                    np.floor(
                        (p[:3] - np.float32(low)) / np.float32(size)
                    ).astype(int)
                )
                if all(0 <= a < n for a, n in zip(at, (8, 16, 4))):
                    if at not in voxels and len(order) < room:
                        voxels[at] = []
                        order.append(at)
                    if at in voxels and len(voxels[at]) < most:
                        voxels[at].append(p)
            self.assertEqual(
                made["coordinates"].tolist(), [list(a[::-1]) for a in order]
            )
            self.assertEqual(
                made["num_points_per_voxel"].tolist(),
                [len(voxels[a]) for a in order],
            )
            for i, a in enumerate(order):
                n = len(voxels[a])
                self.assertTrue((made["voxels"][i, :n] == voxels[a]).all())
                self.assertTrue((made["voxels"][i, n:] == 0).all())
        a, b, c = VoxelGenerator(size, low + high, 5).generate(points)
        self.assertEqual(len(a), len(b))
        self.assertEqual(len(a), len(c))
        none = VoxelGeneratorV2(size, low + high, 5).generate(points[:0])
        self.assertEqual(none["voxels"].shape, (0, 5, 5))
        with self.assertRaisesRegex(ValueError, "high is above low"):
            VoxelGeneratorV2(size, high + low, 5)

    def test_the_forms_of_spconv_2(self):
        import numpy as np

        from spctune.spconv import utils

        rng = np.random.default_rng(1)
        points = rng.uniform(-1, 5, (500, 5)).astype(np.float32)
        for axes in (1, 2, 3, 4):
            make = getattr(utils, f"Point2VoxelCPU{axes}d")
            size, ends = [0.5] * axes, [0] * axes + [4] * axes
            made = make(size, ends, 5, 60, 3)
            voxels, indices, counts = made.point_to_voxel(points)
            self.assertIs(type(voxels.numpy()), np.ndarray)
            self.assertEqual(made.grid_size, [8] * axes)
            found = {}
            for row, p in enumerate(points):
                at = tuple(np.floor(p[:axes] / np.float32(0.5)).astype(int))
                if all(0 <= a < 8 for a in at):
                    if at in found or len(found) < 60:
                        found.setdefault(at, []).append(row)
            self.assertEqual(indices.tolist(), [list(a[::-1]) for a in found])
            mean = made.point_to_voxel_empty_mean(points)[0]
            number = np.full(len(points), -1)
            for i, rows in enumerate(found.values()):
                number[rows] = i
                few = points[rows[:3]]
                self.assertEqual(counts[i], len(few))
                self.assertTrue((voxels[i, : len(few)] == few).all())
                self.assertTrue((voxels[i, len(few) :] == 0).all())
                self.assertTrue((mean[i, : len(few)] == few).all())
                want = few.mean(0)
                self.assertLess(
                    np.abs(mean[i, len(few) :] - want).max(initial=0), 1e-5
                )
            torched = utils.PointToVoxel(size, ends, 5, 60, 3)
            got = torched.generate_voxel_with_id(torch.from_numpy(points))
            self.assertTrue((got[0].numpy() == voxels.numpy()).all())
            self.assertTrue((got[1].numpy() == indices.numpy()).all())
            self.assertTrue((got[3].numpy() == number).all())
            self.assertEqual(len(torched(torch.from_numpy(points))), 3)
        cases = (
            (lambda: utils.Point2VoxelCPU3d([1], [0, 1], 3, 9, 9), "3 sizes"),
            (
                lambda: utils.Point2VoxelCPU1d([1], [0, 1], 0, 9, 9),
                "no 1 coordinates",
            ),
            (
                lambda: utils.Point2VoxelCPU1d([1], [1, 0], 3, 9, 9),
                "high is above low",
            ),
            (
                lambda: utils.Point2VoxelCPU1d(
                    [1], [0, 1], 3, 9, 9
                ).point_to_voxel(points),
                r"\[n, 3\]",
            ),
        )
        for call, sentence in cases:
            with self.assertRaisesRegex(ValueError, sentence):
                call()

    def test_an_input_of_four_axes_in_a_layer_of_three(self):
        features, four = torch.zeros(1, 2), torch.zeros(1, 5).int()
        x = sp.SparseConvTensor(features, four, [4] * 4, 1)
        with self.assertRaisesRegex(spctune.Error, "axes|fewer"):
            sp.SubMConv3d(2, 2, 3)(x)


if __name__ == "__main__":
    unittest.main()
