# SPDX-License-Identifier: Apache-2.0
"""flexgemm_algorithms.py - FlexGEMM's algorithms, from the first to the last:
explicit, implicit, split-K, masked; times and peak memory.

    python3 benchmarks/flexgemm_algorithms.py --out FOLDER [--quick]

"explicit, torch" is one dense product of all gathered rows (im2col), written in
torch. FlexGEMM's own algorithms run if it is installed. "spctune, NAME" is one
of our templates alone (SPC_ALLOW), forward only, and untuned unless the
database has its trials.
"""

import contextlib
import os
from typing import Any, Iterator

import harness
import peers
import peers.ours
import torch
from flexgemm_speed import shells
from reference import Layer, explicit

from spctune import context

# Resolution, channels, batch elements.
GRID = ((256, 128, 1), (64, 512, 1), (32, 1024, 1), (512, 64, 1), (8, 1024, 64))
QUICK = ((8, 8, 1),)
TEMPLATES = (
    "explicit_library",
    "explicit_mma",
    "os_mma",
    "os_wgmma",
    "os_group",
    "os_warp",
    "pairs_mma",
)
ON_A_PROCESSOR = ("generic", "rowgemm")


class Explicit(peers.Built):
    def __init__(self, definition: Any, weight: torch.Tensor) -> None:
        self.definition = definition
        self.weight = weight.detach().clone().requires_grad_()

    def run(self, x: torch.Tensor) -> torch.Tensor:
        return explicit(self.definition, x, self.weight)


class Engine:
    version = torch.__version__

    def layer(self, layer: Any, definition: Any, weight: torch.Tensor) -> Any:
        return Explicit(definition, weight)


@contextlib.contextmanager
def only(template: str, device: str) -> Iterator[None]:
    """Maps that are made in here use a context whose forward passes have one
    template."""
    kept = context._contexts.pop(device, None)
    os.environ["SPC_ALLOW"] = f"forward={template}"
    try:
        yield
    finally:
        del os.environ["SPC_ALLOW"]
        context._contexts.pop(device, None)
        if kept is not None:
            context._contexts[device] = kept


class Restricted(peers.ours.Voxels):
    def step(self, x: torch.Tensor, dy: torch.Tensor) -> Any:
        raise peers.Unsupported("gradients of one template")


class Ours:
    def __init__(self, template: str, device: Any) -> None:
        self.template, self.device = template, str(device)

    def layer(self, layer: Any, definition: Any, weight: torch.Tensor) -> Any:
        with only(self.template, self.device):
            made = Restricted(layer, definition, weight)
            x = weight.new_zeros(len(definition.inputs), layer.cin)
            with torch.no_grad():
                made.run(x)  # the map and the plan belong to this context
        return made


def algorithms(bench: harness.Bench) -> dict:
    """Returns ours, and every algorithm as an engine of its own."""
    found = {k: v for k, v in bench.engines.items() if k == "spctune"}
    found["explicit, torch"] = Engine()
    for name in TEMPLATES if bench.gpu else ON_A_PROCESSOR:
        found[f"spctune, {name}"] = Ours(name, bench.device)
    if "FlexGEMM" in bench.engines:
        from peers import flexgemm

        for name in flexgemm.ALGORITHMS:
            found[f"FlexGEMM, {name}"] = flexgemm.Engine(bench.device, name)
    return found


def measure(bench: harness.Bench) -> None:
    for size, channels, batches in bench.each(
        "layers", bench.pick(GRID, QUICK)
    ):
        scene = shells(bench, size, batches)
        layer = Layer(channels, channels, 3, dtype=bench.dtype)
        every = algorithms(bench)
        bench.layer(scene, layer, ("forward", "peak"), every)
        several = {k: v for k, v in every.items() if not isinstance(v, Ours)}
        bench.layer(scene, layer, ("step", "peak"), several)


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
