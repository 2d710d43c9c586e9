# SPDX-License-Identifier: Apache-2.0
"""network.py - one network of the table that python.py prints.

python.py starts one such process for each network, so that an engine that
crashes ends only one part of the table. The processes prepare in parallel
(imports, kernels), write the file --ready, and measure one after the other:
each waits for a line with its seconds.
"""

import argparse
import contextlib
import gc
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List

import models
import numpy as np
import scenes
import torch

Call = Callable[[], Any]
# The name of an engine, and its module with spconv's interface.
ENGINES = {
    "spctune": "spctune.spconv",
    "spconv": "spconv.pytorch",
    "spconv-Triton": "spconv_triton.pytorch",
}
# The largest allowed difference of float16 results of two engines, as a
# fraction of the root mean square: roundings of up to 60 layers add up
# (CompiledModel.tolerance gives 0.1), and a dense plane is mostly zeros, which
# makes its mean small.
FAR = 0.3
SCALE = 2.0**16  # scale of the loss, without which float16 gradients are zero


def in_words(error: BaseException) -> str:
    """Returns an exception in one line."""
    text = str(error).strip().split("\n")[0][:300]
    return f"{type(error).__name__}: {text}"


def summary(times: List[float]) -> Dict[str, float]:
    """Returns median, spread (interquartile range over median) and minimum, in
    ms."""
    quarters = statistics.quantiles(times, n=4)
    middle = statistics.median(times)
    return {
        "ms": middle,
        "spread": (quarters[2] - quarters[0]) / middle,
        "least_ms": min(times),
        "rounds": len(times),
    }


class Trainer:
    """Training of one engine's model: a new scene at each step."""

    def __init__(self, model: Any, batches: List[Any], device: Any) -> None:
        self.model, self.batches, self.device = model.train(), batches, device
        self.start = {k: v.clone() for k, v in model.state_dict().items()}
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.gpu = device.type == "cuda"
        self.scaler = torch.amp.GradScaler(
            device.type, init_scale=SCALE, enabled=self.gpu
        )
        self.count = 0

    def loss(self, batch: Any) -> Any:
        features, rows, shape, size = batch
        with torch.autocast(self.device.type, torch.float16, self.gpu):
            # New tensors of voxels, so that maps are made again.
            out = self.model(features, rows.clone(), shape, size)
            return out.float().square().mean()

    def __call__(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss(self.batches[self.count % len(self.batches)])
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.count += 1

    def gradients(self) -> torch.Tensor:
        """Returns all gradients of the first scene at the initial weights, in
        one row."""
        self.model.load_state_dict(self.start)
        self.optimiser.zero_grad(set_to_none=True)
        (self.loss(self.batches[0]) * SCALE).backward()
        parts = [p.grad.float().flatten() for p in self.model.parameters()]
        return torch.cat(parts).cpu()


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Returns the largest difference relative to the root mean square of b."""
    scale = b.double().pow(2).mean().sqrt().item() + 1e-30
    return float((a.double() - b.double()).abs().max().item() / scale)


def norm_distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Returns the norm of the difference relative to the norm of b."""
    return float(((a - b).norm() / (b.norm() + 1e-30)).item())


class Part:
    """One network in all engines."""

    def __init__(self, args: Any) -> None:
        self.args, self.name = args, args.network
        self.begin = time.monotonic()
        self.device = torch.device(args.device)
        self.gpu = self.device.type == "cuda"
        self.rows: Dict[str, Dict[str, Any]] = {}
        self.notes: List[str] = []
        self.calls: Dict[str, Call] = {}
        self.trainers: Dict[str, Trainer] = {}
        self.kept: Dict[str, torch.Tensor] = {}  # results before timing

    @contextlib.contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Records a failure and continues with the rest."""
        try:
            yield
        except Exception as error:  # of any engine
            self.notes.append(f"{self.name}, {what}: {in_words(error)}")
            self.calls.pop(what, None)
            self.trainers.pop(what.rpartition(" ")[0], None)

    def write(self) -> None:
        found = {"network": self.name, "rows": self.rows, "notes": self.notes}
        with open(self.args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)

    # ---- before measuring ----------------------------------------------------

    def prepare(self) -> None:
        """Prepares kernels, results, and gradients. With --warm it prepares
        only spctune's kernels of one kind, for the process that prepares all
        kernels."""
        self.make, self.channels = models.NETWORKS[self.name]
        self.grid, self.folder = scenes.GRIDS[self.name], self.args.scenes
        self.one = scenes.scan(self.grid, self.folder, 0, self.args.beams)
        self.batch = self.join([self.one])
        engines = self.engines()
        torch.manual_seed(1)
        self.first = models.settle(self.make(engines["spctune"])).eval()
        if self.args.warm:
            with self.trying(f"spctune {self.args.warm}"):
                if self.args.warm == "compiled":
                    self.compiled()
                else:
                    self.training("spctune", engines["spctune"], self.several())
            return
        np.save(self.args.npy, self.one)
        several = self.several() if self.args.training else []
        # Triton comes last: it may compile for minutes.
        late = {k: v for k, v in engines.items() if "Triton" in k}
        early = {k: v for k, v in engines.items() if k not in late}
        self.prepare_engines(early, several, True)
        self.prepare_engines(late, several, False)

    def prepare_engines(
        self, engines: Dict[str, Any], several: List[Any], ours: bool
    ) -> None:
        for engine, module in engines.items():
            with self.in_time(), self.trying(f"{engine} eager"):
                self.check_time()
                self.eager(engine, self.make(module))
        if ours:
            with self.in_time(), self.trying("spctune compiled"):
                self.compiled()
        first = self.kept.get("spctune eager")
        for what, result in self.kept.items():
            row = self.rows.get(what)
            if first is not None and row is not None and "off" not in row:
                row["off"] = distance(result, first)
        self.write()
        for engine, module in engines.items() if several else ():
            with self.in_time(), self.trying(f"{engine} training"):
                self.check_time()
                self.training(engine, module, several)
        self.write()

    def join(self, scans: List[Any]) -> Any:
        return scenes.join(self.grid, scans, self.channels, self.device)

    def several(self) -> List[Any]:
        """The batches of training."""
        count, size = self.args.new_scenes, self.args.batch
        return [
            self.join(
                [
                    scenes.scan(self.grid, self.folder, seed, self.args.beams)
                    for seed in range(1 + i * size, 1 + (i + 1) * size)
                ]
            )
            for i in range(count)
        ]

    @contextlib.contextmanager
    def in_time(self) -> Iterator[None]:
        """Interrupts the running work when the time to prepare is over, as soon
        as Python code runs again."""

        def stop(*_: Any) -> None:
            self.check_time()

        left = self.begin + self.args.prepare - time.monotonic()
        signal.signal(signal.SIGALRM, stop)
        # Repeats each second, as a C callback would lose an exception.
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.01) + 0.01, 1)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def check_time(self) -> None:
        if time.monotonic() - self.begin > self.args.prepare:
            raise TimeoutError(
                "left out: preparing took too long; kernels are stored, so "
                "another run goes further"
            )

    def engines(self) -> Dict[str, Any]:
        found = {}
        for engine in self.args.engines.split(","):
            try:
                found[engine] = importlib.import_module(ENGINES[engine])
            except Exception as error:  # whatever an import may raise
                self.notes.append(f"{engine} is left out: {in_words(error)}")
        if "spctune" not in found:
            raise SystemExit(self.notes[-1])
        return found

    def add(self, what: str, call: Call) -> None:
        """Warms a call up and keeps its result."""
        for _ in range(3):
            result = call()
        self.kept[what] = result.float().clone()
        self.calls[what] = call
        self.rows[what] = {"voxels": len(self.batch[1])}

    def eager(self, engine: str, model: Any) -> None:
        import spctune

        model.load_state_dict(self.first.state_dict())
        model = model.to(self.device).eval()
        features, coords, shape, size = self.batch
        if self.gpu:
            model, features = model.half(), features.half()
        elif engine == "spconv":  # on the processor it refuses a bias then
            for module in model.modules():
                if hasattr(module, "indice_key"):
                    module.train()

        def call(frozen: bool = False) -> Any:
            spctune.options(frozen=frozen)
            with torch.no_grad():
                return model(features, coords.clone(), shape, size)

        self.add(f"{engine} eager", call)
        if engine == "spctune":
            self.add("spctune frozen", lambda: call(True))

    def compiled(self) -> None:
        import spctune

        half = self.join([self.one[: len(self.one) // 2]])
        half = (*half[:2], *self.batch[2:])
        net = spctune.compile(
            self.first.to(self.device),
            [self.batch, half],
            dtype="f16" if self.gpu else "f32",
            capacity=len(self.one),
            name=self.name,
        )
        self.add("spctune compiled", lambda: net(*self.batch))
        network, (features, coords) = net.network, self.batch[:2]

        def alone() -> None:
            network.run(features, coords)
            network.finish()

        self.calls["network alone"] = alone
        self.rows["network alone"] = {"voxels": len(coords)}

    def training(self, engine: str, module: Any, batches: List[Any]) -> None:
        import spctune

        spctune.options(frozen=False)
        gc.collect()
        if self.gpu:
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
        model = self.make(module)
        model.load_state_dict(self.first.state_dict())
        step = Trainer(model.to(self.device), batches, self.device)
        grads = step.gradients()
        for _ in range(len(batches) + 1):
            step()
        what = f"{engine} training"
        row = {"voxels": sum(len(b[1]) for b in batches) // len(batches)}
        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
            for _ in batches:
                step()
            peak = torch.cuda.max_memory_allocated() - before
            row["peak_mb"] = peak / 2**20
        self.trainers[engine], self.kept[what] = step, grads
        row["off"] = norm_distance(
            grads, self.kept.get("spctune training", grads)
        )
        self.rows[what] = row

    # ---- measuring -----------------------------------------------------------

    def wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def in_turns(self, calls: Dict[str, Call], seconds: float) -> None:
        """Measures wall times of each call, one of each in every round, with
        the device idle before and after, so that noise of the machine affects
        all calls equally."""
        times: Dict[str, List[float]] = {what: [] for what in calls}
        for what, call in list(calls.items()):
            with self.trying(what):
                call()
        end = time.perf_counter() + seconds
        for round in range(self.args.rounds):
            if round >= 4 and time.perf_counter() > end:
                break
            for what, call in list(calls.items()):
                with self.trying(what):
                    self.wait()
                    start = time.perf_counter()
                    call()
                    self.wait()
                    took = time.perf_counter() - start
                    times[what].append(1e3 * took)
                    continue
                del calls[what]
        for what, taken in times.items():
            if len(taken) > 1:
                self.rows[what].update(summary(taken))

    def measure(self, seconds: float) -> None:
        import spctune

        share = seconds * (0.45 if self.args.training else 0.8)
        self.in_turns(dict(self.calls), share)
        for what, call in list(self.calls.items()):
            if what in self.kept:
                with self.trying(what):
                    self.again(what, distance(call().float(), self.kept[what]))
        self.write()
        spctune.options(frozen=False)
        steps = {f"{e} training": t for e, t in self.trainers.items()}
        self.in_turns(steps, share)
        for engine, step in list(self.trainers.items()):
            what = f"{engine} training"
            with self.trying(what):
                off = norm_distance(step.gradients(), self.kept[what])
                self.again(what, off)
        self.write()
        if self.args.command:
            with self.trying("C"):
                self.in_c()

    def again(self, what: str, off: float) -> None:
        """Compares a result after timing with the result before."""
        self.rows[what]["off_after"] = off
        worst = max(off, self.rows[what].get("off", 0))
        if not worst < FAR:
            self.notes.append(
                f"{self.name}, {what}: the result is wrong: {worst:.2g} from "
                f"spctune eager, or from itself before timing"
            )

    def in_c(self) -> None:
        """Measures the same network, scene and database with the command."""
        lua = {"MinkUNet34C": "minkunet34c"}.get(self.name, self.name.lower())
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        words = [self.args.command, "--json", "-d", self.args.device]
        words += ["bench", "--network", f"{top}/examples/networks/{lua}.lua"]
        words += ["--scene", self.args.npy, "--capacity"]
        words += [str(len(self.batch[1])), "--runs", "200" if self.gpu else "5"]
        words += ["--dtype", "f16" if self.gpu else "f32"]
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False
        )
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip().split("\n")[-1])
        found = json.loads(ran.stdout)[0]
        self.rows["C"] = {
            "voxels": found["voxels"],
            "ms": found["p50_us"] / 1e3,
            "spread": (found["p90_us"] - found["least_us"]) / found["p50_us"],
            "least_ms": found["least_us"] / 1e3,
            "rounds": found["runs"],
        }


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--network", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--npy", required=True)
    parser.add_argument("--ready", required=True)
    parser.add_argument("--prepare", type=float, default=60)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engines", default="spctune")
    parser.add_argument("--scenes")
    parser.add_argument("--command")
    parser.add_argument("--beams", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--new-scenes", type=int, default=4)
    parser.add_argument("--warm", choices=("compiled", "training"))
    parser.add_argument("--no-training", dest="training", action="store_false")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    import spctune

    # The first use of a layer waits for its kernel, so that no kernel changes
    # while times are taken.
    spctune.options(background=False)
    part = Part(args)
    try:
        part.prepare()
        if args.warm:
            return
        open(args.ready, "w").close()
        part.measure(float(sys.stdin.readline()))
    except Exception as error:
        part.notes.append(f"{part.name} ended: {in_words(error)}")
        raise
    finally:
        part.write()


if __name__ == "__main__":
    main()
