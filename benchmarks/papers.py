#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""papers.py - the figures and tables of five sources, and what we measured.

    python3 benchmarks/papers.py [--check] [--record FOLDER]

sources.py lists every figure and table with the script that reproduces it.
Scripts write their results as CSV files; docs/peers/papers has recorded ones.
From these files come the table of benchmarks/README.md, the page
docs/papers.md, and its pictures. --check writes nothing and fails if a file
differs from what the results give. --record first copies the results of a
folder that all.py filled.
"""

import argparse
import csv
import html
import math
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from sources import FIGURES, NEVER, TITLES, Figure

TOP = Path(__file__).resolve().parent.parent
RECORDED = TOP / "docs/peers/papers"
PICTURES = TOP / "docs/figures/papers"
PAGE = TOP / "docs/papers.md"
README = TOP / "benchmarks/README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"
COLUMNS = (
    "scene",
    "rows",
    "layer",
    "dtype",
    "pass",
    "engine",
    "what",
    "value",
    "unit",
    "spread",
    "off",
    "off_after",
)
OURS = "spctune"
ENGINES = (
    OURS,
    "FlexGEMM",
    "spconv",
    "TorchSparse++",
    "Spira",
    "WarpConvNet",
    "spconv-Triton",
    "pointelligence",
)
Rows = List[Dict[str, str]]
ENOUGH = 4  # cases that make a picture


def scripts() -> List[str]:
    """Returns the scripts in the order of the sources, each once."""
    every = (f.script for part in FIGURES.values() for f in part if f.script)
    return list(dict.fromkeys(every))


# ---- results -----------------------------------------------------------------


def read(path: Any) -> Rows:
    """Returns the rows of a results file; none if it does not exist."""
    if not Path(path).exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    for row in rows:
        if tuple(row) != COLUMNS:
            raise SystemExit(f"{path}: its columns are not {','.join(COLUMNS)}")
    return [row for row in rows if row["value"]]


def comments(path: Path) -> List[str]:
    with open(path, encoding="utf-8") as file:
        return [line[1:].strip() for line in file if line[0] == "#"]


def chosen(figure: Figure, rows: Rows) -> Rows:
    """Returns the rows of a figure. Ours belong to it whatever their
    algorithm."""

    def belongs(row: Dict[str, str]) -> bool:
        return all(
            value in row[column] if column == "engine" else row[column] == value
            for column, value in figure.only.items()
            if not (column == "engine" and row["engine"] == OURS)
        )

    return [row for row in rows if belongs(row)]


Case = Tuple[str, ...]


def cases(rows: Rows) -> Dict[Case, Dict[str, float]]:
    """Returns the values of each engine by scene, layer, type, pass and
    quantity. Wall times are left out where there are times of kernels."""
    found: Dict[Case, Dict[str, float]] = {}
    names = ("scene", "layer", "dtype", "pass", "what", "unit")
    for row in rows:
        key = tuple(row[name] for name in names)
        found.setdefault(key, {})[row["engine"]] = float(row["value"])
    short = {k[:4] for k in found if k[4] == "kernels"}
    return {
        k: v for k, v in found.items() if k[4] != "wall" or k[:4] not in short
    }


def gains(rows: Rows) -> List[float]:
    """Returns best other engine over ours, for each case that has both."""
    out = []
    for values in cases(rows).values():
        others = [v for e, v in values.items() if not e.startswith(OURS)]
        mine = [v for e, v in values.items() if e.startswith(OURS)]
        if others and mine:
            out.append(min(others) / min(mine))
    return out


def span(values: List[float], unit: str) -> str:
    """Returns the lowest and the highest value."""
    if not values:
        return NEVER
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    low, high = (_plain(v) for v in (low, high))
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def _plain(text: str) -> str:
    return f"{float(text):,.0f}" if "e+" in text else text


def summary(rows: Rows) -> Tuple[str, str, str]:
    """Returns our values, those of others, and the ratio, in words."""
    mine: Dict[str, List[float]] = {}
    others: Dict[str, List[float]] = {}
    names = set()
    for key, values in cases(rows).items():
        for engine, value in values.items():
            side = mine if engine.startswith(OURS) else others
            side.setdefault(key[5], []).append(value)
            if side is others:
                names.add(engine.split(",")[0])
    ours = ", ".join(span(v, u) for u, v in mine.items()) or NEVER
    theirs = ", ".join(span(v, u) for u, v in others.items())
    if theirs:
        known = ", ".join(e for e in ENGINES if e in names)
        theirs += f" ({known or 'our own'})"
    ratios = gains(rows)
    if not ratios:
        return ours, theirs, ""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    more = f" ({min(ratios):.2g} to {max(ratios):.2g}, {len(ratios)} cases)"
    return ours, theirs, f"{mean:.2f} times" + (more if ratios[1:] else "")


# ---- pictures ----------------------------------------------------------------

WIDTH, RIGHT, PITCH = 760, 20, 17
COLOURS = (
    ("#1a7f37", "#3fb950"),
    ("#0969da", "#4493f8"),
    ("#bc4c00", "#f0883e"),
    ("#8250df", "#ab7df8"),
    ("#bf3989", "#db61a2"),
    ("#7d4e00", "#d29922"),
    ("#57606a", "#9198a1"),
    ("#1b7c83", "#56d4dd"),
)


def style() -> str:
    import chart

    light = "".join(
        f".c{i} {{ fill: {a}; }}" for i, (a, _) in enumerate(COLOURS)
    )
    dark = "".join(
        f".c{i} {{ fill: {b}; }}" for i, (_, b) in enumerate(COLOURS)
    )
    return (
        f"{chart.STYLE}.grid {{ stroke: #d0d7de; }} {light}\n"
        "@media (prefers-color-scheme: dark) "
        f"{{ .grid {{ stroke: #3d444d; }} {dark} }}\n"
    )


def label(key: Case, types: int) -> str:
    """Returns the words of a case; the type only if there are several."""
    scene, layer, dtype, pass_ = key[:4]
    words = [layer]
    if pass_ != "forward" and pass_ not in layer:
        words.append(pass_)
    if types > 1:
        words.append(dtype)
    return ", ".join([*words, scene]).replace("->", "→")


def colours(engines: List[str]) -> Dict[str, int]:
    """Returns the colour of each engine: the same in all pictures, if there are
    enough colours."""
    known = {e: i for i, e in enumerate(ENGINES) if e in engines}
    free = [i for i in range(len(COLOURS)) if i not in known.values()]
    rest = [e for e in engines if e not in known]
    found = {e: free[i % len(free)] if free else 0 for i, e in enumerate(rest)}
    return {e: {**known, **found}[e] for e in [*known, *rest]}


def legend(engines: Dict[str, int], left: float) -> Tuple[List[str], int]:
    """Returns the names of the engines with their dots, and the height."""
    import chart

    out, x, y = [], left, 16
    for engine, colour in engines.items():
        if x + 20 + 7 * len(engine) > WIDTH:
            x, y = left, y + 18
        out.append(f'<circle class="c{colour}" cx="{x}" cy="{y - 4}" r="5"/>')
        out.append(chart.text(x + 9, y, engine, ' class="small"'))
        x += 30 + 7 * len(engine)
    return out, y


def picture(name: str, rows: Rows) -> str:
    """Returns a picture of a script's times, or of its other values if it has
    no times: a line for each case, a dot for each engine, in logarithmic
    scale. "": there is nothing to draw."""
    sys.path.insert(0, str(TOP / "tools"))
    import chart

    every = cases([r for r in rows if float(r["value"]) > 0])
    units = [u for u in ("us", "%", "MB") if any(k[5] == u for k in every)]
    if not units:
        return ""
    table = [(k, v) for k, v in every.items() if k[5] == units[0]]
    types = len({k[2] for k, _ in table})
    names = [label(k, types) for k, _ in table]
    left = min(24 + 6.2 * max(map(len, names)), 0.6 * WIDTH)
    engines = colours(list(dict.fromkeys(e for _, v in table for e in v)))
    low = min(min(v.values()) for _, v in table)
    high = max(max(v.values()) for _, v in table)
    scale = (WIDTH - left - RIGHT) / max(math.log(high / low), 0.01)
    out, y = legend(engines, left)
    top = y + 28
    bottom = top + PITCH * len(table)
    for tick in (m * 10.0**e for e in range(-2, 8) for m in (1, 2, 5)):
        if low <= tick <= high:
            at = left + math.log(tick / low) * scale
            out.append(f'<path class="grid" d="M{at:.1f} {top - 8}V{bottom}"/>')
            more = ' text-anchor="middle" class="small"'
            out.append(chart.text(at, bottom + 12, f"{tick:g}", more))
    out.append(chart.text(8, bottom + 12, units[0], ' class="small"'))
    more = ' text-anchor="end" class="small"'
    for n, (_, values) in enumerate(table):
        at = top + PITCH * n
        out.append(chart.text(left - 12, at + 4, names[n], more))
        for engine, colour in reversed(engines.items()):
            if engine in values:
                x = left + math.log(values[engine] / low) * scale
                out.append(
                    f'<circle class="c{colour}" cx="{x:.1f}" cy="{at}" r="5"/>'
                )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
        f'{bottom + 20}" role="img" aria-label="{html.escape(name)}">'
    )
    return "\n".join([head, f"<style>{style()}</style>", *out, "</svg>", ""])


# ---- documents ---------------------------------------------------------------


def table() -> str:
    """Returns the table of benchmarks/README.md."""
    out = [
        "| figure or table | shows | script | ours | others, or the source | "
        "gain |",
        "|---|---|---|---|---|---|",
    ]
    for source, figures in FIGURES.items():
        out.append(f"| **{source}** | | | | | |")
        for figure in figures:
            out.append(line(figure, read(RECORDED / f"{figure.script}.csv")))
    return "\n".join(out) + "\n"


def line(figure: Figure, rows: Rows) -> str:
    ours = theirs = ratio = ""
    mine = chosen(figure, rows)
    if "engine" in figure.only and all(r["engine"] == OURS for r in mine):
        mine = []  # the algorithm itself was not measured
    if figure.script:
        ours, theirs, ratio = summary(mine)
    elif figure.note:
        ours = figure.note
    claim = f"its own: {figure.claim}" if figure.claim else ""
    if figure.script and figure.note:
        ours += f"; {figure.note}"
    cells = (
        figure.label,
        figure.shows,
        f"`{figure.script}.py`" if figure.script else "",
        ours,
        "; ".join(w for w in (theirs, claim) if w),
        ratio,
    )
    return "| " + " | ".join(cells) + " |"


INTRO = (
    "This page shows the figures of four papers and manuals as they were "
    "measured here, ours beside every engine that ran. A line is a case, a dot "
    "is an engine, and the scale is logarithmic: left is better. "
    "`benchmarks/README.md` lists every figure and table of these sources with "
    "its script, and names those that were not measured."
)
COMMANDS = """
    python3 benchmarks/all.py --out FOLDER --scenes DIR --seconds 600
    python3 benchmarks/papers.py --record FOLDER      # this page and the list
"""


def drawn(script: str) -> Rows:
    """Returns the results of a script that has enough of them for a picture."""
    rows = read(RECORDED / f"{script}.csv")
    return rows if len(cases(rows)) >= ENOUGH else []


def page() -> str:
    """Returns docs/papers.md: a section for each script with a picture."""
    out = ["# Figures of other papers\n", wrapped(INTRO), COMMANDS]
    for source, figures in FIGURES.items():
        for script in dict.fromkeys(f.script for f in figures if f.script):
            rows, title = drawn(script), TITLES[script]
            if not rows:
                continue
            gain = summary(rows)[2]
            note = f" Gain over the best other engine: {gain}." if gain else ""
            origin = comments(RECORDED / f"{script}.csv")[0]
            out.append(f"## {title} ({source})\n")
            out.append(wrapped(origin + note) + "\n")
            out.append(f"![{title}](figures/papers/{script}.svg)\n")
    return "\n".join(out)


def wrapped(text: str) -> str:
    import textwrap

    return textwrap.fill(text, 118, break_long_words=False)


def files() -> Dict[Path, str]:
    """Returns all generated files."""
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    middle = f"{BEGIN}\n{table()}\n{END}"
    made = {README: head + middle + rest.split(END)[1], PAGE: page()}
    for script in scripts():
        rows = drawn(script)
        if rows:
            made[PICTURES / f"{script}.svg"] = picture(TITLES[script], rows)
    return made


def record(folder: Path) -> None:
    """Copies the results of a folder that have rows."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    for script in scripts():
        if read(folder / f"{script}.csv"):
            shutil.copy(folder / f"{script}.csv", RECORDED)


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    args = parser.parse_args(argv)
    if args.record:
        record(args.record)
    PICTURES.mkdir(parents=True, exist_ok=True)
    stale = 0
    made = files()
    for path, text in made.items():
        if not args.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(
                f"{path.relative_to(TOP)} is not what the results give: run "
                "benchmarks/papers.py"
            )
            stale += 1
    for path in PICTURES.glob("*.svg"):
        if path not in made:
            print(f"{path.relative_to(TOP)} belongs to no results")
            stale += 1
    print(f"{len(made)} files, {stale} stale")
    return stale > 0


if __name__ == "__main__":
    sys.exit(main())
