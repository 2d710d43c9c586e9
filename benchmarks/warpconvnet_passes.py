# SPDX-License-Identifier: Apache-2.0
"""warpconvnet_passes.py - WarpConvNet's three kernels of a layer: the forward
pass and each gradient alone.

    python3 benchmarks/warpconvnet_passes.py --out DIR [--scenes DIR] [--quick]
"""

import harness
from reference import Layer

CHANNELS = (
    (64, 64),
    (32, 32),
    (128, 128),
    (64, 128),
    (96, 96),
    (256, 256),
    (256, 128),
    (384, 256),
)


def measure(bench: harness.Bench) -> None:
    names = bench.pick(("kitti@0.05", "waymo@0.1"), ("shell 256",))
    channels = bench.pick(CHANNELS, ((4, 8),))
    for (cin, cout), name in bench.each(
        "layers", [(c, n) for c in channels for n in names]
    ):
        layer = Layer(cin, cout, 3, dtype=bench.dtype)
        passes = ("forward", "dgrad", "wgrad", "step")
        bench.layer(bench.scene(name), layer, passes)


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
