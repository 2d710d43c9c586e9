# SPDX-License-Identifier: Apache-2.0
"""Compares layers on a GPU with the same layers on the processor."""

import importlib.util
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
if not torch.cuda.is_available():
    raise unittest.SkipTest("no GPU that PyTorch can use")

import backbones

import spctune
import spctune.spconv as sp
from spctune import nn


def error(got, want):
    """Returns the largest difference relative to the largest value."""
    want = want.double().cpu()
    size = max(want.abs().max().item(), 1e-30)
    return (got.double().cpu() - want).abs().max().item() / size


class Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        # Runs in full precision, as on the processor.
        kept = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        self.addCleanup(setattr, torch.backends.cudnn, "allow_tf32", kept)
        f, c, self.shape, self.batches = backbones.scene(rows=4000)
        self.f, self.c = f.cuda(), c.cuda()

    def step(self, model, device):
        model.zero_grad()
        # A leaf of its own: on the same device to() returns the tensor itself,
        # whose gradients would add up.
        x = self.f.to(device, copy=True).requires_grad_()
        out = model(x, self.c.to(device), self.shape, self.batches)[-1]
        out.features.square().mean().backward()
        return out, [x.grad, *(p.grad for p in model.parameters())]

    def test_a_step_of_training_is_that_of_the_processor(self):
        for make in (backbones.detector, backbones.unet):
            model = make(sp)
            want, grads = self.step(model, "cpu")
            grads = [g.clone() for g in grads]
            got, others = self.step(model.cuda(), "cuda")
            self.assertTrue(torch.equal(got.indices.cpu(), want.indices))
            self.assertLess(error(got.features, want.features), 1e-3)
            for a, b in zip(others, grads):
                self.assertLess(error(a, b), 1e-2)

    def test_memory_is_that_of_torch(self):
        x = spctune.SparseTensor(self.f, self.c, batch_size=self.batches)
        layer = nn.Conv3d(4, 16, 3).cuda()
        layer(x)  # allocations that are made once
        before = torch.cuda.memory_allocated()
        y = layer(
            spctune.SparseTensor(
                self.f, self.c.clone(), batch_size=self.batches
            )
        )
        self.assertGreater(torch.cuda.memory_allocated(), before)
        del y
        spctune.empty_cache()
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_a_side_stream(self):
        layer = nn.Conv3d(4, 16, 3).cuda()
        x = spctune.SparseTensor(self.f, self.c, batch_size=self.batches)
        with torch.no_grad():
            want = layer(x).features
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                shared = layer(x).features
                fresh = layer(
                    spctune.SparseTensor(
                        self.f, self.c.clone(), batch_size=self.batches
                    )
                ).features
            torch.cuda.current_stream().wait_stream(side)
        self.assertTrue(torch.equal(shared, want))
        self.assertTrue(torch.equal(fresh, want))

    def test_scenes_on_two_streams_at_once(self):
        """Memory that a scene frees on one stream is not written on another
        stream while it is still read."""
        model = backbones.unet(sp).cuda().eval()
        scenes = [backbones.scene(seed, rows=2000) for seed in range(4)]
        scenes = [(f.cuda(), c.cuda(), *more) for f, c, *more in scenes]
        with torch.no_grad():
            want = [model(*given)[-1].features for given in scenes]
            torch.cuda.synchronize()
            streams = [torch.cuda.Stream() for _ in range(2)]
            got = []
            for i in range(40):
                f, c, *more = scenes[i % 4]
                with torch.cuda.stream(streams[i // 2 % 2]):
                    got.append(model(f, c.clone(), *more)[-1].features)
            torch.cuda.synchronize()
        for i, y in enumerate(got):
            self.assertLess(error(y, want[i % 4]), 1e-5)

    def test_a_new_scene_uses_the_memory_of_the_last_one(self):
        model = backbones.unet(sp).cuda()
        scenes = [backbones.scene(seed, rows=3000) for seed in range(8)]
        found, counted = {}, []
        alloc = torch.cuda.caching_allocator_alloc

        def count(*arguments):
            counted.append(arguments)
            return alloc(*arguments)

        self.addCleanup(setattr, torch.cuda, "caching_allocator_alloc", alloc)
        self.addCleanup(spctune.options, reuse=True)
        torch.cuda.caching_allocator_alloc = count
        for reuse in (False, True):
            spctune.options(reuse=reuse)
            spctune.empty_cache()
            found[reuse], counts = [], []
            for f, c, shape, batches in scenes:
                counted.clear()
                self.f, self.c = f.clone().cuda(), c.clone().cuda()
                self.shape, self.batches = shape, batches
                out, grads = self.step(model, "cuda")
                counts.append(len(counted))
                found[reuse].append([t.clone() for t in (out.features, *grads)])
                del out, grads
        # A better kernel from the background may need another layout.
        self.assertEqual(min(counts[4:]), 0)
        self.assertLess(sum(counts[4:]), counts[0])
        for got, want in zip(found[True], found[False]):
            for a, b in zip(got, want):
                self.assertLess(error(a, b), 1e-3)

    def test_points_are_those_of_the_processor(self):
        draw = torch.Generator().manual_seed(0)
        points = torch.randint(-64, 64, (3000, 3), generator=draw) / 64
        batch = torch.randint(0, 2, (3000,), generator=draw).int()
        x = torch.randn(3000, 16, generator=draw)
        down = nn.PointConv(16, 32, 3, radius=0.25, voxel=0.125)
        back = nn.InversePointConv(32, 16, 3, radius=0.25)

        def run(device):
            for layer in (down, back):
                layer.zero_grad()
                layer.to(device)
            given = x.clone().to(device).requires_grad_()
            p = spctune.PointTensor(given, points.to(device), batch.to(device))
            q = down(p)
            y = back(q, p).features
            y.square().mean().backward()
            weights = [down.weight.grad, back.weight.grad]
            return q.points, [y, given.grad, *weights]

        at, want = run("cpu")
        want = [w.detach().clone() for w in want]
        there, got = run("cuda")
        self.assertTrue(torch.equal(there.cpu(), at))
        for a, b in zip(got, want):
            self.assertLess(error(a.detach(), b), 1e-3)

    def test_training_while_nearly_all_memory_is_held(self):
        model = backbones.unet(sp).cuda()
        want, grads = self.step(model, "cuda")
        grads = [g.clone() for g in grads]
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        held = torch.empty(int(free * 0.95), dtype=torch.uint8, device="cuda")
        for _ in range(3):
            self.c = self.c.clone()  # maps are made again
            got, others = self.step(model, "cuda")
            self.assertLess(error(got.features, want.features), 1e-4)
            for a, b in zip(others, grads):
                self.assertLess(error(a, b), 1e-3)
        del held

    def test_memory_that_is_used_up_is_said(self):
        layer = nn.Conv3d(4, 16, 3).cuda()
        side = torch.arange(48, dtype=torch.int32)
        cube = torch.cartesian_prod(side[:1], side, side, side).cuda()
        x = torch.randn(len(cube), 4, device="cuda")
        want = layer(spctune.SparseTensor(x, cube)).features.clone()
        at = cube.clone()
        torch.cuda.empty_cache()
        _, total = torch.cuda.mem_get_info()
        # A map of this scene takes 12 MB; 2 MB are free.
        limit = (torch.cuda.memory_reserved() + (2 << 20)) / total
        torch.cuda.set_per_process_memory_fraction(limit)
        try:
            blocked = []
            with self.assertRaisesRegex(
                (spctune.OutOfMemoryError, torch.OutOfMemoryError), "memory"
            ):
                # The memory in torch's cache has to be used up too.
                while True:
                    blocked.append(
                        torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
                    )
                    if len(blocked) > 1000:
                        self.fail("memory did not end")
            with self.assertRaisesRegex(
                (spctune.OutOfMemoryError, torch.OutOfMemoryError), "memory"
            ):
                layer(spctune.SparseTensor(x, at))
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        del blocked
        got = layer(spctune.SparseTensor(x, cube.clone())).features
        self.assertTrue(torch.equal(got, want))

    @unittest.skipUnless(
        importlib.util.find_spec("triton"), "inductor needs Triton"
    )
    def test_inductor_has_the_results_and_gradients_of_eager(self):
        torch._dynamo.reset()
        for make in (backbones.detector, backbones.unet):
            model = backbones.settle(make(sp)).cuda().eval()
            compiled = torch.compile(model, fullgraph=True)
            for seed in (0, 1):
                f, c, *more = backbones.scene(seed, rows=900 - 300 * seed)
                runs = []
                for run in (model, compiled):
                    model.zero_grad()
                    x = f.cuda().requires_grad_()
                    out = run(x, c.cuda(), *more)[-1]
                    out.features.square().mean().backward()
                    grads = [x.grad, *(p.grad for p in model.parameters())]
                    runs.append(
                        (out.features.detach(), *(g.clone() for g in grads))
                    )
                for got, want in zip(runs[1], runs[0]):
                    self.assertLess(error(got, want), 1e-3)

    def test_a_backward_pass_is_captured(self):
        layer = nn.Conv3d(4, 16, 3, bias=True).cuda()
        features = self.f.clone().requires_grad_()

        def step():
            layer.zero_grad()
            features.grad = None
            x = spctune.SparseTensor(features, self.c, batch_size=self.batches)
            layer(x).features.square().mean().backward()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()
            step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        grads = [layer.weight.grad, layer.bias.grad, features.grad]
        with torch.no_grad():
            layer.weight.mul_(2)
        graph.replay()
        torch.cuda.synchronize()
        got = [g.clone() for g in grads]
        step()
        want = [layer.weight.grad, layer.bias.grad, features.grad]
        for a, b in zip(got, want):
            self.assertLess(error(a, b), 1e-5)

    def test_layers_whose_maps_exist_are_captured(self):
        layer = nn.Conv3d(4, 16, 3).cuda()
        x = spctune.SparseTensor(self.f, self.c, batch_size=self.batches)
        with torch.no_grad():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                layer(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = layer(x).features
            self.f.mul_(2)
            graph.replay()
            torch.cuda.synchronize()
            self.assertTrue(torch.equal(y, layer(x).features))

    def test_autocast_with_a_scaler(self):
        model = backbones.unet(sp).cuda()
        scaler = torch.amp.GradScaler("cuda")
        optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
        losses = []
        for _ in range(10):
            optimiser.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                out = model(self.f, self.c, self.shape, self.batches)[-1]
                loss = out.features.float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            losses.append(loss.item())
        self.assertEqual(out.features.dtype, torch.float16)
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main()
