# SPDX-License-Identifier: Apache-2.0
"""first.py - the time from `import` to the first result of SECOND. python.py
runs it with an empty database; it prints JSON: seconds, and microseconds of a
second run.
"""

import argparse
import json
import time
from typing import Any, Dict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npy", required=True)
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    marks = [time.perf_counter()]

    def mark() -> float:
        marks.append(time.perf_counter())
        return marks[-1] - marks[-2]

    found: Dict[str, Any] = {}
    import numpy as np
    import torch

    found["import torch"] = mark()
    device = torch.device(args.device)
    gpu = device.type == "cuda"
    torch.zeros(1, device=device).cpu()
    found["start the device"] = mark()

    import models
    import scenes

    import spctune
    import spctune.spconv as sp

    found["import spctune"] = mark()
    make, channels = models.NETWORKS["SECOND"]
    model = make(sp).to(device).eval()
    grid = scenes.GRIDS["SECOND"]
    scan = np.load(args.npy)
    batch = list(scenes.join(grid, [scan], channels, device))
    half = scenes.join(grid, [scan[: len(scan) // 2]], channels, device)
    found["make the model"] = mark()
    kind = torch.float16 if gpu else torch.float32
    with torch.no_grad():
        ready, features = model.to(kind), batch[0].to(kind)
        ready(features, *batch[1:]).float().sum().item()
    found["first eager result"] = mark()
    found["import to first result"] = marks[-1] - marks[2]
    with torch.no_grad():
        ready(features, batch[1].clone(), *batch[2:]).float().sum().item()
    found["second eager result"] = mark()
    net = spctune.compile(
        model.float(),
        [tuple(batch), half],
        dtype="f16" if gpu else "f32",
        capacity=len(scan),
    )
    net(*batch).float().sum().item()
    found["compile() and its first result"] = mark()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
