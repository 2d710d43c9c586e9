# SPDX-License-Identifier: Apache-2.0
"""Voxels of points on the processor, as spconv 1 makes them: with NumPy."""

from typing import Any, Dict, Optional, Sequence, Tuple

__all__ = ["VoxelGenerator", "VoxelGeneratorV2"]


class VoxelGeneratorV2:
    """Groups points by voxels.

    voxel_size         edges along x, y, z, in the unit of the points
    point_cloud_range  low x, y, z, then high x, y, z; points outside are left
                       out
    max_num_points     points of a voxel that count: the first ones
    max_voxels         voxels that count: those that points meet first
    full_mean, block_filtering and the arguments behind it are not supported

    ValueError: a size that is not positive, or an option that is not supported.
    """

    def __init__(
        self,
        voxel_size: Sequence[float],
        point_cloud_range: Sequence[float],
        max_num_points: int,
        max_voxels: int = 20000,
        full_mean: bool = False,
        block_filtering: bool = False,
        **_: Any,
    ) -> None:
        import numpy as np

        if full_mean or block_filtering:
            raise ValueError("full_mean and block_filtering are not supported")
        self.voxel_size = np.asarray(voxel_size, np.float32)
        self.point_cloud_range = np.asarray(point_cloud_range, np.float32)
        low, high = self.point_cloud_range[:3], self.point_cloud_range[3:]
        if (self.voxel_size <= 0).any() or (high <= low).any():
            raise ValueError(
                f"voxels of {list(voxel_size)} in {list(point_cloud_range)}: "
                "sizes are positive, and high is above low"
            )
        self.grid_size = np.round((high - low) / self.voxel_size).astype(
            np.int64
        )
        self._max_num_points, self._max_voxels = max_num_points, max_voxels

    @property
    def max_num_points_per_voxel(self) -> int:
        """Points of a voxel that count."""
        return self._max_num_points

    def generate(
        self, points: Any, max_voxels: Optional[int] = None
    ) -> Dict[str, Any]:
        """Voxels of points [n, 3 or more], as a dict:

        voxels                [voxels, max_num_points, columns], 0 behind the
                              last point
        coordinates           int32 [voxels, 3]: z, y, x
        num_points_per_voxel  int32 [voxels]
        voxel_point_mask      [voxels, max_num_points, 1]: 1 for a point

        Voxels are in the order in which points meet them first.
        """
        import numpy as np

        points = np.asarray(points)
        most = self._max_voxels if max_voxels is None else max_voxels
        number, coordinates = self._number(points)
        kept = number < most
        kept &= number >= 0
        points, number = points[kept], number[kept]
        count = min(len(coordinates), most)
        # Points by voxel, in their own order within each.
        order = np.argsort(number, kind="stable")
        number, points = number[order], points[order]
        sizes = np.bincount(number, minlength=count)
        place = np.arange(len(number)) - np.repeat(
            np.cumsum(sizes) - sizes, sizes
        )
        near = place < self._max_num_points
        shape = (count, self._max_num_points, points.shape[1])
        voxels = np.zeros(shape, points.dtype)
        voxels[number[near], place[near]] = points[near]
        counts = np.minimum(sizes, self._max_num_points).astype(np.int32)
        mask = np.arange(self._max_num_points) < counts[:, None]
        return {
            "voxels": voxels,
            "coordinates": coordinates[:count],
            "num_points_per_voxel": counts,
            "voxel_point_mask": mask[..., None].astype(points.dtype),
            "voxel_num": count,
        }

    def _number(self, points: Any) -> Tuple[Any, Any]:
        """The voxel of each point by number (-1: none), and the voxels' z, y,
        x."""
        import numpy as np

        low = self.point_cloud_range[:3]
        cell = np.floor((points[:, :3] - low) / self.voxel_size)
        inside = ((cell >= 0) & (cell < self.grid_size)).all(1)
        cell = cell[inside].astype(np.int64)
        nx, ny, _ = (int(v) for v in self.grid_size)
        flat = (cell[:, 2] * ny + cell[:, 1]) * nx + cell[:, 0]
        _, first, which = np.unique(
            flat, return_index=True, return_inverse=True
        )
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        number = np.full(len(points), -1, np.int64)
        number[inside] = rank[which.reshape(-1)]
        return number, cell[first[order]][:, ::-1].astype(np.int32)


class VoxelGenerator(VoxelGeneratorV2):
    """The older form: generate() returns three arrays."""

    def generate(  # type: ignore[override]
        self, points: Any, max_voxels: Optional[int] = None
    ) -> Tuple[Any, Any, Any]:
        """(voxels, coordinates, num_points_per_voxel) of VoxelGeneratorV2."""
        made = super().generate(points, max_voxels)
        return (
            made["voxels"],
            made["coordinates"],
            made["num_points_per_voxel"],
        )
