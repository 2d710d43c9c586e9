# SPDX-License-Identifier: Apache-2.0
"""flexgemm_algorithms.py - FlexGEMM's algorithms, from the first to the last:
explicit, implicit, split-K, masked; times and peak memory.

    python3 benchmarks/flexgemm_algorithms.py --out FOLDER [--quick]

"explicit, torch" is one dense product of all gathered rows (im2col), written in
torch. FlexGEMM's own algorithms run if it is installed. Our templates by kind
are those of warpconvnet_algorithms.py.
"""

from typing import Any

import harness
import peers
import torch
from flexgemm_speed import shells
from reference import Layer, explicit

# Resolution, channels, batch elements.
GRID = ((256, 128, 1), (64, 512, 1), (32, 1024, 1), (512, 64, 1), (8, 1024, 64))
QUICK = ((8, 8, 1),)


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


def algorithms(bench: harness.Bench) -> dict:
    """Returns ours, and every algorithm as an engine of its own."""
    found = {k: v for k, v in bench.engines.items() if k == "spctune"}
    found["explicit, torch"] = Engine()
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
        bench.layer(
            scene, layer, ("forward", "step", "peak"), algorithms(bench)
        )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
