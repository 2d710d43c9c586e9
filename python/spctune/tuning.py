# SPDX-License-Identifier: Apache-2.0
"""Tuning, and looking into the database: thin functions over the library."""

import ctypes
import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Union,
    overload,
)

from . import _abi, context, show
from ._lib import InvalidError, check, lib, new
from .captures import captured
from .context import Context
from .maps import parse
from .progress import Bar

__all__ = [
    "Explanation",
    "Report",
    "db",
    "devices",
    "explain",
    "tune",
    "wait",
]

_MATCHES = ("exact", "bucket", "nearest", "default")
_EFFORTS = {
    "quick": _abi.SPC_EFFORT_QUICK,
    "normal": _abi.SPC_EFFORT_NORMAL,
    "exhaustive": _abi.SPC_EFFORT_EXHAUSTIVE,
}


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def _device(name: Optional[str]) -> str:
    """Returns the device of that name; None selects the best device."""
    if name is not None:
        return "cuda:0" if name == "cuda" else name
    found = devices()
    return found[0]["id"] if found else "cpu"


def devices() -> List[Dict[str, Any]]:
    """Returns the devices of this machine, best first: id ("cuda:0"), name,
    target ("sm_90a"), memory_bytes, multiprocessors. Does not make a
    context."""
    table = (_abi.spc_device_info * 16)()
    count = lib.spc_devices_list(table, len(table))
    return [
        {
            "id": _text(d.id),
            "name": _text(d.name),
            "target": _text(d.target),
            "memory_bytes": d.memory_bytes,
            "multiprocessors": d.multiprocessors,
        }
        for d in table[:count]
    ]


class Explanation(NamedTuple):
    """How a layer would run: `match` is "exact", "bucket", "nearest" or
    "default", `reason` a sentence, sizes are bytes (-1: not known before the
    code is loaded)."""

    match: str
    has_code: bool
    kernel: str
    reason: str
    layout: str
    weights_bytes: int
    workspace_bytes: int

    def _repr_html_(self) -> str:
        return show.facts(
            f"{self.kernel} ({self.match})", self._asdict().items()
        )


def explain(
    layer: str,
    rows: int,
    rows_out: Optional[int] = None,
    pairs: Optional[int] = None,
    device: Optional[str] = None,
) -> Explanation:
    """Returns the kernel that a layer of this size would get, and why.

    layer     "subm,cin=64,cout=64,k=3,dtype=f16"
    rows_out  rows of the outputs; None: `rows`
    pairs     (output, input, offset) triples; None: 8 for each output row

    Makes no map and compiles nothing. InvalidError: a bad word;
    UnsupportedError: no kernel serves the layer.
    """
    rows_out = rows if rows_out is None else rows_out
    pairs = 8 * rows_out if pairs is None else pairs
    ctx = Context.get(_device(device))
    conv = parse(layer)
    ask = new(
        _abi.spc_explain_question,
        conv=ctypes.pointer(conv),
        rows_in=rows,
        rows_out=rows_out,
        pairs=pairs,
    )
    out = _abi.spc_explanation()
    with ctx.calling():
        ctx.check(lib.spc_explain(out, ctx.ptr, ask, 0))
    return Explanation(
        _MATCHES[out.match],
        bool(out.has_code),
        f"{_text(out.template_name)} {_text(out.config)}",
        _text(out.reason),
        _text(out.layout),
        out.weights_bytes,
        out.workspace_bytes,
    )


class Report(NamedTuple):
    """The result of a search: times in us, `elapsed_s` in seconds."""

    winner: str
    winner_us: float
    default_us: float
    candidates: int
    timed: int
    known: int
    elapsed_s: float

    def _repr_html_(self) -> str:
        gain = self.default_us / self.winner_us if self.winner_us else 0
        return show.facts(
            f"{self.winner}: {self.winner_us:.1f} us",
            [
                ("default", f"{self.default_us:.1f} us"),
                ("times as fast as the default", f"{gain:.2f}"),
                ("candidates", self.candidates),
                ("timed", self.timed),
                ("known before", self.known),
                ("took", f"{self.elapsed_s:.1f} s"),
            ],
        )


class Reports(List[Report]):
    """Reports of several layers; notebooks show a table."""

    def _repr_html_(self) -> str:
        heads = ("winner", "us", "default us", "candidates", "timed", "s")
        return show.table(
            heads,
            [
                (
                    r.winner,
                    r.winner_us,
                    r.default_us,
                    r.candidates,
                    r.timed,
                    r.elapsed_s,
                )
                for r in self
            ],
        )


Progress = Union[bool, None, Callable[[float, str], None]]


@overload
def tune(
    layer: str,
    scenes: Sequence[str],
    effort: str = ...,
    budget_s: float = ...,
    device: Optional[str] = ...,
    progress: Progress = ...,
) -> Report: ...


@overload
def tune(
    layer: str,
    scenes: None = ...,
    effort: str = ...,
    budget_s: float = ...,
    device: Optional[str] = ...,
    progress: Progress = ...,
) -> Reports: ...


def tune(
    layer: str,
    scenes: Optional[Sequence[str]] = None,
    effort: str = "normal",
    budget_s: float = 0,
    device: Optional[str] = None,
    progress: Progress = None,
) -> Union[Report, Reports]:
    """Tunes a layer on scenes and stores the choice in the database.

    layer     "subm,cin=64,cout=64,k=3,dtype=f16"; or, without scenes, a folder
              that spctune.capture() filled: all of its layers are tuned, and
              the result is a list
    scenes    "gen:lidar@0.1", "scan.bin@0.05", "voxels.npy"
    effort    "quick", "normal", "exhaustive"
    budget_s  seconds after which no further candidate starts; 0: no limit. For
              a folder: the seconds of all layers together; later layers are
              left out
    progress  True: a bar; or a function that gets the finished part, from 0 to
              1, and the best kernel so far

    InvalidError, NotFoundError: a bad word or no such file; Error with the
    status SPC_EDB: the results were measured but could not be stored.
    """
    if scenes is None:
        return _tune_folder(layer, effort, budget_s, device, progress)
    with _shown("tune", progress) as tell:
        return _tune_files(layer, scenes, effort, budget_s, device, tell)


def _tune_folder(
    path: str,
    effort: str,
    budget_s: float,
    device: Optional[str],
    progress: Progress,
) -> Reports:
    layers, reports = captured(path), Reports()
    end = time.monotonic() + budget_s
    with _shown("tune " + path, progress) as tell:
        for i, (layer, scenes) in enumerate(layers.items()):
            left = end - time.monotonic() if budget_s else 0
            if budget_s and left <= 0:
                break
            if tell is not None:
                tell(i / len(layers), layer)
            reports.append(
                _tune_files(layer, scenes, effort, left, device, None)
            )
        if tell is not None:
            tell(1, f"{len(reports)} of {len(layers)} layers")
    return reports


@contextmanager
def _shown(
    what: str, progress: Progress
) -> Iterator[Optional[Callable[[float, str], None]]]:
    """Returns the function that receives progress; True makes a bar."""
    if progress is True:
        with Bar(what) as bar:
            yield bar.update
            bar.update(1)
    else:
        yield progress or None


@contextmanager
def layer_progress(
    progress: Union[bool, None, Callable[[int, int, str], None]], count: int
) -> Iterator[Callable[[int, str], None]]:
    """Returns the function that receives the progress of each of `count`
    layers."""
    if progress is True:
        with Bar("tune", max(count, 1)) as bar:
            yield bar.update
            bar.update(max(count, 1))
    elif callable(progress):
        tell = progress
        yield lambda i, words: tell(i, count, words)
    else:
        yield lambda i, words: None


def _tune_files(
    layer: str,
    scenes: Sequence[str],
    effort: str,
    budget_s: float,
    device: Optional[str],
    progress: Optional[Callable[[float, str], None]],
) -> Report:
    """Runs tune() on files and generated scenes."""
    ctx, error = Context.get(_device(device)), _abi.spc_error()
    loaded: List[ctypes.c_void_p] = []
    try:
        for scene in scenes:
            one = ctypes.c_void_p()
            check(lib.spc_scene_load(one, os.fsencode(scene), error), error)
            loaded.append(one)
        return tune_scenes(ctx, layer, loaded, effort, budget_s, progress)
    finally:
        for one in loaded:
            lib.spc_scene_free(one)


def tune_scenes(
    ctx: Context,
    layer: str,
    scenes: Sequence[ctypes.c_void_p],
    effort: str = "normal",
    budget_s: float = 0,
    progress: Optional[Callable[[float, str], None]] = None,
) -> Report:
    """Runs tune() on loaded scenes, which are objects of the library."""
    if effort not in _EFFORTS:
        raise InvalidError(f"unknown effort '{effort}' ({', '.join(_EFFORTS)})")
    handles = (ctypes.c_void_p * max(len(scenes), 1))(
        *(scene.value for scene in scenes)
    )
    how = new(_abi.spc_tune_options, effort=_EFFORTS[effort], budget_s=budget_s)
    if progress is not None:
        how.on_progress = type(how.on_progress)(
            lambda at, _: progress(
                at.contents.done / max(at.contents.total, 1),
                _text(at.contents.best),
            )
        )
    report = _abi.spc_tune_report()
    with ctx.calling():
        ctx.check(
            lib.spc_tune(
                report, ctx.ptr, parse(layer), handles, len(scenes), how
            )
        )
    return Report(
        _text(report.winner),
        report.winner_us,
        report.default_us,
        report.candidates,
        report.timed,
        report.known,
        report.elapsed_s,
    )


def wait(progress: bool = False) -> None:
    """Waits until the background threads have compiled, and with
    background="tune" also tuned, all requested kernels. `progress` shows the
    elapsed seconds. Layers find the new kernels with their next kernel map."""
    for ctx in context.existing():
        worker = threading.Thread(
            target=lib.spc_background_wait, args=(ctx.ptr,)
        )
        with ctx.calling():
            worker.start()
            start, said = time.monotonic(), 0
            while worker.is_alive():
                worker.join(0.1)
                seconds = int(time.monotonic() - start)
                if progress and seconds > said and worker.is_alive():
                    said = seconds
                    print(
                        f"{ctx.device}: preparing kernels, {seconds} s",
                        file=sys.stderr,
                        flush=True,
                    )


def db(device: Optional[str] = None) -> List[Dict[str, Any]]:
    """Returns the content of the database, a dict for each problem:

    layer      its words; device: the name of the device
    rows       of the outputs, as the database rounds them
    density    the fraction of (output, offset) pairs that have an input
    choice     template and configuration; None: no choice yet
    median_us  time of the choice in us; trials: timed candidates
    file       the database that has the problem

    device  the context whose databases are read: "cpu", "cuda:0"; None: the
            best device

    Damaged records are left out. Error: no database can be read.
    """
    ctx = Context.get(_device(device))
    rows: List[Dict[str, Any]] = []

    def each(row: Any, _: Any) -> int:
        r = row.contents
        rows.append(
            {
                "layer": _text(r.layer),
                "device": _text(r.device),
                "rows": r.rows,
                "density": r.density,
                "choice": _text(r.choice) or None,
                "median_us": r.median_us,
                "trials": r.trials,
                "file": _text(r.file),
            }
        )
        return 0

    each_type = _abi.FUNCTIONS["spc_db_each"][1][1]
    with ctx.calling():
        status = lib.spc_db_each(ctx.ptr, each_type(each), None)
        if status != _abi.SPC_EDB:
            ctx.check(status)
    return rows
