#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python.py - networks through the Python package, beside other engines.

    python3 benchmarks/python.py --out FOLDER [--scenes FOLDER]
        [--device cuda:0] [--engines spctune,spconv,spconv-Triton]
        [--networks SECOND,SpUNet] [--seconds 95]
        [--command PATH] [--no-training]

Each network runs on one scene, written once for all engines (models.py), with
the same weights: a recorded scan of --scenes (kitti_hdl64_full.bin), else a
generated sweep. The script measures wall times with the device idle before and
after, maps included: eager inference in float16 (no_grad), compiled inference,
the same network in C (`spctune bench --network`), and a training step (forward,
loss, backward, AdamW, autocast with GradScaler, a batch of four scans that
differs at each step). Engines alternate, so that noise affects all equally.

"off" is the largest difference of a result from that of "spctune eager",
relative to its root mean square; for training it is the norm of the difference
of all gradients, relative to their norm. Results are compared again after
timing. Peak memory is the peak of torch's allocator during one engine's
training.

A part that fails is reported, and the others continue. FOLDER receives
python.json, python.svg, and a log for each part; the table comes last.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

import command

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ("SECOND", "MinkUNet34C", "CenterPoint", "SpUNet")
ENGINES = ("spctune", "spconv", "spconv-Triton")


def words_of(name: str, args: Any, prepare: float) -> List[str]:
    """Returns the command line of a network's process."""
    words = [sys.executable, "-B", f"{HERE}/network.py", "--network", name]
    words += ["--json", f"{args.out}/{name}.json"]
    words += ["--npy", f"{args.out}/{name}.npy"]
    words += ["--ready", f"{args.out}/{name}.ready"]
    words += ["--prepare", f"{prepare:.1f}", "--device", args.device]
    words += ["--engines", args.engines, "--beams", str(args.beams)]
    words += ["--batch", str(args.batch), "--rounds", str(args.rounds)]
    for option in ("scenes", "command"):
        if getattr(args, option):
            words += [f"--{option}", getattr(args, option)]
    return words if args.training else [*words, "--no-training"]


def warmers(args: Any, env: Dict[str, str], prepare: float) -> List[Any]:
    """Starts processes that compile kernels of the networks, in addition to the
    measuring processes; all share the database. Only machines with a GPU have
    enough cores."""
    if args.device == "cpu":
        return []
    kinds = ["compiled"] + (["training"] if args.training else [])
    out = []
    for name in args.networks.split(","):
        for kind in kinds:
            words = words_of(name, args, prepare)
            words[words.index("--json") + 1] = os.devnull
            words[words.index("--engines") + 1] = "spctune"
            quiet = subprocess.DEVNULL
            words += ["--warm", kind]
            out.append(
                subprocess.Popen(words, stdout=quiet, stderr=quiet, env=env)
            )
    return out


class Child:
    """The process of one network."""

    def __init__(
        self, name: str, args: Any, env: Dict[str, str], prepare: float
    ) -> None:
        self.name, self.json = name, f"{args.out}/{name}.json"
        self.ready = f"{args.out}/{name}.ready"
        for path in (self.json, self.ready):
            if os.path.exists(path):
                os.remove(path)
        self.log = open(f"{args.out}/{name}.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            words_of(name, args, prepare),
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )

    def is_ready(self) -> bool:
        """True if the process is prepared or has ended early."""
        return os.path.exists(self.ready) or self.process.poll() is not None

    def go(self, seconds: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds:.2f}\n")
        self.process.stdin.flush()

    def end(self, limit: float) -> Optional[str]:
        """Waits for the end of the process; returns a sentence if it failed."""
        try:
            self.process.communicate(timeout=max(limit, 0.1))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            return f"{self.name}: stopped, as its time was up"
        finally:
            self.log.close()
        if self.process.returncode == 0:
            return None
        with open(self.log.name, encoding="utf-8") as file:
            last = (file.read().strip().split("\n") or [""])[-1][:300]
        return (
            f"{self.name}: its process ended with "
            f"{self.process.returncode}: {last}"
        )


def networks(args: Any, env: Dict[str, str], end: float) -> Dict[str, Any]:
    """Runs all networks: prepares them in parallel, and measures one after the
    other."""
    # Half of the time is for imports and kernels; compilations that have begun
    # may end.
    limit = 0.5 * (end - time.monotonic())
    until = time.monotonic() + 1.3 * limit
    children = [Child(n, args, env, limit) for n in args.networks.split(",")]
    beside = warmers(args, env, limit)
    notes: List[str] = []
    try:
        while time.monotonic() < until:
            if all(c.is_ready() for c in children):
                break
            time.sleep(0.05)
        for process in beside:
            process.kill()
        measure(children, end, notes)
    finally:
        for process in [*beside, *(c.process for c in children)]:
            if process.poll() is None:
                process.kill()
            process.wait()
    found = []
    for child in children:
        if os.path.exists(child.json):
            with open(child.json, encoding="utf-8") as file:
                part = json.load(file)
            notes += [n for n in part.pop("notes") if n not in notes]
            found.append(part)
    return {"networks": found, "notes": notes}


def measure(children: List[Child], end: float, notes: List[str]) -> None:
    """Lets the prepared processes measure one after the other."""
    ready = [c for c in children if c.is_ready()]
    for child in children:
        if child not in ready:
            child.process.kill()
            notes.append(
                f"{child.name}: not prepared in time; its kernels are stored, "
                "so another run goes further"
            )
    for i, child in enumerate(ready):
        left = (end - time.monotonic()) / (len(ready) - i)
        if child.process.poll() is None:
            child.go(0.6 * left)
        problem = child.end(end - time.monotonic() + 5)
        if problem:
            notes.append(problem)


def script(name: str, env: Dict[str, str], *words: str) -> Any:
    """Returns the JSON that a script of this folder prints, or a sentence."""
    try:
        ran = subprocess.run(
            [sys.executable, "-B", f"{HERE}/{name}", *words],
            capture_output=True,
            text=True,
            timeout=90,
            env=env,
            check=False,
        )
        if ran.returncode:
            last = ran.stderr.strip().split("\n")[-1][:300]
            return f"{name} ended with {ran.returncode}: {last}"
        return json.loads(ran.stdout.strip().split("\n")[-1])
    except (subprocess.TimeoutExpired, ValueError) as error:
        return f"{name}: {error}"


# ---- the table ---------------------------------------------------------------


def cell(row: Optional[Dict[str, Any]]) -> str:
    if row is None or "ms" not in row:
        return "-"
    return f"{row['ms']:.3f} ({row['spread']:.0%})"


def lines(part: Dict[str, Any], engines: List[str]) -> List[str]:
    """Returns the lines of one network."""
    rows = part["rows"]
    out = []

    def of(kind: str) -> List[Optional[Dict[str, Any]]]:
        return [rows.get(f"{engine} {kind}") for engine in engines]

    def line(kind: str, cells: List[str], row: Any, peer: Any) -> None:
        ms, best = (row or {}).get("ms"), ""
        if ms and peer:
            best = f"{peer / ms:.2f}x"
        voxels = (row or {}).get("voxels", "")
        out.append(
            f"{part['network']:12}{kind:11}{voxels:>8}"
            + "".join(f"{c:>19}" for c in cells)
            + f"{best:>8}"
        )

    def best_peer(kind: str) -> Optional[float]:
        times = [r["ms"] for r in of(kind)[1:] if r and "ms" in r]
        return min(times) if times else None

    eager, none = best_peer("eager"), ["-"] * (len(engines) - 1)
    ours = of("eager")[0]
    line("eager", [cell(r) for r in of("eager")], ours, eager)
    frozen = rows.get("spctune frozen")
    line("frozen", [cell(frozen), *none], frozen, eager)
    whole = rows.get("spctune compiled")
    line("compiled", [cell(whole), *none], whole, eager)
    alone, in_c = rows.get("network alone"), rows.get("C")
    line("  network", [cell(alone), *none], alone, None)
    line("  in C", [cell(in_c), *none], in_c, None)
    train = of("training")
    peer = best_peer("training")
    line("training", [cell(r) for r in train], train[0], peer)
    peaks = [(r or {}).get("peak_mb") for r in train]
    if any(peaks):
        line("  peak MB", [f"{p:.0f}" if p else "-" for p in peaks], None, None)
    offs = [
        f"{engine} {kind} {row['off']:.1e}/{row['off_after']:.1e}"
        for kind in ("eager", "compiled", "training")
        for engine in engines
        for row in [rows.get(f"{engine} {kind}")]
        if row and "off" in row and "off_after" in row
    ]
    out.append("  off, before/after: " + "; ".join(offs))
    return out


def report(found: Dict[str, Any], engines: List[str]) -> List[str]:
    head = "".join(f"{engine:>19}" for engine in engines)
    out = [
        f"{'network':12}{'median ms':11}{'voxels':>8}{head}{'best':>8}",
    ]
    for part in found["networks"]:
        out += lines(part, engines)
    for name in ("host", "first"):
        value = found.get(name)
        if isinstance(value, dict):
            unit = "us" if name == "host" else "s"
            words = "; ".join(f"{k} {v:.2f}" for k, v in value.items())
            out.append(f"{name}, {unit}: {words}")
        elif value:
            out.append(value)
    return out + found["notes"]


def picture(found: Dict[str, Any], engines: List[str], path: str) -> None:
    sys.path.insert(0, os.path.join(HERE, "..", "tools"))
    import chart

    table = []
    for part in found["networks"]:
        for kind in ("eager", "compiled", "training"):
            rows = [part["rows"].get(f"{e} {kind}") or {} for e in engines]
            times = [r["ms"] * 1000 if "ms" in r else None for r in rows]
            if any(times):
                table.append((f"{part['network']}, {kind}", times))
    if table:
        with open(path, "w", encoding="utf-8") as file:
            file.write(chart.draw(engines, table))


# ---- main --------------------------------------------------------------------


def arguments() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--scenes")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--command", default=None)
    parser.add_argument("--seconds", type=float, default=95)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--beams", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--no-training", dest="training", action="store_false")
    args = parser.parse_args()
    for name in args.networks.split(","):
        if name not in NETWORKS:
            parser.error(f"no network '{name}': {', '.join(NETWORKS)}")
    for name in args.engines.split(","):
        if name not in ENGINES:
            parser.error(f"no engine '{name}': {', '.join(ENGINES)}")
    return args


def main() -> None:
    args = arguments()
    end = time.monotonic() + args.seconds
    args.out = os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    try:
        beside = command.default_command()
        args.command = args.command or beside
    except ImportError as error:
        sys.exit(f"python.py: {error}")
    env = dict(os.environ)
    env.setdefault("SPC_DATABASE", f"{args.out}/python.db")
    if args.device == "cpu":
        env["OMP_NUM_THREADS"] = "1"  # spconv's build for the CPU needs it
    engines = args.engines.split(",")
    found = networks(args, env, end - 15)
    found["host"] = script("host.py", env, "--device", args.device)
    npy = f"{args.out}/SECOND.npy"
    if os.path.exists(npy):
        empty = dict(env, SPC_DATABASE=f"{args.out}/empty.db")
        for end_of in ("", "-wal", "-shm"):
            if os.path.exists(empty["SPC_DATABASE"] + end_of):
                os.remove(empty["SPC_DATABASE"] + end_of)
        found["first"] = script(
            "first.py", empty, "--device", args.device, "--npy", npy
        )
    with open(f"{args.out}/python.json", "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    try:
        picture(found, engines, f"{args.out}/python.svg")
    except Exception as error:
        found["notes"].append(f"no picture: {type(error).__name__}: {error}")
    print("\n".join(report(found, engines)), flush=True)


if __name__ == "__main__":
    main()
