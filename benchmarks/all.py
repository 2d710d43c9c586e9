#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""all.py - runs the scripts of all figures within a budget of time.

    python3 benchmarks/all.py --out FOLDER [--seconds 600] [--only NAME,...]
        [--scenes FOLDER] [--device cuda:0] [--engines spctune,spconv,...]
        [--quick] [--tune]

The scripts run one after the other, the most important first, each in a process
of its own. Time that a script leaves over goes to the later ones.
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
    "spira_density": 1,
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


class Script:
    """The process of one script. It imports everything at once, and measures
    when it gets its seconds."""

    def __init__(self, name: str, args: Any) -> None:
        self.name, self.log = name, f"{args.out}/{name}.log"
        words = [sys.executable, "-B", os.path.join(HERE, name + ".py")]
        words += ["--out", args.out, "--device", args.device, "--wait"]
        for option in ("scenes", "engines", "command"):
            if getattr(args, option):
                words += ["--" + option, getattr(args, option)]
        words += ["--quick"] if args.quick else []
        words += ["--tune"] if args.tune else []
        env = dict(os.environ)
        if args.device == "cpu":
            env["OMP_NUM_THREADS"] = "1"  # spconv's build for the CPU needs it
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=env,
            )

    def run(self, seconds: float) -> int:
        """Lets the script measure; returns its status. It ends by itself
        between two cases; one case may take longer."""
        try:
            self.process.communicate(f"{seconds:.0f}\n", seconds + 120)
        except subprocess.TimeoutExpired:
            self.stop()
            with open(self.log, "a", encoding="utf-8") as log:
                log.write(f"stopped {120} s after its {seconds:.0f} s\n")
        return self.process.returncode

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


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
    parser.add_argument("--tune", action="store_true")
    args = parser.parse_args()
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    end = time.monotonic() + args.seconds
    names, failed = order(args.only), 0
    following = Script(names[0], args)
    for i, name in enumerate(names):
        script, left = following, end - time.monotonic()
        if left < 5:
            print(f"{', '.join(names[i:])}: left out, as the time was over")
            script.stop()
            break
        if i + 1 < len(names):  # imports while this one measures
            following = Script(names[i + 1], args)
        share = SHARES[name] / sum(SHARES[n] for n in names[i:])
        start = time.monotonic()
        status = script.run(left * share)
        rows = papers.read(f"{args.out}/{name}.csv")
        took = time.monotonic() - start
        failed += status != 0
        words = "; ".join(w for w in papers.summary(rows) if w)
        if status:
            words = f"ended with {status}: {last_line(script.log)}"
        print(f"{name}: {len(rows)} rows, {took:.0f} s; {words}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
