# SPDX-License-Identifier: Apache-2.0
"""spira_ablation.py - Fig. 11 of Spira: what each idea gains on the layer 32 to
32 of kernel 5, with its map.

    python3 benchmarks/spira_ablation.py --out FOLDER [--scenes DIR] [--quick]

Steps: binary search of packed keys and one output-stationary kernel; our search
instead; the best of all dataflows, hybrids included. A step is the time of its
map plus that of its kernel.
"""

import harness
import spira_maps
import trials
from harness import Entry, middle
from reference import Layer


def measure(bench: harness.Bench) -> None:
    cin, k = bench.pick((32, 5), (8, 3))
    names = bench.pick(
        ("kitti@0.05", "waymo@0.1", "indoor@0.02"), ("shell 256",)
    )
    for name in bench.each("scenes", names):
        scene = bench.scene(name)
        layer = Layer(cin, cin, k, dtype=bench.dtype)
        found = trials.of(bench, layer, scene)
        stationary = [t for t in found if not t["template"].startswith("pairs")]
        row = bench.trying(
            name,
            lambda s=scene, x=layer: bench.spctune(
                "bench", x.words(), "--scene", s.spec
            )[0],
        )
        if not found or not row:
            continue
        search = spira_maps.searched(scene.coords, k)
        want = spira_maps.wanted(scene.coords, k)
        entry = Entry(
            "search", search, lambda m, w=want: spira_maps.off(m, w), 1e-9
        )
        if bench.checked(entry, name, {}) is None:
            continue
        times = bench.in_rounds([entry])
        if bench.gpu:
            times = bench.kernel_times([entry]) or times
        slow, _ = middle(times["search"])
        steps = (
            ("binary search, output-stationary", slow, stationary),
            ("own search, output-stationary", row["index_us"], stationary),
            (
                "own search, any dataflow",
                row["once_us"] - row["warm_us"] + row["index_us"],
                found,
            ),
        )
        what = "kernels" if bench.gpu else "wall"
        for step, before, some in steps:
            if some:
                bench.add(
                    scene.name,
                    len(scene.coords),
                    f"{layer.text()}, {step}",
                    "spctune",
                    what,
                    before + trials.best(some),
                    pass_="with map",
                )
        others = {n: e for n, e in bench.engines.items() if n != "spctune"}
        bench.layer(scene, layer, ("with map",), others)


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
