# SPDX-License-Identifier: Apache-2.0
"""WarpConvNet. Its weights are [offsets, cin, cout], or [offsets, groups,
cin / groups, cout / groups]; the last axis of the kernel is the fastest."""

import importlib.metadata
import math
from typing import Any, Optional

import torch
from torch import Tensor

from peers import Built, Unsupported, need_gpu


class Voxels(Built):
    def __init__(
        self, parts: Any, layer: Any, definition: Any, weight: Tensor
    ) -> None:
        self.voxels = parts[0]
        conv = parts[layer.axes - 1]
        self.layer, self.made = layer, None
        coords = definition.inputs
        # Rows of a batch element are neighbours.
        self.rows = torch.argsort(coords[:, 0], stable=True)
        self.scene = coords[self.rows, 1 : 1 + layer.axes].contiguous()
        counts = torch.bincount(coords[:, 0].long())
        self.offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        self.sorted = coords[self.rows]
        # With a stride its generative layers coarsen; transposed ones refine.
        grows = layer.kind in ("generative", "expand")
        more = {"generative": True} if grows else {}
        if layer.kind == "generative" and layer.stride > 1:
            more["transposed"] = True
        if layer.groups > 1:
            more["groups"] = layer.groups
        self.conv = conv(
            layer.cin,
            layer.cout,
            kernel_size=layer.k,
            stride=layer.stride,
            bias=False,
            **more,
        ).to(weight.device, weight.dtype)
        g, k = layer.groups, math.prod(layer.sizes())
        flat = weight.reshape(g, layer.cout // g, k, layer.cin // g)
        flat = flat.permute(2, 0, 3, 1)
        self.conv.weight.data.copy_(flat.reshape(self.conv.weight.shape))
        self.weight = self.conv.weight
        self.remap()

    def remap(self) -> None:
        self.tensor: Any = None

    def run(self, x: Tensor) -> Tensor:
        if self.tensor is None:
            self.tensor = self.voxels(
                batched_coordinates=self.scene,
                batched_features=x,
                offsets=self.offsets,
            )
        self.made = self.conv(self.tensor.replace(batched_features=x))
        return self.made.feature_tensor

    def ours(self, grad: Tensor) -> Tensor:
        layer, g = self.layer, self.layer.groups
        cube = grad.reshape(-1, g, layer.cin // g, layer.cout // g)
        flat = cube.permute(1, 3, 0, 2)
        return flat.reshape(layer.shape())

    def inputs(self) -> Optional[Tensor]:
        return self.sorted

    def outputs(self) -> Optional[Tensor]:
        made = self.made.batch_indexed_coordinates  # type: ignore[attr-defined]
        return torch.nn.functional.pad(made, (0, 3 - self.layer.axes))


class Engine:
    def __init__(self, device: Any) -> None:
        need_gpu(device, "WarpConvNet")
        from warpconvnet.geometry.types.voxels import Voxels as Tensors
        from warpconvnet.nn.modules.sparse_conv import (
            SparseConv2d,
            SparseConv3d,
        )

        self.parts = Tensors, SparseConv2d, SparseConv3d
        self.version = importlib.metadata.version("warpconvnet")

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        if layer.kind not in ("subm", "conv", "generative", "expand"):
            raise Unsupported(f"'{layer.kind}' layers alone")
        return Voxels(self.parts, layer, definition, weight)
