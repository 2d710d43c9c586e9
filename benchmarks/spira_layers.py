# SPDX-License-Identifier: Apache-2.0
"""spira_layers.py - Fig. 8 of Spira: layers in all engines, alone and with the
time of their map.

    python3 benchmarks/spira_layers.py --out FOLDER [--scenes DIR] [--quick]
"""

import harness
from reference import Layer

LAYERS = (
    (64, 64, 3),
    (16, 32, 3),
    (32, 32, 5),
    (32, 32, 3),
    (128, 128, 3),
    (16, 16, 5),
    (4, 32, 3),
    (32, 64, 3),
    (32, 64, 5),
    (256, 256, 3),
)
QUICK = ((4, 8, 3), (8, 8, 5))
SCENES = ("kitti@0.05", "waymo@0.1", "indoor@0.02", "shell 256")


def measure(bench: harness.Bench) -> None:
    names = bench.pick(SCENES, ("kitti@0.05", "shell 256"))
    cases = [(n, x) for x in bench.pick(LAYERS, QUICK) for n in names]
    for name, (cin, cout, k) in bench.each("layers", cases):
        layer = Layer(cin, cout, k, dtype=bench.dtype)
        bench.layer(bench.scene(name), layer, ("forward", "with map", "peak"))


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
