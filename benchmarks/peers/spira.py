# SPDX-License-Identifier: Apache-2.0
"""Spira: f16, one batch element, forward passes. Coordinates are packed and
sorted first; 12 bits of x and y and 8 bits of z, or 64 bits in all."""

import importlib.metadata
from typing import Any, Optional

import torch
from torch import Tensor

from peers import Built, Unsupported, need_gpu

# Its dataflows: output-stationary, weight-stationary, hybrids of t = 1 to 3.
DATAFLOWS = {"os": 0, "ws": 1, "t=1": 3, "t=2": 5, "t=3": 7}


class Voxels(Built):
    def __init__(
        self,
        spira: Any,
        dataflow: int,
        layer: Any,
        definition: Any,
        weight: Any,
    ) -> None:
        self.spira, self.layer, self.made = spira, layer, None
        coords = definition.inputs
        self.low = torch.nn.functional.pad(coords[:, 1:].amin(0), (1, 0))
        self.low[1:] -= self.low[1:] % layer.stride
        self.scene = (coords - self.low)[:, 1:].contiguous()
        self.wide = bool((self.scene.amax(0) >= self.limits()).any())
        self.conv = spira.nn.SparseConv(
            layer.cin, layer.cout, kernel_size=layer.k, stride=layer.stride
        ).to(weight.device, weight.dtype)
        flat = weight.permute(1, 2, 3, 4, 0)
        self.conv.kernel.data.copy_(flat.reshape(self.conv.kernel.shape))
        self.weight, self.cache = self.conv.kernel, spira.nn.KernelMapCache()
        spira.set_kernel_map_cache(module=self.conv, cache=self.cache)
        self.conv._tunable_config["map_dataflow"] = dataflow
        self.remap()

    def limits(self) -> Tensor:
        most = torch.tensor([4096, 4096, 256], device=self.scene.device)
        return most - self.layer.k

    def remap(self) -> None:
        self.cache.reset()
        flat, rows = self.spira.nn.functional.flat_sort(self.scene, self.wide)
        self.flat, self.rows = flat.contiguous(), rows

    def run(self, x: Tensor) -> Tensor:
        self.made = self.conv(self.spira.SparseTensor(self.flat, x))
        return self.made._features

    def unpacked(self, flat: Tensor) -> Tensor:
        xyz = self.spira.nn.functional.unflatten(flat)
        return torch.nn.functional.pad(xyz.int(), (1, 0)) + self.low

    def inputs(self) -> Optional[Tensor]:
        return self.unpacked(self.flat)

    def outputs(self) -> Optional[Tensor]:
        stride = self.layer.stride
        made = self.unpacked(self.made._coordinates)  # type: ignore[attr-defined]
        made[:, 1:] = torch.div(made[:, 1:], stride, rounding_mode="floor")
        return made

    def step(self, x: Tensor, dy: Tensor) -> Any:
        raise Unsupported("backward passes")


class Engine:
    def __init__(self, device: Any, dataflow: str = "os") -> None:
        need_gpu(device, "Spira")
        import spira
        import spira.nn
        import spira.nn.functional

        self.spira, self.dataflow, self.device = spira, dataflow, device
        self.version = importlib.metadata.version("spira")

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        plain = layer.groups == 1 and layer.axes == 3
        if not plain or layer.kind not in ("subm", "conv"):
            raise Unsupported(f"'{layer.kind}' layers, groups, flat kernels")
        if int(definition.inputs[:, 0].max()) > 0:
            raise Unsupported("several batch elements")
        if layer.dtype != "f16":
            raise Unsupported(layer.dtype)
        which = DATAFLOWS[self.dataflow]
        return Voxels(self.spira, which, layer, definition, weight)
