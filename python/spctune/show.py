# SPDX-License-Identifier: Apache-2.0
"""HTML for notebooks: tables of facts, and a picture of a network's time."""

from html import escape
from typing import Any, Dict, Iterable, List, Sequence, Tuple

__all__ = ["facts", "picture", "table"]

# Colours that differ in print and for colour-blind readers (Okabe and Ito).
_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
)
_NONE = "#999999"  # steps without their own kernel
_LEFT, _WIDE, _LINE = 190, 420, 16  # width of the picture, in pixels


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns a table; cells are escaped, and numbers are aligned to the
    right."""
    out = ["<table><tr>"]
    out += [f"<th>{escape(h)}</th>" for h in heads]
    out.append("</tr>")
    for row in rows:
        cells = []
        for cell in row:
            side = "left" if isinstance(cell, str) else "right"
            text = f"{cell:.1f}" if isinstance(cell, float) else str(cell)
            cells.append(f"<td style='text-align:{side}'>{escape(text)}</td>")
        out.append("<tr>" + "".join(cells) + "</tr>")
    return "".join(out) + "</table>"


def facts(title: str, pairs: Iterable[Tuple[str, Any]]) -> str:
    """Returns a title and a table of names and values."""
    return f"<b>{escape(title)}</b>" + table(
        ("", ""), [(name, str(value)) for name, value in pairs]
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return (
        f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}'>"
        f"{escape(words)}</text>"
    )


def _box(x: float, y: float, width: float, fill: str, high: float) -> str:
    return (
        f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0.5):.1f}' "
        f"height='{high:.0f}' fill='{fill}'/>"
    )


def _bar(step: Any, y: float, scale: float, colour: str) -> List[str]:
    """Returns a step: its name, a bar as long as its time, and a mark at its
    floor."""
    name = step.name if len(step.name) < 28 else "…" + step.name[-26:]
    end = _LEFT + scale * step.us
    out = [
        f"<g><title>{escape(step.name)}: {escape(step.text)}, "
        f"{step.us:.1f} us, floor {step.floor_us:.1f} us, "
        f"{step.rows_out} rows, {escape(step.kernel or 'no kernel')}</title>",
        _text(_LEFT - 6, y + 11, name, "end"),
        _box(_LEFT, y + 2, scale * step.us, colour, 11),
    ]
    if step.floor_us > 0:
        at = _LEFT + scale * step.floor_us
        out.append(_box(at - 1, y, 2, "#000000", 15))
    out.append(_text(end + 5, y + 11, f"{step.us:.1f}"))
    return out + ["</g>"]


def picture(steps: Sequence[Any]) -> str:
    """Returns the steps of a network (network.Step) as SVG, with a bar for each
    step: its length is the time, its colour the dataflow, and a mark shows the
    floor."""
    longest = max((max(s.us, s.floor_us) for s in steps), default=0) or 1
    colours: Dict[str, str] = {}
    for s in steps:
        flow = s.kernel.split(" ")[0]
        if flow and flow not in colours:
            colours[flow] = _COLOURS[len(colours) % len(_COLOURS)]
    high = _LINE * (len(steps) + 2) + 8
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_LEFT + _WIDE + 60}' "
        f"height='{high}' font-family='sans-serif' font-size='11'>"
    ]
    y = 0.0
    for s in steps:
        flow = s.kernel.split(" ")[0]
        out += _bar(s, y, _WIDE / longest, colours.get(flow, _NONE))
        y += _LINE
    x: float = _LEFT
    for flow, colour in colours.items():
        out += [_box(x, y + 10, 10, colour, 10), _text(x + 14, y + 19, flow)]
        x += 24 + 7 * len(flow)
    out += [
        _box(x, y + 8, 2, "#000000", 15),
        _text(x + 6, y + 19, "floor (us)"),
        "</svg>",
    ]
    return "".join(out)
