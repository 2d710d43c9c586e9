# SPDX-License-Identifier: Apache-2.0
"""spira_keys.py - section 6.2 of Spira: keys of 32 and of 64 bits, and the
share of packing and sorting.

    python3 benchmarks/spira_keys.py --out FOLDER [--scenes DIR] [--quick]

A scene with one more voxel that is far away needs 64 bits. The program
bench_map of the tests packs and sorts alone (K1). The share is that time over a
replay of ResN21.
"""

import os
import re
import tempfile
from typing import Any

import command
import harness
import numpy as np
from reference import Layer
from spira_indexing import lua


def sorts(bench: Any, spec: str) -> float:
    """Returns us of packing and sorting."""
    path = command.program(bench.command, "bench_map")
    said = command.run([path, bench.args.device, spec], 300)
    found = re.search(r" (\d+) +1 +([\d.]+) ", said)
    if not found:
        raise command.Failed("bench_map printed no row of K1")
    return float(found.group(2))


def index(bench: Any, spec: str, k: int) -> float:
    """Returns us of packing, sorting and searching."""
    layer = Layer(16, 16, k, dtype=bench.dtype)
    return bench.spctune("bench", layer.words(), "--scene", spec)[0]["index_us"]


def measure(bench: harness.Bench) -> None:
    what = "kernels" if bench.gpu else "wall"
    names = bench.pick(("kitti@0.05", "waymo@0.1"), ("shell 256",))
    for name in bench.each("scenes", names):
        scene = bench.scene(name)
        head = (scene.name, len(scene.coords))
        coords = scene.coords.cpu().numpy()
        far = coords[:1].copy()
        far[0, 1:] = 30000
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "far.npy")
            np.save(path, np.concatenate([coords, far]))
            for k in (3, 5):
                for text, spec in (("", scene.spec), (", 64 bits", path)):
                    us = index(bench, spec, k)
                    bench.add(
                        *head,
                        f"index K{k}{text}",
                        "spctune",
                        what,
                        us,
                        pass_="map",
                    )
        us = sorts(bench, scene.spec)
        bench.add(*head, "pack and sort", "spctune", what, us, pass_="map")
        words = ("bench", "--network", lua("resn21"), "--scene", scene.spec)
        replay = bench.spctune(*words, "--dtype", bench.dtype, "--runs", "20")
        bench.add(
            *head,
            "pack and sort of ResN21",
            "spctune",
            "share",
            100 * us / replay[0]["p50_us"],
            "%",
            pass_="network",
        )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
