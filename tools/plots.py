#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plots.py - draws the plots of docs/performance.md and writes its table.

    python3 tools/plots.py [--check]

Figures come from docs/peers/h200-layers-2026-11.csv; the plots go to
docs/figures/{peers,floor,rows}.svg, and the table to the lines of
docs/performance.md between the two comments "layers". --check writes nothing
and fails if a file differs from what the figures give. The README's chart,
docs/figures/networks.svg, is checked too.
"""
import argparse
import csv
import html
import math
import sys
from pathlib import Path

import chart

TOP = Path(__file__).resolve().parent.parent
FIGURES = TOP / "docs/peers/h200-layers-2026-11.csv"
NETWORKS = TOP / "docs/peers/h200-networks-2026-11.csv"
PAGE = TOP / "docs/performance.md"
FOLDER = TOP / "docs/figures"
BEGIN, END = "<!-- layers -->\n", "<!-- /layers -->\n"
NUMBERS = ("voxels", "warm", "cold", "warm_floor", "cold_floor", "peer")
WIDTH = 760
STYLE = chart.STYLE + """
.grid { stroke: #d0d7de; } .line { fill: none; stroke-width: 2; }
.s0 { stroke: #1a7f37; } .s1 { stroke: #0969da; } .s2 { stroke: #bc4c00; }
.s3 { stroke: #8250df; }
.f0 { fill: #1a7f37; } .f1 { fill: #0969da; } .f2 { fill: #bc4c00; }
.f3 { fill: #8250df; }
@media (prefers-color-scheme: dark) {
  .grid { stroke: #3d444d; }
  .s0 { stroke: #3fb950; } .s1 { stroke: #4493f8; } .s2 { stroke: #f0883e; }
  .s3 { stroke: #ab7df8; }
  .f0 { fill: #3fb950; } .f1 { fill: #4493f8; } .f2 { fill: #f0883e; }
  .f3 { fill: #ab7df8; }
}
"""


def read():
    with open(FIGURES, encoding="utf-8") as file:
        rows = list(csv.DictReader(l for l in file if l[0] != "#"))
    for row in rows:
        for name in NUMBERS:
            row[name] = float(row[name]) if row[name] else None
    return rows


def svg(height, label, parts, style=STYLE):
    """A picture that uses no font or script from elsewhere."""
    head = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
            'role="img" aria-label="%s">' % (WIDTH, height, html.escape(label)))
    return "\n".join([head, "<style>%s</style>" % style, *parts, "</svg>", ""])


# ---- against peers: a bar for each layer ------------------------------------

def draw_peers(rows):
    rows = [r for r in rows if r["peer"]]
    rows.sort(key=lambda r: r["warm"] / r["peer"])
    left, bar, pitch, y = 270, 12, 17, 34
    longest = max(r["peer"] / r["warm"] for r in rows)
    scale = (WIDTH - left - 180) / longest
    out = [chart.text(left, 18, "times as fast as the best other engine")]
    for tick in range(1, int(longest) + 1):
        x = left + tick * scale
        out.append('<path class="grid" d="M%.1f 26V%d"/>' %
                   (x, y + pitch * len(rows)))
    for r in rows:
        ratio = r["peer"] / r["warm"]
        out.append(chart.text(left - 8, y + 10, "%s, %s" %
                              (r["layer"].replace("->", "→"), r["scene"]),
                              ' text-anchor="end" class="small"'))
        out.append('<rect class="e0" x="%d" y="%d" width="%.1f" height="%d"/>' %
                   (left, y, ratio * scale, bar))
        out.append(chart.text(left + ratio * scale + 5, y + 10,
                              "%.1f x  (%s %s us)" %
                              (ratio, r["engine"], trim(r["peer"])),
                              ' class="small"'))
        y += pitch
    return svg(y + 12, "Speed of single layers against other engines", out)


# ---- lines in logarithmic axes -----------------------------------------------

def decades(low, high):
    """The ticks 1, 2 and 5 of each decade from low to high."""
    ticks = [m * 10 ** e for e in range(-1, 7) for m in (1, 2, 5)]
    return [t for t in ticks if low <= t <= high]


def draw_lines(label, series, x_name, y_name, x_ticks, y_range):
    """series: a list of (name, [(x, y)]); x_ticks: a list of (x, text)."""
    left, right, top, bottom, height = 64, 130, 40, 48, 400
    x0, x1 = x_ticks[0][0], x_ticks[-1][0]
    y0, y1 = y_range

    def at_x(x):
        return left + (WIDTH - left - right) * math.log(x / x0) / \
            math.log(x1 / x0)

    def at_y(y):
        return height - bottom - (height - top - bottom) * \
            math.log(y / y0) / math.log(y1 / y0)

    out = [chart.text(8, 20, y_name),
           chart.text((left + WIDTH - right) / 2, height - 8, x_name,
                      ' text-anchor="middle"')]
    for tick in decades(y0, y1):
        y = at_y(tick)
        out.append('<path class="grid" d="M%d %.1fH%d"/>' %
                   (left, y, WIDTH - right))
        out.append(chart.text(left - 6, y + 4, "%g" % tick,
                              ' text-anchor="end" class="small"'))
    for tick, words in x_ticks:
        x = at_x(tick)
        out.append('<path class="grid" d="M%.1f %dV%d"/>' %
                   (x, top, height - bottom))
        out.append(chart.text(x, height - bottom + 18, words,
                              ' text-anchor="middle" class="small"'))
    for i, (name, points) in enumerate(series):
        places = ["%.1f %.1f" % (at_x(x), at_y(y)) for x, y in points]
        out.append('<path class="line s%d" d="M%s"/>' % (i, "L".join(places)))
        for place in places:
            x, y = place.split()
            out.append('<circle class="f%d" cx="%s" cy="%s" r="4"/>' %
                       (i, x, y))
    ends = sorted((at_y(points[-1][1]), at_x(points[-1][0]), name)
                  for name, points in series)
    last = 0
    for y, x, name in ends:
        last = max(y, last + 15)  # labels keep their distance
        out.append(chart.text(x + 10, last + 4, name))
    return svg(height, label, out)


def plain(row):
    """(cin, cout) of a submanifold layer K3 in fp16, None of others."""
    parts = row["layer"].split("->")
    if len(parts) != 2 or not all(p.isdigit() for p in parts):
        return None
    return int(parts[0]), int(parts[1])


def draw_floor(rows):
    names = {"kitti@0.05": "KITTI", "waymo@0.1": "Waymo", "shell 256": "shell"}
    series = []
    for scene, name in names.items():
        points = []
        for r in rows:
            if r["scene"] == scene and plain(r) and r["warm_floor"]:
                points.append((plain(r)[0], r["warm"] / r["warm_floor"]))
        series.append((name, sorted(points)))
    ticks = [(4, "4→32"), (16, "16→32"), (32, "32→32"), (64, "64→64"),
             (128, "128→128"), (256, "256→256")]
    return draw_lines("Time of a layer over its floor", series,
                      "input and output channels", "time / floor, warm",
                      ticks, (1, 10))


def draw_rows(rows):
    series = []
    for width in (32, 64, 128, 256):
        points = sorted((r["voxels"], r["warm"]) for r in rows
                        if plain(r) == (width, width))
        series.append(("%d→%d" % (width, width), points))
    ticks = [(3000, "3,000"), (10000, "10,000"), (30000, "30,000"),
             (100000, "100,000"), (300000, "300,000")]
    return draw_lines("Time of a layer over the number of its rows", series,
                      "voxels", "us, warm", ticks, (5, 1000))


# ---- the table ----------------------------------------------------------------

def trim(number, form="%.4g"):
    return "" if number is None else form % number


def table(rows):
    out = ["| scene | voxels | layer | warm us | cold us | warm floor us | "
           "x floor | best peer us | engine | times as fast |",
           "|---|---:|---|---:|---:|---:|---:|---:|---|---:|"]
    for r in rows:
        over = r["warm"] / r["warm_floor"] if r["warm_floor"] else None
        gain = r["peer"] / r["warm"] if r["peer"] else None
        cells = [r["scene"], "{:,.0f}".format(r["voxels"]),
                 r["layer"].replace("->", "→"), trim(r["warm"]),
                 trim(r["cold"]), trim(r["warm_floor"]), trim(over, "%.1f"),
                 trim(r["peer"]), r["engine"], trim(gain, "%.1f")]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def page(rows):
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    return head + BEGIN + "\n" + table(rows) + "\n" + END + rest.split(END)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    rows = read()
    files = {
        FOLDER / "peers.svg": draw_peers(rows),
        FOLDER / "floor.svg": draw_floor(rows),
        FOLDER / "rows.svg": draw_rows(rows),
        FOLDER / "networks.svg": chart.draw(*chart.read(NETWORKS)),
        PAGE: page(rows),
    }
    stale = 0
    for path, text in files.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print("%s is not what the figures give: run tools/plots.py" %
                  path.relative_to(TOP))
            stale += 1
    print("%d files, %d stale" % (len(files), stale))
    return stale > 0


if __name__ == "__main__":
    sys.exit(main())
