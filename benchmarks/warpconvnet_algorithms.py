# SPDX-License-Identifier: Apache-2.0
"""warpconvnet_algorithms.py - WarpConvNet's tables of backends: the fastest
candidate of each of our templates, by layer and pass.

    python3 benchmarks/warpconvnet_algorithms.py --out DIR [--quick]

A row is one template; the fastest of a layer's rows is its choice. Every
candidate was compared with the oracle before it was timed.
"""

from typing import Any, Dict

import command
import harness
import trials
from reference import Layer

LAYERS = ((32, 32, 3), (128, 128, 3), (64, 64, 5), (16, 32, 3), (256, 256, 3))
PASSES = ("forward", "dgrad", "wgrad")


def measure(bench: harness.Bench) -> None:
    scene = bench.scene(bench.pick("kitti@0.05", "shell 256"))
    layers = bench.pick(LAYERS, ((8, 8, 3),))
    passes = bench.pick(PASSES, ("forward", "wgrad"))
    for (cin, cout, k), pass_ in bench.each(
        "layers", [(x, p) for x in layers for p in passes]
    ):
        layer = Layer(cin, cout, k, dtype=bench.dtype)
        by: Dict[str, Any] = {}
        for trial in trials.of(bench, layer, scene, pass_=pass_):
            by.setdefault(trial["template"], []).append(trial)
        for template, found in sorted(by.items()):
            bench.add(
                scene.name,
                len(scene.coords),
                layer.text(),
                f"spctune, {template}",
                "kernels" if bench.gpu else "wall",
                trials.best(found),
                pass_=pass_,
            )
    if not bench.rows:
        raise command.Failed("no candidate was timed")


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
