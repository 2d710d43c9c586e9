# SPDX-License-Identifier: Apache-2.0
"""Clouds of points that keep their positions, and their kernel maps.

A `Cloud` takes the place of `Coords`: a map of points is a relation of two
clouds. This module does not use PyTorch; data are addresses.
"""

import ctypes
from typing import Any, Dict, Optional

from . import _abi
from ._lib import lib
from .context import Context
from .maps import Map, Relation, Table, canonical, geometry_of
from .sets import Shelf, address_of

__all__ = ["Cloud", "inverse_of", "join"]

_MOST_TRIPLETS = 2**31 - 2


class Cloud:
    """Points on a device. `rows` is their number."""

    def __init__(self, ctx: Context, pointer: int) -> None:
        self.ctx, self.ptr = ctx, pointer
        self.rows: int = lib.spc_points_rows(pointer)

    @classmethod
    def of_points(
        cls,
        ctx: Context,
        xyz: int,
        batch: Optional[int],
        rows: int,
        stream: Optional[int],
    ) -> "Cloud":
        """Makes the cloud of float32 [rows][3] points and, unless None, int32
        [rows] batch elements. Waits for the stream. InvalidError: a point is
        not finite, or its batch element is negative."""
        out = ctypes.c_void_p()
        with ctx.calling():
            ctx.check(
                lib.spc_points_create(out, ctx.ptr, xyz, batch, rows, stream)
            )
        return cls(ctx, address_of(out))

    def sampled(
        self, edge: float, stream: Optional[int], centred: bool = False
    ) -> "Cloud":
        """Returns the first point in each voxel of this edge, or the one
        nearest to the voxel's centre, in ascending order of the voxels. Waits
        for the stream."""
        out = ctypes.c_void_p()
        create = (
            lib.spc_points_create_centred
            if centred
            else lib.spc_points_create_sampled
        )
        with self.ctx.calling():
            check = self.ctx.check
            check(create(out, self.ptr, edge))
            made = Cloud(self.ctx, address_of(out))
            check(lib.spc_points_update(made.ptr, None, None, None, 0, stream))
            check(lib.spc_points_check(made.ptr, stream))
        made.rows = lib.spc_points_rows(made.ptr)
        return made

    def sources(self) -> Optional[int]:
        """The device address of a sampled cloud's rows in its source: int32
        [rows]."""
        return lib.spc_points_sources(self.ptr)  # type: ignore[no-any-return]

    def __del__(self) -> None:
        self.ctx.release(lib.spc_points_free, self.ptr)


class _Near(Relation):
    """Two clouds and a radius; the room for triplets grows until they fit."""

    def _make(
        self, geometry: Any, inverse: bool, stream: Optional[int]
    ) -> Table:
        ctx = self.ctx
        ends = (self.coarse, self.fine) if inverse else (self.fine, self.coarse)
        key = (bytes(geometry), inverse)
        rows = max(ends[1].rows, 1)
        room = int(_triplets.get(key, 16.0) * rows) + 64
        if geometry.nearest and not inverse:
            room = geometry.nearest * rows
        create = (
            lib.spc_map_create_radius_inverse
            if inverse
            else lib.spc_map_create_radius
        )
        while True:
            room = min(room, _MOST_TRIPLETS)
            out = ctypes.c_void_p()
            with ctx.calling():
                ctx.check(create(out, ends[0].ptr, ends[1].ptr, geometry, room))
                table = Table(ctx, address_of(out), stream)
                table.refill()
                status = lib.spc_map_check(table.ptr, stream)
                if status != _abi.SPC_ECAPACITY or room == _MOST_TRIPLETS:
                    ctx.check(status)
                    break
            room *= 4
        _triplets[key] = 1.25 * lib.spc_map_pairs(table.ptr) / rows
        return table


# Triplets of an output by geometry and direction, and a quarter more.
_triplets: Dict[Any, float] = {}


def join(inputs: Cloud, outputs: Cloud, words: str) -> Map:
    """The map of a layer of points: "points,k=3,radius=0.1"."""
    words = canonical(words)
    geometry = geometry_of(words).geometry
    relation = _Near(
        inputs,  # type: ignore[arg-type]
        outputs,  # type: ignore[arg-type]
        geometry,
        Shelf(),
    )
    return Map(relation, False, words)


def inverse_of(forward: Map) -> Map:
    """The map of the layer that inverts a layer of points."""
    rest = forward.words.split(",", 1)[1]
    return Map(forward.relation, True, canonical("inverse,rule=radius," + rest))
