#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python.py - networks through the Python package, beside spconv.

    python3 benchmarks/python.py [--device cuda:0] [--engines spctune,spconv]
        [--networks SECOND,MinkUNet34C] [--scene gen:lidar,beams=64@VOXEL]
        [--rounds 50] [--csv FILE]

Each network runs on one scene, written once for both engines (models.py), with
the same weights. Printed are medians of wall times in milliseconds with the
device idle before and after, maps included: eager inference in f16 (no_grad),
compiled inference, and a training step (forward, loss, backward, AdamW under
autocast). Engines run in turns, so that a machine's noise reaches all alike.
Results are compared before and after: the largest difference to spctune's in
parts of the root mean square. Peak memory is that of torch's allocator.
"""

import argparse
import csv
import ctypes
import importlib
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import models
import torch

SHAPES = {"SECOND": [41, 1600, 1408], "CenterPoint": [41, 1440, 1440]}
VOXELS = {
    "SECOND": "0.05,0.05,0.1",
    "CenterPoint": "0.075,0.075,0.2",
    "MinkUNet34C": "0.05",
    "SpUNet": "0.05",
}


def voxels(spec: str) -> torch.Tensor:
    """The voxels of a scene: int32 [rows, 4], batch, x, y, z."""
    from spctune import _abi
    from spctune._lib import check, lib

    scene, error = ctypes.c_void_p(), _abi.spc_error()
    check(lib.spc_scene_load(scene, spec.encode(), error), error)
    rows = lib.spc_scene_rows(scene)
    out = torch.empty(rows, 4, dtype=torch.int32)
    ctypes.memmove(out.data_ptr(), lib.spc_scene_coords(scene), rows * 16)
    lib.spc_scene_free(scene)
    return out


def batch(name: str, scene: str, channels: int, device: Any, seed: int) -> Any:
    """Features, voxels in the order of the network's axes, shape, batches."""
    rows = voxels(f"{scene}@{VOXELS[name]}" if "@" not in scene else scene)
    rows[:, 1:] -= rows[:, 1:].min(0).values
    if name in SHAPES:  # z, y, x
        rows = rows[:, [0, 3, 2, 1]]
        shape = SHAPES[name]
        inside = (rows[:, 1:] < torch.tensor(shape)).all(1)
        rows = rows[inside]
    else:
        # A multiple of 16 keeps every level's last plane.
        shape = ((rows[:, 1:].max(0).values + 1 + 15) // 16 * 16).tolist()
    draw = torch.Generator().manual_seed(seed)
    rows = rows[torch.randperm(len(rows), generator=draw)].contiguous()
    features = torch.randn(len(rows), channels, generator=draw)
    return features.to(device), rows.to(device), shape, 1


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def in_turns(
    calls: Dict[str, Callable[[], Any]], rounds: int, device: torch.device
) -> Dict[str, List[float]]:
    """Wall times in ms of each call, one of each in every round."""
    times: Dict[str, List[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            wait(device)
            start = time.perf_counter()
            call()
            wait(device)
            times[name].append(1e3 * (time.perf_counter() - start))
    return times


def trainer(model: Any, given: Any, device: torch.device) -> Callable[[], Any]:
    """A step of training; the voxels are new tensors each time, so that maps
    are made again."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    features, rows, shape, batches = given
    kind = torch.float16 if device.type == "cuda" else torch.bfloat16

    def step() -> Any:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=kind):
            out = model(features, rows.clone(), shape, batches)
            loss = out.float().square().mean()
        loss.backward()
        optimiser.step()
        return loss

    return step


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    scale = b.double().pow(2).mean().sqrt().item() + 1e-30
    return (a.double() - b.double()).abs().max().item() / scale


def network(
    name: str, engines: Dict[str, Any], args: Any, device: torch.device
) -> List[Tuple[Any, ...]]:
    """The rows of the table for one network."""
    make, channels = models.NETWORKS[name]
    given = batch(name, args.scene, channels, device, args.seed)
    smaller = tuple(
        v[: len(v) // 2] if i < 2 else v for i, v in enumerate(given)
    )
    kind = torch.float16 if device.type == "cuda" else torch.float32
    torch.manual_seed(args.seed)
    first = models.settle(make(engines["spctune"])).eval()
    calls: Dict[str, Callable[[], Any]] = {}
    results: Dict[str, torch.Tensor] = {}
    for engine, sp in engines.items():
        model = make(sp)
        model.load_state_dict(first.state_dict())
        model = model.to(device, kind).eval()
        x = given[0].to(kind)

        def eager(model: Any = model, x: Any = x) -> Any:
            with torch.no_grad():
                return model(x, given[1].clone(), *given[2:])

        calls[f"{engine} eager"] = eager
    import spctune

    spctune.options(frozen=True)
    net = spctune.compile(
        first.to(device),
        [given, smaller],
        dtype="f16" if device.type == "cuda" else "f32",
        capacity=len(given[1]),
        name=name,
    )
    calls["spctune compiled"] = lambda: net(*given)
    for key, call in calls.items():
        results[key] = call().float().clone()
    times = in_turns(calls, args.rounds, device)
    spctune.options(frozen=False)
    rows: List[Tuple[Any, ...]] = []
    for key in calls:
        after = calls[key]().float()
        if difference(after, results[key]) > 1e-3:
            raise SystemExit(f"{name}, {key}: another result after timing")
        off = difference(results[key], results["spctune eager"])
        rows.append((name, key, len(given[1]), times[key], off, None))
    steps = {}
    for engine, sp in engines.items():
        model = make(sp)
        model.load_state_dict(first.state_dict())
        steps[f"{engine} training"] = trainer(model.to(device), given, device)
    peaks = {}
    for key, step in steps.items():
        step()
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            step()
            peaks[key] = torch.cuda.max_memory_allocated(device) / 2**20
    for key, taken in in_turns(steps, args.rounds, device).items():
        rows.append((name, key, len(given[1]), taken, None, peaks.get(key)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--device", default="cuda:0" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--engines", default="spctune,spconv")
    parser.add_argument("--networks", default=",".join(models.NETWORKS))
    parser.add_argument("--scene", default="gen:lidar,seed=1,beams=64")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv")
    args = parser.parse_args()
    device = torch.device(args.device)
    engines = {}
    for engine in args.engines.split(","):
        module = "spctune.spconv" if engine == "spctune" else "spconv.pytorch"
        try:
            engines[engine] = importlib.import_module(module)
        except ImportError as error:
            print(f"{engine} is left out: {error}", file=sys.stderr)
    if "spctune" not in engines:
        raise SystemExit("spctune must be among the engines")
    rows = []
    print(
        f"{'network':12} {'what':18} {'voxels':>8} {'ms':>9} {'spread':>7} "
        f"{'off':>8} {'MB':>8}"
    )
    for name in args.networks.split(","):
        for row in network(name, engines, args, device):
            net, what, count, taken, off, peak = row
            middle = statistics.median(taken)
            quarters = statistics.quantiles(taken, n=4)
            spread = (quarters[2] - quarters[0]) / middle
            rows.append((net, what, count, middle, spread, off, peak))
            print(
                f"{net:12} {what:18} {count:8d} {middle:9.3f} {spread:7.1%} "
                f"{'' if off is None else format(off, '8.1e'):>8} "
                f"{'' if peak is None else format(peak, '8.0f'):>8}",
                flush=True,
            )
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(
                ["network", "what", "voxels", "ms", "spread", "off", "peak_mb"]
            )
            table.writerows(rows)


if __name__ == "__main__":
    main()
