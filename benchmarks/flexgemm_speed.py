# SPDX-License-Identifier: Apache-2.0
"""flexgemm_speed.py - the six charts of FlexGEMM: inference and training over
resolution and channels, in f16, tf32 and f32.

    python3 benchmarks/flexgemm_speed.py --out FOLDER [--quick]

A scene is a sphere's shell of the resolution, a submanifold layer of kernel 3
has as many outputs as inputs. The batches are a quarter of those of FlexGEMM's
own tests (256 shells of resolution 8, 4 of 1024), so that the float64 reference
fits.
"""

import harness
import torch
from reference import Layer

# Resolution, channels, batch elements.
GRID = (
    (256, 256, 1),
    (512, 128, 1),
    (64, 1024, 1),
    (128, 512, 1),
    (32, 1024, 4),
    (16, 1024, 16),
    (8, 1024, 64),
    (1024, 64, 1),
)
QUICK = ((8, 16, 2),)
TYPES = ("f16", "tf32", "f32")


def shells(bench: harness.Bench, size: int, batches: int) -> harness.Scene:
    """Returns several batch elements of a shell."""
    one = bench.scene(f"shell {size}", f"gen:shell,r={size}")
    name = f"shell {size} x{batches}"
    coords = one.coords.repeat(batches, 1)
    coords[:, 0] = torch.arange(
        batches, device=coords.device, dtype=coords.dtype
    ).repeat_interleave(len(one.coords))
    return harness.Scene(name, one.spec if batches == 1 else "", coords)


def measure(bench: harness.Bench) -> None:
    types = TYPES if bench.gpu else ("f32",)
    grid = [(t, *g) for g in bench.pick(GRID, QUICK) for t in types]
    for dtype, size, channels, batches in bench.each("layers", grid):
        scene = shells(bench, size, batches)
        layer = Layer(channels, channels, 3, dtype=dtype)
        bench.layer(scene, layer, ("forward", "step", "peak"))


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
