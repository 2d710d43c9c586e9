# SPDX-License-Identifier: Apache-2.0
"""pointcnn_training.py - Table 3 of PointCNN++: time and peak memory of a
training iteration of ResUNet2 on three scans.

    python3 benchmarks/pointcnn_training.py --out FOLDER [--quick]

The engines of voxels run, beside each other; features and labels are random, so
no accuracy comes of it. Gradients of all weights are compared with the
definition.
"""

from typing import Any

import harness
import reference
import spira_networks
import torch
from harness import Entry

FAR = {"f16": 0.3, "f32": 1e-3}


def scans(bench: harness.Bench) -> harness.Scene:
    """Returns three generated sweeps as batch elements."""
    spec = bench.pick(
        "gen:lidar,seed={},beams=32@0.1", "gen:lidar,seed={},beams=4@1"
    )
    parts = []
    for seed in (1, 2, 3):
        coords = bench.scene(f"sweep {seed}", spec.format(seed)).coords.clone()
        coords[:, 0] = seed - 1
        parts.append(coords)
    return harness.Scene("three sweeps", "", torch.cat(parts))


class Training(spira_networks.Work):
    """Adds the gradients of the definition."""

    def __init__(self, bench: Any, scene: Any) -> None:
        super().__init__(bench, "ResUNet2", scene)
        self.model.zero_grad()
        y, _ = self.model(*self.batch(self.x.double()))
        (y.square().mean() * self.scale()).backward()
        self.grads = self.model.grads()

    def scale(self) -> float:
        return 2.0**12 if self.bench.gpu else 1.0

    def entry(self, name: str, engine: Any) -> Entry:
        net = self.nets[name] = self.made(engine)

        def call() -> Any:
            net.zero_grad(set_to_none=True)
            y, _ = net(self.x, self.coords.clone(), *self.batch(None)[2:])
            (y.float().square().mean() * self.scale()).backward()
            return net.grads()

        def off(grads: Any) -> float:
            return reference.apart(grads, self.grads)

        return Entry(name, call, off, FAR[self.bench.dtype])


def measure(bench: harness.Bench) -> None:
    scene = scans(bench)
    work = Training(bench, scene)
    found = []
    for name, engine in bench.engines.items():
        if hasattr(engine, "kit"):
            entry = bench.trying(
                name, lambda n=name, e=engine: work.entry(n, e)
            )
            found += [entry] if entry else []
    rows = len(scene.coords)
    bench.compare(scene.name, rows, "ResUNet2", found, pass_="step")
    for entry in found:
        mb = bench.trying(
            entry.engine,
            lambda e=entry: bench.peak(work.nets[e.engine].size(), e.call),
        )
        if mb is not None:
            bench.add(
                scene.name,
                rows,
                "ResUNet2",
                entry.engine,
                "peak",
                mb,
                "MB",
                pass_="step",
            )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
