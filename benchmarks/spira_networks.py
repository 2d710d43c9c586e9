# SPDX-License-Identifier: Apache-2.0
"""spira_networks.py - Fig. 7 of Spira: whole networks in all engines, from
coordinates on the device to the last layer's features.

    python3 benchmarks/spira_networks.py --out FOLDER [--scenes DIR] [--quick]

"spctune" is one compiled network, "spctune, eager" the model layer by layer.
Spira itself is not run here: its networks need its own streams and tuner.
"""

import copy
from typing import Any, Dict, List, Optional

import harness
import networks
import reference
import scenes
import torch
from harness import Entry

FAR = {"f16": 0.3, "f32": 1e-3}  # roundings of up to 60 layers add up


class Work:
    """A network on a scene, with its reference."""

    def __init__(self, bench: Any, name: str, scene: Any) -> None:
        self.bench, self.scene, self.name = bench, scene, name
        torch.manual_seed(1)
        low = scene.coords[:, 1:].amin(0)
        self.coords = scene.coords.clone()
        self.coords[:, 1:] -= low - low % 16  # every level keeps its voxels
        high = self.coords.amax(0).tolist()
        self.shape = [(n // 16 + 1) * 16 for n in high[1:]]
        self.batches, self.cin = high[0] + 1, 4
        self.nets: Dict[str, networks.Net] = {}
        kind = reference.TORCH[bench.dtype]
        draw = torch.Generator().manual_seed(1)
        x = torch.randn(len(self.coords), self.cin, generator=draw)
        self.x = x.to(bench.device).to(kind)
        model = networks.Net(reference.Kit(), networks.NETWORKS[name], self.cin)
        self.model = model.double().to(bench.device)
        # Statistics as after some training: those of this scene.
        for norm in self.model.norms:
            norm.momentum = None
        with torch.no_grad():
            self.model.train()(*self.batch(self.x.double()))
            self.want, self.voxels = self.model.eval()(
                *self.batch(self.x.double())
            )

    def batch(self, x: Any) -> Any:
        return x, self.coords, self.shape, self.batches

    def made(self, engine: Any) -> Any:
        net = networks.Net(
            engine.kit(), networks.NETWORKS[self.name], self.cin
        ).to(self.bench.device)
        net.load(self.model)
        return net.to(self.x.dtype).eval()

    def off(self, result: Any) -> float:
        features, coords = result
        order = reference.permuted(coords, self.voxels)
        if order is None:
            return float("inf")
        return reference.distance(features[order], self.want)

    def entry(self, engine_name: str, engine: Any) -> Entry:
        net = self.nets[engine_name] = self.made(engine)

        def call() -> Any:
            import spctune

            spctune.options(frozen=True)
            with torch.no_grad():  # new voxels, so that maps are made again
                return net(self.x, self.coords.clone(), *self.batch(None)[2:])

        return Entry(engine_name, call, self.off, FAR[self.bench.dtype])

    def compiled(self, engine: Any) -> Optional[Entry]:
        """The network as one graph."""
        import spctune

        net = copy.deepcopy(self.made(engine)).float()
        half = len(self.coords) // 2
        parts = (self.x.float(), self.coords)
        samples = [
            (*parts, self.shape, self.batches),
            (*(p[:half] for p in parts), self.shape, self.batches),
        ]
        made = spctune.compile(
            net, samples, dtype=self.bench.dtype, capacity=len(self.coords)
        )
        batch = (self.x, self.coords, self.shape, self.batches)
        return Entry(
            "spctune", lambda: made(*batch), self.off, FAR[self.bench.dtype]
        )


def entries(bench: Any, work: Work) -> List[Entry]:
    found = []
    for name, engine in bench.engines.items():
        if not hasattr(engine, "kit"):
            continue
        label = f"{name}, eager" if name == "spctune" else name
        what = f"{label}, {work.name}"
        found.append(
            bench.trying(what, lambda e=engine, n=label: work.entry(n, e))
        )
        if name == "spctune":
            what = f"{name}, {work.name}"
            found.append(bench.trying(what, lambda e=engine: work.compiled(e)))
    return [e for e in found if e is not None]


def measure(bench: harness.Bench) -> None:
    names = bench.pick(list(scenes.SPECS)[:3], ["indoor@0.02"])
    nets = bench.pick(("ResN21", "UNet42", "ResNL"), ("ResN21", "UNet42"))
    cases = [(n, s) for n in nets for s in names]
    for name, place in bench.each("networks", cases):
        scene = bench.scene(place)
        work = Work(bench, name, scene)
        bench.compare(
            scene.name,
            len(scene.coords),
            name,
            entries(bench, work),
            pass_="network",
        )
        for engine, net in work.nets.items():
            add_peak(bench, scene, work, engine, net)


def add_peak(
    bench: Any, scene: Any, work: Work, engine: str, net: networks.Net
) -> None:
    """Adds the GPU memory of the weights and the peak of a pass."""

    def call() -> Any:
        with torch.no_grad():
            return net(work.x, work.coords.clone(), *work.batch(None)[2:])

    mb = bench.trying(engine, lambda: bench.peak(net.size(), call))
    if mb is not None:
        head = (scene.name, len(scene.coords), work.name, engine)
        bench.add(*head, "peak", mb, "MB", pass_="network")


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
