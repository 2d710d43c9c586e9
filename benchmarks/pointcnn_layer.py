# SPDX-License-Identifier: Apache-2.0
"""pointcnn_layer.py - Fig. 3 and 4 of PointCNN++: memory and time of one layer,
64 to 128, kernel 3.

    python3 benchmarks/pointcnn_layer.py --out FOLDER [--quick]

"points" are layers on true points of a room; "voxels" is the degraded form, the
same points in voxels of the edge of a kernel's cell. The paper takes ten scenes
of S3DIS.
"""

import harness
import reference
import scenes
import torch
from reference import Layer

# Points, and radius: about 16, 32 and 65 inputs of a point.
CLOUDS = ((100000, 0.0454), (100000, 0.0632), (100000, 0.0885), (20000, 0.1))
QUICK = ((400, 0.25),)
LAYERS = ((64, 128), (64, 64), (32, 64))


def cloud(bench: harness.Bench, count: int) -> torch.Tensor:
    """Returns the points of a generated room in metres: float32 [rows, 3]."""
    rows = torch.from_numpy(scenes.voxels(f"gen:room,n={count}"))
    return (rows[:, 1:].float() / 1024).to(bench.device)


def degraded(points: torch.Tensor, edge: float) -> torch.Tensor:
    cells = torch.floor(points / edge).int()
    return torch.unique(torch.nn.functional.pad(cells, (1, 0)), dim=0)


def measure(bench: harness.Bench) -> None:
    passes = ("forward", "step", "with map", "peak")
    cases = [
        (n, r, *c)
        for c in bench.pick(LAYERS, ((8, 16),))
        for n, r in bench.pick(CLOUDS, QUICK)
    ]
    for count, radius, cin, cout in bench.each("layers", cases):
        points = cloud(bench, count)
        layer = Layer(cin, cout, 3, dtype=bench.dtype, kind="points")
        found = reference.PointDefinition(layer, points, radius)
        inputs = round(found.count() / len(points))
        scene = harness.Scene(f"room, {inputs} inputs", "", points)
        bench.layer(scene, layer, passes, definition=found)
        voxels = degraded(points, 2 * radius / 3)
        name = f"room, voxels of {2 * radius / 3:.3f}"
        bench.layer(
            harness.Scene(name, "", voxels), layer._replace(kind="subm"), passes
        )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
