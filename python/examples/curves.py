# SPDX-License-Identifier: Apache-2.0
"""Compares the training curves of two engines: each should lie within the
spread of the other."""

import html
import math
import statistics
from typing import Dict, List, NamedTuple, Sequence, Tuple

# Student's t: 1 of 100 differences of means of equal distributions is larger
# than so many standard errors. The key is the degrees of freedom, 2 * (seeds -
# 1).
_T99 = {2: 9.925, 4: 4.604, 6: 3.707, 8: 3.355}
# A curve has one number for each point and each seed.
Curve = List[List[float]]


class Verdict(NamedTuple):
    """worst: the largest difference of means over the difference that the
    spread of seeds allows (1 of 100 is larger by chance); at: the point with
    this difference; within: the share of points where the mean of one engine
    lies between the lowest and the highest seed of the other, or within 1 % of
    its mean."""

    worst: float
    at: int
    within: float

    @property
    def agree(self) -> bool:
        # One of five means of three seeds lies outside by chance.
        return self.worst <= 1 and self.within >= 2 / 3


def compare(a: Curve, b: Curve) -> Verdict:
    """Compares the means of the same seeds at every point."""
    seeds = len(a)
    if len(b) != seeds or 2 * (seeds - 1) not in _T99:
        raise ValueError("two to five seeds, the same for both engines")
    worst, at, within, points = 0.0, 0, 0, list(zip(*a))
    for i, (x, y) in enumerate(zip(points, zip(*b))):
        mean, other = statistics.mean(x), statistics.mean(y)
        variance = statistics.variance(x) + statistics.variance(y)
        allowed = _T99[2 * (seeds - 1)] * math.sqrt(variance / seeds)
        off, near = abs(mean - other), 0.01 * abs(other)
        part = off / max(allowed, near, 1e-30)
        if not part <= worst:  # NaN is the worst of all
            worst, at = (part if part == part else math.inf), i
        within += (
            off <= near or min(y) <= mean <= max(y) or min(x) <= other <= max(x)
        )
    return Verdict(worst, at, within / len(points))


_COLOURS = ("#1a7f37", "#0969da", "#bc4c00")
_WIDTH, _HEIGHT, _LEFT, _TOP = 380, 260, 50, 56


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{html.escape(words)}</text>'


def _plot(x0: int, name: str, engines: Dict[str, Curve]) -> List[str]:
    """Returns one plot, with its left edge at x0."""
    values = [v for c in engines.values() for run in c for v in run]
    low, high = min(values), max(values)
    high += (high - low or 1) * 0.05
    across = _WIDTH - _LEFT - 20

    def place(value: float) -> float:
        return _TOP + (high - value) / (high - low) * _HEIGHT

    def line(values: List[float]) -> List[str]:
        step = across / max(len(values) - 1, 1)
        return [
            f"{x0 + i * step:.1f},{place(v):.1f}" for i, v in enumerate(values)
        ]

    out = [
        _text(x0, _TOP - 10, name),
        f'<path d="M{x0} {_TOP}v{_HEIGHT}h{across}" fill="none" '
        'stroke="#8c959f"/>',
    ]
    for value in (low, high):
        end = ' text-anchor="end"'
        out.append(_text(x0 - 6, place(value) + 4, f"{value:.3g}", end))
    for k, (engine, curve) in enumerate(engines.items()):
        points = list(zip(*curve))
        band = line([max(p) for p in points])
        band += line([min(p) for p in points])[::-1]
        middle = line([statistics.mean(p) for p in points])
        colour = _COLOURS[k]
        out.append(
            f'<polygon points="{" ".join(band)}" fill="{colour}" '
            'opacity="0.2"/>'
            f'<polyline points="{" ".join(middle)}" fill="none" '
            f'stroke="{colour}" stroke-width="2"/>'
        )
        at = x0 + 90 + 100 * k
        out.append(_text(at, _TOP - 10, engine, f' fill="{colour}"'))
    return out


def picture(title: str, parts: Sequence[Tuple[str, Dict[str, Curve]]]) -> str:
    """Returns an SVG picture with a plot for each quantity. A plot shows for
    each engine the mean of its seeds, and the band between the lowest and the
    highest seed."""
    out = [_text(_LEFT, 20, title)]
    for number, (name, engines) in enumerate(parts):
        out += _plot(number * _WIDTH + _LEFT, name, engines)
    full, tall = _WIDTH * len(parts) + 20, _TOP + _HEIGHT + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {tall}" '
        f'role="img" aria-label="{html.escape(title)}">\n'
        "<style>text { font: 12px system-ui, sans-serif; }</style>\n"
        + "\n".join(out)
        + "\n</svg>\n"
    )
