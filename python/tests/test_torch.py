# SPDX-License-Identifier: Apache-2.0
"""Tests layers and operators for PyTorch, on the cpu device."""

import copy
import gc
import io
import itertools
import os
import threading
import unittest
import warnings

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import dense

import spctune
from spctune import maps, nn, ops

N, BATCHES, EXTENT = 500, 2, (12, 12, 12)


def close(test, got, want, limit=1e-5):
    size = want.abs().max().item()
    test.assertEqual(got.shape, want.shape)
    test.assertLess(
        (got.double() - want.double()).abs().max().item(),
        limit * max(size, 1e-30),
    )


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.coords = dense.scene(N, 12, BATCHES)
        self.x = torch.randn(len(self.coords), 16)

    def tensor(self, x=None):
        return spctune.SparseTensor(
            self.x if x is None else x, self.coords, EXTENT, BATCHES
        )


class AgainstDense(Case):
    """Compares results and gradients with torch's dense convolution in double
    precision."""

    def compare(self, layer, outputs, out_extent, limit=1e-5, **how):
        x = self.x.clone().requires_grad_()
        y = layer(self.tensor(x))
        self.assertEqual(y.coords.tolist(), [list(c) for c in outputs])
        grad = torch.randn_like(y.features)
        y.features.backward(grad)
        xd = self.x.double().requires_grad_()
        wd = layer.weight.detach().double().requires_grad_()
        bd = (
            None
            if layer.bias is None
            else layer.bias.detach().double().requires_grad_()
        )
        want = dense.conv(
            xd,
            self.coords,
            wd,
            bd,
            y.coords,
            EXTENT,
            BATCHES,
            out_extent,
            **how,
        )
        want.backward(grad.double())
        close(self, y.features, want, limit)
        close(self, x.grad, xd.grad, limit)
        close(self, layer.weight.grad, wd.grad, limit)
        if bd is not None:
            close(self, layer.bias.grad, bd.grad, limit)

    def test_submanifold(self):
        self.compare(
            nn.Conv3d(16, 24, 3), self.coords.tolist(), EXTENT, padding=1
        )

    def test_submanifold_with_dilation_without_bias(self):
        self.compare(
            nn.Conv3d(16, 8, 3, dilation=2, bias=False),
            self.coords.tolist(),
            EXTENT,
            padding=2,
            dilation=2,
        )

    def test_depthwise_and_groups(self):
        self.compare(
            nn.DepthwiseConv3d(16, 3),
            self.coords.tolist(),
            EXTENT,
            padding=1,
            groups=16,
        )
        self.compare(
            nn.Conv3d(16, 8, 3, groups=4),
            self.coords.tolist(),
            EXTENT,
            padding=1,
            groups=4,
        )

    def test_a_footprint_is_that_of_the_dense_layer(self):
        for kernel, stride, padding in ((3, 2, 1), (3, 1, 1), (2, 2, 0)):
            with self.subTest(kernel=kernel, stride=stride):
                layer = nn.Conv3d(
                    16, 24, kernel, stride, padding, rule="footprint"
                )
                n = (12 + 2 * padding - kernel) // stride + 1
                outputs = dense.reached(
                    self.coords, kernel, stride, padding, (n,) * 3
                )
                self.compare(
                    layer, outputs, (n,) * 3, stride=stride, padding=padding
                )

    def test_floor(self):
        outputs = sorted(
            {(b, *(v // 2 for v in c)) for b, *c in self.coords.tolist()}
        )
        self.compare(
            nn.Conv3d(16, 24, 2, stride=2), outputs, (6, 6, 6), stride=2
        )

    def test_expand_surrounds_the_voxels_of_the_floor(self):
        x = self.x.clone().requires_grad_()
        floor = nn.Conv3d(16, 24, 2, stride=2)
        wide = nn.Conv3d(16, 24, 2, stride=2, rule="expand")
        wide.load_state_dict(floor.state_dict())
        y, z = wide(self.tensor(x)), floor(self.tensor())
        coarse = {tuple(c): i for i, c in enumerate(z.coords.tolist())}
        near = itertools.product(range(2), repeat=3)
        want = {
            (b, *(v + d for v, d in zip(c, by)))
            for by in near
            for b, *c in coarse
        }
        self.assertEqual([tuple(c) for c in y.coords.tolist()], sorted(want))
        # Two voxels along each axis are one voxel of the floor: all others
        # see no input.
        for row, at in enumerate(sorted(want)):
            same = z.features[coarse[at]] if at in coarse else floor.bias
            close(self, y.features[row], same)
        y.features.sum().backward()
        z.features.sum().backward()
        close(self, wide.weight.grad, floor.weight.grad)
        self.assertGreater(x.grad.abs().max().item(), 0)

    def test_one_row_and_one_offset(self):
        self.compare(nn.Conv3d(16, 24, 1), self.coords.tolist(), EXTENT)
        self.coords, self.x = self.coords[:1], self.x[:1]
        self.compare(
            nn.Conv3d(16, 24, 3), self.coords.tolist(), EXTENT, padding=1
        )

    def test_inverse_is_the_transpose_of_the_strided_layer(self):
        x = self.x.clone().requires_grad_()
        down = nn.Conv3d(16, 24, 3, 2, 1, rule="footprint")
        up = nn.InverseConv3d(24, 8, 3)
        start = self.tensor(x)
        y = up(down(start), start)
        y.features.backward(torch.ones_like(y.features))
        middle = down(start).features.detach()
        turned = up.weight.detach().double().permute(0, 4, 1, 2, 3)
        volume = dense.spread(middle, down(start).coords, (6,) * 3, BATCHES)
        want = torch.nn.functional.conv_transpose3d(
            volume,
            turned.transpose(0, 1),
            up.bias.detach().double(),
            stride=2,
            padding=1,
            output_padding=1,
        )
        close(self, y.features, dense.pick(want, self.coords))
        self.assertGreater(x.grad.abs().max().item(), 0)

    def test_generative_and_transposed_have_the_same_sums(self):
        make = nn.GenerativeConv3d(16, 24, 2, 2)
        start = self.tensor()
        fine = make(start)
        self.assertEqual(len(fine), 8 * len(start))
        onto = nn.TransposedConv3d(16, 24, 2, 2)
        onto.load_state_dict(make.state_dict())
        close(self, onto(start, fine).features, fine.features.double())
        want = torch.nn.functional.conv_transpose3d(
            dense.spread(self.x, self.coords, EXTENT, BATCHES),
            make.weight.detach().double().permute(4, 0, 1, 2, 3),
            make.bias.detach().double(),
            stride=2,
        )
        close(self, fine.features, dense.pick(want, fine.coords))

    def test_half_precisions(self):
        for dtype, limit in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            with self.subTest(dtype):
                self.x = self.x.to(dtype)
                layer = nn.Conv3d(16, 24, 3).to(dtype)
                self.compare(
                    layer, self.coords.tolist(), EXTENT, limit, padding=1
                )


class Registered(Case):
    def arguments(self):
        w = torch.randn(24, 3, 3, 3, 16, requires_grad=True)
        bias = torch.randn(24, requires_grad=True)
        self.handle = torch.ops.spctune.map(self.coords, "subm,k=3")
        x = self.x.clone().requires_grad_()
        return x, w, bias, self.handle, len(x), "subm,k=3"

    def test_opcheck(self):
        x, w, bias, handle, rows, words = arguments = self.arguments()
        torch.library.opcheck(torch.ops.spctune.conv, arguments)
        torch.library.opcheck(
            torch.ops.spctune.conv, (x, w, None, handle, rows, words)
        )
        torch.library.opcheck(
            torch.ops.spctune.conv_backward,
            (torch.randn(rows, 24), x.detach(), w.detach(), handle, words),
        )
        # Two maps of equal voxels have different handles: values are not
        # compared.
        down = "conv,k=2,stride=2,rule=floor"
        kinds = ("test_schema", "test_faketensor")
        made, _ = torch.ops.spctune.map_out(self.coords, down)
        for name, given in (
            ("map", (self.coords, words)),
            ("map_out", (self.coords, down)),
            ("map_inverse", (made, down)),
            (
                "map_join",
                (self.coords, self.coords[:9].clone(), "conv,k=3,rule=given"),
            ),
        ):
            torch.library.opcheck(
                getattr(torch.ops.spctune, name), given, test_utils=kinds
            )

    def test_a_handle_of_no_map_is_refused(self):
        x, w, bias, handle, rows, words = self.arguments()
        with self.assertRaisesRegex(spctune.Error, "no longer there"):
            torch.ops.spctune.conv(
                x, w, bias, torch.tensor([10**9, 0]), rows, words
            )
        with self.assertRaisesRegex(spctune.Error, "rows of outputs, not 3"):
            torch.ops.spctune.conv(x, w, bias, handle, 3, words)

    def net(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Conv3d(16, 24, 3)
                self.down = nn.Conv3d(24, 32, 2, stride=2)
                self.bn = torch.nn.BatchNorm1d(32)
                self.up = nn.InverseConv3d(32, 8, 2)

            def forward(self, x, coords):
                start = spctune.SparseTensor(x, coords, batch_size=BATCHES)
                start = start.replace(torch.relu(self.a(start).features))
                low = self.down(start)
                low = low.replace(torch.relu(self.bn(low.features)))
                return self.up(low, start).features + 1

        return Net()

    def test_compile_has_the_results_and_gradients_of_eager(self):
        net = self.net()
        compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
        for seed, rows in ((0, 500), (1, 300), (2, 350)):
            coords = dense.scene(rows, 12, BATCHES, seed)
            x = torch.randn(len(coords), 16)
            grads = []
            for run in (net, compiled):
                net.zero_grad()
                at = x.clone().requires_grad_()
                y = run(at, coords)
                y.square().sum().backward()
                grads.append(
                    (
                        y.detach(),
                        at.grad,
                        *(p.grad.clone() for p in net.parameters()),
                    )
                )
            for got, want in zip(grads[1], grads[0]):
                close(self, got, want, 1e-5)

    def test_export_runs_on_another_size(self):
        net = self.net().eval()
        rows = torch.export.Dim("rows", min=2)
        program = torch.export.export(
            net, (self.x, self.coords), dynamic_shapes=({0: rows}, {0: rows})
        )
        called = {
            str(n.target)
            for n in program.graph.nodes
            if "spctune" in str(n.target)
        }
        self.assertEqual(
            called,
            {
                "spctune.map.default",
                "spctune.map_out.default",
                "spctune.map_inverse.default",
                "spctune.conv.default",
            },
        )
        coords = dense.scene(300, 12, BATCHES, 3)
        x = torch.randn(len(coords), 16)
        close(self, program.module()(x, coords), net(x, coords), 1e-6)


class Types(Case):
    def test_autocast_computes_in_its_type(self):
        layer = nn.Conv3d(16, 24, 3)
        x = self.x.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(self.tensor(x)).features
        self.assertEqual(y.dtype, torch.bfloat16)
        y.float().sum().backward()
        self.assertEqual(layer.weight.grad.dtype, torch.float32)
        self.assertEqual(x.grad.dtype, torch.float32)
        plain = layer(self.tensor()).features.detach()
        close(self, y.detach(), plain, 2e-2)

    def test_deterministic_mode_is_part_of_the_layer(self):
        seen = []
        found = maps.Relation.call

        def call(self, layer, *rest):
            seen.append(layer.deterministic)
            return found(self, layer, *rest)

        layer = nn.Conv3d(16, 24, 3)

        def fresh():  # voxels without kernel maps
            self.coords = self.coords.clone()
            return self.tensor()

        maps.Relation.call = call
        try:
            layer(fresh())
            torch.use_deterministic_algorithms(True)
            layer(fresh()).features.sum().backward()
            torch.use_deterministic_algorithms(False)
            spctune.options(deterministic=True)
            layer(fresh())
        finally:
            maps.Relation.call = found
            torch.use_deterministic_algorithms(False)
            spctune.options(deterministic=None)
        self.assertEqual(seen, [False, True, True, True])

    def test_mistakes_are_named(self):
        layer = nn.Conv3d(16, 24, 3)
        w = layer.weight
        m, out = ops.kernel_map(self.coords, "subm,k=3")

        def run(x, weight=w):
            return ops.conv(x, weight, m, "subm,k=3", len(out))

        cases = (
            (
                lambda: run(self.x.half()),
                "features are torch.float16 and weights",
            ),
            (
                lambda: run(self.x.double(), w.double()),
                "features are torch.float64",
            ),
            (lambda: run(self.x[1:]), "rows and the kernel map has"),
            (lambda: run(self.x[:, :8]), "8 channels and weights take 16"),
            (lambda: run(self.x.to("meta")), "features are on 'meta'"),
            (
                lambda: ops.kernel_map(self.coords.float(), "subm,k=3"),
                "voxels are torch.float32, not int32",
            ),
            (
                lambda: ops.kernel_map(self.coords[0], "subm,k=3"),
                "voxels have the shape",
            ),
            (lambda: nn.Conv3d(4, 4, 3, 2, rule="subm"), "has the stride 1"),
            (lambda: nn.Conv3d(4, 4, rule="roof"), "unknown rule 'roof'"),
            (lambda: nn.Conv3d(4, 6, groups=4), "4 groups do not divide"),
            (
                lambda: nn.InverseConv3d(16, 4)(self.tensor(), self.tensor()),
                "what came of a strided layer",
            ),
        )
        for call, sentence in cases:
            with (
                self.subTest(sentence),
                self.assertRaisesRegex(spctune.Error, sentence),
            ):
                call()


class Lives(Case):
    def test_equal_voxels_share_one_map(self):
        before = len(maps.relations)
        layers = [nn.Conv3d(16, 16, 3) for _ in range(3)]
        y = self.tensor()
        for layer in layers:
            y = layer(y)
        self.assertEqual(len(maps.relations), before + 1)

    def test_a_write_to_the_voxels_makes_a_new_map(self):
        layer = nn.Conv3d(16, 24, 3)
        layer(self.tensor())
        self.coords[:, 1:] *= 2
        want = dense.conv(
            self.x,
            self.coords,
            layer.weight,
            layer.bias,
            self.coords,
            (24,) * 3,
            BATCHES,
            (24,) * 3,
            padding=1,
        )
        close(self, layer(self.tensor()).features, want.detach())

    def test_a_write_to_the_voxels_of_outputs_stays_with_the_writer(self):
        down = nn.Conv3d(16, 24, 2, stride=2)
        y = down(self.tensor())
        kept = y.coords.clone()
        y.coords[:, 1:] *= 2
        again = down(self.tensor())
        self.assertTrue(torch.equal(again.coords, kept))
        layer = nn.Conv3d(24, 8, 3)
        want = dense.conv(
            y.features,
            y.coords,
            layer.weight,
            layer.bias,
            y.coords,
            EXTENT,
            BATCHES,
            EXTENT,
            padding=1,
        )
        close(self, layer(y).features, want)

    def test_second_derivatives_are_refused(self):
        layer = nn.Conv3d(16, 24, 3)
        x = self.x.clone().requires_grad_()
        y = layer(self.tensor(x)).features.sum()
        with self.assertRaisesRegex(spctune.Error, "second derivatives"):
            torch.autograd.grad(y, x, create_graph=True)

    def test_a_write_to_weights_is_seen(self):
        layer = nn.Conv3d(16, 24, 3).eval()
        with torch.no_grad():
            one = layer(self.tensor()).features
            layer.weight.data.mul_(2)
            layer.bias.data.mul_(2)
            two = layer(self.tensor()).features
        close(self, two, 2 * one, 1e-6)

    def test_frozen_weights_are_packed_once(self):
        layer = nn.Conv3d(16, 24, 3).eval()
        packs = []
        pack = maps.Call.pack
        maps.Call.pack = lambda self, *rest: (
            packs.append(1) or pack(self, *rest)
        )
        spctune.options(frozen=True)
        try:
            with torch.no_grad():
                one = layer(self.tensor()).features
                layer(self.tensor())
                self.assertEqual(len(packs), 1)
                layer.weight.mul_(2)
                layer.bias.mul_(2)
                two = layer(self.tensor()).features
        finally:
            spctune.options(frozen=False)
            maps.Call.pack = pack
        self.assertEqual(len(packs), 2)
        close(self, two, 2 * one, 1e-6)

    def test_maps_end_with_their_voxels(self):
        gc.collect()
        before = len(maps.relations)
        gc.disable()
        try:
            x = self.x.clone().requires_grad_()
            start = self.tensor(x)
            net = nn.Sequential(
                nn.Conv3d(16, 16, 3),
                torch.nn.ReLU(),
                nn.Conv3d(16, 24, 2, stride=2),
            )
            y = nn.InverseConv3d(24, 4, 2)(net(start), start)
            y.features.sum().backward()
            self.assertEqual(len(maps.relations), before + 2)
            del start, y
            self.coords = None
            self.assertEqual(len(maps.relations), before)
        finally:
            gc.enable()

    def test_a_handle_keeps_its_map(self):
        before = len(maps.relations)
        handle = torch.ops.spctune.map(self.coords.clone(), "subm,k=3")
        self.assertEqual(len(maps.relations), before + 1)
        del handle
        self.assertEqual(len(maps.relations), before)

    def test_steps_of_training_take_no_more_memory(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096

        net = nn.Sequential(
            nn.Conv3d(16, 16, 3),
            torch.nn.ReLU(),
            nn.Conv3d(16, 24, 2, stride=2),
        )
        sizes = []
        for _ in range(3):
            for seed in range(60):
                coords = dense.scene(200, 12, 1, seed)
                x = torch.randn(len(coords), 16, requires_grad=True)
                net(spctune.SparseTensor(x, coords)).features.sum().backward()
            sizes.append(resident())
        self.assertLess(sizes[2] - sizes[1], 4 << 20)

    def test_copies_and_files_of_modules_and_tensors(self):
        layer = nn.Conv3d(16, 24, 3)
        want = layer(self.tensor()).features
        twin = copy.deepcopy(layer)
        self.assertTrue(torch.equal(twin(self.tensor()).features, want))
        file = io.BytesIO()
        torch.save({"layer": layer, "coords": self.coords}, file)
        file.seek(0)
        back = torch.load(file, weights_only=False)
        self.assertIsNone(getattr(back["coords"], "_spctune", None))
        again = back["layer"](spctune.SparseTensor(self.x, back["coords"]))
        self.assertTrue(torch.equal(again.features, want))
        self.assertEqual(set(layer.state_dict()), {"weight", "bias"})

    def test_threads(self):
        layer = nn.Conv3d(16, 24, 3)
        inputs = [torch.randn_like(self.x) for _ in range(4)]
        want = [layer(self.tensor(x)).features.detach() for x in inputs]
        wrong = []

        def work(i):
            try:
                for _ in range(50):
                    x = inputs[i].clone().requires_grad_()
                    y = layer(self.tensor(x)).features
                    y.sum().backward()
                    if not torch.equal(y, want[i]):
                        wrong.append(i)
            except BaseException as error:  # noqa: B036, told below
                wrong.append(repr(error))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_child_of_fork(self):
        layer = nn.Conv3d(16, 24, 3)
        want = layer(self.tensor()).features.detach()
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            answer = b"differs"
            try:
                torch.set_num_threads(1)
                # The level of the voxels belongs to the parent; the child makes
                # its own.
                with torch.no_grad():
                    if torch.equal(layer(self.tensor()).features, want):
                        answer = b"right"
            except BaseException as error:  # noqa: B036, told by the parent
                answer = repr(error).encode()
            os.write(write, answer)
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            self.assertEqual(pipe.read().decode(), "right")
        os.waitpid(child, 0)

    def test_checkpointing_has_the_same_gradients(self):
        from torch.utils.checkpoint import checkpoint

        layer = nn.Conv3d(16, 24, 3)
        grads = []
        for run in (
            lambda f, x: f(x),
            lambda f, x: checkpoint(f, x, use_reentrant=False),
        ):
            layer.zero_grad()
            x = self.x.clone().requires_grad_()
            run(
                lambda x: layer(self.tensor(x)).features.square(), x
            ).sum().backward()
            grads.append((x.grad, layer.weight.grad.clone()))
        for one, other in zip(*grads):
            self.assertTrue(torch.equal(one, other))


class Empty(Case):
    def test_no_voxels(self):
        coords = torch.zeros(0, 4, dtype=torch.int32)
        x = torch.zeros(0, 16, requires_grad=True)
        start = spctune.SparseTensor(x, coords, EXTENT, 1)
        net = nn.Sequential(
            nn.Conv3d(16, 24, 3),
            nn.BatchNorm(24),
            torch.nn.ReLU(),
            nn.Conv3d(24, 8, 2, stride=2),
        )
        y = net(start)
        self.assertEqual(y.features.shape, (0, 8))
        y.features.sum().backward()
        self.assertEqual(net[0].weight.grad.abs().max().item(), 0)
        self.assertEqual(start.dense().shape, (1, 16, *EXTENT))


if __name__ == "__main__":
    unittest.main()
