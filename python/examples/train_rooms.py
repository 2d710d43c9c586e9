#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_rooms.py - trains a segmentation network with spctune and with another
engine, and reports whether each curve lies within the other's spread.

    python3 python/examples/train_rooms.py --out FOLDER [--device cuda:0]
        [--engines spctune,spconv] [--seeds 3] [--steps 150] [--small]

A MinkUNet of 2 million parameters learns floor, wall, table, chair and shelf in
generated rooms (rooms.py). For each seed both engines begin with the same
weights and see the same rooms in the same order, on a GPU with float16 autocast
and GradScaler. The other engine is spconv where it is installed, else dense
convolution in small rooms (reference.py). FOLDER receives rooms.json and
rooms.svg; the last line is the verdict, and the exit status is 1 if the curves
differ.
"""

import sys
from typing import Any, Dict, List

import numpy as np
import rooms
import torch
import torch.nn.functional as F
import training
from torch import nn

# ---- the network -------------------------------------------------------------


def layer(conv: Any) -> List[nn.Module]:
    cout = conv.weight.shape[0]
    return [conv, nn.BatchNorm1d(cout, momentum=0.05), nn.ReLU()]


def unet(sp: Any, cin: int, classes: int, widths: List[int]) -> nn.Module:
    """A MinkUNet with two residual blocks on each level down, and one on each
    level up."""

    class Residual(sp.SparseModule):  # type: ignore[misc, name-defined]
        def __init__(self, a: int, b: int, key: str) -> None:
            super().__init__()
            more = {"padding": 1, "bias": False, "indice_key": key}
            self.a = sp.SubMConv3d(a, b, 3, **more)
            self.b = sp.SubMConv3d(b, b, 3, **more)
            self.norm_a, self.norm_b = nn.BatchNorm1d(b), nn.BatchNorm1d(b)
            self.short = nn.Identity() if a == b else nn.Linear(a, b)

        def forward(self, x: Any) -> Any:
            y = self.a(x)
            y = self.b(y.replace_feature(self.norm_a(y.features).relu()))
            out = self.norm_b(y.features) + self.short(x.features)
            return y.replace_feature(out.relu())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            conv = sp.SubMConv3d(
                cin, widths[0], 3, padding=1, bias=False, indice_key="s0"
            )
            self.stem = sp.SparseSequential(*layer(conv))
            self.down, self.encode = nn.ModuleList(), nn.ModuleList()
            self.up, self.decode = nn.ModuleList(), nn.ModuleList()
            for i, (a, b) in enumerate(zip(widths, widths[1:])):
                conv = sp.SparseConv3d(
                    a, b, 2, 2, bias=False, indice_key=f"d{i}"
                )
                self.down.append(sp.SparseSequential(*layer(conv)))
                self.encode.append(Residual(b, b, f"s{i + 1}"))
                conv = sp.SparseInverseConv3d(
                    b, a, 2, indice_key=f"d{i}", bias=False
                )
                self.up.append(sp.SparseSequential(*layer(conv)))
                self.decode.append(Residual(2 * a, a, f"s{i}"))
            self.head = nn.Linear(widths[0], classes)

        def forward(self, f: Any, c: Any, shape: Any, batches: int) -> Any:
            x = self.stem(sp.SparseConvTensor(f, c, shape, batches))
            kept = []
            for down, encode in zip(self.down, self.encode):
                kept.append(x)
                x = encode(down(x))
            for up, decode in zip(self.up[::-1], self.decode[::-1]):
                x, side = up(x), kept.pop()
                both = torch.cat([x.features, side.features], 1)
                x = decode(x.replace_feature(both))
            return self.head(x.features)

    return UNet()


# ---- training ----------------------------------------------------------------


def settings(small: bool) -> Dict[str, Any]:
    if small:
        return dict(
            widths=[4, 4],
            voxel=0.2,
            shape=[32, 32, 16],
            rooms=6,
            tests=2,
            batch=2,
        )
    return dict(
        widths=[32, 64, 64, 96],
        voxel=0.06,
        shape=[96, 96, 48],
        rooms=24,
        tests=4,
        batch=4,
    )


def mean_iou(guess: torch.Tensor, labels: torch.Tensor) -> float:
    """Returns the intersection over union, averaged over the classes that
    occur."""
    both = torch.bincount(labels * 5 + guess, minlength=25).view(5, 5).double()
    union = both.sum(0) + both.sum(1) - both.diag()
    return float((both.diag()[union > 0] / union[union > 0]).mean())


class Rooms(training.Task):
    name, quantities = "rooms", ("loss", "mIoU")

    def run(self, sp: Any, seed: int, args: Any, device: Any) -> Dict[str, Any]:
        """Returns the curves of one seed: the loss over steps, and the mIoU on
        other rooms."""
        how = settings(args.small)

        def made(first: int, count: int) -> List[rooms.Room]:
            seeds = range(first, first + count)
            return [rooms.room(s, how["voxel"], args.small) for s in seeds]

        def batch(chosen: List[rooms.Room]) -> Any:
            # All rooms have one shape, since a strided layer with another shape
            # would need another kernel.
            return training.batch(chosen, how["shape"], device, np.concatenate)

        known = made(1000 * seed, how["rooms"])
        test, answers = batch(made(999_000, how["tests"]))
        model = unet(sp, 4, len(rooms.CLASSES), how["widths"]).to(device)
        training.start(model, seed)
        step = training.Step(model, 2e-3, device)
        rng = np.random.default_rng(seed)
        losses, ious = [], []
        for i in range(args.steps):
            chosen = rng.choice(len(known), how["batch"], replace=False)
            given, labels = batch([known[k] for k in chosen])
            losses.append(
                step(lambda: F.cross_entropy(model(*given).float(), labels))  # noqa: B023
            )
            if (i + 1) % (args.steps // training.POINTS) == 0:
                model.eval()
                with torch.no_grad(), step.autocast():
                    ious.append(mean_iou(model(*test).argmax(1), answers))
                model.train()
        return {
            "loss": training.averages(losses),
            "mIoU": ious[: training.POINTS],
            "parameters": sum(p.numel() for p in model.parameters()),
            "voxels": sum(len(r.labels) for r in known) // len(known),
        }


def main(given: Any = None) -> bool:
    return training.main(Rooms(), __doc__, __file__, given)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
