# SPDX-License-Identifier: Apache-2.0
"""pointelligence, the code of PointCNN++'s authors: layers of points."""

import importlib
import importlib.metadata
import os
import sys
from functools import partial
from typing import Any, Tuple

import torch
from torch import Tensor

from peers import Built, Unsupported, need_gpu

# The radius over the edge of a cell of the kernel for kernels of 3: the cube
# of the radius has three cells along each axis, as in spctune.
SCALE = 1.5


class Points(Built):
    """A layer at all points, of kernel 3."""

    def __init__(
        self, layers: Any, points: Tensor, radius: float, weight: Tensor
    ) -> None:
        self.layers, self.points, self.radius = layers, points, radius
        cout, cin = weight.shape[0], weight.shape[4]
        self.conv = layers.PointConv3d(cin, cout, 3, bias=False)
        self.conv.to(weight.device, weight.dtype)
        flat = weight.permute(1, 2, 3, 4, 0).reshape(self.conv.weight.shape)
        self.conv.weight.data.copy_(flat)
        self.weight = self.conv.weight
        self.sizes = torch.tensor([len(points)], device=points.device)
        self.inds = torch.zeros(
            len(points), dtype=torch.long, device=points.device
        )
        self.remap()

    def remap(self) -> None:
        self.triplets: Any = None

    def run(self, x: Tensor) -> Tensor:
        if self.triplets is None:
            self.triplets = self.layers.build_triplets(
                points=self.points,
                sample_inds=self.inds,
                sample_sizes=self.sizes,
                neighbor_radius=self.radius,
                kernel_indexer=partial(self.layers.voxelize_3d, 3),
                radius_scaler=SCALE,
            )
        i, j, k, _ = self.triplets
        return self.conv(x, i, j, k, len(self.points))

    def ours(self, grad: Tensor) -> Tensor:
        _, _, cin, cout = grad.shape
        return grad.reshape(3, 3, 3, cin, cout).permute(4, 0, 1, 2, 3)


def imported() -> Tuple[Any, Any]:
    """Returns its modules `layers` and `models.resnet`. Its package `models`
    has the name of a module of this folder, which therefore steps aside."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path, kept = list(sys.path), sys.modules.pop("models", None)
    sys.path[:] = [p for p in path if os.path.abspath(p) != here]
    try:
        layers = importlib.import_module("layers")
        return layers, importlib.import_module("models.resnet")
    finally:
        sys.path[:] = path
        if kept is not None:
            sys.modules["models"] = kept


class Engine:
    def __init__(self, device: Any) -> None:
        need_gpu(device, "pointelligence")
        self.layers, resnet = imported()
        self.resnet18 = resnet.resnet18
        try:
            self.version = importlib.metadata.version("pointelligence")
        except importlib.metadata.PackageNotFoundError:
            self.version = "of the sources"

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        if layer.kind != "points" or layer.k != 3:
            raise Unsupported("layers of voxels, or kernels other than 3")
        return Points(self.layers, definition.inputs, definition.radius, weight)
