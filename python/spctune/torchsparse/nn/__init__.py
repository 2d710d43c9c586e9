# SPDX-License-Identifier: Apache-2.0
"""The modules of torchsparse.nn."""

import math
from typing import Any, Callable

import torch
from torch import Tensor, nn

from ..._lib import InvalidError
from ..tensor import SparseTensor, ntuple
from . import functional
from .functional import Sizes

__all__ = [
    "BatchNorm",
    "Conv3d",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "InstanceNorm",
    "LeakyReLU",
    "ReLU",
    "SiLU",
    "fapply",
]


def fapply(
    input: SparseTensor, fn: Callable[..., Tensor], *args: Any, **kwargs: Any
) -> SparseTensor:
    """Returns the same voxels with fn(features)."""
    return input.like(fn(input.feats, *args, **kwargs))


class Conv3d(nn.Module):
    """A convolution; `kernel` is [K, cin, cout], or [cin, cout] for one offset
    and stride 1.

    transposed  returns to the voxels of the layer with the same kernel and
                stride
    generative  with transposed: makes the voxels of its outputs
    config      not used

    InvalidError: a generative layer that is not transposed.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes = 3,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        bias: bool = False,
        transposed: bool = False,
        generative: bool = False,
        config: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = ntuple(kernel_size, 3)
        self.stride = ntuple(stride, 3)
        self.dilation = ntuple(dilation, 3)
        # Odd kernels of stride 1 are centred, whatever the padding is.
        self.padding = tuple(
            (k - 1) // 2 if k % 2 == 1 and s == 1 else p
            for k, s, p in zip(
                self.kernel_size, self.stride, ntuple(padding, 3)
            )
        )
        self.transposed, self.generative = transposed, generative
        if generative and not transposed:
            raise InvalidError("a generative layer is transposed as well")
        self.kernel_volume = math.prod(self.kernel_size)
        shape = (in_channels, out_channels)
        if self.kernel_volume > 1 or self.stride != (1, 1, 1):
            shape = (self.kernel_volume, *shape)  # type: ignore[assignment]
        self.kernel = nn.Parameter(torch.zeros(shape))
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises weights and bias as TorchSparse does."""
        fan = self.out_channels if self.transposed else self.in_channels
        bound = 1 / math.sqrt(fan * self.kernel_volume)
        nn.init.uniform_(self.kernel, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Returns the layer's outputs."""
        return functional.conv3d(
            input,
            self.kernel,
            self.kernel_size,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            transposed=self.transposed,
            generative=self.generative,
        )

    def extra_repr(self) -> str:
        words = (
            f"{self.in_channels}, {self.out_channels}, "
            f"kernel_size={self.kernel_size}"
        )
        if self.stride != (1, 1, 1):
            words += f", stride={self.stride}"
        if self.dilation != (1, 1, 1):
            words += f", dilation={self.dilation}"
        for name in ("transposed", "generative"):
            if getattr(self, name):
                words += f", {name}=True"
        return words


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over all voxels."""

    def forward(self, input: SparseTensor) -> SparseTensor:  # type: ignore[override]
        return fapply(input, super().forward)


class InstanceNorm(nn.InstanceNorm1d):
    """Applies nn.InstanceNorm1d to the features."""

    def forward(self, input: SparseTensor) -> SparseTensor:  # type: ignore[override]
        return fapply(input, super().forward)


class GroupNorm(nn.GroupNorm):
    """Group normalisation over the voxels of each batch element."""

    def forward(self, input: SparseTensor) -> SparseTensor:  # type: ignore[override]
        feats, batch = input.feats, input.coords[:, 0]
        out = torch.zeros_like(feats)
        for k in batch.unique().tolist():
            rows = batch == k
            one = feats[rows].t()[None]
            out[rows] = super().forward(one)[0].t()
        return input.like(out)


class ReLU(nn.ReLU):
    """max(x, 0)."""

    def forward(self, input: SparseTensor) -> SparseTensor:  # type: ignore[override]
        return fapply(input, super().forward)


class LeakyReLU(nn.LeakyReLU):
    """x, below zero times the slope."""

    def forward(self, input: SparseTensor) -> SparseTensor:  # type: ignore[override]
        return fapply(input, super().forward)


class SiLU(nn.SiLU):
    """x * sigmoid(x)."""

    def forward(self, input: SparseTensor) -> SparseTensor:  # type: ignore[override]
        return fapply(input, super().forward)


class GlobalAvgPool(nn.Module):
    """[batch, channels]: the mean over each batch element."""

    def forward(self, input: SparseTensor) -> Tensor:
        return functional.global_avg_pool(input)


class GlobalMaxPool(nn.Module):
    """[batch, channels]: the maximum over each batch element."""

    def forward(self, input: SparseTensor) -> Tensor:
        return functional.global_max_pool(input)
