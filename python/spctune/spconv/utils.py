# SPDX-License-Identifier: Apache-2.0
"""Makes voxels of points on the processor with NumPy, as spconv 1 and 2 do."""

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

__all__ = [
    "Point2VoxelCPU1d",
    "Point2VoxelCPU2d",
    "Point2VoxelCPU3d",
    "Point2VoxelCPU4d",
    "PointToVoxel",
    "VoxelGenerator",
    "VoxelGeneratorV2",
]


class VoxelGeneratorV2:
    """Groups points by voxels.

    voxel_size         edges along x, y, z, in the unit of the points
    point_cloud_range  low x, y, z, then high x, y, z; points outside are left
                       out
    max_num_points     the first points of a voxel count, up to this number
    max_voxels         the first voxels in the order of points count
    full_mean, block_filtering and later arguments are not supported

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
        """The number of points of a voxel that count."""
        return self._max_num_points

    def generate(
        self, points: Any, max_voxels: Optional[int] = None
    ) -> Dict[str, Any]:
        """Returns the voxels of points [n, 3 or more] as a dict:

        voxels                [voxels, max_num_points, columns], 0 after the
                              last point
        coordinates           int32 [voxels, 3]: z, y, x
        num_points_per_voxel  int32 [voxels]
        voxel_point_mask      [voxels, max_num_points, 1]: 1 for a point

        Voxels are in the order of their first points.
        """
        import numpy as np

        points = np.asarray(points)
        most = self._max_voxels if max_voxels is None else max_voxels
        made = _group(
            points,
            self.point_cloud_range[:3],
            self.voxel_size,
            self.grid_size,
            self._max_num_points,
            most,
        )
        mask = np.arange(self._max_num_points) < made.counts[:, None]
        return {
            "voxels": made.voxels,
            "coordinates": made.coordinates,
            "num_points_per_voxel": made.counts,
            "voxel_point_mask": mask[..., None].astype(points.dtype),
            "voxel_num": len(made.counts),
        }


class _Grouped(NamedTuple):
    """Returns points by voxels [voxels, room, columns]; the voxels, int32
    [voxels, axes] with the last axis first; the number of points of each voxel;
    and the voxel of each point, or -1."""

    voxels: Any
    coordinates: Any
    counts: Any
    number: Any


def _group(
    points: Any, low: Any, size: Any, grid: Any, room: int, most: int
) -> _Grouped:
    """Groups points by the voxels of a grid, in the order of their first
    points."""
    import numpy as np

    number, coordinates = _number(points, low, size, grid)
    number[number >= most] = -1
    kept = number >= 0
    points, voxel = points[kept], number[kept]
    count = min(len(coordinates), most)
    # Returns points by voxel, in their own order within each voxel.
    order = np.argsort(voxel, kind="stable")
    voxel, points = voxel[order], points[order]
    sizes = np.bincount(voxel, minlength=count)
    place = np.arange(len(voxel)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    near = place < room
    voxels = np.zeros((count, room, points.shape[1]), points.dtype)
    voxels[voxel[near], place[near]] = points[near]
    counts = np.minimum(sizes, room).astype(np.int32)
    return _Grouped(voxels, coordinates[:count], counts, number)


def _number(points: Any, low: Any, size: Any, grid: Any) -> Tuple[Any, Any]:
    """Returns the voxel of each point by number (-1: none), and the voxels with
    the last axis first."""
    import numpy as np

    axes = len(grid)
    cell = np.floor((points[:, :axes] - low) / size)
    inside = ((cell >= 0) & (cell < grid)).all(1)
    cell = cell[inside].astype(np.int64)
    flat = np.zeros(len(cell), np.int64)
    for axis in reversed(range(axes)):
        flat = flat * int(grid[axis]) + cell[:, axis]
    _, first, which = np.unique(flat, return_index=True, return_inverse=True)
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


# ---- the interface of spconv 2 -----------------------------------------------


class _Point2Voxel:
    """Groups points by voxels.

    vsize_xyz              edges along the axes
    coors_range_xyz        the low ends, then the high ends
    num_point_features     columns of a point, at least one for each axis
    max_num_voxels, max_num_points_per_voxel
    """

    axes = 3

    def __init__(
        self,
        vsize_xyz: Sequence[float],
        coors_range_xyz: Sequence[float],
        num_point_features: int,
        max_num_voxels: int,
        max_num_points_per_voxel: int,
    ) -> None:
        import numpy as np

        n = len(vsize_xyz)
        if n != self.axes or len(coors_range_xyz) != 2 * n:
            raise ValueError(
                f"{type(self).__name__} takes {self.axes} sizes and "
                f"{2 * self.axes} ends, not {n} and {len(coors_range_xyz)}"
            )
        if num_point_features < n:
            raise ValueError(
                f"points with {num_point_features} columns have no {n} "
                "coordinates"
            )
        self.vsize = np.asarray(vsize_xyz, np.float32)
        self.coors_range = np.asarray(coors_range_xyz, np.float32)
        self.num_point_features = num_point_features
        self._room, self._most = max_num_points_per_voxel, max_num_voxels
        low, high = self.coors_range[:n], self.coors_range[n:]
        if (self.vsize <= 0).any() or (high <= low).any():
            raise ValueError(
                f"voxels of {list(vsize_xyz)} in {list(coors_range_xyz)}: "
                "sizes are positive, and high is above low"
            )
        grid = np.round((high - low) / self.vsize).astype(np.int64)
        self._grid = grid
        self.grid_size = [int(v) for v in grid[::-1]]  # the last axis first

    def _made(self, points: Any, fill_mean: bool) -> _Grouped:
        import numpy as np

        points = np.asarray(points)
        if points.ndim != 2 or points.shape[1] != self.num_point_features:
            raise ValueError(
                f"points have the shape {points.shape}; it is [n, "
                f"{self.num_point_features}]"
            )
        low = self.coors_range[: self.axes]
        made = _group(
            points, low, self.vsize, self._grid, self._room, self._most
        )
        if fill_mean and len(made.counts):
            mean = made.voxels.sum(1) / made.counts[:, None]
            empty = np.arange(self._room) >= made.counts[:, None]
            rows = empty.nonzero()[0]
            made.voxels[empty] = mean[rows].astype(made.voxels.dtype)
        return made


def _arrays(made: _Grouped) -> Tuple[Any, Any, Any]:
    """Arrays that have numpy(), as arrays of cumm.tensorview do."""
    import numpy as np

    class Array(np.ndarray):  # type: ignore[type-arg, unused-ignore]
        def numpy(self) -> Any:
            return self.view(np.ndarray)

    return (
        made.voxels.view(Array),
        made.coordinates.view(Array),
        made.counts.view(Array),
    )


def _numpy(points: Any) -> Any:
    """Returns the array of a tensor of cumm.tensorview or torch."""
    return points.numpy() if hasattr(points, "numpy") else points


class Point2VoxelCPU3d(_Point2Voxel):
    """Takes and returns NumPy arrays; also takes tensors of cumm.tensorview.
    Results have numpy()."""

    def point_to_voxel(
        self, points: Any, clear_voxels: bool = True
    ) -> Tuple[Any, Any, Any]:
        """(voxels, indices with the last axis first, points of each voxel) of
        points [n, num_point_features]; 0 after the last point of a voxel."""
        return _arrays(self._made(_numpy(points), False))

    def point_to_voxel_empty_mean(
        self, points: Any, clear_voxels: bool = True
    ) -> Tuple[Any, Any, Any]:
        """Returns the same, with the mean of a voxel's points after its last
        point."""
        return _arrays(self._made(_numpy(points), True))


class Point2VoxelCPU1d(Point2VoxelCPU3d):
    """Point2VoxelCPU3d for one axis."""

    axes = 1


class Point2VoxelCPU2d(Point2VoxelCPU3d):
    """Point2VoxelCPU3d for two axes."""

    axes = 2


class Point2VoxelCPU4d(Point2VoxelCPU3d):
    """Point2VoxelCPU3d for four axes."""

    axes = 4


class PointToVoxel(_Point2Voxel):
    """spconv.pytorch.utils.PointToVoxel: takes and returns tensors. Voxels are
    found on the processor, and the results are on `device`."""

    def __init__(
        self,
        vsize_xyz: Sequence[float],
        coors_range_xyz: Sequence[float],
        num_point_features: int,
        max_num_voxels: int,
        max_num_points_per_voxel: int,
        device: Any = "cpu",
    ) -> None:
        self.axes, self.device = len(vsize_xyz), device
        super().__init__(
            vsize_xyz,
            coors_range_xyz,
            num_point_features,
            max_num_voxels,
            max_num_points_per_voxel,
        )

    def __call__(
        self, pc: Any, clear_voxels: bool = True, empty_mean: bool = False
    ) -> Tuple[Any, Any, Any]:
        """(voxels, indices with the last axis first, points of each voxel)."""
        return self.generate_voxel_with_id(pc, clear_voxels, empty_mean)[:3]

    def generate_voxel_with_id(
        self, pc: Any, clear_voxels: bool = True, empty_mean: bool = False
    ) -> Tuple[Any, Any, Any, Any]:
        """Returns the same, and the voxel of each point, int64; -1: none."""
        import torch

        made = self._made(pc.detach().cpu().numpy(), empty_mean)
        return tuple(  # type: ignore[return-value]
            torch.from_numpy(value.copy()).to(self.device) for value in made
        )
