# SPDX-License-Identifier: Apache-2.0
"""spira_breakdown.py - Fig. 2 of Spira: two submanifold layers by phases.

    python3 benchmarks/spira_breakdown.py --out FOLDER [--scenes DIR] [--quick]

"index" packs, sorts and searches; "layout" orders rows and makes tables of
tiles or pairs (post-processing); "features" is the layer itself. Other engines
have the sum of the first two as the difference of "with map" and "forward".
"""

import harness
from reference import Layer

PHASES = (
    ("index", "index_us"),
    ("layout", "layout_us"),
    ("features", "warm_us"),
)


def measure(bench: harness.Bench) -> None:
    layers = bench.pick(((16, 32, 3), (64, 64, 5)), ((4, 8, 3), (8, 8, 5)))
    scene = bench.scene("kitti@0.05")
    for cin, cout, k in bench.each("layers", layers):
        layer = Layer(cin, cout, k, dtype=bench.dtype)
        row = bench.trying(
            layer.text(),
            lambda x=layer: bench.spctune(
                "bench", x.words(), "--scene", scene.spec
            )[0],
        )
        for phase, column in PHASES if row else ():
            bench.add(
                scene.name,
                len(scene.coords),
                layer.text(),
                "spctune",
                "kernels" if bench.gpu else "wall",
                row[column],
                pass_=phase,
            )
        others = {n: e for n, e in bench.engines.items() if n != "spctune"}
        bench.layer(scene, layer, ("forward", "with map"), others)


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
