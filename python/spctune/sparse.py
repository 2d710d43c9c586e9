# SPDX-License-Identifier: Apache-2.0
"""A sparse tensor: features of voxels."""

from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from . import ops, show
from ._lib import InvalidError
from .ops import AnyMap

__all__ = ["SparseTensor"]

Three = Tuple[int, int, int]


def per_axis(
    value: Union[int, Sequence[int], Tensor], n: int
) -> Tuple[int, ...]:
    """Returns one number for each axis from one number for all, or one for
    each. InvalidError: another count."""
    if isinstance(value, Tensor):
        value = value.flatten().tolist()
    if not hasattr(value, "__len__"):
        return (int(value),) * n
    made = tuple(int(v) for v in value)  # type: ignore[union-attr]
    if len(made) != n:
        raise InvalidError(f"{value} has {len(made)} numbers, not {n}")
    return made


def three(value: Union[int, Sequence[int]]) -> Three:
    """Returns one number for each axis from one number for all, or one for
    each."""
    if isinstance(value, int):
        return (value, value, value)
    x, y, z = (int(v) for v in value)
    return (x, y, z)


def by_axis(values: Sequence[int]) -> str:
    """Returns numbers in the words of a layer: 3x3x1."""
    return "x".join(map(str, values))


def footprint_shape(
    shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tuple[int, ...]:
    """Returns the spatial shape of the outputs of a dense strided layer."""
    return tuple(
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, t, p, d in zip(shape, kernel, stride, padding, dilation)
    )


class Made(NamedTuple):
    """The layer that made a set of voxels, for the layer that inverts it."""

    map: AnyMap
    words: str


class SparseTensor:
    """Features of voxels.

    features    [rows, channels]
    coords      int32 [rows, 4]: batch, x, y, z; each voxel once
    shape       voxels along x, y, z; None: not limited
    batch_size  number of batch elements; None: one more than the highest

    Layers keep kernel maps with the tensor `coords`: tensors with the same
    `coords` share the maps. InvalidError: sizes do not fit each other.
    """

    def __init__(
        self,
        features: Tensor,
        coords: Tensor,
        shape: Optional[Sequence[int]] = None,
        batch_size: Optional[int] = None,
        made: Optional[Made] = None,
    ) -> None:
        if features.dim() != 2:
            raise InvalidError(
                "features have the shape "
                f"{tuple(features.shape)}; it is [rows, "
                "channels]"
            )
        if coords.dim() != 2 or coords.shape[1] != 4:
            raise InvalidError(
                f"coords have the shape {tuple(coords.shape)}; it "
                "is [rows, 4]: batch, x, y, z"
            )
        if torch.compiler.is_compiling():
            torch._check(features.shape[0] == coords.shape[0])
        elif features.shape[0] != coords.shape[0]:
            raise InvalidError(
                f"there are {features.shape[0]} rows of features "
                f"and {coords.shape[0]} of coords"
            )
        self.features, self.coords = features, coords
        self.shape = None if shape is None else three(shape)
        self._batch_size, self.made = batch_size, made

    @property
    def batch_size(self) -> int:
        """Number of batch elements. Waits for the device if the number was not
        stated."""
        if self._batch_size is None:
            rows = self.coords.shape[0]
            self._batch_size = int(self.coords[:, 0].max()) + 1 if rows else 0
        return self._batch_size

    def replace(self, features: Tensor) -> "SparseTensor":
        """Returns the same voxels with other features."""
        if (
            torch.compiler.is_compiling()
            or features.dim() != 2
            or features.shape[0] != self.features.shape[0]
        ):
            # Raises an error if sizes do not fit; a compiled graph has already
            # checked them.
            return SparseTensor(
                features, self.coords, self.shape, self._batch_size, self.made
            )
        other = SparseTensor.__new__(SparseTensor)
        other.features, other.coords = features, self.coords
        other.shape, other.made = self.shape, self.made
        other._batch_size = self._batch_size
        return other

    def parts(self) -> Tuple[Tensor, Tensor]:
        """Returns features and voxels, for spctune.compile()."""
        return self.features, self.coords

    def remade(self, features: Tensor, coords: Tensor) -> "SparseTensor":
        """Returns this tensor with other features and voxels."""
        return SparseTensor(features, coords, self.shape, self._batch_size)

    def dense(self, shape: Optional[Sequence[int]] = None) -> Tensor:
        """[batch, channels, x, y, z], zero where there is no voxel.
        InvalidError: no shape is known."""
        shape = shape or self.shape
        if shape is None:
            raise InvalidError("dense() needs the shape: voxels along x, y, z")
        return to_dense(self.features, self.coords, shape, self.batch_size)

    def to(self, *args: Any, **kwargs: Any) -> "SparseTensor":
        """Converts features as Tensor.to() does, and moves coords to the same
        device."""
        features = self.features.to(*args, **kwargs)
        if features.device == self.coords.device:
            return self.replace(features)
        return SparseTensor(
            features,
            self.coords.to(features.device),
            self.shape,
            self._batch_size,
        )

    def __len__(self) -> int:
        return self.features.shape[0]

    def __repr__(self) -> str:
        f = self.features
        inside = "" if self.shape is None else f" in {by_axis(self.shape)}"
        return (
            f"SparseTensor({f.shape[0]} voxels{inside}, {f.shape[1]} "
            f"channels, {str(f.dtype)[6:]}, {f.device})"
        )

    def _repr_html_(self) -> str:
        shape = "not limited" if self.shape is None else by_axis(self.shape)
        return describe(
            "spctune.SparseTensor",
            self.features,
            self.coords,
            [("shape", shape)],
        )


def describe(
    title: str, features: Tensor, coords: Tensor, pairs: Sequence[Any]
) -> str:
    """Returns HTML of a tensor of voxels for notebooks. Reads the voxels."""
    rows, channels = features.shape
    facts = [("voxels", rows), ("channels", channels), *pairs]
    facts.append(("type", f"{str(features.dtype)[6:]} on {features.device}"))
    if rows:
        low, high = coords.amin(0).tolist(), coords.amax(0).tolist()
        facts.append(("batch elements", f"{low[0]} to {high[0]}"))
        axes = zip(low[1:], high[1:])
        extent = ", ".join(f"{first} to {last}" for first, last in axes)
        facts.append(("coordinates", extent))
    return show.facts(title, facts)


def to_dense(
    features: Tensor, indices: Tensor, shape: Sequence[int], batch_size: int
) -> Tensor:
    """Returns features of voxels as [batch, channels, *shape], with
    gradients."""
    if ops.tape is not None:
        traced: Tensor = ops.tape.dense(
            features,
            indices,
            shape,
            batch_size,
            lambda: _to_dense(features, indices, shape, batch_size),
        )
        return traced
    return _to_dense(features, indices, shape, batch_size)


def _to_dense(
    features: Tensor, indices: Tensor, shape: Sequence[int], batch_size: int
) -> Tensor:
    rows = indices.long()
    place = rows[:, 0]
    for axis, size in enumerate(shape):
        place = place * size + rows[:, axis + 1]
    cells = batch_size
    for size in shape:
        cells *= size
    out = features.new_zeros(cells, features.shape[1])
    out.index_put_((place,), features)
    out = out.view(batch_size, *shape, features.shape[1])
    return out.permute(0, -1, *range(1, len(shape) + 1)).contiguous()
