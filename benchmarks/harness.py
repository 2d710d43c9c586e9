# SPDX-License-Identifier: Apache-2.0
"""Shared by the benchmarks of single figures: options, scenes, checks, times,
and rows of results.

A time is believed only if the result was compared with a float64 reference
before and after it. Results are filled with NaN after every call, so that a
call that computes nothing is found. Calls of all engines alternate in each
round, so that noise of the machine affects all equally; compare ratios of one
run only.

On a GPU "kernels" is the sum of the times of a call's kernels, without Python;
"wall" is host time with the device idle before and after. A processor has only
"wall". "peak" is the GPU memory of an engine for the layer: weights, maps, and
the peak of a call.
"""

import argparse
import csv
import os
import sys
import time
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
)

import command
import papers
import peers
import scenes
import torch
from layer_work import LayerWork
from reference import Layer
from timing import Call, Entry, Scene, in_words, middle, poison, split


class Bench:
    """One run of one script."""

    def __init__(self, name: str, args: Any) -> None:
        self.name, self.args = name, args
        self.device = torch.device(args.device)
        self.gpu = self.device.type == "cuda"
        self.end = time.monotonic() + args.seconds
        self.rows: List[Dict[str, Any]] = []
        self.notes: List[str] = []
        self.kept: Dict[str, Scene] = {}
        try:
            self.command = args.command or command.default_command()
        except ImportError as error:
            sys.exit(f"{name}: {error}")
        import spctune

        # The first use of a layer waits for its kernel, so that no kernel
        # changes while times are taken.
        spctune.options(background=False)
        torch.manual_seed(1)
        self.engines, absent = peers.load(args.engines.split(","), self.device)
        self.notes += absent

    # ---- options, scenes, time -----------------------------------------------

    @property
    def dtype(self) -> str:
        """The type of layers: f16 on a GPU, f32 on a processor."""
        return "f16" if self.gpu else "f32"

    def pick(self, full: Any, quick: Any) -> Any:
        return quick if self.args.quick else full

    def left(self) -> float:
        return self.end - time.monotonic()

    def each(self, what: str, items: Sequence[Any]) -> Iterator[Any]:
        """Yields the items until the time is over, and notes what is left
        out."""
        for i, item in enumerate(items):
            if self.left() <= 0 and i:
                self.notes.append(
                    f"{what}: {len(items) - i} of {len(items)} left out, as the"
                    " time was over"
                )
                return
            try:
                yield item
            except GeneratorExit:
                return

    def scene(self, name: str, spec: Optional[str] = None) -> Scene:
        """Returns a scene of scenes.SPECS, or of a specification."""
        if name not in self.kept:
            spec = spec or scenes.spec(name, self.args.scenes, self.args.quick)
            coords = torch.from_numpy(scenes.voxels(spec)).to(self.device)
            label = spec if self.args.quick else name
            self.kept[name] = Scene(label, spec, coords)
        return self.kept[name]

    def spctune(self, *words: str) -> Any:
        """Runs the command. command.Failed: it failed or is missing."""
        if not self.command:
            raise command.Failed("no command beside the library")
        limit = max(self.left(), 30) + 60
        return command.spctune(
            self.command, self.args.device, list(words), limit
        )

    # ---- rows ----------------------------------------------------------------

    def add(
        self,
        scene: str,
        rows: Any,
        layer: str,
        engine: str,
        what: str,
        value: Optional[float],
        unit: str = "us",
        **more: Any,
    ) -> None:
        row = dict.fromkeys(papers.COLUMNS, "")
        row.update(scene=scene, rows=rows, layer=layer, engine=engine)
        row.update({"dtype": self.dtype, "pass": "forward", "what": what})
        row.update(value="" if value is None else f"{value:.5g}", unit=unit)
        for name, number in more.items():
            name = {"pass_": "pass"}.get(name, name)
            is_number = isinstance(number, float)
            row[name] = f"{number:.3g}" if is_number else number
        self.rows.append(row)

    def trying(self, what: str, call: Call) -> Any:
        """Returns call(), or None after noting its failure."""
        try:
            return call()
        except Exception as error:  # whatever an engine may raise
            self.notes.append(f"{what}: {in_words(error)}")
            return None

    # ---- times ---------------------------------------------------------------

    def wait(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def compare(
        self,
        scene: str,
        rows: int,
        layer: str,
        entries: Sequence[Entry],
        **more: Any,
    ) -> None:
        """Checks, times and checks again, and adds rows of those entries whose
        results are right. `more` are columns of the rows."""
        offs: Dict[str, float] = {}
        for entry in entries:
            off = self.checked(entry, f"{scene}, {layer}", more)
            if off is not None:
                offs[entry.engine] = off
        right = [e for e in entries if e.engine in offs]
        if not right:
            return
        walls = self.in_rounds(right)
        kernels = None
        if self.gpu:
            kernels = self.trying("profiler", lambda: self.kernel_times(right))
        for entry in right:
            if entry.engine not in walls:
                continue
            after = self.checked(entry, f"{scene}, {layer}, after timing", more)
            if after is None:
                continue
            for what, times in (("kernels", kernels), ("wall", walls)):
                if times and times.get(entry.engine):
                    value, spread = middle(times[entry.engine])
                    self.add(
                        scene,
                        rows,
                        layer,
                        entry.engine,
                        what,
                        value,
                        spread=spread,
                        off=offs[entry.engine],
                        off_after=after,
                        **more,
                    )
        self.save()

    def checked(self, entry: Entry, where: str, more: Any) -> Optional[float]:
        """Returns the distance of a call's result from the reference; None,
        with a note, if the call fails or the distance is too large."""

        def check() -> float:
            for _ in range(2):  # an engine may tune in its first call
                poison(entry.call())
            return entry.off(entry.call())

        what = " ".join([f"{entry.engine}, {where}", more.get("pass_", "")])
        off = self.trying(what.strip(), check)
        if off is not None and not off < entry.far:
            self.notes.append(f"{what.strip()}: wrong: {off:.2g} off")
            return None
        return off

    def in_rounds(self, entries: Sequence[Entry]) -> Dict[str, List[float]]:
        """Returns wall times in us: one call of each entry in every round. An
        engine that fails is left out."""
        found: Dict[str, List[float]] = {e.engine: [] for e in entries}
        end = time.monotonic() + self.args.share
        for i in range(self.args.rounds):
            if i >= 3 and time.monotonic() > end:
                break
            for entry in entries:
                if entry.engine not in found:
                    continue
                us = self.trying(entry.engine, lambda e=entry: self.timed(e))
                if us is None:
                    del found[entry.engine]
                else:
                    found[entry.engine].append(us)
        return found

    def timed(self, entry: Entry) -> float:
        """Returns the wall time of one call in us."""
        self.wait()
        start = time.perf_counter()
        result = entry.call()
        self.wait()
        took = time.perf_counter() - start
        poison(result)
        return 1e6 * took

    def kernel_times(self, entries: Sequence[Entry]) -> Any:
        """Returns sums of kernel times in us by engine; None if the profiler
        shows no marker."""
        from torch.autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile

        kinds = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=kinds) as profiler:
            for _ in range(min(self.args.rounds, 12)):
                for entry in entries:
                    torch.cuda._sleep(1000)
                    entry.call()
                    torch.cuda.synchronize()
        events = [
            (e.name, e.time_range.start, e.time_range.elapsed_us())
            for e in profiler.events()
            if e.device_type == DeviceType.CUDA
            and not e.is_user_annotation
            and "Sync" not in e.name
        ]
        found = split(events, [e.engine for e in entries])
        if found is None:
            self.notes.append("the profiler showed no kernels: wall times only")
        return found

    def peak(self, static: int, call: Call) -> Optional[float]:
        """Returns MB: `static` bytes and the peak of a call; None on a
        processor."""
        if not self.gpu:
            return None
        self.wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        self.wait()
        return (static + torch.cuda.max_memory_allocated() - before) / 2**20

    # ---- a layer in all engines ----------------------------------------------

    def tune(self, scene: Scene, layer: Layer, passes: Sequence[str]) -> None:
        """Stores the fastest kernels of a layer in the database, as other
        engines tune in their first call."""
        words = ["tune", layer.words(), "--scene", scene.spec]
        words += ["--effort", "quick"]
        if {"step", "dgrad", "wgrad"} & set(passes):
            words += ["--pass", "all"]
        what = f"tuning {layer.text()}, {scene.name}"
        self.trying(what, lambda: self.spctune(*words))

    def layer(
        self,
        scene: Scene,
        layer: Layer,
        passes: Sequence[str] = ("forward",),
        engines: Optional[Dict[str, Any]] = None,
        definition: Any = None,
    ) -> None:
        """Measures a layer in all engines. passes: "forward" (map made before),
        "with map", "step" (forward and both gradients), "dgrad" and "wgrad"
        alone, "peak" (of a step if there is one, else of a forward pass)."""
        if self.args.tune and scene.spec and layer.kind != "points":
            self.tune(scene, layer, passes)
        work = LayerWork(self, scene, layer, definition)
        built = {}
        for name, engine in (engines or self.engines).items():
            if not hasattr(engine, "layer"):
                continue
            made = self.trying(
                f"{name}, {layer.text()}", lambda e=engine: work.build(e)
            )
            if made is not None:
                built[name] = made
        text = layer.text()
        for name in passes:
            if name == "peak":
                work.add_peaks(text, built, "step" in passes)
                continue
            entries = [work.entry(n, b, name) for n, b in built.items()]
            self.compare(
                scene.name,
                len(scene.coords),
                text,
                entries,
                pass_=name,
                dtype=layer.dtype,
            )

    # ---- results -------------------------------------------------------------

    def write(self) -> None:
        """Writes NAME.csv and NAME.svg, and prints rows and notes."""
        path = self.save()
        picture = papers.picture(self.name, papers.read(path + ".csv"))
        if picture:
            with open(path + ".svg", "w", encoding="utf-8") as file:
                file.write(picture)
        for row in self.rows:
            print(
                "  ".join(str(row[c]) for c in papers.COLUMNS if row[c] != "")
            )
        print("\n".join(self.notes))

    def save(self) -> str:
        """Writes NAME.csv, also before the end: an engine may crash the
        process. Returns the path without its suffix."""
        if not self.args.out:
            return ""
        os.makedirs(self.args.out, exist_ok=True)
        path = os.path.join(self.args.out, self.name)
        gpu = torch.cuda.get_device_name() if self.gpu else "processor"
        versions = [f"{n} {e.version}" for n, e in self.engines.items()]
        with open(path + ".csv", "w", encoding="utf-8", newline="") as file:
            file.write(
                f"# {self.name}.py on: {gpu}; {time.strftime('%Y-%m-%d')}"
            )
            file.write(f"; torch {torch.__version__}\n")
            file.write(f"# engines: {', '.join(versions)}\n")
            for note in self.notes:
                file.write(f"# {note}\n")
            writer = csv.DictWriter(file, papers.COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        return path


def arguments(doc: str, name: str) -> Any:
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", default=f"build/papers/{name}")
    parser.add_argument("--scenes", help="folder with the recorded scans")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engines", default=",".join(peers.NAMES))
    parser.add_argument("--command", help="the command spctune")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--wait",
        action="store_true",
        help="import everything, then read the seconds from the input",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny scenes and few rounds"
    )
    parser.add_argument(
        "--tune", action="store_true", help="tune our layers first"
    )
    args = parser.parse_args()
    args.share = 0.2 if args.quick else 2.0  # seconds of one comparison
    if args.quick:
        args.rounds = min(args.rounds, 3)
    return args


def main(doc: str, path: str, measure: Callable[[Bench], None]) -> None:
    """Runs a script: reads options, measures, and writes what was found even if
    the script fails."""
    name = os.path.splitext(os.path.basename(path))[0]
    bench = Bench(name, arguments(doc, name))
    if bench.args.wait:
        bench.end = time.monotonic() + float(sys.stdin.readline() or 0)
    try:
        measure(bench)
    except command.Failed as error:
        bench.notes.append(f"{name}: {error}")
    finally:
        bench.write()
    if not bench.rows:
        last = bench.notes[-1] if bench.notes else "no note"
        sys.exit(f"{name}: nothing was measured: {last}")
