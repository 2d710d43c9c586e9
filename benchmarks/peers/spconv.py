# SPDX-License-Identifier: Apache-2.0
"""spconv 2. Its strided layers follow the footprint rule, which equals the
floor rule for kernels as long as the stride."""

import importlib
import importlib.metadata
from typing import Any, Dict, Optional

import torch
from torch import Tensor

from peers import Built, Unsupported

MODULE = "spconv.pytorch"


class Voxels(Built):
    def __init__(
        self, sp: Any, layer: Any, definition: Any, weight: Tensor
    ) -> None:
        self.sp, self.layer = sp, layer
        self.scene = definition.inputs
        low = self.scene[:, 1:].amin(0)
        self.low = torch.nn.functional.pad(low, (1, 0))
        if layer.kind == "conv":  # multiples of the stride stay multiples
            self.low[1:] -= self.low[1:] % layer.stride
        high = (self.scene - self.low).amax(0).tolist()
        self.shape = [(n // 16 + 1) * 16 for n in high[1:]]
        self.batches = high[0] + 1
        key = {"bias": False, "indice_key": "a"}
        if layer.kind == "subm":
            sizes = layer.sizes()
            padding = [k // 2 for k in sizes]
            self.conv = sp.SubMConv3d(
                layer.cin, layer.cout, sizes, padding=padding, **key
            )
        else:
            self.conv = sp.SparseConv3d(
                layer.cin, layer.cout, layer.k, layer.stride, **key
            )
        self.conv.to(weight.device, weight.dtype)
        self.conv.weight.data.copy_(weight)
        self.weight = self.conv.weight
        self.made: Any = None
        self.remap()

    def remap(self) -> None:
        self.indices, self.known = self.scene - self.low, {}

    def run(self, x: Tensor) -> Tensor:
        tensor = self.sp.SparseConvTensor(
            x, self.indices, self.shape, self.batches, indice_dict=self.known
        )
        self.made = self.conv(tensor)
        return self.made.features

    def step(self, x: Tensor, dy: Tensor) -> Any:
        if not x.is_cuda:
            raise Unsupported("gradients on a processor")
        return super().step(x, dy)

    def outputs(self) -> Optional[Tensor]:
        if self.layer.kind == "subm":
            return None
        low = self.low.clone()
        low[1:] = torch.div(low[1:], self.layer.stride, rounding_mode="floor")
        return self.made.indices + low


class Kit:
    """Layers of networks whose strided kernels are as long as the stride."""

    def __init__(self, sp: Any) -> None:
        self.sp, self.keys = sp, 0

    def tensor(
        self, features: Tensor, coords: Tensor, shape: Any, batches: int
    ) -> Any:
        self.levels: Dict[Any, Any] = {}
        return self.sp.SparseConvTensor(features, coords, shape, batches)

    def conv(self, cin: int, cout: int, k: Any, stride: Any, up: bool) -> Any:
        if stride == 1:
            return self.sp.SubMConv3d(cin, cout, k, padding=k // 2, bias=False)
        if k != stride:
            raise Unsupported(
                f"kernel {k} of stride {stride} by the floor rule"
            )
        kind = self.sp.SparseInverseConv3d if up else self.sp.SparseConv3d
        if up:
            return kind(cin, cout, k, indice_key="?", bias=False)
        return kind(cin, cout, k, stride, indice_key="?", bias=False)

    def load(self, conv: Any, weight: Tensor) -> None:
        conv.weight.data.copy_(weight)

    def grad(self, conv: Any) -> Tensor:
        return conv.weight.grad

    def call(self, conv: Any, x: Any, to: Any) -> Any:
        # The key of a map: the shape of its finer voxels, and its kernel.
        shape = x.spatial_shape if to is None else to.spatial_shape
        conv.indice_key = f"{list(shape)} {conv.kernel_size} {conv.subm}"
        return conv(x)

    def features(self, x: Any) -> Tensor:
        return x.features

    def replace(self, x: Any, features: Tensor) -> Any:
        return x.replace_feature(features)

    def coords(self, x: Any) -> Tensor:
        return x.indices


def allow_tf32(package: str, allowed: bool) -> None:
    """Sets the engine's own switch; f32 layers use the tensor cores then."""
    constants = importlib.import_module(f"{package}.constants")
    if hasattr(constants, "SPCONV_ALLOW_TF32"):
        constants.SPCONV_ALLOW_TF32 = allowed


class Engine:
    module, package = MODULE, "spconv"

    def __init__(self, device: Any) -> None:
        self.sp = importlib.import_module(self.module)
        names = importlib.metadata.packages_distributions()
        package = names.get(self.package, [self.package])[0]
        self.version = importlib.metadata.version(package)

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        if layer.groups != 1:
            raise Unsupported("groups")
        if layer.kind not in ("subm", "conv"):
            raise Unsupported(f"'{layer.kind}' layers")
        if layer.kind == "conv" and layer.k != layer.stride:
            raise Unsupported(
                "the floor rule for other kernels than the stride"
            )
        allow_tf32(self.package, layer.dtype == "tf32")
        return Voxels(self.sp, layer, definition, weight)

    def kit(self) -> Kit:
        return Kit(self.sp)
