# SPDX-License-Identifier: Apache-2.0
"""Generated rooms: points on floor, walls, tables, chairs and shelves, labelled
by what the generator put there.
"""

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

CLASSES = ("floor", "wall", "table", "chair", "shelf")
FLOOR, WALL, TABLE, CHAIR, SHELF = range(5)


class Room(NamedTuple):
    """coords int32 [rows, 3]: voxels, each once, from 0; features float32
    [rows, 4]: 1 and the colour of the object; labels int64 [rows]."""

    coords: np.ndarray
    features: np.ndarray
    labels: np.ndarray


class _Builder:
    def __init__(self, rng: np.random.Generator, step: float) -> None:
        self.rng, self.step = rng, step
        self.parts: List[Tuple[np.ndarray, np.ndarray, int]] = []

    def sheets(
        self, label: int, at: Sequence[float], sheets: Sequence[Sequence[float]]
    ) -> None:
        """Adds an object made of axis-parallel rectangles. Each rectangle has a
        corner and three lengths along x, y, z, one of which is 0. The object is
        turned about the vertical axis through its position."""
        points = []
        for x, y, z, dx, dy, dz in sheets:
            sides = np.array([dx, dy, dz])
            area = np.prod(sides[sides > 0])
            count = int(area / self.step**2 * 3) + 1
            inside = self.rng.random((count, 3)) * sides
            points.append(inside + [x, y, z])
        all_points = np.concatenate(points)
        if label > WALL:
            angle = self.rng.uniform(0, 2 * np.pi)
            c, s = np.cos(angle), np.sin(angle)
            all_points[:, :2] = all_points[:, :2] @ [[c, s], [-s, c]]
        colour = self.rng.random(3)
        self.parts.append((all_points + at, colour, label))


def _table(b: _Builder, at: Sequence[float]) -> None:
    w, d, h = b.rng.uniform((0.8, 0.6, 0.7), (1.6, 0.9, 0.78))
    legs = [(x, y, 0, 0.06, 0, h) for x in (0, w - 0.06) for y in (0, d)]
    b.sheets(TABLE, at, [(0, 0, h, w, d, 0), *legs])


def _chair(b: _Builder, at: Sequence[float]) -> None:
    w, h = b.rng.uniform((0.4, 0.42), (0.5, 0.5))
    legs = [(x, y, 0, 0.05, 0, h) for x in (0, w - 0.05) for y in (0, w)]
    back = (0, 0, h, w, 0, b.rng.uniform(0.4, 0.5))
    b.sheets(CHAIR, at, [(0, 0, h, w, w, 0), back, *legs])


def _shelf(b: _Builder, at: Sequence[float]) -> None:
    w, d, h = b.rng.uniform((0.7, 0.25, 1.2), (1.2, 0.4, 2.0))
    boards = [(0, 0, z, w, d, 0) for z in np.arange(0.1, h, 0.35)]
    sides = [(x, 0, 0, 0, d, h) for x in (0, w)]
    b.sheets(SHELF, at, [*boards, *sides, (0, d, 0, w, 0, h)])


def room(seed: int, voxel: float, small: bool = False) -> Room:
    """Makes a room of 3 to 5 metres (small: 2 to 3); `voxel` is the edge of a
    voxel in metres."""
    rng = np.random.default_rng(seed)
    b = _Builder(rng, voxel)
    low, high = ((2.0, 2.0), (3.0, 3.0)) if small else ((3.0, 3.0), (5.0, 5.0))
    (w, d), h = rng.uniform(low, high), 2.4
    b.sheets(FLOOR, (0, 0, 0), [(0, 0, 0, w, d, 0)])
    b.sheets(
        WALL,
        (0, 0, 0),
        [
            (0, 0, 0, w, 0, h),
            (0, d, 0, w, 0, h),
            (0, 0, 0, 0, d, h),
            (w, 0, 0, 0, d, h),
        ],
    )
    for make, most in ((_table, 2), (_chair, 4), (_shelf, 3)):
        for _ in range(int(rng.integers(1, most + 1))):
            make(b, (*rng.uniform(0.7, (w - 0.7, d - 0.7)), 0.0))
    points = np.concatenate([p for p, _, _ in b.parts])
    counts = [len(p) for p, _, _ in b.parts]
    colours = np.repeat([c for _, c, _ in b.parts], counts, axis=0)
    labels = np.repeat([n for _, _, n in b.parts], counts)
    points += rng.normal(0, 0.01, points.shape)
    at = np.floor(points / voxel).astype(np.int32)
    at -= at.min(0)
    # A voxel has the label of the last object that was put there.
    last = np.unique(at[::-1], axis=0, return_index=True)[1]
    keep = np.sort(len(at) - 1 - last)
    colours = colours[keep] + rng.normal(0, 0.1, (len(keep), 3))
    features = np.concatenate([np.ones((len(keep), 1)), colours], 1)
    return Room(at[keep], features.astype(np.float32), labels[keep])
