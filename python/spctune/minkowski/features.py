# SPDX-License-Identifier: Apache-2.0
"""Modules of MinkowskiEngine that work on features: activations, norms, linear
layers, pooling over batch elements, and pruning."""

from typing import Any, Optional

import torch
from torch import Tensor, nn

from .. import pooling
from .layers import MinkowskiModuleBase
from .tensor import CoordinateMapKey, SparseTensor, TensorField

_ACTIVATIONS = (
    "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU "
    "LogSigmoid LogSoftmax PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax "
    "Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold Dropout "
    "AlphaDropout"
).split()

__all__ = [
    "MinkowskiBatchNorm",
    "MinkowskiBroadcast",
    "MinkowskiBroadcastAddition",
    "MinkowskiBroadcastConcatenation",
    "MinkowskiBroadcastMultiplication",
    "MinkowskiGlobalAvgPooling",
    "MinkowskiGlobalMaxPooling",
    "MinkowskiGlobalPooling",
    "MinkowskiGlobalSumPooling",
    "MinkowskiInstanceNorm",
    "MinkowskiLinear",
    "MinkowskiPruning",
    "MinkowskiSyncBatchNorm",
    "MinkowskiToFeature",
    "MinkowskiUnion",
    *("Minkowski" + name for name in _ACTIVATIONS),
]


def on_features(x: Any, function: Any) -> Any:
    """Returns the same voxels or points with function(features)."""
    if isinstance(x, TensorField):
        return TensorField(function(x.F), x.C, _of=x)
    return x.like(function(x.F))


class _Activation(MinkowskiModuleBase):
    """`module` is torch's."""

    made: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = self.made(*args, **kwargs)

    def forward(self, input: Any) -> Any:
        """Returns the same voxels with the activation's outputs."""
        return on_features(input, self.module)


for _name in _ACTIVATIONS:
    globals()["Minkowski" + _name] = type(
        "Minkowski" + _name,
        (_Activation,),
        {
            "made": getattr(nn, _name),
            "__doc__": f"torch.nn.{_name} on the features.",
            "__module__": __name__,
        },
    )


class MinkowskiBatchNorm(nn.Module):
    """Batch normalisation over all voxels; `bn` is torch's."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.bn: Any = nn.BatchNorm1d(
            num_features, eps, momentum, affine, track_running_stats
        )

    def forward(self, input: Any) -> Any:
        """Returns the same voxels with normalised features."""
        return on_features(input, self.bn)


class MinkowskiSyncBatchNorm(MinkowskiBatchNorm):
    """Batch normalisation over the voxels of all processes."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
    ) -> None:
        nn.Module.__init__(self)
        self.bn = nn.SyncBatchNorm(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            process_group,
        )


class MinkowskiLinear(nn.Module):
    """A linear layer on the features; `linear` is torch's."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias)

    def forward(self, input: Any) -> Any:
        """Returns the same voxels with the layer's outputs."""
        return on_features(input, self.linear)


class MinkowskiToFeature(MinkowskiModuleBase):
    """Applies the layer to features."""

    def forward(self, x: Any) -> Tensor:
        """[rows, channels]."""
        out: Tensor = x.F
        return out


# ---- batch elements ----------------------------------------------------------


def _pool(x: SparseTensor, kind: str) -> Tensor:
    """[batch, channels]."""
    batch = x.coordinate_map_key.indices[:, 0]
    return pooling.over_batches(x.F, batch, kind)


class MinkowskiGlobalPooling(MinkowskiModuleBase):
    """A tensor with one row for each batch element."""

    kind = "mean"

    def __init__(self, mode: Any = None) -> None:
        super().__init__()

    def forward(
        self, input: SparseTensor, coordinates: Any = None
    ) -> SparseTensor:
        """[batch, channels] at the origin."""
        pooled = _pool(input, self.kind)
        rows = torch.zeros(
            pooled.shape[0],
            input.D + 1,
            dtype=torch.int32,
            device=pooled.device,
        )
        rows[:, 0] = torch.arange(pooled.shape[0], device=pooled.device)
        key = CoordinateMapKey((0,) * input.D, rows)
        return SparseTensor(pooled, coordinate_map_key=key)


class MinkowskiGlobalAvgPooling(MinkowskiGlobalPooling):
    """The mean over each batch element."""


class MinkowskiGlobalSumPooling(MinkowskiGlobalPooling):
    """The sum over each batch element."""

    kind = "sum"


class MinkowskiGlobalMaxPooling(MinkowskiGlobalPooling):
    """The maximum over each batch element."""

    kind = "max"


class _Broadcast(MinkowskiModuleBase):
    """Combines each voxel with the row of its batch element."""

    def joined(self, x: Tensor, row: Tensor) -> Tensor:
        """Returns the features of the outputs."""
        return row

    def forward(
        self, input: SparseTensor, input_glob: SparseTensor
    ) -> SparseTensor:
        """input_glob has one row for each batch element."""
        batch = input.coordinate_map_key.indices[:, 0].long()
        return input.like(self.joined(input.F, input_glob.F[batch]))


class MinkowskiBroadcast(_Broadcast):
    """Returns the row of the batch element."""


class MinkowskiBroadcastAddition(_Broadcast):
    """Adds the row of the batch element."""

    def joined(self, x: Tensor, row: Tensor) -> Tensor:
        return x + row


class MinkowskiBroadcastMultiplication(_Broadcast):
    """Multiplies by the row of the batch element."""

    def joined(self, x: Tensor, row: Tensor) -> Tensor:
        return x * row


class MinkowskiBroadcastConcatenation(_Broadcast):
    """Appends the channels of the batch element's row to those of the voxel."""

    def joined(self, x: Tensor, row: Tensor) -> Tensor:
        return torch.cat([x, row], 1)


class MinkowskiInstanceNorm(nn.Module):
    """Normalises each channel over the voxels of a batch element; `weight` and
    `bias` are [1, channels]."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features, self.eps = num_features, 1e-6
        self.weight = nn.Parameter(torch.ones(1, num_features))
        self.bias = nn.Parameter(torch.zeros(1, num_features))

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Returns the same voxels with normalised features."""
        batch = input.coordinate_map_key.indices[:, 0].long()
        centred = input.F - _pool(input, "mean")[batch]
        variance = _pool(input.like(centred**2), "mean")[batch]
        scaled = centred * (variance + self.eps).rsqrt()
        return input.like(scaled * self.weight + self.bias)


# ---- sets --------------------------------------------------------------------


class MinkowskiPruning(MinkowskiModuleBase):
    """Keeps the voxels whose mask is true."""

    def forward(self, input: SparseTensor, mask: Tensor) -> SparseTensor:
        """mask: bool [rows]."""
        mask = mask.to(input.device)
        key = input.coordinate_map_key
        kept = CoordinateMapKey(key.stride, key.indices[mask].contiguous())
        return input.like(input.F[mask], kept)


class MinkowskiUnion(MinkowskiModuleBase):
    """The sum over the voxels of all tensors."""

    def forward(self, *inputs: SparseTensor) -> SparseTensor:
        """Returns the sum."""
        out: Optional[SparseTensor] = None
        for x in inputs:
            out = x if out is None else out + x
        assert out is not None
        return out
