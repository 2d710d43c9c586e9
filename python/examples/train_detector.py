#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_detector.py - trains a detector's backbone with spctune and with
another engine, and reports whether both losses fall alike.

    python3 python/examples/train_detector.py --out FOLDER [--scans FOLDER]
        [--device cuda:0] [--engines spctune,spconv] [--seeds 3] [--steps 100]
        [--small]

The backbone is SECOND's. Cars are added to each sweep: boxes of points on the
ground, with random positions and angles that the seed determines. A head on the
dense plane learns a heat map of their centres. --scans is a folder with
recorded sweeps, files .bin with rows of float32 x, y, z, intensity (KITTI's
form); else sweeps are generated. As in train_rooms.py, both engines begin with
the same weights and see the same sweeps; FOLDER receives detector.json and
detector.svg.
"""

import glob
import sys
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import torch
import training
from torch import nn


class Grid(NamedTuple):
    """size: edge of a voxel in metres; low: the lowest corner; shape: number of
    voxels along x, y, z"""

    size: Tuple[float, float, float]
    low: Tuple[float, float, float]
    shape: Tuple[int, int, int]


FULL = Grid((0.1, 0.1, 0.15), (-51.2, -51.2, -3), (1024, 1024, 40))
SMALL = Grid((0.4, 0.4, 0.4), (-6.4, -6.4, -2), (32, 32, 8))


def settings(small: bool) -> Dict[str, Any]:
    if small:
        return dict(
            grid=SMALL, widths=[4, 4], sweeps=4, batch=2, cars=2, rate=1e-2
        )
    return dict(
        grid=FULL,
        widths=[16, 32, 64, 64],
        sweeps=24,
        batch=4,
        cars=12,
        rate=1e-3,
    )


# ---- sweeps ------------------------------------------------------------------


def generated(rng: np.random.Generator, reach: float) -> np.ndarray:
    """Generates a sweep of 64 beams over flat ground with some walls."""
    azimuth = np.linspace(-np.pi, np.pi, 1800, endpoint=False)
    beams = np.radians(np.linspace(-24.9, 2, 64))
    a, e = (x.ravel() for x in np.meshgrid(azimuth, beams))
    down = np.where(e < -0.01, 1.73 / np.tan(np.maximum(-e, 0.01)), 1e3)
    # Each sector has a wall at 10 metres or more.
    walls = rng.uniform(0.2, 1.5, 36) * reach
    across = np.minimum(
        down, walls[((a + np.pi) / (2 * np.pi) * 35.99).astype(int)]
    )
    points = np.stack(
        [across * np.cos(a), across * np.sin(a), across * np.tan(e)], 1
    )
    points = points[across < reach * 1.4]
    return points + rng.normal(0, 0.02, points.shape)


def is_sweep(path: str) -> bool:
    """True if the points reach as far as a sweep, unlike objects and rooms."""
    points = np.fromfile(path, np.float32).reshape(-1, 4)
    return bool(np.ptp(points[:, :2], axis=0).min() > 40)


def recorded(path: str, rng: np.random.Generator) -> np.ndarray:
    """Returns a file's points, turned about the vertical axis."""
    points = np.fromfile(path, np.float32).reshape(-1, 4)[:, :3]
    angle = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(angle), np.sin(angle)
    turned = points.astype(np.float64)
    turned[:, :2] = turned[:, :2] @ [[c, s], [-s, c]]
    return turned


def car(rng: np.random.Generator, reach: float) -> Tuple[Any, Any]:
    """Returns points on the sides and the roof of a box, and its centre."""
    size = rng.uniform((3.5, 1.6, 1.4), (4.8, 2.0, 1.8))
    points = rng.uniform(-0.5, 0.5, (600, 3))
    side = rng.integers(0, 5, 600)
    axis = np.array([0, 0, 1, 1, 2])[side]
    points[np.arange(600), axis] = np.array([-0.5, 0.5, -0.5, 0.5, 0.5])[side]
    points *= size
    angle = rng.uniform(0, np.pi)
    c, s = np.cos(angle), np.sin(angle)
    points[:, :2] = points[:, :2] @ [[c, s], [-s, c]]
    centre = rng.uniform(-0.8, 0.8, 2) * reach
    points += [*centre, -1.73 + size[2] / 2]
    return points, centre


class Sweep(NamedTuple):
    """coords int32 [rows, 3]: z, y, x; features [rows, 4]: the mean offset of
    the voxel's points from its centre, in voxels, and their height; heat
    [y, x]: 1 at the centres of cars."""

    coords: np.ndarray
    features: np.ndarray
    heat: np.ndarray


def sweep(how: Dict[str, Any], scans: List[str], seed: int, down: int) -> Sweep:
    """Makes one sweep with its cars. down: the stride of the dense plane."""
    grid, rng = how["grid"], np.random.default_rng(seed)
    size, low, shape = (np.array(part) for part in grid)
    reach = -grid.low[0]
    parts = [
        recorded(scans[seed % len(scans)], rng)
        if scans
        else generated(rng, reach)
    ]
    plane = shape[1] // down, shape[0] // down
    y, x = np.indices(plane)
    heat = np.zeros(plane, np.float32)
    for _ in range(how["cars"]):
        points, centre = car(rng, reach)
        parts.append(points)
        at = (centre - low[:2]) / (size[:2] * down) - 0.5
        near = (x - at[0]) ** 2 + (y - at[1]) ** 2
        heat = np.maximum(heat, np.exp(-near / 2).astype(np.float32))
    points = (np.concatenate(parts) - low) / size
    points = points[((points >= 0) & (points < shape)).all(1)]
    at, inverse, count = np.unique(
        np.floor(points).astype(np.int32),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    offsets = np.zeros((len(at), 3))
    np.add.at(offsets, inverse.ravel(), points - np.floor(points) - 0.5)
    features = np.concatenate(
        [offsets / count[:, None], at[:, 2:] / shape[2]], 1
    )
    order = np.ascontiguousarray(at[:, ::-1])
    return Sweep(order, features.astype(np.float32), heat)


# ---- the network -------------------------------------------------------------


def detector(sp: Any, widths: List[int], shape: List[int]) -> nn.Module:
    """SECOND's backbone (a strided layer and two others for each level) and a
    head on its dense plane. shape: z, y, x."""

    def layer(conv: Any) -> List[nn.Module]:
        norm = nn.BatchNorm1d(conv.weight.shape[0], eps=1e-3, momentum=0.05)
        return [conv, norm, nn.ReLU()]

    def same(a: int, b: int, level: int) -> List[nn.Module]:
        key = f"subm{level}"
        return layer(
            sp.SubMConv3d(a, b, 3, padding=1, bias=False, indice_key=key)
        )

    levels = same(4, widths[0], 0) + same(widths[0], widths[0], 0)
    for i, (a, b) in enumerate(zip(widths, widths[1:]), 1):
        key = f"down{i}"
        conv = sp.SparseConv3d(a, b, 3, 2, 1, bias=False, indice_key=key)
        levels += layer(conv) + same(b, b, i) + same(b, b, i)
        shape = [(n - 1) // 2 + 1 for n in shape]
    channels = widths[-1] * shape[0]

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = sp.SparseSequential(*levels)
            self.head = nn.Sequential(
                nn.Conv2d(channels, 32, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(32, 1, 1),
            )

        def forward(self, f: Any, c: Any, shape: Any, batches: int) -> Any:
            x = sp.SparseConvTensor(f, c, shape, batches)
            plane = self.backbone(x).dense()
            return self.head(plane.flatten(1, 2))[:, 0]

    return Detector()


def focal(guess: torch.Tensor, heat: torch.Tensor) -> torch.Tensor:
    """CenterNet's loss: a wrong guess near a centre costs less."""
    p = guess.float().sigmoid().clamp(1e-4, 1 - 1e-4)
    is_centre = heat > 0.8
    hit = -((1 - p) ** 2) * p.log() * is_centre
    miss = -((1 - heat) ** 4) * p**2 * (1 - p).log() * ~is_centre
    return (hit + miss).sum() / is_centre.sum().clamp(min=1)


# ---- training ----------------------------------------------------------------


class Detection(training.Task):
    name, quantities = "detector", ("loss",)

    def add_arguments(self, parser: Any) -> None:
        parser.set_defaults(steps=100)
        parser.add_argument("--scans")

    def run(self, sp: Any, seed: int, args: Any, device: Any) -> Dict[str, Any]:
        how = settings(args.small)
        scans = sorted(glob.glob(f"{args.scans}/*.bin")) if args.scans else []
        scans = [path for path in scans if is_sweep(path)]
        if args.scans and not scans:
            raise SystemExit(f"{args.scans} has no file .bin of a sweep")
        grid, widths = how["grid"], how["widths"]
        shape = list(grid.shape[::-1])
        down = 2 ** (len(widths) - 1)
        sweeps = [
            sweep(how, scans, 1000 * seed + i, down)
            for i in range(how["sweeps"])
        ]
        model = detector(sp, widths, shape).to(device)
        training.start(model, seed)
        model.head[-1].bias.data.fill_(-2.2)  # few cells are centres
        step = training.Step(model, how["rate"], device)
        rng = np.random.default_rng(seed)
        losses = []
        for _ in range(args.steps):
            chosen = rng.choice(len(sweeps), how["batch"], replace=False)
            given, heat = training.batch(
                [sweeps[i] for i in chosen], shape, device, np.stack
            )
            losses.append(step(lambda: focal(model(*given), heat)))  # noqa: B023
        return {
            "loss": training.averages(losses),
            "parameters": sum(p.numel() for p in model.parameters()),
            "voxels": sum(len(s.coords) for s in sweeps) // len(sweeps),
        }


def main(given: Any = None) -> bool:
    return training.main(Detection(), __doc__, __file__, given)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
