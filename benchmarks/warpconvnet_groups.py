# SPDX-License-Identifier: Apache-2.0
"""warpconvnet_groups.py - WarpConvNet's tested matrix: kernels of 3, 5 and 7 by
1, 2 and 4 groups, and depthwise layers.

    python3 benchmarks/warpconvnet_groups.py --out DIR [--scenes DIR] [--quick]
"""

import harness
from reference import Layer


def measure(bench: harness.Bench) -> None:
    c = bench.pick(64, 16)
    kernels = bench.pick((3, 5, 7), (3, 5))
    groups = bench.pick((1, 2, 4, c), (1, 2, c))
    names = bench.pick(("kitti@0.05", "shell 256"), ("shell 256",))
    cases = [(n, k, g) for n in names for k in kernels for g in groups]
    for name, k, g in bench.each("layers", cases):
        layer = Layer(c, c, k, groups=g, dtype=bench.dtype)
        bench.layer(bench.scene(name), layer, ("forward", "step"))


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
