# SPDX-License-Identifier: Apache-2.0
"""warpconvnet_regimes.py - WarpConvNet's table of output coordinates: each
rule, with its map; and a layer of two axes.

    python3 benchmarks/warpconvnet_regimes.py --out FOLDER [--quick]
"""

import harness
import reference
from reference import Layer

REGIMES = (
    ("subm", 3, 1),
    ("conv", 3, 2),
    ("conv", 2, 2),
    ("up", 2, 2),
    ("up", 3, 2),
    ("generative", 3, 1),
    ("generative", 3, 2),
    ("generative", 2, 2),
    ("expand", 3, 2),
    ("expand", 2, 2),
)


def measure(bench: harness.Bench) -> None:
    cin, cout = bench.pick((64, 128), (4, 8))
    scene = bench.scene(bench.pick("kitti@0.05", "shell 256"))
    flat = scene.coords.clone()
    flat[:, 3] = 0
    plane = harness.Scene(f"{scene.name}, z=0", "", reference.unique(flat))
    layer = Layer(cin, cout, 3, dtype=bench.dtype, axes=2)
    bench.layer(plane, layer, ("with map", "forward", "step"))
    for kind, k, stride in bench.each("rules", REGIMES):
        layer = Layer(cin, cout, k, stride, dtype=bench.dtype, kind=kind)
        bench.layer(scene, layer, ("with map", "forward", "step"))


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
