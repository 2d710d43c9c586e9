# SPDX-License-Identifier: Apache-2.0
"""spctune itself, through its layers for PyTorch."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

import spctune
from peers import Built
from spctune import nn, ops
from spctune.points import Place


class Points(Built):
    """A layer at all points."""

    def __init__(self, layer: Any, definition: Any, weight: Tensor) -> None:
        self.points = definition.inputs
        self.conv = nn.PointConv(
            layer.cin,
            layer.cout,
            layer.k,
            radius=definition.radius,
            bias=False,
            device=weight.device,
            dtype=weight.dtype,
        )
        self.conv.weight.data.copy_(weight)
        self.weight = self.conv.weight
        self.remap()

    def remap(self) -> None:
        self.place = Place(self.points, None)

    def run(self, x: Tensor) -> Tensor:
        spctune.options(frozen=not torch.is_grad_enabled())
        return self.conv(spctune.PointTensor.at(self.place, x)).features


# The words of a layer that its map depends on.
GEOMETRY = ("k", "stride", "rule")


class Voxels(Built):
    def __init__(self, layer: Any, definition: Any, weight: Tensor) -> None:
        name, *words = layer.words().split(",")
        geometry = [w for w in words if w.split("=")[0] in GEOMETRY]
        self.is_up = layer.kind == "up"
        self.moves = layer.kind in ("conv", "generative", "expand")
        self.words = ",".join([name, *geometry])
        # The map of an inverse layer is that of its strided layer, on the
        # voxels of the results.
        self.scene = definition.outputs if self.is_up else definition.inputs
        self.weight = weight.detach().clone().requires_grad_()
        self.packs = ops.Packs()
        self.remap()

    def remap(self) -> None:
        self.coords = self.scene.clone()

    def map(self) -> Tuple[Any, Tensor]:
        """Returns the map, and the voxels that it makes."""
        if not self.is_up:
            return ops.kernel_map(self.coords, self.words)
        forward = self.words.replace("inverse,", "conv,")
        m, coarse = ops.kernel_map(self.coords, forward)
        return ops.inverse_map(m, forward), coarse

    def run(self, x: Tensor) -> Tensor:
        m, made = self.map()
        rows = len(self.coords if self.is_up else made)
        # Packed weights are kept only if no gradient is asked for.
        spctune.options(frozen=not torch.is_grad_enabled())
        return ops.conv(x, self.weight, m, self.words, rows, None, self.packs)

    def inputs(self) -> Optional[Tensor]:
        return self.map()[1] if self.is_up else None

    def outputs(self) -> Optional[Tensor]:
        return self.map()[1] if self.moves else None


class Kit:
    """Layers of whole networks."""

    def tensor(
        self, features: Tensor, coords: Tensor, shape: Any, batches: int
    ) -> Any:
        return spctune.SparseTensor(features, coords)

    def conv(self, cin: int, cout: int, k: Any, stride: Any, up: bool) -> Any:
        if up:
            return nn.InverseConv3d(cin, cout, k, bias=False)
        return nn.Conv3d(cin, cout, k, stride, bias=False)

    def load(self, conv: Any, weight: Tensor) -> None:
        conv.weight.data.copy_(weight)

    def grad(self, conv: Any) -> Tensor:
        return conv.weight.grad

    def call(self, conv: Any, x: Any, to: Any) -> Any:
        return conv(x) if to is None else conv(x, to)

    def features(self, x: Any) -> Tensor:
        return x.features

    def replace(self, x: Any, features: Tensor) -> Any:
        return x.replace(features)

    def coords(self, x: Any) -> Tensor:
        return x.coords


class Engine:
    def __init__(self, device: Any) -> None:
        self.version = spctune.__version__

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        made = Points if layer.kind == "points" else Voxels
        return made(layer, definition, weight)

    def kit(self) -> Kit:
        return Kit()
