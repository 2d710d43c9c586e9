# SPDX-License-Identifier: Apache-2.0
"""Tests DistributedDataParallel: two processes with half of a batch each learn
the same weights as one process with the whole batch."""

import os
import tempfile
import unittest

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None
import torch.distributed as dist

if not dist.is_available():
    raise unittest.SkipTest("PyTorch was built without torch.distributed")

import dense

import spctune
from spctune import nn

STEPS, EXTENT = 3, (10, 10, 10)


def model():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv3d(8, 8, 3),
        nn.BatchNorm(8),
        torch.nn.ReLU(),
        nn.Conv3d(8, 16, 2, stride=2),
        nn.Conv3d(16, 16, 3, bias=True),
    )


def loss_of(net, step, half, device):
    """Returns the loss of a half of a step's batch."""
    seed = 2 * step + half
    coords = dense.scene(300, 10, 2, seed=seed)
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(len(coords), 8, generator=draw)
    given = spctune.SparseTensor(x.to(device), coords.to(device), EXTENT, 2)
    return net(given).features.square().mean()


def learn(net, halves, device):
    """Returns the weights after some steps on halves of the batches."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # threads change the order of sums
    spctune.options(background=False)
    optimiser = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for step in range(STEPS):
        optimiser.zero_grad()
        # DDP divides the sum of gradients by the number of processes.
        for half in halves:
            (loss_of(net, step, half, device) / len(halves)).backward()
        optimiser.step()
    return [p.detach().cpu() for p in net.parameters()]


def process(rank, kind, folder):
    device = torch.device(kind, rank) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=2,
    )
    net = model().to(device)
    of_device = [rank] if kind == "cuda" else None
    # Raises an error if a parameter gets no gradient, or a gradient that DDP
    # does not see.
    parallel = torch.nn.parallel.DistributedDataParallel(net, of_device)
    torch.save(learn(parallel, [rank], device), f"{folder}/{rank}")
    dist.destroy_process_group()


class Ddp(unittest.TestCase):
    def check(self, kind):
        kept = torch.are_deterministic_algorithms_enabled()
        self.addCleanup(torch.use_deterministic_algorithms, kept)
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        options = spctune.options()
        self.addCleanup(lambda: spctune.options(**options))
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(process, (kind, folder), nprocs=2)
            got = [torch.load(f"{folder}/{rank}") for rank in range(2)]
        start = [p.detach().clone() for p in model().parameters()]
        want = learn(model().to(kind), [0, 1], torch.device(kind))
        for first, second, one, before in zip(*got, want, start):
            self.assertTrue(torch.equal(first, second))
            self.assertTrue(torch.equal(first, one))
            if first.dim() > 1:  # the weights have changed
                self.assertFalse(torch.equal(first, before))

    @unittest.skipUnless(dist.is_gloo_available(), "PyTorch has no gloo")
    def test_two_processes_learn_what_one_does(self):
        self.check("cpu")

    @unittest.skipUnless(
        torch.cuda.device_count() >= 2 and dist.is_nccl_available(),
        "DDP on GPUs needs two of them, and NCCL",
    )
    def test_two_gpus_learn_what_one_does(self):
        # cuBLAS is deterministic only with this workspace.
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        self.check("cuda")


if __name__ == "__main__":
    unittest.main()
