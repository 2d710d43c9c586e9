# SPDX-License-Identifier: Apache-2.0
"""spira_indexing.py - Fig. 12 of Spira: the sets and maps of a network, one
after the other or side by side.

    python3 benchmarks/spira_indexing.py --out FOLDER [--scenes DIR] [--quick]

The program bench_levels of the tests measures both on a GPU, and compares the
results of both. A processor has no graphs with branches; there the command
times the sets and maps of a network one after the other.
"""

import os
import re
from typing import Any

import command
import harness

NETWORKS = ("resn21", "unet42", "resnl")
PATTERNS = {
    "one after the other": r"([\d.]+) one after the other",
    "side by side": r"([\d.]+) side by side",
    "network": r"replay ([\d.]+)",
}


def lua(name: str) -> str:
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.join(top, "examples", "networks", name + ".lua")


def levels(bench: Any, name: str, scene: Any) -> None:
    """Both orders, by bench_levels."""
    words = [command.program(bench.command, "bench_levels"), bench.args.device]
    room = str(max(160000, len(scene.coords)))
    said = command.run([*words, lua(name), room, scene.spec], 300)
    for what, pattern in PATTERNS.items():
        found = re.search(pattern, said)
        if found:
            bench.add(
                scene.name,
                len(scene.coords),
                f"{name}, {what}",
                "spctune",
                "kernels",
                float(found.group(1)),
                pass_="indexing",
            )


def sequential(bench: Any, name: str, scene: Any) -> None:
    """The sum of the steps that make sets and maps."""
    words = ("run", "--network", lua(name), "--scene", scene.spec)
    found = bench.spctune(*words, "--dtype", bench.dtype)
    steps = [s for s in found["steps"] if s["kind"] in ("set", "map")]
    bench.add(
        scene.name,
        len(scene.coords),
        f"{name}, one after the other",
        "spctune",
        "wall",
        sum(s["warm_us"] for s in steps),
        pass_="indexing",
    )


def measure(bench: harness.Bench) -> None:
    names = bench.pick(
        ("kitti@0.05", "waymo@0.1", "indoor@0.02"), ("kitti@0.05",)
    )
    nets = bench.pick(NETWORKS, NETWORKS[:1])
    for net, name in bench.each(
        "networks", [(n, s) for n in nets for s in names]
    ):
        scene = bench.scene(name)
        one = levels if bench.gpu else sequential
        bench.trying(net, lambda n=net, s=scene, f=one: f(bench, n, s))


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
