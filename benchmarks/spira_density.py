# SPDX-License-Identifier: Apache-2.0
"""spira_density.py - Fig. 3 of Spira: the share of voxels that have a
neighbour, by the L1 norm of the offset, in kernels of 5.

    python3 benchmarks/spira_density.py --out FOLDER [--scenes DIR] [--quick]

The command counts (`spctune scene --density`), and the definition counts again.
"""

from typing import Any, Dict

import harness
import reference

K = 5


def defined(coords: Any) -> Dict[int, float]:
    """Returns the share in per cent by norm."""
    sums: Dict[int, Any] = {}
    pairs = reference.pairs(coords, coords, K)
    for offset, (o, _) in zip(reference.offsets(K), pairs):
        norm = sum(map(abs, offset))
        sums.setdefault(norm, []).append(len(o))
    return {n: 100 * sum(c) / len(c) / len(coords) for n, c in sums.items()}


def measure(bench: harness.Bench) -> None:
    names = ("kitti@0.05", "waymo@0.1", "indoor@0.02", "shell 256")
    for name in bench.each("scenes", bench.pick(names, names[1:3])):
        scene = bench.scene(name)
        words = ("scene", scene.spec, "--density", str(K))
        found = bench.spctune(*words)[0]["norms"]
        wanted = defined(scene.coords)
        for row in found:
            share = 100 * row["density"]
            off = abs(share - wanted[row["norm"]])
            if off > 1e-6:
                bench.notes.append(f"{name}, norm {row['norm']}: {off:.2g} off")
                continue
            bench.add(
                scene.name,
                len(scene.coords),
                f"K{K}, norm {row['norm']}",
                "spctune",
                "density",
                share,
                "%",
                pass_="map",
                off=off,
                off_after=off,
            )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
