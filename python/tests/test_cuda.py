# SPDX-License-Identifier: Apache-2.0
"""Layers on a GPU against the same layers on the processor."""

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
    """The largest difference over the largest value."""
    want = want.double().cpu()
    size = max(want.abs().max().item(), 1e-30)
    return (got.double().cpu() - want).abs().max().item() / size


class Cuda(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        # In full precision, as the processor has it.
        kept = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        self.addCleanup(setattr, torch.backends.cudnn, "allow_tf32", kept)
        f, c, self.shape, self.batches = backbones.scene(rows=4000)
        self.f, self.c = f.cuda(), c.cuda()

    def step(self, model, device):
        model.zero_grad()
        x = self.f.to(device).requires_grad_()
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
        layer(x)  # whatever is made once
        before = torch.cuda.memory_allocated()
        y = layer(
            spctune.SparseTensor(
                self.f, self.c.clone(), batch_size=self.batches
            )
        )
        self.assertGreater(torch.cuda.memory_allocated(), before)
        del y
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
