#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""train_rooms.py - trains a segmentation network with spctune and with another
engine, and says whether their curves lie in each other's spread.

    python3 python/examples/train_rooms.py --out FOLDER [--device cuda:0]
        [--engines spctune,spconv] [--seeds 3] [--steps 150] [--small]

A MinkUNet of 2 million parameters learns floor, wall, table, chair and shelf in
generated rooms (rooms.py). For each seed both engines begin with the same
weights and see the same rooms in the same order, on a GPU with float16 autocast
and GradScaler. The other engine is spconv where it is installed, else dense
convolution in small rooms (reference.py). FOLDER receives rooms.json and
rooms.svg; the verdict is the last line, and the exit status 1 if it is no.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, List

import curves
import numpy as np
import rooms
import torch
from torch import nn

ENGINES = {
    "spctune": "spctune.spconv",
    "spconv": "spconv.pytorch",
    "dense": "reference",
}
POINTS = 10  # of each curve


# ---- the network -------------------------------------------------------------


def layer(conv: Any) -> List[nn.Module]:
    cout = conv.weight.shape[0]
    return [conv, nn.BatchNorm1d(cout, momentum=0.05), nn.ReLU()]


def unet(sp: Any, cin: int, classes: int, widths: List[int]) -> nn.Module:
    """A MinkUNet: at each level two residual blocks down, and one up."""

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


def start(model: nn.Module, seed: int) -> None:
    """The same weights in every engine, whose own initial ones differ."""
    draw = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.data.zero_()
        elif weight.dim() > 1:
            # About a third of the neighbours of a voxel on a surface exist.
            there = 1 / 3 if weight.dim() == 5 and weight.shape[1] == 3 else 1
            fan_in = weight[0].numel() * there
            value = torch.randn(weight.shape, generator=draw)
            weight.data.copy_(value * (2 / fan_in) ** 0.5)


# ---- training ----------------------------------------------------------------


def settings(small: bool, steps: int) -> Dict[str, Any]:
    if small:
        return dict(
            widths=[4, 4],
            voxel=0.2,
            shape=[32, 32, 16],
            rooms=6,
            tests=2,
            batch=2,
            steps=steps,
        )
    return dict(
        widths=[32, 64, 64, 96],
        voxel=0.06,
        shape=[96, 96, 48],
        rooms=24,
        tests=4,
        batch=4,
        steps=steps,
    )


def batch(several: List[rooms.Room], device: Any, shape: List[int]) -> Any:
    """The arguments of the network, and the labels."""
    coords = [
        np.pad(r.coords, ((0, 0), (1, 0)), constant_values=i)
        for i, r in enumerate(several)
    ]
    tensors = [
        torch.from_numpy(np.concatenate(part)).to(device)
        for part in (
            [r.features for r in several],
            coords,
            [r.labels for r in several],
        )
    ]
    return (tensors[0], tensors[1], shape, len(several)), tensors[2]


def mean_iou(guess: torch.Tensor, labels: torch.Tensor) -> float:
    """Intersection over union, the mean of the classes that occur."""
    both = torch.bincount(labels * 5 + guess, minlength=25).view(5, 5).double()
    union = both.sum(0) + both.sum(1) - both.diag()
    return float((both.diag()[union > 0] / union[union > 0]).mean())


def train(engine: str, seed: int, how: Dict[str, Any], device: Any) -> Any:
    """The curves of one seed: loss over steps, and mIoU of other rooms."""
    sp = importlib.import_module(ENGINES[engine])
    count, steps = how["rooms"], how["steps"]
    small = how["voxel"] > 0.1
    made = [
        rooms.room(1000 * seed + i, how["voxel"], small) for i in range(count)
    ]
    others = [
        rooms.room(999_000 + i, how["voxel"], small)
        for i in range(how["tests"])
    ]
    # One for all: a strided layer of another shape would be another kernel.
    shape = how["shape"]
    model = unet(sp, 4, len(rooms.CLASSES), how["widths"]).to(device)
    start(model, seed)
    gpu = device.type == "cuda"
    optimiser = torch.optim.AdamW(model.parameters(), 2e-3)
    scaler = torch.amp.GradScaler(device.type, enabled=gpu)
    rng = np.random.default_rng(seed)
    losses, ious = [], []
    test, answers = batch(others, device, shape)
    for step in range(steps):
        chosen = rng.choice(count, how["batch"], replace=False)
        given, labels = batch([made[i] for i in chosen], device, shape)
        optimiser.zero_grad()
        with torch.autocast(device.type, torch.float16, gpu):
            out = model(*given)
        loss = nn.functional.cross_entropy(out.float(), labels)
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
        if (step + 1) % (steps // POINTS) == 0:
            model.eval()
            with (
                torch.no_grad(),
                torch.autocast(device.type, torch.float16, gpu),
            ):
                guess = model(*test).argmax(1)
            model.train()
            ious.append(mean_iou(guess, answers))
    parts = np.array_split(np.array(losses), POINTS)
    return {
        "loss": [float(p.mean()) for p in parts],
        "mIoU": ious,
        "parameters": sum(p.numel() for p in model.parameters()),
        "voxels": sum(len(r.labels) for r in made) // count,
    }


# ---- all seeds ---------------------------------------------------------------


def in_processes(args: Any, engines: List[str]) -> Dict[str, List[Any]]:
    """All at once: on a GPU they share it, and compile side by side."""
    here = os.path.abspath(__file__)
    running = []
    for engine in engines:
        for seed in range(args.seeds):
            path = f"{args.out}/rooms_{engine}_{seed}.json"
            if os.path.exists(path):
                os.remove(path)
            words = [sys.executable, "-B", here, "--out", path, "--one", engine]
            words += ["--first-seed", str(seed), "--device", args.device]
            words += ["--steps", str(args.steps)]
            words += ["--small"] if args.small else []
            log = open(path.replace(".json", ".log"), "w", encoding="utf-8")
            with log:
                running.append(
                    (
                        engine,
                        path,
                        subprocess.Popen(words, stdout=log, stderr=log),
                    )
                )
    found: Dict[str, List[Any]] = {engine: [] for engine in engines}
    for engine, path, process in running:
        process.wait()
        if process.returncode == 0:
            with open(path, encoding="utf-8") as file:
                found[engine].append(json.load(file))
            continue
        with open(path.replace(".json", ".log"), encoding="utf-8") as file:
            last = (file.read().strip().split("\n") or [""])[-1]
        print(f"{os.path.basename(path)}: {last[:300]}", flush=True)
    return found


def verdict(found: Dict[str, List[Any]], out: str) -> bool:
    """Prints curves and verdict; writes both and a picture."""
    (ours, other), same = list(found), True
    told: Dict[str, Any] = {"runs": found}
    parts = []
    for what in ("loss", "mIoU"):
        lines = {e: [run[what] for run in found[e]] for e in found}
        parts.append((what, lines))
        for engine, seeds in lines.items():
            means = " ".join(f"{np.mean(p):6.3f}" for p in zip(*seeds))
            print(f"{what:5} {engine:9} {means}")
        result = curves.compare(lines[ours], lines[other])
        told[what] = result._asdict()
        print(
            f"{what:5} means differ by at most {result.worst:.2f} of what the "
            f"spread of seeds allows (99 %); {result.within:.0%} of the points "
            "lie between the other engine's lowest and highest seed"
        )
        same = same and result.agree
    told["agree"] = same
    with open(f"{out}/rooms.json", "w", encoding="utf-8") as file:
        json.dump(told, file, indent=1)
    title = f"Rooms: {ours} and {other}, {len(found[ours])} seeds"
    with open(f"{out}/rooms.svg", "w", encoding="utf-8") as file:
        file.write(curves.picture(title, parts))
    return same


def arguments(given: Any = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument(
        "--device", default="cuda:0" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--engines")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument(
        "--first-seed", type=int, default=0, help=argparse.SUPPRESS
    )
    return parser.parse_args(given)


def main(given: Any = None) -> bool:
    args = arguments(given)
    import spctune

    # Compiled once, by whoever needs a kernel first.
    spctune.options(background=False)
    device = torch.device(args.device)
    how = settings(args.small, args.steps)
    if args.one:
        done = train(args.one, args.first_seed, how, device)
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(done, file)
        return True
    if args.engines is None:
        try:
            importlib.import_module("spconv.pytorch")
            usable = device.type == "cuda"
        except ImportError:
            usable = False
        args.engines = "spctune," + ("spconv" if usable else "dense")
    engines = args.engines.split(",")
    begin = time.monotonic()
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    os.environ.setdefault("SPC_DATABASE", f"{args.out}/rooms.db")
    if device.type == "cuda":
        found = in_processes(args, engines)
    else:
        found = {
            e: [train(e, s, how, device) for s in range(args.seeds)]
            for e in engines
        }
    if any(len(runs) < args.seeds for runs in found.values()):
        print("no verdict: not every run ended well")
        return False
    first = found[engines[0]][0]
    print(
        f"{first['parameters'] / 1e6:.2f} million parameters, rooms of "
        f"{first['voxels']} voxels, {args.steps} steps, {args.seeds} seeds, "
        f"{time.monotonic() - begin:.0f} s"
    )
    same = verdict(found, args.out)
    print(
        f"verdict: the curves of {' and '.join(engines)} "
        + ("lie" if same else "do NOT lie")
        + " in each other's spread"
    )
    return same


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
