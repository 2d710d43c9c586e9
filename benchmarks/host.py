# SPDX-License-Identifier: Apache-2.0
"""host.py - host time of one eager layer of 16 to 16 channels on 8 voxels,
whose map and plan are known. python.py runs it; it prints JSON: microseconds a
call, the least of 20 loops of 500 calls. It waits for the device only between
loops.
"""

import argparse
import json
import time
from typing import Any, Callable, Dict

import torch

import spctune
import spctune.spconv as sp


def per_call(call: Callable[[], Any], wait: Callable[[], Any]) -> float:
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(500):
            call()
        taken.append((time.perf_counter() - start) / 500)
        wait()
    return 1e6 * min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    device = torch.device(parser.parse_args().device)
    gpu = device.type == "cuda"
    wait = torch.cuda.synchronize if gpu else (lambda: None)
    kind = torch.float16 if gpu else torch.float32
    coords = torch.tensor([[0, 0, 0, i] for i in range(8)], dtype=torch.int32)
    features = torch.randn(8, 16, dtype=kind, device=device)
    layer = sp.SubMConv3d(16, 16, 3, bias=False).to(device, kind)
    linear = torch.nn.Linear(16, 16, bias=False).to(device, kind)
    x = sp.SparseConvTensor(features, coords.to(device), [8, 8, 8], 1)
    inputs = features.clone().requires_grad_()
    with_grad = sp.SparseConvTensor(inputs, x.indices, [8, 8, 8], 1)
    grad = torch.ones_like(features)
    spctune.options(background=False)

    def backward(out: torch.Tensor, weight: Any) -> None:
        torch.autograd.grad(out, (inputs, weight), grad)

    found: Dict[str, float] = {}
    with torch.no_grad():
        found["forward"] = per_call(lambda: layer(x), wait)
        found["linear"] = per_call(lambda: linear(features), wait)
        spctune.options(frozen=True)
        found["forward, frozen"] = per_call(lambda: layer(x), wait)
        spctune.options(frozen=False)
    found["forward with gradients"] = per_call(lambda: layer(with_grad), wait)
    both = per_call(
        lambda: backward(layer(with_grad).features, layer.weight), wait
    )
    found["backward"] = both - found["forward with gradients"]
    forward = per_call(lambda: linear(inputs), wait)
    both = per_call(lambda: backward(linear(inputs), linear.weight), wait)
    found["linear, backward"] = both - forward
    print(json.dumps(found))


if __name__ == "__main__":
    main()
