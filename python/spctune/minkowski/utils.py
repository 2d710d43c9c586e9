# SPDX-License-Identifier: Apache-2.0
"""The helpers of MinkowskiEngine.utils: voxels of points, and batches."""

from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor

from .._lib import InvalidError
from .tensor import distinct

__all__ = [
    "SparseCollation",
    "batch_sparse_collate",
    "batched_coordinates",
    "sparse_collate",
    "sparse_quantize",
]


def batched_coordinates(
    coords: Sequence[Any], dtype: Any = torch.int32, device: Any = None
) -> Tensor:
    """Joins scenes [rows, D] to one tensor [rows, 1 + D], the batch element
    first. Fractions are rounded down for an integer type."""
    parts = []
    for b, one in enumerate(coords):
        rows = torch.as_tensor(one, device=device)
        if rows.dtype.is_floating_point and not dtype.is_floating_point:
            rows = rows.floor()
        first = torch.full_like(rows[:, :1], b)
        parts.append(torch.cat([first, rows], 1).to(dtype))
    return torch.cat(parts)


def sparse_collate(
    coords: Sequence[Any],
    feats: Sequence[Any],
    labels: Optional[Sequence[Any]] = None,
    dtype: Any = torch.int32,
    device: Any = None,
) -> Any:
    """Joins coordinates, features and, if given, labels of a batch."""
    rows = batched_coordinates(coords, dtype, device)
    out = [rows, torch.cat([torch.as_tensor(f, device=device) for f in feats])]
    if labels:
        out.append(
            torch.cat([torch.as_tensor(v, device=device) for v in labels])
        )
    return tuple(out)


def batch_sparse_collate(
    data: Sequence[Any], dtype: Any = torch.int32, device: Any = None
) -> Any:
    """sparse_collate() of a list of (coordinates, features[, labels])."""
    coords, feats, *labels = [list(v) for v in zip(*data)]
    return sparse_collate(
        coords, feats, labels[0] if labels else None, dtype, device
    )


class SparseCollation:
    """batch_sparse_collate() for DataLoader; the scene that exceeds
    limit_numpoints, and all later scenes, are left out."""

    def __init__(
        self,
        limit_numpoints: int = -1,
        dtype: Any = torch.int32,
        device: Any = None,
    ) -> None:
        self.limit_numpoints = limit_numpoints
        self.dtype, self.device = dtype, device

    def __call__(self, list_data: Sequence[Any]) -> Any:
        kept: List[Any] = []
        total = 0
        for item in list_data:
            total += len(item[0])
            if 0 < self.limit_numpoints < total:
                break
            kept.append(item)
        if not kept:
            raise InvalidError(
                f"no scene has at most {self.limit_numpoints} points"
            )
        return batch_sparse_collate(kept, self.dtype, self.device)


def sparse_quantize(
    coordinates: Any,
    features: Any = None,
    labels: Any = None,
    ignore_label: int = -100,
    return_index: bool = False,
    return_inverse: bool = False,
    return_maps_only: bool = False,
    quantization_size: Any = None,
    device: str = "cpu",
) -> Any:
    """Returns the distinct voxels floor(coordinates / quantization_size),
    int32, in the order of their first points, with features and labels of these
    points. If labels differ within a voxel, its label is ignore_label. On
    request also the first point of each voxel, and the voxel of each point.
    NumPy arrays give NumPy arrays."""
    is_numpy = not isinstance(coordinates, Tensor)
    rows = torch.as_tensor(coordinates)
    if quantization_size is not None:
        size = torch.as_tensor(quantization_size, dtype=torch.float64)
        rows = rows.double() / size
    rows = rows.floor().int() if rows.dtype.is_floating_point else rows.int()
    index, inverse = distinct(rows)

    def give(value: Tensor) -> Any:
        return value.numpy() if is_numpy else value

    if return_maps_only:
        return (give(index), give(inverse)) if return_inverse else give(index)
    out: List[Any] = [give(rows[index])]
    if features is not None:
        out.append(give(torch.as_tensor(features)[index]))
    if labels is not None:
        known = torch.as_tensor(labels)
        first = known[index]
        differs = torch.zeros(len(index), dtype=torch.int64)
        differs.index_add_(0, inverse, (known != first[inverse]).long())
        first = torch.where(
            differs > 0, torch.full_like(first, ignore_label), first
        )
        out.append(give(first))
    if return_index:
        out.append(give(index))
    if return_inverse:
        out.append(give(inverse))
    return out[0] if len(out) == 1 else tuple(out)
