#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pictures.py - draws the pictures of the tutorial and of docs/how-it-works.md.

    python3 tools/pictures.py SPCTUNE [--check]

SPCTUNE is the command: it makes the voxels of gen:lidar@0.4, which are the same
on every machine. The pictures go to docs/figures; --check writes nothing and
fails if one differs from what this script draws.
"""
import argparse
import csv
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import chart
import plots
from plots import WIDTH

TOP = Path(__file__).resolve().parent.parent
FOLDER = TOP / "docs/figures"
SCENE = "gen:lidar@0.4"
NETWORK = """network "voxels"
output(conv(input {channels = 1}, "subm,cout=1,k=1", {name = "copy"}), "y")
"""
MORE = """
.box { fill: none; stroke: #57606a; stroke-width: 1.5; }
.wire { fill: none; stroke: #57606a; stroke-width: 1.5; }
.mono { font: 12px ui-monospace, monospace; fill: #57606a; }
.soft { fill: #1a7f37; fill-opacity: 0.18; } .cell { fill: none; stroke: #d0d7de; }
.h0 { stroke: #0969da; } .h1 { stroke: #1a7f37; } .h2 { stroke: #bf8700; }
.h3 { stroke: #cf222e; }
@media (prefers-color-scheme: dark) {
  .box, .wire { stroke: #9198a1; } .mono { fill: #9198a1; }
  .soft { fill: #3fb950; fill-opacity: 0.25; } .cell { stroke: #3d444d; }
  .h0 { stroke: #4493f8; } .h1 { stroke: #3fb950; } .h2 { stroke: #d29922; }
  .h3 { stroke: #f85149; }
}
"""


def svg(height, label, parts):
    return plots.svg(height, label, parts, plots.STYLE + MORE)


# ---- voxels of the scene ------------------------------------------------------

def voxels(spctune):
    """The voxels as a list of (x, y, z), by a network that copies its input."""
    with tempfile.TemporaryDirectory() as folder:
        network, rows = Path(folder) / "copy.lua", Path(folder) / "rows.npy"
        network.write_text(NETWORK)
        subprocess.run([spctune, "-d", "cpu", "--database", "", "-q", "run",
                        "--network", str(network), "--dtype", "f32", "--scene",
                        SCENE, "--output-coords", str(rows)], check=True,
                       stdout=subprocess.DEVNULL)
        data = rows.read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    numbers = struct.iter_unpack("<4i", data[10 + length:])
    return sorted((x, y, z) for _, x, y, z in numbers)


def runs(cells):
    """Cells (x, y) as horizontal runs (x, y, length), so that files stay small."""
    out = []
    for x, y in sorted(cells, key=lambda c: (c[1], c[0])):
        if out and out[-1][1] == y and sum(out[-1][::2]) == x:
            out[-1][2] += 1
        else:
            out.append([x, y, 1])
    return out


def plot(cells, kind, left, top, size, low, step):
    """A path of the cells, `size` pixels each, as strokes."""
    parts = ["M%g %gh%g" % (left + (x - low[0]) * size,
                            top + (low[1] - y + 0.5) * size, n * size)
             for x, y, n in runs(cells)]
    return '<path class="%s" fill="none" stroke-width="%g" d="%s"/>' % (
        kind, size * step, "".join(parts))


def highest(points):
    """The greatest z of each cell (x, y)."""
    top = {}
    for x, y, z in points:
        top[x, y] = max(z, top.get((x, y), z))
    return top


def draw_scene(points):
    near = [p for p in points if abs(p[0]) <= 90 and -84 <= p[1] <= 24]
    top = highest(near)
    limits = (-3, 0, 4)
    out = [chart.text(20, 22, "%s from above: %s voxels, colour by height" %
                      (SCENE, "{:,}".format(len(points))))]
    for i in range(4):
        cells = [c for c, z in top.items() if sum(z > l for l in limits) == i]
        out.append(plot(cells, "h%d" % i, 20, 36, 4, (-90, 24), 1))
    return svg(36 + 109 * 4 + 10, "A scene from above", out)


def draw_levels(points):
    out, width = [], 172
    for level in range(4):
        all_of = {tuple(v >> level for v in p) for p in points}
        low = (-96 >> level, 23 >> level)
        n = 112 >> level
        cells = {(x, y) for x, y, _ in all_of
                 if 0 <= x - low[0] < n and 0 <= low[1] - y < n}
        left = 20 + level * (width + 10)
        out.append(chart.text(left, 22, "level %d, stride %d" %
                              (level, 1 << level)))
        out.append(chart.text(left, 40, "{:,} voxels".format(len(all_of)),
                              ' class="small"'))
        size = width / n
        out.append('<rect class="cell" x="%d" y="50" width="%d" height="%d"/>' %
                   (left, width, width))
        out.append(plot(cells, "h1", left, 50, size, low, 1))
    return svg(50 + width + 12, "Levels of a network", out)


# ---- a kernel map ---------------------------------------------------------------

SMALL = [(0, 2), (1, 1), (1, 2), (2, 1), (4, 0), (4, 1)]


def draw_map():
    size, left, top = 44, 30, 60
    rows = {c: i for i, c in enumerate(SMALL)}
    seen = SMALL[2]
    out = [chart.text(left, 24, "six voxels; the 3×3 kernel of row 2"),
           chart.text(330, 24, "kernel map: input row of each output row "
                               "and offset")]
    out.append('<rect class="soft" x="%d" y="%d" width="%d" height="%d"/>' %
               (left + (seen[0] - 1) * size, top + (3 - seen[1] - 1) * size,
                3 * size, 3 * size))
    for x in range(5):
        for y in range(4):
            at = (left + x * size, top + (3 - y) * size)
            out.append('<rect class="cell" x="%d" y="%d" width="%d" '
                       'height="%d"/>' % (*at, size, size))
            if (x, y) in rows:
                out.append('<rect class="e1" x="%d" y="%d" width="%d" '
                           'height="%d" rx="4"/>' %
                           (at[0] + 5, at[1] + 5, size - 10, size - 10))
                out.append(chart.text(at[0] + size / 2, at[1] + size / 2 + 5,
                                      str(rows[x, y]),
                                      ' text-anchor="middle"'))
    offsets = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    wide, high = 42, 26
    for k, (dx, dy) in enumerate(offsets):
        out.append(chart.text(388 + k * wide, 52, "%+d%+d" % (dx, dy)
                              if dx or dy else "0 0",
                              ' text-anchor="middle" class="small"'))
    for i, (x, y) in enumerate(SMALL):
        at = top + i * high
        if (x, y) == seen:
            out.append('<rect class="soft" x="330" y="%d" width="%d" '
                       'height="%d"/>' % (at, 38 + 9 * wide, high))
        out.append(chart.text(348, at + 18, str(i), ' text-anchor="middle"'))
        for k, (dx, dy) in enumerate(offsets):
            found = rows.get((x + dx, y + dy))
            out.append(chart.text(388 + k * wide, at + 18,
                                  "·" if found is None else str(found),
                                  ' text-anchor="middle"'))
    pairs = sum((x + dx, y + dy) in rows for x, y in SMALL
                for dx, dy in offsets)
    out.append(chart.text(330, top + 6 * high + 22,
                          "%d pairs of 54: a density of %.2f" %
                          (pairs, pairs / 54), ' class="small"'))
    return svg(top + 4 * size + 24, "A kernel map", out)


# ---- the report of a tuning -------------------------------------------------------

def draw_report():
    with open(FOLDER / "trials.csv", encoding="utf-8") as file:
        rows = [(name, float(us)) for name, us in
                csv.reader(l for l in file if l[0] != "#")]
    left, y = 370, 40
    scale = (WIDTH - left - 90) / max(us for _, us in rows)
    out = [chart.text(20, 22, "candidates that were timed, microseconds; the "
                              "winner is green")]
    for i, (name, us) in enumerate(rows):
        out.append(chart.text(left - 8, y + 12, name,
                              ' text-anchor="end" class="small"'))
        out.append('<rect class="%s" x="%d" y="%d" width="%.1f" height="14"/>' %
                   ("e1" if i else "e0", left, y, us * scale))
        out.append(chart.text(left + us * scale + 5, y + 12, "%.0f" % us,
                              ' class="small"'))
        y += 20
    return svg(y + 8, "Candidates of a tuning", out)


# ---- how it works ------------------------------------------------------------------

BOXES = {  # name: (x, y, title, second line)
    "layer": (20, 30, "layer", "subm,cin=64,…"),
    "scene": (20, 150, "scene", "coordinates"),
    "problem": (180, 30, "problem", "a value"),
    "map": (180, 150, "kernel map", "on the device"),
    "lookup": (340, 30, "lookup", "nearest choice"),
    "plan": (490, 90, "plan", "kernel + layout"),
    "result": (630, 90, "execute", "features out"),
    "database": (340, 250, "database", "choices, code"),
    "candidates": (20, 250, "templates", "→ candidates"),
    "gate": (180, 250, "gate, timer", "in a worker"),
}
WIRES = ["M130 55H180", "M130 175H180", "M290 55H340", "M290 175H460V125H490",
         "M450 55H470V105H490", "M600 115H630", "M130 275H180",
         "M290 275H340", "M395 250V80", "M310 55V228H235V250"]


def draw_how():
    out = ['<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" '
           'markerWidth="7" markerHeight="7" orient="auto">'
           '<path class="wire" d="M1 1L7 4L1 7"/></marker></defs>']
    for wire in WIRES:
        under = wire.endswith("H235V250")
        out.append('<path class="wire" marker-end="url(#a)" d="%s"%s/>' %
                   (wire, ' stroke-dasharray="4 4"' if under else ""))
    for x, y, title, second in BOXES.values():
        out.append('<rect class="box" fill-opacity="1" x="%d" y="%d" width="110" '
                   'height="50" rx="6"/>' % (x, y))
        out.append(chart.text(x + 55, y + 21, title, ' text-anchor="middle"'))
        out.append(chart.text(x + 55, y + 39, second,
                              ' text-anchor="middle" class="small"'))
    out.append(chart.text(20, 20, "in your program", ' class="small"'))
    out.append(chart.text(20, 240, "spctune tune, beforehand", ' class="small"'))
    return svg(316, "From a layer and a scene to a result", out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("spctune")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    points = voxels(args.spctune)
    files = {
        "how.svg": draw_how(), "scene.svg": draw_scene(points),
        "levels.svg": draw_levels(points), "kernel_map.svg": draw_map(),
        "report.svg": draw_report(),
    }
    stale = 0
    for name, text in files.items():
        path = FOLDER / name
        if not args.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print("docs/figures/%s is stale: run tools/pictures.py" % name)
            stale += 1
    print("%d pictures, %d stale" % (len(files), stale))
    return stale > 0


if __name__ == "__main__":
    sys.exit(main())
