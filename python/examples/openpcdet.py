#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""openpcdet.py - a backbone of OpenPCDet, unmodified, without spconv.

    git clone --depth 1 https://github.com/open-mmlab/OpenPCDet
    python3 python/examples/openpcdet.py OpenPCDet --out FOLDER
        [--device cuda:0] [--scan FILE.bin] [--scale 1.0]

Trains a step of VoxelBackBone8x, compiles it to one network, compares both, and
stores the network for C. FOLDER receives second.db and two pictures.
docs/openpcdet.md explains each part.
"""

import argparse
import importlib
import os
import sys
import types
from typing import Any, Dict, List

import numpy as np
import torch

import spctune

SIZE, LOW = np.array([0.05, 0.05, 0.1]), np.array([0, -40, -3])
GRID = np.array([1408, 1600, 40])  # KITTI's voxels along x, y, z


# ---- 1. OpenPCDet without spconv ---------------------------------------------


def backbone(clone: str) -> Any:
    """Imports VoxelBackBone8x from a clone. OpenPCDet's packages import
    compiled operators that a backbone does not need; empty packages replace
    them here."""
    spctune.install()  # from here on, `import spconv` finds spctune
    top = os.path.join(clone, "pcdet")
    if not os.path.isdir(top):
        sys.exit(f"{clone} is not a clone of OpenPCDet: it has no folder pcdet")
    for name in ("", ".utils", ".models", ".models.backbones_3d"):
        package = types.ModuleType(f"pcdet{name}")
        package.__path__ = [top + name.replace(".", "/")]
        sys.modules[package.__name__] = package
    module = importlib.import_module(
        "pcdet.models.backbones_3d.spconv_backbone"
    )
    model_cfg = types.SimpleNamespace(get=lambda key, default=None: default)
    return module.VoxelBackBone8x(model_cfg, 4, GRID)


# ---- 2. voxels ---------------------------------------------------------------


def sweep(path: Any, seed: int, scale: float) -> np.ndarray:
    """Returns the points [n, 4] of a file, or of a generated street."""
    if path:
        points = np.fromfile(path, np.float32).reshape(-1, 4)
        return points[:: int(round(1 / scale))]
    rng = np.random.default_rng(seed)
    count = int(120_000 * scale)
    angle = rng.uniform(-np.pi / 2, np.pi / 2, count)
    reach = np.minimum(
        rng.gamma(2.0, 8.0, count), rng.choice([15, 30, 60], count)
    )
    height = np.where(
        reach > 14.9,
        rng.uniform(-1.7, 0.8, count),
        rng.normal(-1.7, 0.03, count),
    )
    across = [reach * np.cos(angle), reach * np.sin(angle)]
    return np.stack([*across, height, rng.random(count)], 1).astype(np.float32)


def batch(several: List[np.ndarray], device: Any) -> Dict[str, Any]:
    """Returns OpenPCDet's dictionary: the mean of each voxel's points, and the
    voxels as batch, z, y, x."""
    features, coords = [], []
    for i, points in enumerate(several):
        at = np.floor((points[:, :3] - LOW) / SIZE).astype(np.int32)
        inside = ((at >= 0) & (at < GRID)).all(1)
        at, inverse, count = np.unique(
            at[inside][:, ::-1],
            axis=0,
            return_inverse=True,
            return_counts=True,
        )
        sums = np.zeros((len(at), 4), np.float32)
        np.add.at(sums, inverse.ravel(), points[inside])
        features.append(sums / count[:, None].astype(np.float32))
        coords.append(np.pad(at, ((0, 0), (1, 0)), constant_values=i))
    return {
        "voxel_features": torch.from_numpy(np.concatenate(features)).to(device),
        "voxel_coords": torch.from_numpy(np.concatenate(coords)).to(device),
        "batch_size": len(several),
    }


# ---- 3. a step of training ---------------------------------------------------


def train(model: Any, given: Dict[str, Any], device: Any) -> List[float]:
    """Trains three steps towards an output of zeros."""
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        out = model(dict(given))["encoded_spconv_tensor"]
        loss = out.features.square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


# ---- 4. pictures -------------------------------------------------------------


def svg(width: int, height: int, label: str, parts: List[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} '
        f'{height}" role="img" aria-label="{label}">\n'
        "<style>text { font: 12px system-ui, sans-serif; fill: #57606a; } "
        ".us { fill: #1a7f37; } .floor { fill: #8c959f; }</style>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def draw_levels(out: Dict[str, Any]) -> str:
    """Draws the voxels of each level from above: every occupied square of 40 by
    40 input voxels."""
    parts, side = [], 170
    step = side / (GRID[1] / 40)
    for i, (name, x) in enumerate(out["multi_scale_3d_features"].items()):
        stride = out["multi_scale_3d_strides"][name]
        coords = x.indices.cpu().numpy()
        first = coords[coords[:, 0] == 0][:, 2:]
        left = 10 + i * (side + 16)
        squares = [
            f"M{left + y * step:.1f} {200 - ahead * step:.1f}"
            f"h{step:.1f}v{step:.1f}h-{step:.1f}z"
            for y, ahead in np.unique(first * stride // 40, axis=0).tolist()
        ]
        parts += [
            f'<text x="{left}" y="16">{name}: {len(coords)} voxels</text>',
            f'<path class="us" d="{"".join(squares)}"/>',
        ]
    width = 10 + len(out["multi_scale_3d_features"]) * (side + 16)
    return svg(width, 220, "Voxels of each level from above", parts)


def draw_profile(profile: Any) -> str:
    """Draws time and floor of each step of the compiled network."""
    most = max(step.us for step in profile) or 1
    parts = []
    for i, step in enumerate(profile):
        y, name = 10 + 18 * i, f"{step.kind} {step.name}"
        width = 300 * step.us / most
        floor = 300 * step.floor_us / most
        parts += [
            f'<text x="250" y="{y + 11}" text-anchor="end">{name}</text>',
            f'<rect class="us" x="258" y="{y}" width="{width:.1f}" '
            'height="8"/>',
            f'<rect class="floor" x="258" y="{y + 8}" width="{floor:.1f}" '
            'height="4"/>',
            f'<text x="{264 + width:.0f}" y="{y + 11}">{step.us:.0f} us</text>',
        ]
    return svg(660, 20 + 18 * len(profile), "Time of each step", parts)


# ---- all of it ---------------------------------------------------------------


def main(given: Any = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("clone")
    parser.add_argument("--out", required=True)
    usual = "cuda:0" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=usual)
    parser.add_argument("--scan")
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args(given)
    os.makedirs(args.out, exist_ok=True)
    device = torch.device(args.device)
    torch.manual_seed(0)
    model = backbone(args.clone).to(device)
    layer = type(model.conv_input[0])
    print(f"{type(model).__name__}'s layers are of {layer.__module__}")
    one, two = (
        batch([sweep(args.scan, seed, scale)], device)
        for seed, scale in ((0, args.scale), (1, args.scale / 2))
    )
    print("losses:", *(f"{loss:.4f}" for loss in train(model, one, device)))

    model.eval()
    with torch.no_grad():
        want = model(dict(one))
    kind = "f16" if device.type == "cuda" else "f32"
    net = spctune.compile(model, samples=[one, two], dtype=kind, name="SECOND")
    print(net)
    got = net(one)
    a, b = (d["encoded_spconv_tensor"].features.float() for d in (got, want))
    off = ((a - b).abs().max() / b.square().mean().sqrt()).item()
    print(f"compiled and eager differ by {off:.1e}; {net.tolerance():.1e} may")
    profile = net.profile(one)
    print(profile)
    net.save(f"{args.out}/second.db", "second")
    for name, text in (
        ("openpcdet_levels", draw_levels(want)),
        ("openpcdet_profile", draw_profile(profile)),
    ):
        with open(f"{args.out}/{name}.svg", "w", encoding="utf-8") as file:
            file.write(text)
    if off > net.tolerance():
        sys.exit("the results differ too much")


if __name__ == "__main__":
    main()
