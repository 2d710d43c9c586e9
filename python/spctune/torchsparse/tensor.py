# SPDX-License-Identifier: Apache-2.0
"""The sparse tensor of TorchSparse."""

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .._lib import InvalidError
from ..ops import AnyMap
from ..sparse import per_axis as ntuple
from ..sparse import to_dense

__all__ = ["PointTensor", "SparseTensor", "cat", "generative_add", "ntuple"]

Three = Tuple[int, int, int]
Range = Optional[Tuple[int, ...]]


class Level(NamedTuple):
    """The voxels of a stride."""

    coords: Tensor
    spatial_range: Range


class Strided(NamedTuple):
    """The data that a strided layer keeps for its transposed layer."""

    map: AnyMap
    words: str
    inputs: Level


class Caches:
    """Shared by the tensors of one scene. Kernel maps are kept with voxels, so
    this object only finds the level to which a transposed layer returns."""

    def __init__(self) -> None:
        self.cmaps: Dict[Any, Level] = {}
        self.kmaps: Dict[Any, Strided] = {}
        self.hashmaps: Dict[Any, Any] = {}


class SparseTensor:
    """Features of voxels.

    feats          [rows, channels]
    coords         int32 [rows, 4]: batch, x, y, z; each voxel once. Layers with
                   a stride divide them by the stride
    stride         of the coordinates, from the scene's own
    spatial_range  (batches, x, y, z): the voxels along each axis; None: up to
                   the highest voxel
    """

    def __init__(
        self,
        feats: Tensor,
        coords: Tensor,
        stride: Union[int, Sequence[int]] = 1,
        spatial_range: Optional[Sequence[int]] = None,
    ) -> None:
        self.feats, self.coords = feats, coords
        self.stride = ntuple(stride, 3)
        self.spatial_range: Range = (
            None
            if spatial_range is None
            else ntuple(spatial_range, len(spatial_range))
        )
        self._caches = Caches()

    @property
    def F(self) -> Tensor:
        """Features."""
        return self.feats

    @F.setter
    def F(self, feats: Tensor) -> None:
        self.feats = feats

    @property
    def C(self) -> Tensor:
        """Voxels."""
        return self.coords

    @C.setter
    def C(self, coords: Tensor) -> None:
        self.coords = coords

    @property
    def s(self) -> Tuple[int, ...]:
        """Stride."""
        return self.stride

    @s.setter
    def s(self, stride: Union[int, Sequence[int]]) -> None:
        self.stride = ntuple(stride, 3)

    def like(
        self,
        feats: Tensor,
        coords: Optional[Tensor] = None,
        stride: Optional[Sequence[int]] = None,
        spatial_range: Range = None,
    ) -> "SparseTensor":
        """Makes a tensor of the same scene, on the same voxels unless others
        are named."""
        if coords is None:
            made = SparseTensor(
                feats, self.coords, self.stride, self.spatial_range
            )
        else:
            made = SparseTensor(
                feats, coords, stride or self.stride, spatial_range
            )
        made._caches = self._caches
        return made

    def parts(self) -> Tuple[Tensor, Tensor]:
        """Returns features and voxels, for spctune.compile()."""
        return self.feats, self.coords

    def remade(self, features: Tensor, coords: Tensor) -> "SparseTensor":
        """Returns this tensor with other features and voxels."""
        return SparseTensor(features, coords, self.stride, self.spatial_range)

    def _apply(self, name: str, *args: Any, **more: Any) -> "SparseTensor":
        self.coords = getattr(self.coords, name)(*args, **more)
        self.feats = getattr(self.feats, name)(*args, **more)
        return self

    def cpu(self) -> "SparseTensor":
        """Moves this tensor to the processor."""
        return self._apply("cpu")

    def cuda(self, *args: Any) -> "SparseTensor":
        """Moves this tensor to a GPU."""
        return self._apply("cuda", *args)

    def detach(self) -> "SparseTensor":
        """Detaches this tensor from the graph of gradients."""
        return self._apply("detach")

    def to(self, device: Any, non_blocking: bool = True) -> "SparseTensor":
        """Moves this tensor to a device."""
        return self._apply("to", device, non_blocking=non_blocking)

    def half(self) -> "SparseTensor":
        """Makes the features float16."""
        self.feats = self.feats.half()
        return self

    def dense(self) -> Tensor:
        """Returns [batch, x, y, z, channels] of the spatial range.
        InvalidError: the tensor has no spatial range."""
        if self.spatial_range is None:
            raise InvalidError("dense() needs a spatial_range")
        batches, *shape = self.spatial_range
        out = to_dense(self.feats, self.coords, shape, batches)
        return out.permute(0, 2, 3, 4, 1).contiguous()

    def __add__(self, other: "SparseTensor") -> "SparseTensor":
        return self.like(self.feats + other.feats)

    def __repr__(self) -> str:
        return (
            f"SparseTensor({tuple(self.feats.shape)}, stride={self.stride}, "
            f"spatial_range={self.spatial_range})"
        )


class PointTensor:
    """Features of points: F [rows, channels], C [rows, 4]."""

    def __init__(
        self,
        feats: Tensor,
        coords: Tensor,
        idx_query: Any = None,
        weights: Any = None,
    ) -> None:
        self.F, self.C = feats, coords
        self.idx_query = {} if idx_query is None else idx_query
        self.weights = {} if weights is None else weights
        self.additional_features: Dict[str, Dict[Any, Any]] = {
            "idx_query": {},
            "counts": {},
        }

    def _apply(self, name: str, *args: Any, **more: Any) -> "PointTensor":
        self.F = getattr(self.F, name)(*args, **more)
        self.C = getattr(self.C, name)(*args, **more)
        return self

    def cuda(self) -> "PointTensor":
        """Moves the points to a GPU."""
        return self._apply("cuda")

    def detach(self) -> "PointTensor":
        """Detaches the features."""
        self.F = self.F.detach()
        return self

    def to(self, device: Any, non_blocking: bool = True) -> "PointTensor":
        """Moves the points to a device."""
        return self._apply("to", device, non_blocking=non_blocking)

    def __add__(self, other: "PointTensor") -> "PointTensor":
        made = PointTensor(
            self.F + other.F, self.C, self.idx_query, self.weights
        )
        made.additional_features = self.additional_features
        return made


def cat(inputs: Sequence[SparseTensor]) -> SparseTensor:
    """Concatenates the channels of tensors on the same voxels."""
    return inputs[0].like(torch.cat([x.feats for x in inputs], dim=1))


def generative_add(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The sum over the voxels of both tensors."""
    coords, rows = torch.unique(
        torch.cat([a.coords, b.coords]), dim=0, return_inverse=True
    )
    feats = torch.cat([a.feats, b.feats])
    out = feats.new_zeros(coords.shape[0], feats.shape[1])
    out = out.index_add(0, rows, feats)
    return a.like(out, coords, a.stride, a.spatial_range)
