# SPDX-License-Identifier: Apache-2.0
"""Compares layers of points with their definition, on the cpu device."""

import copy
import io
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import spctune
from spctune import nn

N = 300


def cloud(rows, seed=0, batches=2):
    """Returns points at multiples of 1/64, so that fp32 computes without
    rounding, and batch elements in random order."""
    draw = torch.Generator().manual_seed(seed)
    xyz = torch.randint(-32, 32, (rows, 3), generator=draw) / 64
    return xyz, torch.randint(0, batches, (rows,), generator=draw).int()


def triplets(points, batch, to, to_batch, kernel, radius, nearest):
    """Returns (output, input, cell of the kernel) by the definition, as
    tensors."""
    r = torch.tensor(radius)
    k = torch.tensor(kernel)
    d = points[None] - to[:, None]  # [outputs, inputs, 3]
    square = d * d
    square = (square[..., 0] + square[..., 1]) + square[..., 2]
    seen = (square <= r * r) & (batch[None] == to_batch[:, None])
    if nearest:
        # Orders by cells of edge r, then by rows.
        cell = torch.floor(points * (1 / r)).tolist()
        order = sorted(range(len(points)), key=lambda i: (cell[i], i))
        rank = torch.empty(len(points))
        rank[order] = torch.arange(len(points), dtype=torch.float32)
        for o in range(len(to)):
            rows = seen[o].nonzero()[:, 0].tolist()
            rows.sort(key=lambda i, o=o: (square[o, i], rank[i]))
            seen[o, rows[nearest:]] = False
    o, i = seen.nonzero().T
    at = torch.floor(d[o, i] * (k / (2 * r)) + k / 2).clamp(min=0)
    at = torch.minimum(at, k - 1).long()
    return o, i, (at[:, 0] * kernel[1] + at[:, 1]) * kernel[2] + at[:, 2]


def define(x, weight, bias, pairs, rows, groups):
    """Computes the layer in double precision."""
    o, i, k = pairs
    cout, cin = weight.shape[0], x.shape[1]
    w = weight.reshape(groups, cout // groups, -1, cin // groups)[:, :, k]
    parts = x[i].reshape(-1, groups, cin // groups)
    made = torch.einsum("tgc,gotc->tgo", parts, w).reshape(-1, cout)
    out = torch.zeros(rows, cout, dtype=torch.float64).index_add(0, o, made)
    return out if bias is None else out + bias


class Layers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.points, self.batch = cloud(N)
        self.x = torch.randn(N, 8)

    def compare(self, layer, run, pairs, rows, groups=1):
        """Checks that results and gradients agree; `run` computes outputs from
        features."""
        x = self.x[:, : layer.in_channels].clone().requires_grad_()
        y = run(x)
        grad = torch.randn_like(y)
        y.backward(grad)
        xd = x.detach().double().requires_grad_()
        named = dict(layer.named_parameters())
        wd = named["weight"].detach().double().requires_grad_()
        bd = None
        if "bias" in named:
            bd = named["bias"].detach().double().requires_grad_()
        want = define(xd, wd, bd, pairs, rows, groups)
        want.backward(grad.double())
        found = [(y, want), (x.grad, xd.grad), (layer.weight.grad, wd.grad)]
        if bd is not None:
            found.append((layer.bias.grad, bd.grad))
        for got, right in found:
            self.assertEqual(got.shape, right.shape)
            scale = right.abs().max().item()
            self.assertGreater(scale, 0)
            off = (got.double() - right).abs().max().item()
            self.assertLess(off, 1e-5 * scale)

    def at(self, features):
        return spctune.PointTensor(features, self.points, self.batch)

    def test_outputs_at_the_inputs(self):
        for kernel, nearest, groups in (
            ((3, 3, 3), 0, 1),
            ((2, 3, 1), 0, 1),
            ((3, 3, 3), 4, 1),
            ((3, 3, 3), 0, 2),
        ):
            with self.subTest(f"{kernel} {nearest} {groups}"):
                layer = nn.PointConv(
                    8,
                    16,
                    kernel,
                    radius=0.25,
                    nearest=nearest,
                    groups=groups,
                    bias=nearest == 0,
                )
                pairs = triplets(
                    *(self.points, self.batch) * 2, kernel, 0.25, nearest
                )
                self.compare(
                    layer,
                    lambda x, m=layer: m(self.at(x)).features,
                    pairs,
                    N,
                    groups,
                )

    def test_outputs_at_other_points(self):
        to, to_batch = cloud(90, 1)
        layer = nn.PointConv(8, 16, 3, radius=0.25)
        other = spctune.PointTensor(torch.zeros(90, 1), to, to_batch)
        pairs = triplets(
            self.points, self.batch, to, to_batch, (3, 3, 3), 0.25, 0
        )
        self.compare(
            layer, lambda x: layer(self.at(x), other).features, pairs, 90
        )

    def test_fewer_points_and_back(self):
        edge = 0.125
        voxel = torch.floor(self.points / edge).long()
        key = torch.cat([self.batch[:, None].long(), voxel], 1)
        first = {}
        for row, at in enumerate(map(tuple, key.tolist())):
            first.setdefault(at, row)
        rows = torch.tensor([first[at] for at in sorted(first)])
        fewer, batch = self.points[rows], self.batch[rows]
        self.assertLess(len(rows), N)

        layer = nn.PointConv(8, 16, 3, radius=0.25, voxel=edge)
        y = layer(self.at(self.x))
        self.assertTrue(torch.equal(y.points, fewer))
        self.assertTrue(torch.equal(y.batch, batch))
        pairs = triplets(
            self.points, self.batch, fewer, batch, (3, 3, 3), 0.25, 0
        )
        self.compare(
            layer, lambda x: layer(self.at(x)).features, pairs, len(rows)
        )

        back = nn.InversePointConv(16, 8, 3, radius=0.25)
        x = self.at(self.x)
        y = layer(x)
        self.x = torch.randn(len(rows), 16)
        o, i, k = pairs
        self.compare(
            back,
            lambda f: back(y.replace(f), x).features,
            (i, o, k),
            N,
        )

    def test_the_point_nearest_to_the_centre_is_kept(self):
        edge = 0.125
        voxel = torch.floor(self.points / edge)
        square = ((self.points / edge - voxel - 0.5) ** 2).sum(1)
        key = torch.cat([self.batch[:, None].long(), voxel.long()], 1)
        best = {}
        for row, at in enumerate(map(tuple, key.tolist())):
            if at not in best or square[row] < square[best[at]]:
                best[at] = row
        rows = torch.tensor([best[at] for at in sorted(best)])
        layers = [
            nn.PointConv(8, 16, 3, radius=0.25, voxel=edge, keep=keep)
            for keep in ("first", "centre")
        ]
        x = self.at(self.x)
        first, centred = (layer(x).points for layer in layers)
        self.assertTrue(torch.equal(centred, self.points[rows]))
        self.assertEqual(first.shape, centred.shape)
        self.assertFalse(torch.equal(first, centred))
        with self.assertRaisesRegex(spctune.InvalidError, "first, centre"):
            nn.PointConv(8, 16, radius=1, voxel=1, keep="last")

    def test_whole_coordinates_are_a_submanifold_layer(self):
        voxels = torch.unique(torch.randint(0, 8, (150, 3)), dim=0)
        x = torch.randn(len(voxels), 8)
        points = nn.PointConv(8, 16, 3, radius=1.8)
        grid = nn.Conv3d(8, 16, 3)
        grid.load_state_dict(points.state_dict())
        zero = torch.zeros(len(voxels), 1, dtype=torch.int64)
        coords = torch.cat([zero, voxels], 1).int()
        y = points(spctune.PointTensor(x, voxels.float())).features
        z = grid(spctune.SparseTensor(x, coords)).features
        self.assertLess((y - z).abs().max().item(), 1e-5)

    def test_a_network_trains(self):
        net = nn.Sequential(
            nn.PointConv(8, 16, 3, radius=0.2),
            nn.BatchNorm(16),
            torch.nn.ReLU(),
            nn.PointConv(16, 16, 3, radius=0.4, voxel=0.2),
            torch.nn.Linear(16, 1),
        )
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
        self.x[:, :3] = self.points
        losses = []
        for _ in range(30):
            optimiser.zero_grad()
            y = net(self.at(self.x))
            loss = (y.features[:, 0] - y.points[:, 0]).square().mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.2 * losses[0])

    def test_autocast(self):
        layer = nn.PointConv(8, 16, 3, radius=0.25)
        y = layer(self.at(self.x)).features
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = layer(self.at(self.x)).features
        self.assertEqual(z.dtype, torch.bfloat16)
        self.assertLess((y - z).abs().max() / y.abs().max(), 2e-2)


class Lives(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.points, self.batch = cloud(100)
        self.x = torch.randn(100, 8)
        self.layer = nn.PointConv(8, 8, 3, radius=0.25)

    def test_maps_are_shared_until_points_are_written(self):
        x = spctune.PointTensor(self.x, self.points, self.batch)
        y = self.layer(self.layer(x))
        self.assertIs(y.place, x.place)
        (known,) = x.place._maps.values()
        self.assertEqual(len(known), 1)
        self.points.mul_(2)
        z = self.layer(x).features
        fresh = spctune.PointTensor(self.x, self.points.clone(), self.batch)
        self.assertTrue(torch.equal(z, self.layer(fresh).features))

    def test_copies_and_files(self):
        x = spctune.PointTensor(self.x, self.points, self.batch)
        y = self.layer(x)
        file = io.BytesIO()
        torch.save([x, self.layer], file)
        file.seek(0)
        stored, layer = torch.load(file, weights_only=False)
        self.assertTrue(torch.equal(layer(stored).features, y.features))
        again = copy.deepcopy(self.layer)(copy.deepcopy(x))
        self.assertTrue(torch.equal(again.features, y.features))

    def test_no_points_and_no_neighbours(self):
        none = spctune.PointTensor(torch.zeros(0, 8), torch.zeros(0, 3))
        self.assertEqual(self.layer(none).features.shape, (0, 8))
        coarse = nn.PointConv(8, 8, 3, radius=0.2, voxel=0.1)
        self.assertEqual(len(coarse(none)), 0)
        far = spctune.PointTensor(self.x, self.points, self.batch)
        other = spctune.PointTensor(torch.zeros(3, 1), torch.full((3, 3), 9.0))
        y = self.layer(far, other).features
        self.assertTrue(torch.equal(y, self.layer.bias.expand(3, 8)))

    def test_many_neighbours_find_room(self):
        points = torch.zeros(400, 3)
        x = torch.randn(400, 8)
        y = self.layer(spctune.PointTensor(x, points)).features
        w = self.layer.weight[:, 1, 1, 1].double()
        want = x.double().sum(0) @ w.T + self.layer.bias.double()
        off = (y.double() - want).abs().max()
        self.assertLess(off, 1e-5 * want.abs().max())

    def test_compiled_graphs_leave_layers_of_points_out(self):
        net = nn.Sequential(self.layer, torch.nn.ReLU())
        x = spctune.PointTensor(self.x, self.points, self.batch)
        want = net(x).features
        got = torch.compile(net, backend="eager")(x).features
        self.assertTrue(torch.equal(got, want))
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, "disable"):
            torch.compile(net, backend="eager", fullgraph=True)(x)

    def test_mistakes_are_named(self):
        x, p, b = self.x, self.points, self.batch
        bad = p.clone()
        bad[5, 1] = float("nan")
        here = spctune.PointTensor(x, p, b)
        cases = (
            (lambda: nn.PointConv(8, 8), "a radius of 0"),
            (lambda: nn.InversePointConv(8, 8), "a radius of 0"),
            (lambda: spctune.PointTensor(x, p[:, :2]), r"it is \[rows, 3\]"),
            (lambda: spctune.PointTensor(x[:9], p), "with 100 points"),
            (lambda: spctune.PointTensor(x, p, b[:9]), r"it is \[100\]"),
            (lambda: here.replace(x[:9]), "with 100 points"),
            (lambda: self.layer(spctune.PointTensor(x, bad)), "row 5"),
            (lambda: self.layer(spctune.PointTensor(x, p, b - 1)), "batch"),
            (lambda: self.layer(here.replace(x[:, :3])), "3 channels"),
            (
                lambda: nn.PointConv(8, 8, radius=1, voxel=1)(here, here),
                "not both",
            ),
        )
        for call, sentence in cases:
            with (
                self.subTest(sentence),
                self.assertRaisesRegex(Exception, sentence),
            ):
                call()


if __name__ == "__main__":
    unittest.main()
