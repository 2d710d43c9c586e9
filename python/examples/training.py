# SPDX-License-Identifier: Apache-2.0
"""Shared by the examples that train: equal weights and data for two engines,
processes for engines and seeds, and the verdict.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, Sequence, Tuple

import curves
import numpy as np
import torch
from torch import nn

ENGINES = {
    "spctune": "spctune.spconv",
    "spconv": "spconv.pytorch",
    "dense": "reference",
}
POINTS = 10  # points of each curve


class Task:
    """A training task. run() returns a curve for each of `quantities`, and the
    numbers `parameters` and `voxels`."""

    name = ""
    quantities: Sequence[str] = ()

    def add_arguments(self, parser: Any) -> None:
        pass

    def run(self, sp: Any, seed: int, args: Any, device: Any) -> Dict[str, Any]:
        raise NotImplementedError


# ---- a run -------------------------------------------------------------------


def start(model: nn.Module, seed: int) -> None:
    """Sets the same weights in every engine, as the engines initialise
    differently."""
    draw = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.data.zero_()
        elif weight.dim() > 1:
            # A voxel on a surface has about a third of its possible neighbours.
            there = 1 / 3 if weight.dim() == 5 and weight.shape[1] == 3 else 1
            fan_in = weight[0].numel() * there
            value = torch.randn(weight.shape, generator=draw)
            weight.data.copy_(value * (2 / fan_in) ** 0.5)


def batch(
    items: Sequence[Any], shape: List[int], device: Any, join: Any
) -> Tuple[Any, torch.Tensor]:
    """Returns the arguments of a network, and the expected outputs. Each item
    is coords, features and expected outputs; `join` joins the expected
    outputs."""
    coords = [
        np.pad(item[0], ((0, 0), (1, 0)), constant_values=i)
        for i, item in enumerate(items)
    ]
    parts = (
        np.concatenate([item[1] for item in items]),
        np.concatenate(coords),
        join([item[2] for item in items]),
    )
    f, c, answers = (torch.from_numpy(part).to(device) for part in parts)
    return (f, c, shape, len(items)), answers


class Step:
    """Trains with AdamW; on a GPU with float16 autocast and GradScaler."""

    def __init__(self, model: nn.Module, rate: float, device: Any) -> None:
        self.kind, self.gpu = device.type, device.type == "cuda"
        self.optimiser = torch.optim.AdamW(model.parameters(), rate)
        self.scaler = torch.amp.GradScaler(self.kind, enabled=self.gpu)

    def autocast(self) -> Any:
        return torch.autocast(self.kind, torch.float16, self.gpu)

    def __call__(self, loss_of: Callable[[], torch.Tensor]) -> float:
        self.optimiser.zero_grad()
        with self.autocast():
            loss = loss_of()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        return loss.item()


def averages(values: List[float]) -> List[float]:
    """Returns a curve: the means of equal parts."""
    parts = np.array_split(np.array(values), POINTS)
    return [float(part.mean()) for part in parts]


# ---- all runs ----------------------------------------------------------------


def in_processes(script: str, args: Any, given: List[str]) -> Dict[str, Any]:
    """Starts all processes at once: they share the GPU, and compile side by
    side."""
    running = []
    for engine in args.engines.split(","):
        for seed in range(args.seeds):
            path = f"{args.out}/{args.name}_{engine}_{seed}.json"
            if os.path.exists(path):
                os.remove(path)
            words = [sys.executable, "-B", os.path.abspath(script), *given]
            words += ["--out", path, "--one", engine]
            words += ["--first-seed", str(seed), "--device", args.device]
            log = open(path.replace(".json", ".log"), "w", encoding="utf-8")
            with log:
                process = subprocess.Popen(words, stdout=log, stderr=log)
            running.append((engine, path, process))
    found: Dict[str, Any] = {e: [] for e in args.engines.split(",")}
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


def verdict(task: Task, found: Dict[str, List[Any]], out: str) -> bool:
    """Prints curves and verdict; writes both and a picture."""
    (ours, other), same = list(found), True
    told: Dict[str, Any] = {"runs": found}
    parts = []
    for what in task.quantities:
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
    with open(f"{out}/{task.name}.json", "w", encoding="utf-8") as file:
        json.dump(told, file, indent=1)
    title = f"{task.name}: {ours} and {other}, {len(found[ours])} seeds"
    with open(f"{out}/{task.name}.svg", "w", encoding="utf-8") as file:
        file.write(curves.picture(title, parts))
    print(
        f"verdict: the curves of {ours} and {other} "
        + ("lie" if same else "do NOT lie")
        + " in each other's spread"
    )
    return same


def other_engine(device: Any) -> str:
    """Returns spconv if it can train; its build for the processor cannot."""
    try:
        importlib.import_module("spconv.pytorch")
        return "spconv" if device.type == "cuda" else "dense"
    except ImportError:
        return "dense"


def arguments(task: Task, text: Any, given: Any) -> Any:
    hidden = argparse.SUPPRESS
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawTextHelpFormatter
    )
    usual = "cuda:0" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default=usual)
    parser.add_argument(
        "--engines", help="default: spctune and spconv or dense"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--one", help=hidden)
    parser.add_argument("--first-seed", type=int, default=0, help=hidden)
    task.add_arguments(parser)
    args = parser.parse_args(given)
    args.name = task.name
    return args


def main(task: Task, text: Any, script: str, given: Any = None) -> bool:
    """Runs a script. Returns whether the curves agree."""
    given = sys.argv[1:] if given is None else given
    args = arguments(task, text, given)
    import spctune

    # The first use of a layer waits for its kernel, so that no kernel changes
    # during the training.
    spctune.options(background=False)
    device = torch.device(args.device)

    def run(engine: str, seed: int) -> Dict[str, Any]:
        sp = importlib.import_module(ENGINES[engine])
        return task.run(sp, seed, args, device)

    if args.one:
        done = run(args.one, args.first_seed)
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(done, file)
        return True
    args.engines = args.engines or f"spctune,{other_engine(device)}"
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    begin = time.monotonic()
    if device.type == "cuda":
        found = in_processes(script, args, given)
    else:
        found = {
            engine: [run(engine, seed) for seed in range(args.seeds)]
            for engine in args.engines.split(",")
        }
    if any(len(runs) < args.seeds for runs in found.values()):
        print("no verdict: not every run ended well")
        return False
    first = next(iter(found.values()))[0]
    print(
        f"{first['parameters'] / 1e6:.2f} million parameters, scenes of "
        f"{first['voxels']} voxels, {args.steps} steps, {args.seeds} seeds, "
        f"{time.monotonic() - begin:.0f} s"
    )
    return verdict(task, found, args.out)
