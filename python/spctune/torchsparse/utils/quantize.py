# SPDX-License-Identifier: Apache-2.0
"""Voxels of points."""

from typing import Any, List, Sequence, Union

from ..._lib import InvalidError

__all__ = ["sparse_quantize"]


def sparse_quantize(
    coords: Any,
    voxel_size: Union[float, Sequence[float]] = 1,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
) -> Any:
    """Returns the distinct voxels floor(coords / voxel_size) of NumPy points,
    int32 and in ascending order; on request also the first point of each voxel,
    and the voxel of each point."""
    import numpy as np

    size = (
        (voxel_size,) * 3
        if isinstance(voxel_size, (int, float))
        else tuple(voxel_size)
    )
    if len(size) != 3:
        raise InvalidError(f"voxel_size {voxel_size} has not three numbers")
    rows = np.floor(np.asarray(coords) / np.asarray(size)).astype(np.int32)
    _, index, inverse = np.unique(
        rows, axis=0, return_index=True, return_inverse=True
    )
    out: List[Any] = [rows[index]]
    if return_index:
        out.append(index)
    if return_inverse:
        out.append(inverse.reshape(-1))
    return out[0] if len(out) == 1 else out
