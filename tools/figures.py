#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""figures.py - measures every figure that has a goal, and lists which goals are reached.

    python3 tools/figures.py BUILD SCENES [--only REGEX] [--device cuda]
                             [--list] [--json FILE] [--limit SECONDS]

BUILD is a build folder with the tests (preset static-tests runs anywhere). SCENES
is the folder with the recorded scans, which becomes the working folder; so run it in
the sources, or pass examples/networks as --networks DIR. Goals are those of
docs/performance.md for an H200 in f16; kernels are the shipped ones or those of
$SPC_DATABASE. Prints a table of Markdown with a row for each figure; a failed one
has its error. One call measures all rows of a command. No figure is reused.
"""
import argparse
import array
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KITTI, WAYMO = "kitti_hdl64_full.bin@0.05", "waymo_frame.bin@0.1"
SHELL, CAPACITY = "gen:shell,r=256", "160000"


def subm(cin, cout, k=3, more=""):
    return f"subm,cin={cin},cout={cout},k={k}{more}"


# ---- goals -----------------------------------------------------------------
# Each row: the measured case, and the largest value allowed (None: no goal).

DEEP = [  # warm us
    (KITTI + ",level=3", subm(128, 128), 12),
    (KITTI + ",level=3", subm(256, 256), 30),
    (KITTI + ",level=4", subm(256, 256), 20),
    (KITTI + ",level=3", subm(384, 256), 46),
    (KITTI + ",level=4", subm(128, 256), 13),
    (KITTI + ",level=3", subm(64, 128, 5), 28),
    (KITTI + ",level=3", subm(128, 128, 5), 48),
    (WAYMO + ",level=2", subm(32, 64, 5), 24),
    (WAYMO + ",level=2", subm(64, 64, 5), 34),
    (KITTI, subm(64, 128, 5), 70),
    (KITTI, subm(64, 64, 4), 24),
    (KITTI, subm(32, 32, 7), 70),
    (KITTI, subm(160, 160), 52),
]

DEPTHWISE = [  # times the warm floor
    (KITTI, subm(64, 64, 3, ",groups=64"), 3),
    (KITTI, subm(256, 256, 3, ",groups=256"), 3),
]

OTHERS = [  # warm us of what is offered and has no goal
    (KITTI, subm(64, 64, 3, ",accumulator=f16"), None),
    (KITTI, subm(128, 128, 3, ",accumulator=f16"), None),
    (KITTI, subm(64, 64, 3, ",dtype=i8,out=f16"), None),
    (KITTI, subm(128, 128, 3, ",dtype=i8,out=f16"), None),
    (KITTI, subm(64, 64, 3, ",dtype=bf16"), None),
]

NETWORKS = [  # p50 us of a replay, all scenes of a network in one graph
    ("resn21", [(KITTI, 360), (WAYMO, 400)]),
    ("resnl", [(KITTI, 950), (WAYMO, 1150)]),
    ("unet42", [(KITTI, 1000), (WAYMO, 1300)]),
    ("second", [("kitti_hdl64_full.bin", 163)]),
    ("centerpoint", [("kitti_hdl64_full.bin", 244)]),
    ("minkunet34c", [(KITTI, 944)]),
    ("voxelnext", [("kitti_hdl64_full.bin", 313)]),
]

# p50 us of a replay, each in its own graph, with sufficient capacity. The
# scans have four numbers a point; a network of five gets a zero as the fifth.
ALONE = [
    ("second", "--scene", "waymo_frame.bin", 179),
    ("centerpoint", "--scene", "waymo_frame.bin", 423),
    ("voxelnext", "--scene", "waymo_frame.bin", 561),
    ("minkunet34c", "--scene", WAYMO, 1104),
    ("second", "--points 4", "kitti_hdl64_full.bin", 163),
    ("second", "--points 4", "waymo_frame.bin", 179),
    ("centerpoint", "--points 5", "kitti_hdl64_full.bin", 244),
    ("centerpoint", "--points 5", "waymo_frame.bin", 423),
    ("trellis2_shape", "--scene", "gen:shell,r=64", 84250),
]

LAYERS_OF = [  # us of a network's layers, each alone, without indexing
    ("resn21", KITTI, 140),
    ("resn21", WAYMO, 165),
    ("resnl", KITTI, 520),
    ("resnl", WAYMO, 650),
    ("unet42", KITTI, 660),
    ("unet42", WAYMO, 870),
]

FRAMES = {KITTI: {3: 30, 5: 55, 7: 120}, WAYMO: {3: None, 5: None, 7: None}}

INDEX = [  # us without row order: Spira's
    (KITTI, 3, 48), (KITTI, 5, 88), (WAYMO, 3, 76),
    (WAYMO, 5, 106), (SHELL, 3, 100), (SHELL, 5, 165),
]

SIDE_BY_SIDE = [("unet42", KITTI, 120), ("unet42", WAYMO, None)]

# The step of the fastest peer (docs/peers, `step,`): ours may take half of it.
PASSES = [
    (KITTI, 16, 32, 81.4), (KITTI, 32, 32, 84.8), (KITTI, 64, 64, 160.5),
    (KITTI, 128, 128, 307), (KITTI, 256, 256, 777), (WAYMO, 16, 32, 119.9),
    (WAYMO, 32, 32, 115.0), (WAYMO, 64, 64, 241.2), (WAYMO, 128, 128, 465),
    (WAYMO, 256, 256, 1324), (SHELL, 16, 32, 291), (SHELL, 32, 32, 246.9),
    (SHELL, 64, 64, 498), (SHELL, 128, 128, 1170), (SHELL, 256, 256, 3665),
]

POINTS = [  # us: three floors at 943 TFLOP/s
    (100000, 0.0454, 64, 128, 84), (100000, 0.0632, 64, 128, 169),
    (100000, 0.0885, 64, 128, 340), (100000, 0.0454, 32, 64, 21),
    (100000, 0.0632, 32, 64, 42), (100000, 0.0885, 32, 64, 85),
    (1000000, 0.015, 64, 128, 795), (1000000, 0.0214, 64, 128, 1689),
    (1000000, 0.0303, 64, 128, 3531), (1000000, 0.015, 32, 64, 199),
    (1000000, 0.0214, 32, 64, 423), (1000000, 0.0303, 32, 64, 882),
]


# ---- running ---------------------------------------------------------------

class Failed(Exception):
    pass


class Bench:
    def __init__(self, args):
        self.args = args
        self.networks = os.path.abspath(args.networks)

    def run(self, program, *words):
        path = os.path.abspath(os.path.join(self.args.build, program))
        try:
            done = subprocess.run([path, *words], cwd=self.args.scenes, text=True,
                                  capture_output=True, timeout=self.args.limit)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"did not end in {self.args.limit} s") from late
        except OSError as error:
            raise Failed(f"{path}: {error.strerror}") from error
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Failed(said[-1] if said else f"ended with {done.returncode}")
        return done.stdout

    def spctune(self, *words):
        said = self.run("tuner/spctune", "-q", "-d", self.args.device, *words, "--json")
        return json.loads(said)

    def network(self, name):
        return os.path.join(self.networks, name + ".lua")


def by_scene(rows):
    scenes = {}
    for scene, *rest in rows:
        scenes.setdefault(scene, []).append(rest)
    return scenes.items()


def figure(text, pattern):
    found = re.search(pattern, text)
    if not found:
        raise Failed(f"no figure like '{pattern}' in what was printed")
    return float(found.group(1))


# ---- groups: each yields (what, unit, goal, measure), measures share calls ----

def once(call):
    """Returns the result of a call, which is made for the first of its rows."""
    kept = []

    def get():
        if not kept:
            try:
                kept.append((call(), None))
            except Failed as error:
                kept.append((None, error))
        if kept[0][1]:
            raise kept[0][1]
        return kept[0][0]
    return get


def layers(bench, rows, column, unit):
    for scene, of in by_scene(rows):
        got = once(lambda s=scene, o=of: bench.spctune(
            "bench", *[layer for layer, _ in o], "--scene", s))
        for i, (layer, goal) in enumerate(of):
            yield f"{scene} {layer}", unit, goal, lambda g=got, i=i: g()[i][column]


def deep(bench):
    yield from layers(bench, DEEP, "warm_us", "us")


def depthwise(bench):
    """By measured ceilings, as goals are; what is known of a kind of device is more
    than it can do: of gathered rows 1.75 times as much."""
    measured = once(lambda: bench.spctune("devices", "--measure"))

    def ratio(get, i):
        measured()
        row = get()[i]
        if not row["floor_measured"]:
            raise Failed("its ceilings were not kept: is $SPC_DATABASE empty?")
        return row["warm_ratio"]

    for scene, of in by_scene(DEPTHWISE):
        got = once(lambda s=scene, o=of: bench.spctune(
            "bench", *[layer for layer, _ in o], "--scene", s))
        for i, (layer, goal) in enumerate(of):
            yield f"{scene} {layer}", "x floor", goal, lambda g=got, i=i: ratio(g, i)


def others(bench):
    yield from layers(bench, OTHERS, "warm_us", "us")


def networks(bench):
    for name, scenes in NETWORKS:
        words = [w for scene, _ in scenes for w in ("--scene", scene)]
        got = once(lambda n=name, w=words: bench.spctune(
            "bench", "--network", bench.network(n), *w, "--capacity", CAPACITY))
        for i, (scene, goal) in enumerate(scenes):
            yield f"{name} {scene}", "us", goal, lambda g=got, i=i: g()[i]["p50_us"]


def with_columns(bench, scan, columns, folder):
    """A file of the scan's points with so many numbers each."""
    numbers = array.array("f", Path(bench.args.scenes, scan).read_bytes())
    if len(numbers) % 4:
        raise Failed(f"{scan} has no four numbers a point")
    out = array.array("f")
    for at in range(0, len(numbers), 4):
        out.extend(numbers[at:at + 4])
        out.extend([0.0] * (columns - 4))
    path = Path(folder, scan)
    path.write_bytes(out.tobytes())
    return str(path)


def measure_alone(bench, name, source, scan):
    with tempfile.TemporaryDirectory() as folder:
        option, *columns = source.split()
        if columns:
            scan = with_columns(bench, scan, int(columns[0]), folder)
        return bench.spctune("bench", "--network", bench.network(name), option,
                             scan, "--runs", "60")[0]["p50_us"]


def alone(bench):
    for name, source, scan, goal in ALONE:
        kind = " from points" if source.startswith("--points") else ""
        yield (f"{name} {scan}{kind}, alone", "us", goal,
               lambda n=name, s=source, f=scan: measure_alone(bench, n, s, f))


def layers_of(bench):
    for name, scene, goal in LAYERS_OF:
        yield (f"layers of {name} {scene}", "us", goal,
               lambda n=name, s=scene: bench.spctune(
                   "run", "--network", bench.network(n), "--scene", s,
                   "--capacity", CAPACITY)["layers_us"])


def frames(bench):
    for scene, goals in FRAMES.items():
        got = once(lambda s=scene: bench.run(
            "tests/bench_map", "--frames", bench.args.device, s))
        for k, goal in goals.items():
            pattern = rf"frame of K{k}, room for {CAPACITY},.*?warm ([\d.]+)"
            yield (f"frame K{k} {scene}", "us", goal,
                   lambda g=got, p=pattern: figure(g(), p))


def index(bench):
    for scene, of in by_scene(INDEX):
        got = once(lambda s=scene: bench.run(
            "tests/bench_map", "--index", bench.args.device, s))
        for k, goal in of:
            pattern = re.escape(scene) + rf" +\d+ +\d+ +{k} +([\d.]+)"
            yield (f"index K{k} {scene}", "us", goal,
                   lambda g=got, p=pattern: figure(g(), p))


def side_by_side(bench):
    for name, scene, goal in SIDE_BY_SIDE:
        yield (f"indexing of {name} {scene}", "us", goal,
               lambda n=name, s=scene: figure(bench.run(
                   "tests/bench_levels", bench.args.device, bench.network(n),
                   CAPACITY, s), r"([\d.]+) side by side"))


def passes(bench):
    for scene, cin, cout, peer in PASSES:
        got = once(lambda s=scene, i=cin, o=cout: [row["warm_us"] for row in bench.spctune(
            "bench", "--pass", "all", subm(i, o), "--scene", s)])
        what = f"{scene} {cin}->{cout}"
        yield f"dgrad {what}", "x forward", 1.1, lambda g=got: g()[1] / g()[0]
        yield f"wgrad {what}", "x forward", 1.5, lambda g=got: g()[2] / g()[0]
        yield f"step {what}", "x peer", 0.5, lambda g=got, p=peer: sum(g()[:3]) / p


def points(bench):
    for n, radius, cin, cout, goal in POINTS:
        layer = f"points,cin={cin},cout={cout},k=3,radius={radius}"
        yield (f"gen:room,n={n} {layer}", "us", goal,
               lambda n=n, at=layer: figure(bench.run(
                   "tests/bench_points", bench.args.device, f"gen:room,n={n}", at),
                   r"layer +([\d.]+) us"))


GROUPS = [networks, alone, layers_of, deep, depthwise, frames, index, side_by_side, passes,
          points, others]


# ---- the table -------------------------------------------------------------

def judge(value, goal):
    if goal is None:
        return "-", ""
    return f"{value / goal:.2f}", "reached" if value <= goal else "missed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("scenes")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--networks", default="examples/networks")
    parser.add_argument("--only", default="", help="what it is or its group is like that")
    parser.add_argument("--limit", type=float, default=300, help="seconds of one call")
    parser.add_argument("--list", action="store_true", help="measure nothing")
    parser.add_argument("--json", help="write the rows to this file, too")
    args = parser.parse_args()
    bench, rows, wanted = Bench(args), [], re.compile(args.only)
    start = time.time()

    print("| group | what | figure | goal | figure / goal | |\n|---|---|---:|---:|---:|---|")
    for group in GROUPS:
        for what, unit, goal, measure in group(bench):
            if not wanted.search(f"{group.__name__} {what}"):
                continue
            value, ratio, verdict = None, "-", ""
            if not args.list:
                try:
                    value = measure()
                    ratio, verdict = judge(value, goal)
                except (Failed, KeyError, TypeError, IndexError, ValueError) as error:
                    verdict = f"failed: {error}"
            print(f"| {group.__name__} | {what} | "
                  f"{'-' if value is None else f'{value:.4g} {unit}'} | "
                  f"{'-' if goal is None else goal} | {ratio} | {verdict} |", flush=True)
            rows.append({"group": group.__name__, "what": what, "unit": unit,
                         "goal": goal, "value": value, "verdict": verdict})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    reached = sum(row["verdict"] == "reached" for row in rows)
    missed = sum(row["verdict"] == "missed" for row in rows)
    failed = sum(row["verdict"].startswith("failed") for row in rows)
    print(f"\n{reached} reached, {missed} missed, {failed} failed, of {len(rows)}; "
          f"{time.time() - start:.0f} s")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
