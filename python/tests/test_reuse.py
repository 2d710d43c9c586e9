# SPDX-License-Identifier: Apache-2.0
"""Tests new scenes in the memory of ended scenes, on the cpu device."""

import ctypes
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

import dense

import spctune
import spctune.spconv as spconv
from spctune import _abi, context, maps, nn, ops, pooling, sets

libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t] * 2
libc.free.argtypes = [ctypes.c_void_p]
counted = []  # the bytes of each allocation of the library
held = {}  # the bytes that it holds, by address
limit = [float("inf")]  # bytes that it may hold
hooks = []


def counting_hook(device):
    hook = _abi.spc_memory_hook(ordered=True)

    def alloc(size, stream, _):
        if sum(held.values()) + size > limit[0]:
            return 0
        counted.append(size)
        memory = libc.aligned_alloc(256, (size + 255) // 256 * 256)
        held[memory] = size
        return memory

    def free(memory, size, stream, _):
        del held[memory]
        libc.free(memory)

    hook.alloc, hook.free = type(hook.alloc)(alloc), type(hook.free)(free)
    hooks.append(hook)
    return hook


def allocations(call, *arguments):
    """Returns the result of a call, and its number of allocations."""
    before = len(counted)
    return call(*arguments), len(counted) - before


def setUpModule():
    context._contexts.pop("cpu", None)  # the next one has the hook
    context.memory_hooks["cpu"] = counting_hook


def tearDownModule():
    del context.memory_hooks["cpu"]


class Model(torch.nn.Module):
    """A network with submanifold layers, two strided levels, a pooling, and
    inverse layers."""

    def __init__(self, **how):
        super().__init__()
        self.first = nn.Conv3d(8, 16)
        self.down = nn.Conv3d(16, 16, 2, stride=2, **how)
        self.wide = nn.Conv3d(16, 16, 3, stride=2, padding=1, rule="footprint")
        self.back = nn.InverseConv3d(16, 8, 3)
        self.up = nn.InverseConv3d(16, 8, 2)

    def forward(self, features, coords, shape=None):
        x = spctune.SparseTensor(features, coords, shape)
        y = self.first(x)
        z = self.down(y)
        w = self.wide(z)
        m, _ = ops.kernel_map(x.coords, "conv,k=2,stride=2,rule=floor")
        pooled = pooling.pool(y.features, m, m.words, m.rows_out, "max")
        back = self.back(w, z)
        return (
            self.up(z, y).features.sum()
            + (back.features * pooled[:, :8][: len(back)]).sum()
            + w.features.square().sum()
        )


def scenes(sizes, extent=24, batches=2):
    return [
        dense.scene(rows, extent, batches, seed)
        for seed, rows in enumerate(sizes)
    ]


def step(model, coords, shape=None):
    """Returns the loss and all gradients of a step on a new tensor of
    voxels."""
    torch.manual_seed(len(coords))
    model.zero_grad(set_to_none=True)
    x = torch.randn(len(coords), 8, requires_grad=True)
    loss = model(x, coords.clone(), shape)
    loss.backward()
    grads = [p.grad for p in model.parameters()]
    return [loss.detach(), x.grad, *grads]


class Reuse(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        spctune.empty_cache()
        context.Context.get("cpu").extents.clear()
        self.addCleanup(spctune.options, reuse=True)

    def both(self, model, all_scenes, shapes=None):
        """Checks that steps with and without reuse are equal bit by bit.
        Returns the allocations of each step with reuse."""
        counts, results = [], {}
        for reuse in (False, True):
            spctune.options(reuse=reuse)
            results[reuse] = []
            for i, coords in enumerate(all_scenes):
                shape = shapes[i] if shapes else None
                got, n = allocations(step, model, coords, shape)
                results[reuse].append(got)
                if reuse:
                    counts.append(n)
        for got, want in zip(results[True], results[False]):
            for a, b in zip(got, want):
                self.assertTrue(torch.equal(a, b))
        return counts

    def test_nothing_is_allocated_for_a_similar_scene(self):
        sizes = [900, 850, 880, 870, 910, 840]
        counts = self.both(Model(), scenes(sizes))
        self.assertGreater(counts[0], 20)
        self.assertEqual(counts[3:], [0, 0, 0])

    def test_a_larger_scene_gets_more_memory(self):
        counts = self.both(Model(), scenes([300, 310, 305, 2000, 1990, 1995]))
        self.assertGreater(counts[3], 20)
        self.assertEqual(counts[5], 0)

    def test_a_larger_scene_takes_the_place_of_smaller_ones(self):
        cpu, most = context.Context.get("cpu"), 0
        for coords in scenes([300, 310, 600, 1200, 2400, 300]):
            step(Model(), coords)
            self.assertEqual(len(cpu.spares), 1)
            most = max(most, sum(held.values()))
        self.assertEqual(sum(held.values()), most)

    def test_scenes_elsewhere(self):
        """Scenes beyond the extent of the first ones, with negative coordinates
        and more batches."""
        moved = scenes([600, 610, 605, 600, 610, 605])
        for i, coords in enumerate(moved):
            coords[:, 1:] += (-1) ** i * 40 * i
        moved[4][:, 0] += 3
        self.both(Model(), moved)

    def test_shapes_that_differ_are_one_geometry(self):
        all_scenes = scenes([700] * 6)
        shapes = [[40 + i, 50, 60 - i] for i in range(6)]
        model = Model(rule="footprint")
        counts = self.both(model, all_scenes, shapes)
        self.assertEqual(counts[-1], 0)
        # A spatial shape that cuts off voxels still does so.
        x = spctune.SparseTensor(
            torch.ones(len(all_scenes[0]), 16), all_scenes[0].clone(), [23] * 3
        )
        y = model.down(x)
        inside = all_scenes[0][(all_scenes[0][:, 1:] < 22).all(1)]
        want = torch.unique(inside // torch.tensor([1, 2, 2, 2]), dim=0)
        self.assertEqual(y.coords.tolist(), want.tolist())

    def test_maps_that_are_held_keep_their_voxels(self):
        coords = scenes([400, 390, 380, 370, 360])
        words = "conv,k=2,stride=2,rule=floor"
        held = [ops.kernel_map(c.clone(), words)[0] for c in coords]
        again = [ops.kernel_map(c.clone(), words)[0] for c in coords]
        for one, other, c in zip(held, again, coords):
            self.assertEqual(one.rows_in, len(c))
            self.assertEqual(one.pairs(), len(c))
            self.assertEqual(other.pairs(), len(c))
            self.assertNotEqual(one.relation.fine.ptr, other.relation.fine.ptr)

    def test_equal_voxels_are_refused_and_the_next_scene_runs(self):
        model, good = Model(), scenes([300, 300, 300])
        for coords in good:
            step(model, coords)
        bad = good[0].clone()
        bad[7] = bad[3]
        with self.assertRaisesRegex(
            spctune.InvalidError, "rows 3 and 7 have the same coordinate"
        ):
            step(model, bad)
        self.both(model, good)

    def test_unused_maps_are_dropped(self):
        coords = scenes([300] * 6)
        wide, narrow = nn.Conv3d(8, 8, 5), nn.Conv3d(8, 8, 3)
        x = torch.randn(300, 8)

        def maps_after(layer, voxels):
            layer(spctune.SparseTensor(x[: len(voxels)], voxels))
            return len(voxels._spctune.coords.held.shelf.tables)

        tables = [
            maps_after(wide if i < 3 else narrow, c.clone())
            for i, c in enumerate(coords)
        ]
        # The fourth scene has the third scene's map and its own.
        self.assertEqual(tables, [1, 1, 1, 2, 1, 1])

    def test_spares_are_few_and_can_be_freed(self):
        held = [ops.kernel_map(c, "subm,k=3")[0] for c in scenes([100] * 9)]
        for m in held:
            m.relation.table(maps.geometry_of(m.words).geometry, False, None)
        del held, m
        cpu = context.Context.get("cpu")
        self.assertEqual(len(cpu.spares), 4)
        spctune.empty_cache()
        self.assertEqual(len(cpu.spares), 0)
        spctune.options(reuse=False)
        ops.kernel_map(scenes([100])[0], "subm,k=3")
        self.assertEqual(len(cpu.spares), 0)

    def test_lists_fit_the_pairs_of_a_scene(self):
        coords = scenes([3000, 2900])
        m, _ = ops.kernel_map(coords[0], "subm,k=3")
        layer = maps.layer_of(m.words, 8, 8)
        before = sum(held.values())
        call = m.relation.call(layer, _abi.SPC_WGRAD, True, None)
        index = 4 * 27 * 3000
        lists = sum(held.values()) - before - index
        self.assertLess(lists, 12 * 27 * 3000 // 2)
        # A new filling ends them; another scene prepares the map again.
        call.table.refill()
        call.table.check()
        x = torch.randn(len(coords[0]), 8)
        out = torch.empty(8, 3, 3, 3, 8)
        work = torch.empty(call.work_bytes + 256, dtype=torch.uint8)
        run = [x.data_ptr(), out.data_ptr(), None, None]
        run += [(work.data_ptr() + 255) & ~255, x.data_ptr()]
        with self.assertRaisesRegex(spctune.Error, "is not prepared"):
            call.run(*run)
        call.table.plan((layer, _abi.SPC_WGRAD, True), None)
        call.run(*run)
        off = out[:, 1, 1, 1] - x.T @ x
        self.assertLess(off.abs().max().item(), 1e-5 * len(x))

    def test_memory_is_given_back(self):
        model, coords = Model(), scenes([500, 450, 480])
        for c in coords:
            step(model, c)
        self.assertGreater(sum(held.values()), 0)
        spctune.empty_cache()
        self.assertEqual(held, {})
        spctune.options(reuse=False)
        step(model, coords[0])
        self.assertEqual(held, {})

    def test_spares_end_where_memory_does(self):
        model, coords = Model(), scenes([900, 950, 2000, 5000])
        self.addCleanup(limit.__setitem__, 0, float("inf"))
        for c in coords[:3]:  # trees have room from now on
            step(model, c)

        def memory_of(*of):
            spctune.empty_cache()
            for c in of:
                step(model, c)
            return sum(held.values())

        large = memory_of(coords[2])
        small = memory_of(*coords[:2])
        limit[0] = small + large // 2
        step(model, coords[2])  # does not fit beside the spare
        self.assertEqual(len(context.Context.get("cpu").spares), 1)
        limit[0] = sum(held.values()) // 8
        with self.assertRaisesRegex(spctune.OutOfMemoryError, "memory"):
            step(model, coords[3])
        limit[0] = float("inf")
        self.both(model, coords)

    def test_a_tree_ends_after_many_scenes(self):
        kept = sets._MOST_SCENES
        sets._MOST_SCENES = 3
        self.addCleanup(setattr, sets, "_MOST_SCENES", kept)
        counts = self.both(Model(), scenes([300] * 9))
        self.assertGreater(sum(n > 0 for n in counts), 2)

    def test_no_voxels(self):
        model = nn.Conv3d(8, 8)
        for rows in (50, 60, 0, 55, 0, 45):
            coords = dense.scene(rows, 9)
            x = spctune.SparseTensor(torch.randn(len(coords), 8), coords)
            self.assertEqual(len(model(x)), len(coords))

    def test_spconv_trains_without_an_allocation(self):
        net = spconv.SparseSequential(
            spconv.SubMConv3d(8, 16, 3, indice_key="a"),
            spconv.SparseConv3d(16, 16, 3, 2, 1, indice_key="b"),
            spconv.SparseInverseConv3d(16, 8, 3, indice_key="b"),
        )

        def train(coords):
            x = spconv.SparseConvTensor(
                torch.randn(len(coords), 8), coords.clone(), [24] * 3, 2
            )
            net(x).features.sum().backward()

        counts = [
            allocations(train, c)[1] for c in scenes([760, 800, 790, 770, 780])
        ]
        self.assertEqual(counts[3:], [0, 0])


if __name__ == "__main__":
    unittest.main()
