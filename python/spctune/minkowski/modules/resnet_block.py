# SPDX-License-Identifier: Apache-2.0
"""The blocks of residual networks (He and others, CVPR 2016), with the names of
parameters that MinkowskiEngine's checkpoints have."""

from typing import Any

from torch import nn

from ..features import MinkowskiBatchNorm, MinkowskiReLU  # type: ignore[attr-defined]
from ..layers import MinkowskiConvolution
from ..tensor import SparseTensor

__all__ = ["BasicBlock", "Bottleneck"]


class _Block(nn.Module):
    expansion = 1

    def __init__(
        self,
        kernels: Any,
        widths: Any,
        stride: int,
        dilation: int,
        downsample: Any,
        bn_momentum: float,
        dimension: int,
    ) -> None:
        super().__init__()
        strided = len(kernels) - 2  # the layer before the last has the stride
        for i, kernel in enumerate(kernels):
            wide = kernel > 1
            conv = MinkowskiConvolution(
                widths[i],
                widths[i + 1],
                kernel_size=kernel,
                stride=stride if i == strided else 1,
                dilation=dilation if wide else 1,
                dimension=dimension,
            )
            norm = MinkowskiBatchNorm(widths[i + 1], momentum=bn_momentum)
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, f"norm{i + 1}", norm)
        self.relu = MinkowskiReLU(inplace=True)
        self.downsample = downsample
        self._count = len(kernels)

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Returns the block's outputs."""
        residual, out = x, x
        for i in range(1, self._count + 1):
            out = getattr(self, f"norm{i}")(getattr(self, f"conv{i}")(out))
            if i < self._count:
                out = self.relu(out)
        if self.downsample is not None:
            residual = self.downsample(x)
        joined: SparseTensor = self.relu(out + residual)
        return joined


class BasicBlock(_Block):
    """A block of two layers with kernel 3; the first has the stride."""

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        dilation: int = 1,
        downsample: Any = None,
        bn_momentum: float = 0.1,
        dimension: int = -1,
    ) -> None:
        super().__init__(
            (3, 3),
            (inplanes, planes, planes),
            stride,
            dilation,
            downsample,
            bn_momentum,
            dimension,
        )


class Bottleneck(_Block):
    """A block of layers with kernels 1, 3 and 1; the second has the stride."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        dilation: int = 1,
        downsample: Any = None,
        bn_momentum: float = 0.1,
        dimension: int = -1,
    ) -> None:
        super().__init__(
            (1, 3, 1),
            (inplanes, planes, planes, planes * self.expansion),
            stride,
            dilation,
            downsample,
            bn_momentum,
            dimension,
        )
