#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""chart.py - draws the README's chart from recorded figures.

    python3 tools/chart.py docs/peers/h200-networks-2026-11.csv -o docs/figures/networks.svg

The file has comments (#), a line of names, and a line for each network: network,
scene, voxels, then the time of each engine in microseconds. An empty cell means
that the engine did not run it, or that its output was wrong. The picture uses no
font or script from elsewhere, and follows the reader's light or dark theme.
"""
import argparse
import csv
import html

WIDTH, LEFT, RIGHT = 760, 140, 120
BAR, GAP, GROUP = 13, 3, 16
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.small { font-size: 11px; fill: #57606a; }
.e0 { fill: #1a7f37; } .e1 { fill: #8c959f; } .e2 { fill: #bcc2c9; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .small { fill: #9198a1; }
  .e0 { fill: #3fb950; } .e1 { fill: #6e7681; } .e2 { fill: #4a515a; }
}
"""


def read(path):
    """Returns the engines' names and a list of (label, times)."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.reader(line for line in file if line[0] != "#"))
    engines = rows[0][3:]
    table = []
    for row in rows[1:]:
        if len(row) != len(rows[0]):
            raise SystemExit("%s: %s has %d columns, the first line %d" %
                             (path, ",".join(row), len(row), len(rows[0])))
        times = [float(cell) if cell else None for cell in row[3:]]
        table.append(("%s, %s" % (row[0], row[1]), times))
    return engines, table


def text(x, y, words, more=""):
    return '<text x="%.0f" y="%.0f"%s>%s</text>' % (x, y, more,
                                                    html.escape(words))


def draw(engines, table):
    longest = max(t for _, times in table for t in times if t is not None)
    scale = (WIDTH - LEFT - RIGHT) / longest
    out, y = [], 46
    x = LEFT
    for i, engine in enumerate(engines):
        out.append('<rect class="e%d" x="%d" y="14" width="12" height="12"/>' %
                   (i, x))
        out.append(text(x + 17, 25, engine))
        x += 40 + 8 * len(engine)
    for label, times in table:
        out.append(text(LEFT - 8, y + BAR - 1, label, ' text-anchor="end"'))
        for i, time in enumerate(times):
            if time is None:
                continue
            out.append('<rect class="e%d" x="%d" y="%d" width="%.1f" '
                       'height="%d"/>' % (i, LEFT, y, time * scale, BAR))
            says = "%.2f ms" % (time / 1000)
            if i > 0 and times[0]:
                says += "  (%.0f x)" % (time / times[0])
            out.append(text(LEFT + time * scale + 5, y + BAR - 2, says,
                            ' class="small"'))
            y += BAR + GAP
        y += GROUP
    head = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" '
            'role="img" aria-label="Wall time of whole networks">' %
            (WIDTH, y))
    return "\n".join([head, "<style>%s</style>" % STYLE, *out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figures")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    picture = draw(*read(args.figures))
    with open(args.output, "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
