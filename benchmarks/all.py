#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""all.py - runs the scripts of all figures within a budget of time.

    python3 benchmarks/all.py --out FOLDER [--seconds 600] [--only NAME,...]
        [--scenes FOLDER] [--device cuda:0] [--engines spctune,spconv,...]
        [--quick]

The scripts run one after the other, the most important first, each in a process
of its own. What a script does not use of its share goes to the later ones.
FOLDER receives NAME.csv, NAME.svg and NAME.log of each. Then

    python3 benchmarks/papers.py --record FOLDER

makes the pages of the documents from them.
"""

import argparse
import os
import subprocess
import sys
import time
from typing import Any, List

import papers

HERE = os.path.dirname(os.path.abspath(__file__))
# The share of the time that a script gets, in the order of importance.
SHARES = {
    "spira_layers": 8,
    "flexgemm_speed": 8,
    "pointcnn_layer": 6,
    "warpconvnet_passes": 5,
    "spira_networks": 6,
    "spira_maps": 3,
    "warpconvnet_groups": 4,
    "pointcnn_resnet": 3,
    "pointcnn_training": 2,
    "flexgemm_algorithms": 3,
    "warpconvnet_regimes": 2,
    "spira_breakdown": 2,
    "spira_indexing": 2,
    "spira_keys": 1,
    "spira_threshold": 5,
    "spira_ablation": 3,
    "warpconvnet_algorithms": 4,
}


def order(only: str) -> List[str]:
    """Returns the scripts to run. SystemExit: there is no such script."""
    wanted = only.split(",") if only else papers.scripts()
    for name in wanted:
        if name not in papers.scripts():
            sys.exit(f"no script '{name}': {', '.join(papers.scripts())}")
    return sorted(wanted, key=lambda n: list(SHARES).index(n))


def run(name: str, args: Any, seconds: float) -> int:
    """Runs one script; returns its status."""
    words = [sys.executable, "-B", os.path.join(HERE, name + ".py")]
    words += ["--out", args.out, "--seconds", f"{seconds:.0f}"]
    words += ["--device", args.device]
    for option in ("scenes", "engines", "command"):
        if getattr(args, option):
            words += ["--" + option, getattr(args, option)]
    words += ["--quick"] if args.quick else []
    env = dict(os.environ)
    if args.device == "cpu":
        env["OMP_NUM_THREADS"] = "1"  # spconv's build for the CPU needs it
    with open(f"{args.out}/{name}.log", "w", encoding="utf-8") as log:
        # A script ends by itself between two cases; one case may take longer.
        limit = seconds + 120
        try:
            return subprocess.run(
                words,
                stdout=log,
                stderr=log,
                env=env,
                timeout=limit,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            log.write(f"stopped after {limit:.0f} s\n")
            return 124


def last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return (file.read().strip().split("\n") or [""])[-1][:160]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", default="")
    parser.add_argument("--scenes")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engines")
    parser.add_argument("--command")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.seconds
    names, failed = order(args.only), 0
    for i, name in enumerate(names):
        left = end - time.monotonic()
        if left < 5:
            print(f"{', '.join(names[i:])}: left out, as the time was over")
            break
        share = SHARES[name] / sum(SHARES[n] for n in names[i:])
        start = time.monotonic()
        status = run(name, args, left * share)
        rows = papers.read(f"{args.out}/{name}.csv")
        took = time.monotonic() - start
        failed += status != 0
        said = papers.summary(rows)
        words = (
            last_line(f"{args.out}/{name}.log") if status else "; ".join(said)
        )
        print(f"{name}: {len(rows)} rows, {took:.0f} s; {words}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
