# SPDX-License-Identifier: Apache-2.0
"""spira_threshold.py - Fig. 9 of Spira: a layer over the threshold t.

    python3 benchmarks/spira_threshold.py --out FOLDER [--scenes DIR] [--quick]

Offsets nearer than t are computed output-stationary, the others
weight-stationary. t is the parameter `near` of the template pairs_mma; each row
is the fastest verified candidate of one t. "spctune, any" is the fastest
dataflow of all. A processor has no such template: there the emulation verifies
candidates of each t, and a row is the number of verified ones.
"""

from typing import Any

import harness
import trials
from reference import Layer

LAYERS = (
    (32, 32, 5),
    (64, 64, 5),
    (32, 32, 3),
    (128, 128, 3),
    (16, 16, 5),
    (64, 64, 7),
    (64, 64, 3),
)
ENGINE = "spctune, pairs_mma"


def emulated(bench: Any, layer: Layer, scene: Any) -> None:
    """Verifies candidates of some t by the emulation."""
    words = [
        "verify",
        layer.words(),
        "--scene",
        scene.spec,
        "--effort",
        "quick",
    ]
    words += ["--only", "pairs_mma"]
    found = harness.command.spctune(bench.command, "sim", words)[0]
    counts: dict = {}
    for trial in found["trials"]:
        t = trials.config(trial["config"])["near"]
        passed = trial["status"] == "ok" and trial["verified"]
        counts[t] = counts.get(t, 0) + passed
    for t, count in sorted(counts.items()):
        bench.add(
            scene.name,
            len(scene.coords),
            f"{layer.text()} t={t}",
            ENGINE,
            "verified",
            float(count),
            "candidates",
            dtype=layer.dtype,
        )


def measure(bench: harness.Bench) -> None:
    if bench.args.quick and not bench.gpu:
        scene = bench.scene("tiny", "gen:shell,r=6")
        emulated(bench, Layer(16, 16, 3), scene)
        return
    scene = bench.scene("kitti@0.05")
    for cin, cout, k in bench.each("layers", LAYERS):
        layer = Layer(cin, cout, k, dtype=bench.dtype)
        by_t: dict = {}
        # An even sample of the space has several candidates of each t.
        hybrids = trials.of(bench, layer, scene, "pairs_mma")
        for trial in hybrids:
            by_t.setdefault(int(trial["values"]["near"]), []).append(trial)
        every = trials.best(trials.of(bench, layer, scene))
        for t, found in sorted(by_t.items()):
            add(
                bench,
                scene,
                f"{layer.text()} t={t}",
                ENGINE,
                trials.best(found),
            )
        add(bench, scene, layer.text(), "spctune, any", every)


def add(bench: Any, scene: Any, text: str, engine: str, us: Any) -> None:
    if us:
        bench.add(scene.name, len(scene.coords), text, engine, "kernels", us)


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
