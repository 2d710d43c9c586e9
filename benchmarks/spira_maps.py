# SPDX-License-Identifier: Apache-2.0
"""spira_maps.py - Fig. 10 of Spira: the search of the kernel map over voxels
and kernel sizes.

    python3 benchmarks/spira_maps.py --out FOLDER [--scenes DIR] [--quick]

"spctune" packs, sorts and searches in one launch; "spctune, NAME" is one of its
searchers, each compared with the oracle ("half" searches half of the offsets of
a submanifold layer). "binary search" looks up each
offset in sorted keys (torch.searchsorted), without packing and sorting; other
engines make their map as for a layer of 16 channels, and the layer is left out.
Maps are compared with the definition.
"""

from typing import Any, List

import command
import harness
import reference
import torch
import trials
from harness import Entry
from reference import Layer

SIZES = (0.2, 0.1, 0.05, 0.02)  # of voxels, in metres: about 20k to 110k voxels


def searched(coords: Any, k: int) -> Any:
    """The map by binary search of packed keys: [rows, K]."""
    keys = reference.keys(coords)
    steps = torch.stack(
        [
            reference.keys(torch.tensor([[0, *o]], device=coords.device))[0]
            - reference.keys(torch.zeros(1, 4, device=coords.device).int())[0]
            for o in reference.offsets(k)
        ]
    )
    have, order = torch.sort(keys)

    def search() -> Any:
        want = keys[:, None] + steps
        at = torch.searchsorted(have, want).clamp(max=len(have) - 1)
        return torch.where(have[at] == want, order[at], -1)

    return search


def wanted(coords: Any, k: int) -> Any:
    out = torch.full((len(coords), k**3), -1, device=coords.device)
    for n, (o, i) in enumerate(reference.pairs(coords, coords, k)):
        out[o, n] = i
    return out


def off(found: Any, want: Any) -> float:
    return float((found != want).double().mean().item())


def makers(bench: Any, scene: Any, k: int) -> List[Entry]:
    """Calls of engines that make a map and compute a layer of 4 channels on it:
    the layer, which shows that the map is right, is the same small part of
    each."""
    layer = Layer(16, 16, k, dtype=bench.dtype)
    work = harness.LayerWork(bench, scene, layer, None)
    found = []
    for name, engine in bench.engines.items():
        if hasattr(engine, "layer"):
            built = bench.trying(
                f"{name}, map K{k}", lambda e=engine: work.build(e)
            )
            if built is not None:
                found.append(work.entry(name, built, "with map"))
    return found


def searchers(bench: Any, scene: Any, k: int, text: str) -> None:
    """Adds a row for each searcher. A processor only verifies them, by the
    emulation."""
    layer = Layer(16, 16, k)
    words = ["tune", layer.words(), "--maps", "--scene", scene.spec]
    words += ["--effort", "quick", "--all"]
    device = bench.args.device if bench.gpu else "sim"
    found = command.spctune(bench.command, device, words)[0]
    for trial in found["trials"]:
        if trial["status"] != "ok" or not trial["verified"]:
            bench.notes.append(f"{text}, {trial['config']}: {trial['status']}")
            continue
        search = trials.config(trial["config"])["search"]
        name = f"spctune, {search.replace('_', ' ')}"
        head = (scene.name, len(scene.coords), text, name)
        if bench.gpu:
            bench.add(*head, "kernels", trial["median_us"], pass_="map")
        else:
            bench.add(*head, "verified", 1.0, "configuration", pass_="map")


def measure(bench: harness.Bench) -> None:
    sizes = bench.pick(SIZES, (0.5,))
    kernels = bench.pick((3, 5, 7), (3,))
    for size, k in bench.each("maps", [(s, k) for k in kernels for s in sizes]):
        base = bench.scene("kitti@0.05").spec.rsplit("@", 1)[0]
        scene = bench.scene(f"kitti@{size}", f"{base}@{size}")
        rows, text = len(scene.coords), f"map K{k}, {len(scene.coords)} voxels"
        index = bench.trying(
            text,
            lambda s=scene, k=k: bench.spctune(
                "bench",
                Layer(16, 16, k, dtype=bench.dtype).words(),
                "--scene",
                s.spec,
            )[0],
        )
        what = "kernels" if bench.gpu else "wall"
        if index:
            bench.add(
                scene.name,
                rows,
                text,
                "spctune",
                what,
                index["index_us"],
                pass_="map",
            )
        few = bench.pick(scene, bench.scene("tiny", "gen:shell,r=5"))
        bench.trying(text, lambda s=few, k=k, t=text: searchers(bench, s, k, t))
        want = wanted(scene.coords, k)
        call = searched(scene.coords, k)
        entry = Entry("binary search", call, lambda m, w=want: off(m, w), 1e-9)
        bench.compare(scene.name, rows, text, [entry], pass_="map")
        bench.compare(
            scene.name,
            rows,
            f"K{k} 16->16, {rows} voxels",
            makers(bench, scene, k),
            pass_="with map",
        )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
