# SPDX-License-Identifier: Apache-2.0
"""Scenes: recorded scans from a folder, or generated ones.

A scan is int32 [rows, 4]: batch, x, y, z, each voxel once, in the order in
which the sensor met them. A network that states a grid gets the voxels inside
it.
"""

import ctypes
import os
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch


class Grid(NamedTuple):
    """size: edge of a voxel in metres; low: the lowest corner of the grid;
    shape: voxels along x, y, z (None: up to the highest voxel); file: the
    recorded scan; zyx: true if the columns are batch, z, y, x."""

    size: Tuple[float, float, float]
    low: Tuple[float, float, float]
    shape: Optional[Tuple[int, int, int]]
    file: str
    zyx: bool


_KITTI = "kitti_hdl64_full.bin"
GRIDS = {
    "SECOND": Grid(
        (0.05, 0.05, 0.1), (0, -40, -3), (1408, 1600, 41), _KITTI, True
    ),
    "CenterPoint": Grid(
        (0.075, 0.075, 0.2), (-54, -54, -5), (1440, 1440, 41), _KITTI, True
    ),
    "MinkUNet34C": Grid((0.05, 0.05, 0.05), (0, 0, 0), None, _KITTI, False),
    "SpUNet": Grid((0.05, 0.05, 0.05), (0, 0, 0), None, _KITTI, False),
}


# Scenes of single layers: the recorded one, one generated in its place where no
# folder is given, and a tiny one.
SPECS = {
    "kitti@0.05": (
        "kitti_hdl64_full.bin@0.05",
        "gen:lidar,seed=1,beams=64@0.05",
        "gen:lidar,seed=1,beams=4@0.5",
    ),
    "waymo@0.1": (
        "waymo_frame.bin@0.1",
        "gen:lidar,seed=2,beams=64@0.1",
        "gen:lidar,seed=2,beams=4@0.8",
    ),
    "indoor@0.02": (
        "indoor_rgbd_fragment.bin@0.02",
        "gen:room,seed=1@0.02",
        "gen:room,seed=1@0.4",
    ),
    "shell 256": ("gen:shell,r=256", "gen:shell,r=256", "gen:shell,r=8"),
}


def spec(name: str, folder: Optional[str], quick: bool) -> str:
    """Returns the specification of a scene for the command."""
    recorded, generated, tiny = SPECS[name]
    if quick:
        return tiny
    if folder is None or recorded.startswith("gen:"):
        return generated
    return os.path.join(folder, recorded)


def voxels(text: str) -> np.ndarray:
    """Returns the voxels of a specification: int32 [rows, 4]. spctune.Error:
    there is no such scene."""
    from spctune import _abi
    from spctune._lib import check, lib

    scene, error = ctypes.c_void_p(), _abi.spc_error()
    check(lib.spc_scene_load(scene, os.fsencode(text), error), error)
    rows = lib.spc_scene_rows(scene)
    out = np.empty((rows, 4), np.int32)
    ctypes.memmove(out.ctypes.data, lib.spc_scene_coords(scene), rows * 16)
    lib.spc_scene_free(scene)
    return out


def _generated(grid: Grid, seed: int, beams: int) -> np.ndarray:
    """Returns the voxels of a generated sweep, with voxel 0 at the origin."""
    size = ",".join(map(str, grid.size))
    return voxels(f"gen:lidar,seed={seed},beams={beams}@{size}")[:, 1:]


def _recorded(grid: Grid, folder: str, seed: int) -> np.ndarray:
    """Returns the voxels of a recorded scan. A seed other than 0 turns the scan
    about the vertical axis and may mirror it, as in training."""
    path = os.path.join(folder, grid.file)
    points = np.fromfile(path, np.float32).reshape(-1, 4)[:, :3]
    if seed:
        draw = np.random.default_rng(seed)
        angle = draw.uniform(-np.pi / 4, np.pi / 4)
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, s], [-s, c]])
        if draw.random() < 0.5:
            turn[:, 1] *= -1
        points = points.copy()
        points[:, :2] = points[:, :2] @ turn
    return np.floor(points / np.array(grid.size)).astype(np.int32)


def scan(grid: Grid, folder: Optional[str], seed: int, beams: int) -> Any:
    """Returns one scan: int32 [rows, 4], with batch 0."""
    at = (
        _recorded(grid, folder, seed)
        if folder
        else _generated(grid, seed + 1, beams)
    )
    if grid.shape is None:
        at = at - at.min(0)
    else:
        at = at - np.rint(np.array(grid.low) / grid.size).astype(np.int32)
        at = at[((at >= 0) & (at < grid.shape)).all(1)]
    first = np.unique(at, axis=0, return_index=True)[1]
    at = at[np.sort(first)]
    return np.pad(at, ((0, 0), (1, 0))).astype(np.int32)


def join(grid: Grid, scans: Sequence[Any], channels: int, device: Any) -> Any:
    """The arguments of a model: features [rows, channels], voxels in its order
    of axes, shape in that order, batch elements."""
    rows = np.concatenate(scans)
    rows[:, 0] = np.repeat(np.arange(len(scans)), [len(s) for s in scans])
    # A multiple of 16 keeps the last plane of every level.
    high = rows[:, 1:].max(0) + 1
    shape: List[int] = list(
        grid.shape or (int(n + 15) // 16 * 16 for n in high)
    )
    if grid.zyx:
        rows, shape = rows[:, [0, 3, 2, 1]], shape[::-1]
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(len(rows), channels, generator=draw)
    coords = torch.from_numpy(np.ascontiguousarray(rows))
    return features.to(device), coords.to(device), shape, len(scans)
