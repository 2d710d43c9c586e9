# SPDX-License-Identifier: Apache-2.0
"""Sparse layers by dense convolution. The examples compare with these layers if
spconv is not installed. They have the part of spconv's interface that the
models of the examples use. Memory grows with the volume of a scene, so scenes
must be small.
"""

from typing import Any, Dict, Optional, Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Three = Union[int, Sequence[int]]


def three(value: Three) -> Tuple[int, ...]:
    return (value,) * 3 if isinstance(value, int) else tuple(value)


class SparseConvTensor:
    """features [rows, channels]; indices int32 [rows, 4]: batch and three
    axes."""

    def __init__(
        self,
        features: Tensor,
        indices: Tensor,
        spatial_shape: Sequence[int],
        batch_size: int,
        kept: Optional[Dict[Any, Any]] = None,
    ) -> None:
        self.features, self.indices = features, indices
        self.spatial_shape, self.batch_size = list(spatial_shape), batch_size
        # The inputs of strided layers by key, for the layers that invert them.
        self.kept: Dict[Any, Any] = {} if kept is None else kept

    def replace_feature(self, features: Tensor) -> "SparseConvTensor":
        return SparseConvTensor(
            features,
            self.indices,
            self.spatial_shape,
            self.batch_size,
            self.kept,
        )

    def places(self) -> Tuple[Tensor, ...]:
        return tuple(self.indices.long().unbind(1))

    def dense(self) -> Tensor:
        """[batches, channels, three axes]"""
        channels = self.features.shape[1]
        volume = self.features.new_zeros(
            self.batch_size, *self.spatial_shape, channels
        )
        volume = volume.index_put(self.places(), self.features)
        return volume.permute(0, 4, 1, 2, 3)


class SparseModule(nn.Module):
    pass


class SparseSequential(nn.Sequential):
    def forward(self, x: Any) -> Any:
        for module in self:
            if isinstance(module, (SparseModule, SparseSequential)):
                x = module(x)
            else:
                x = x.replace_feature(module(x.features))
        return x


class _Conv(SparseModule):
    """weight [cout, three axes, cin]"""

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Three,
        stride: Three = 1,
        padding: Three = 0,
        bias: bool = True,
        indice_key: Optional[str] = None,
    ) -> None:
        super().__init__()
        self.size, self.key = three(kernel_size), indice_key
        self.stride, self.padding = three(stride), three(padding)
        self.weight = nn.Parameter(torch.randn(cout, *self.size, cin))
        self.bias = nn.Parameter(torch.zeros(cout)) if bias else None

    def finish(
        self, volume: Tensor, indices: Tensor, x: SparseConvTensor
    ) -> SparseConvTensor:
        places = tuple(indices.long().unbind(1))
        rows = volume.permute(0, 2, 3, 4, 1)[places]
        shape = list(volume.shape[2:])
        return SparseConvTensor(rows, indices, shape, x.batch_size, x.kept)


class SubMConv3d(_Conv):
    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        padding = [k // 2 for k in self.size]
        weight = self.weight.permute(0, 4, 1, 2, 3)
        volume = F.conv3d(x.dense(), weight, self.bias, padding=padding)
        return self.finish(volume, x.indices, x)


class SparseConv3d(_Conv):
    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        if self.key is not None:
            x.kept[self.key] = x
        steps = {"stride": self.stride, "padding": self.padding}
        weight = self.weight.permute(0, 4, 1, 2, 3)
        volume = F.conv3d(x.dense(), weight, self.bias, **steps)
        ones = x.replace_feature(x.features.new_ones(len(x.indices), 1))
        counts = F.conv3d(
            ones.dense().float(),
            torch.ones(1, 1, *self.size, device=weight.device),
            **steps,
        )
        return self.finish(volume, (counts[:, 0] > 0.5).nonzero(), x)


class SparseInverseConv3d(_Conv):
    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        fine = x.kept[self.key]
        if fine.spatial_shape != [2 * s for s in x.spatial_shape]:
            raise ValueError("only layers of size 2 and stride 2 are inverted")
        weight = self.weight.permute(4, 0, 1, 2, 3)
        volume = F.conv_transpose3d(x.dense(), weight, self.bias, stride=2)
        return self.finish(volume, fine.indices, fine)
