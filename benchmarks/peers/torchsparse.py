# SPDX-License-Identifier: Apache-2.0
"""TorchSparse++. Its kernels are [offsets, cin, cout]; the first axis of an odd
kernel is the fastest."""

import importlib.metadata
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from peers import Built, Unsupported, need_gpu


def its(weight: Tensor) -> Tensor:
    """[cout, x, y, z, cin] as TorchSparse++ stores it."""
    k = weight.shape[1:4]
    odd = all(n % 2 for n in k)
    order = (3, 2, 1, 4, 0) if odd else (1, 2, 3, 4, 0)
    return weight.permute(*order).reshape(-1, weight.shape[4], weight.shape[0])


def ours(kernel: Tensor, size: Sequence[int]) -> Tensor:
    """[offsets, cin, cout] as [cout, x, y, z, cin]."""
    odd = all(n % 2 for n in size)
    sizes = list(size)[::-1] if odd else list(size)
    cube = kernel.reshape(*sizes, *kernel.shape[-2:])
    return cube.permute(*((4, 2, 1, 0, 3) if odd else (4, 0, 1, 2, 3)))


class Kit:
    def __init__(self, ts: Any, spnn: Any) -> None:
        self.ts, self.spnn = ts, spnn

    def tensor(
        self, features: Tensor, coords: Tensor, shape: Any, batches: int
    ) -> Any:
        return self.ts.SparseTensor(
            features, coords, 1, spatial_range=(batches, *shape)
        )

    def conv(self, cin: int, cout: int, k: Any, stride: Any, up: bool) -> Any:
        return self.spnn.Conv3d(cin, cout, k, stride, transposed=up)

    def load(self, conv: Any, weight: Tensor) -> None:
        conv.kernel.data.copy_(its(weight).reshape(conv.kernel.shape))

    def grad(self, conv: Any) -> Tensor:
        return ours(conv.kernel.grad, conv.kernel_size)

    def call(self, conv: Any, x: Any, to: Any) -> Any:
        return conv(x)

    def features(self, x: Any) -> Tensor:
        return x.feats

    def replace(self, x: Any, features: Tensor) -> Any:
        made = self.ts.SparseTensor(
            features, x.coords, x.stride, spatial_range=x.spatial_range
        )
        made._caches = x._caches
        return made

    def coords(self, x: Any) -> Tensor:
        return x.coords


class Voxels(Built):
    def __init__(
        self, kit: Kit, layer: Any, definition: Any, weight: Tensor
    ) -> None:
        self.kit, self.layer = kit, layer
        self.low = torch.nn.functional.pad(
            definition.inputs[:, 1:].amin(0), (1, 0)
        )
        self.low[1:] -= self.low[1:] % layer.stride
        self.scene = (definition.inputs - self.low).contiguous()
        high = self.scene.amax(0).tolist()
        self.batches, self.shape = high[0] + 1, [n + 1 for n in high[1:]]
        self.conv = kit.conv(
            layer.cin, layer.cout, layer.sizes(), layer.stride, False
        )
        self.conv.to(weight.device, weight.dtype)
        kit.load(self.conv, weight)
        self.weight, self.made = self.conv.kernel, None
        self.remap()

    def remap(self) -> None:
        self.tensor = self.kit.tensor(
            torch.empty(0), self.scene, self.shape, self.batches
        )

    def run(self, x: Tensor) -> Tensor:
        self.tensor.feats = x
        self.made = self.conv(self.tensor)
        return self.made.feats

    def ours(self, grad: Tensor) -> Tensor:
        return ours(grad, self.layer.sizes())

    def outputs(self) -> Optional[Tensor]:
        if self.layer.kind == "subm":
            return None
        low = self.low.clone()
        low[1:] = torch.div(low[1:], self.layer.stride, rounding_mode="floor")
        return self.made.coords + low  # type: ignore[attr-defined]


class Engine:
    def __init__(self, device: Any) -> None:
        need_gpu(device, "TorchSparse++")
        import torchsparse
        import torchsparse.nn as spnn
        from torchsparse.nn import functional as F

        # For the floor rule, which "hashmap_on_the_fly" does not have.
        config = F.conv_config.get_default_conv_config()
        config.downsample_mode, config.kmap_mode = "minkowski", "hashmap"
        F.conv_config.set_global_conv_config(config)
        torchsparse.backends.benchmark = True
        self.ts, self.spnn = torchsparse, spnn
        self.version = importlib.metadata.version("torchsparse")

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        if layer.groups != 1 or layer.kind not in ("subm", "conv"):
            raise Unsupported(f"'{layer.kind}' layers, or groups")
        return Voxels(self.kit(), layer, definition, weight)

    def kit(self) -> Kit:
        return Kit(self.ts, self.spnn)
