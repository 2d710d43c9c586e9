# SPDX-License-Identifier: Apache-2.0
"""Calls of engines, and what is done with their results and times."""

import statistics
from typing import (
    Any,
    Callable,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import torch

Call = Callable[[], Any]
MARKER = "spin_kernel"  # the kernel of torch.cuda._sleep(), between calls


class Scene(NamedTuple):
    """name: of the row; spec: for the command; coords: int32 [rows, 4]."""

    name: str
    spec: str
    coords: torch.Tensor


class Entry(NamedTuple):
    """A call of one engine. off: the distance of its result from the
    reference; far: the largest allowed distance."""

    engine: str
    call: Call
    off: Callable[[Any], float]
    far: float


def tensors(result: Any) -> List[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [t for part in result for t in tensors(part)]
    return []


def poison(result: Any) -> None:
    """Fills results with NaN: a later call that returns the same memory without
    computing is found."""
    for tensor in tensors(result):
        if tensor.is_floating_point():
            tensor.detach().fill_(float("nan"))


def split(
    events: Sequence[Tuple[str, float, float]], names: Sequence[str]
) -> Optional[Dict[str, List[float]]]:
    """Sums kernel times by call. `events` are (name, start, us) of kernels.
    Each call follows a marker, and the calls repeat in the order of `names`.
    None: markers are missing."""
    sums: List[float] = []
    for name, _, us in sorted(events, key=lambda e: e[1]):
        if MARKER in name:
            sums.append(0.0)
        elif sums:
            sums[-1] += us
    if not sums or len(sums) % len(names):
        return None
    return {n: sums[i :: len(names)] for i, n in enumerate(names)}


def middle(times: Sequence[float]) -> Tuple[float, float]:
    """Returns the median and the interquartile range over the median."""
    if len(times) < 2:
        return times[0], 0.0
    quarters = statistics.quantiles(times, n=4)
    median = statistics.median(times)
    return median, (quarters[2] - quarters[0]) / median if median else 0.0


def in_words(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0][:200]
    return f"{type(error).__name__}: {text}"
