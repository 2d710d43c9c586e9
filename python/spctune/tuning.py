# SPDX-License-Identifier: Apache-2.0
"""Tuning, and looking into the database: thin functions over the library."""

import ctypes
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from . import _abi
from ._lib import InvalidError, check, lib, new
from .context import Context
from .maps import parse

__all__ = ["Explanation", "Report", "db", "devices", "explain", "tune"]

_MATCHES = ("exact", "bucket", "nearest", "default")
_EFFORTS = {
    "quick": _abi.SPC_EFFORT_QUICK,
    "normal": _abi.SPC_EFFORT_NORMAL,
    "exhaustive": _abi.SPC_EFFORT_EXHAUSTIVE,
}


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def _device(name: Optional[str]) -> str:
    """The device of a name; of None the best one."""
    if name is not None:
        return "cuda:0" if name == "cuda" else name
    found = devices()
    return found[0]["id"] if found else "cpu"


def devices() -> List[Dict[str, Any]]:
    """The devices of this machine, best first: id, name, target, memory_bytes,
    multiprocessors."""
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


def explain(
    layer: str,
    rows: int,
    rows_out: Optional[int] = None,
    pairs: Optional[int] = None,
    device: Optional[str] = None,
) -> Explanation:
    """The kernel that a layer of so many rows would get, and why.

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
    """What a search found: times in us, `elapsed_s` in seconds."""

    winner: str
    winner_us: float
    default_us: float
    candidates: int
    timed: int
    known: int
    elapsed_s: float


def tune(
    layer: str,
    scenes: Sequence[str],
    effort: str = "normal",
    budget_s: float = 0,
    device: Optional[str] = None,
    progress: Optional[Callable[[float, str], None]] = None,
) -> Report:
    """Tunes a layer on scenes and stores the choice in the database.

    layer     "subm,cin=64,cout=64,k=3,dtype=f16"
    scenes    "gen:lidar@0.1", "scan.bin@0.05", "voxels.npy"
    effort    "quick", "normal", "exhaustive"
    budget_s  seconds after which no further candidate starts; 0: no limit
    progress  called with the part that is done, from 0 to 1, and the best
              kernel so far

    InvalidError, NotFoundError: a bad word or no such file; Error with the
    status SPC_EDB: all was measured and could not be stored.
    """
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
    """tune() on scenes that are loaded: objects of the library."""
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


def db(device: Optional[str] = None) -> List[Dict[str, Any]]:
    """The problems of the database: layer, device, rows, density, choice,
    median_us, trials, file. Damaged records are left out."""
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
