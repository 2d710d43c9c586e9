# SPDX-License-Identifier: Apache-2.0
"""Coordinate sets, and how the sets of a scene that has ended serve the next
scene.

The voxels of a scene, the sets of outputs derived from them, and the maps over
these sets form a tree (`_Tree`). Python objects that use a tree share a
`Scene`. When the last of these objects ends, the context keeps the tree as a
spare. The next scene that fits into its memory fills it again: nothing is
allocated, and one wait gives the numbers of voxels of all levels.

The first tree of a stream fits its scene exactly. Later trees have room for
slightly larger scenes.
"""

import ctypes
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import _abi, context
from ._lib import Error, OutOfMemoryError, lib, new
from .context import Context

__all__ = ["Coords", "Shelf", "address_of"]

# The lowest and the highest batch, x, y and z of rows.
Extent = Tuple[List[int], List[int]]

_HALO = 8  # voxels past the extent that kernels may look: the library's default
_MOST_IDLE = 64  # scenes for which a spare tree is kept without being used
_MOST_SCENES = 512  # limit of a tree's uses, as layouts add up
_MOST_ROWS = 1 << 25  # with more, maps with spare room may be too large
_MOST_BITS = 48  # bits of keys with room for other extents


def address_of(pointer: ctypes.c_void_p) -> int:
    """Returns the object that a call made."""
    if pointer.value is None:
        raise Error("the library returned no object")
    return pointer.value


class Shelf:
    """Maps between two sets, by geometry and direction. They have `refill`, and
    `is_used`: true if used since the last refill."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tables: Dict[Any, Any] = {}


class _Set:
    """A set on the device, with the sets derived from it and the maps over it
    or from its source."""

    def __init__(self, ctx: Context, pointer: int) -> None:
        self.ctx, self.ptr = ctx, pointer
        self.rows: int = lib.spc_coords_rows(pointer)
        self.reserved: int = lib.spc_coords_reserved(pointer)
        self.is_used = True
        self.lock = threading.Lock()
        self.derived: Dict[bytes, "_Set"] = {}
        self.shelf = Shelf()

    def __del__(self) -> None:
        self.ctx.release(lib.spc_coords_free, self.ptr)

    def trim(self) -> None:
        """Drops sets and maps that the last scene did not use."""
        self.derived = {k: s for k, s in self.derived.items() if s.is_used}
        tables = self.shelf.tables
        self.shelf.tables = {k: t for k, t in tables.items() if t.is_used}
        for held in self.derived.values():
            held.trim()

    def derive(self, stream: Optional[int]) -> None:
        """Enqueues the filling of the sets derived from this one."""
        for held in self.derived.values():
            check = self.ctx.check
            check(lib.spc_coords_set_capacity(held.ptr, held.reserved))
            check(lib.spc_coords_update(held.ptr, None, None, 0, stream))
            held.derive(stream)

    def settle(self, stream: Optional[int]) -> None:
        """Fits the derived sets to their voxels, and drops sets without enough
        memory."""
        for key, held in list(self.derived.items()):
            if lib.spc_coords_check(held.ptr, stream):
                del self.derived[key]
                continue
            held.rows = lib.spc_coords_rows(held.ptr)
            self.ctx.check(lib.spc_coords_set_capacity(held.ptr, held.rows))
            held.settle(stream)

    def everything(self) -> Iterator["_Set"]:
        """Returns this set and all sets derived from it."""
        yield self
        for held in self.derived.values():
            yield from held.everything()

    def outputs(self, geometry: Any, has_room: bool) -> "_Set":
        """Returns the derived set of a geometry."""
        key = bytes(geometry)
        with self.lock:
            found = self.derived.get(key)
            if found is None:
                with self.ctx.calling():
                    found = self._make_outputs(geometry, has_room)
                self.derived[key] = found
            found.is_used = True
        return found

    def _make_outputs(self, geometry: Any, has_room: bool) -> "_Set":
        ctx, out = self.ctx, ctypes.c_void_p()
        ctx.check(lib.spc_coords_create_outputs(out, self.ptr, geometry))
        exact = _Set(ctx, address_of(out))
        if not has_room or not 0 < exact.rows < _MOST_ROWS:
            return exact
        out = ctypes.c_void_p()
        ctx.check(
            lib.spc_coords_create_outputs_reserved(
                out, self.ptr, geometry, _more(exact.rows)
            )
        )
        made = _Set(ctx, address_of(out))
        ctx.check(lib.spc_coords_update(made.ptr, None, None, 0, None))
        ctx.check(lib.spc_coords_check(made.ptr, None))
        made.rows = exact.rows
        ctx.check(lib.spc_coords_set_capacity(made.ptr, made.rows))
        return made


class _Tree:
    """The sets and maps of a scene. Their memory was taken on the stream
    `home`, and only scenes of this stream fill them anew."""

    def __init__(self, root: _Set, home: Optional[int], has_room: bool) -> None:
        self.root, self.home, self.has_room = root, home, has_room
        self.idle = self.scenes = 0
        self.is_shared = False  # also read on another stream

    def refill(self, address: int, rows: int) -> bool:
        """Fills the tree from rows. Returns false if the rows do not fit; the
        tree is then useless."""
        root, home = self.root, self.home
        check = root.ctx.check
        root.trim()
        shelves = [s.shelf for s in root.everything()]
        if self.is_shared or any(
            t.is_shared for h in shelves for t in h.tables.values()
        ):
            check(lib.spc_ctx_synchronize(root.ctx.ptr))
        self.is_shared = False
        check(lib.spc_coords_set_capacity(root.ptr, rows))
        check(lib.spc_coords_update(root.ptr, address, None, rows, home))
        root.derive(home)
        if lib.spc_coords_check(root.ptr, home):
            return False
        root.rows = rows
        root.settle(home)
        for held in root.everything():
            held.is_used = False
        tables = [t for s in root.everything() for t in s.shelf.tables.values()]
        for table in tables:
            table.refill()
        # One wait for all that the stream of the sets has filled.
        near = [t.ptr for t in tables if t.home == home]
        pointers = (ctypes.c_void_p * len(near))(*near)
        check(lib.spc_map_check_many(None, pointers, len(near), home))
        for table in tables:
            if table.home != home:
                table.check()
        return True


class Scene:
    """Shared by all objects that use a tree; the last object releases the tree.

    Until then the context refers to the tree. Otherwise the garbage collector
    could end the sets of a tree together with the scene that is about to keep
    the tree.
    """

    def __init__(self, ctx: Context, tree: _Tree) -> None:
        self.ctx, self.tree = ctx, tree
        ctx.trees.add(tree)

    def __del__(self) -> None:
        self.ctx.keep(self.tree)


class Coords:
    """A set of voxels on a device, for one scene. `rows` is their number."""

    def __init__(self, scene: Scene, held: _Set) -> None:
        self.scene, self.held = scene, held
        self.ctx, self.ptr, self.rows = held.ctx, held.ptr, held.rows

    @classmethod
    def of_rows(
        cls,
        ctx: Context,
        address: int,
        rows: int,
        stream: Optional[int],
        extent: Callable[[], Extent],
        halo: int = 0,
    ) -> "Coords":
        """The set of int32 rows (batch, x, y, z) at a device address, a
        multiple of 16. `extent` returns the lowest and highest of each; it is
        called only if there is at least one row. `halo`: how far kernels look
        past the extent, if that is more than usual. Waits for the stream.
        InvalidError: two equal rows, or an extent that exceeds the keys."""
        if halo > _HALO and rows:
            with ctx.calling():
                wide = _guarded(ctx, address, rows, stream, extent(), halo)
            return cls(Scene(ctx, wide), wide.root)
        try:
            with ctx.calling():
                tree = _refilled(ctx, address, rows, stream)
                if tree is None:
                    tree = _made(ctx, address, rows, stream, extent)
        except OutOfMemoryError:
            ctx.spares.clear()
            with ctx.calling():
                tree = _exact(ctx, address, rows, stream)
        return cls(Scene(ctx, tree), tree.root)

    def outputs(self, geometry: Any) -> "Coords":
        """Returns the set of outputs of a spc_geometry. Waits for the device if
        the set is new."""
        has_room, held = self.scene.tree.has_room, self.held
        made = self.ctx.retry(lambda: held.outputs(geometry, has_room))
        return Coords(self.scene, made)

    def data(self) -> Optional[int]:
        """Returns the device address of a set of outputs: int32 [rows][4]."""
        return lib.spc_coords_data(self.ptr)  # type: ignore[no-any-return]


# ---- spare trees -------------------------------------------------------------


def _refilled(
    ctx: Context, address: int, rows: int, stream: Optional[int]
) -> Optional[_Tree]:
    """Fills the smallest spare tree that has memory for these rows, and returns
    it; None if there is none."""
    spares: List[_Tree] = []
    try:
        # Other threads, and the garbage collector, may append at any time.
        while True:
            spares.append(ctx.spares.popleft())
    except IndexError:
        pass
    fitting = [t for t in spares if t.home == stream and _fits(t, rows)]
    chosen = min(
        fitting, key=lambda t: (not t.has_room, t.root.reserved), default=None
    )
    # A new tree will have room for all scenes that these have room for.
    is_outgrown = rows > 0 and not fitting
    for tree in spares:
        tree.idle += 1
        # Trees without spare room are dropped once there are others.
        is_useful = tree.has_room or ctx.extents.get(tree.home) is None
        is_useful &= tree.idle <= _MOST_IDLE and tree.scenes < _MOST_SCENES
        is_useful &= not (is_outgrown and tree.home == stream)
        if tree is not chosen and is_useful:
            ctx.spares.append(tree)
    if chosen is None or not chosen.refill(address, rows):
        return None
    chosen.idle, chosen.scenes = 0, chosen.scenes + 1
    return chosen


def _fits(tree: _Tree, rows: int) -> bool:
    return 0 < rows <= tree.root.reserved and tree.scenes < _MOST_SCENES


def _made(
    ctx: Context,
    address: int,
    rows: int,
    stream: Optional[int],
    extent: Callable[[], Extent],
) -> _Tree:
    """Makes a new tree. It fits the first scene of a stream exactly; later
    trees have room for other scenes."""
    is_first = stream not in ctx.extents
    if rows and not is_first and context.reuses() and rows < _MOST_ROWS:
        root = _reserve(ctx, rows, stream, extent)
        tree = None if root is None else _Tree(root, stream, True)
        if tree is not None and tree.refill(address, rows):
            return tree
    return _exact(ctx, address, rows, stream)


def _exact(
    ctx: Context, address: int, rows: int, stream: Optional[int]
) -> _Tree:
    """Makes a new tree that fits these rows. Its derived sets have spare room,
    except in the first tree."""
    out = ctypes.c_void_p()
    ctx.check(lib.spc_coords_create(out, ctx.ptr, address, rows, stream))
    has_room = stream in ctx.extents
    if rows:
        ctx.extents.setdefault(stream, None)
    return _Tree(_Set(ctx, address_of(out)), stream, has_room)


def _reserve(
    ctx: Context,
    rows: int,
    stream: Optional[int],
    extent: Callable[[], Extent],
) -> Optional[_Set]:
    """Makes an empty set with memory for these and earlier rows; None if the
    extent is too wide."""
    low, high = extent()
    seen = ctx.extents[stream]
    if seen is not None:
        low = list(map(min, low, seen[0]))
        high = list(map(max, high, seen[1]))
    ctx.extents[stream] = (low, high)
    wide = _widen(low, high)
    if wide is None:
        return None
    options = new(_abi.spc_coords_options, capacity=_more(rows))
    options.low[:], options.high[:] = wide
    out = ctypes.c_void_p()
    ctx.check(lib.spc_coords_create_reserved(out, ctx.ptr, options))
    return _Set(ctx, address_of(out))


def _guarded(
    ctx: Context,
    address: int,
    rows: int,
    stream: Optional[int],
    extent: Extent,
    halo: int,
) -> _Tree:
    """Makes a new tree that fits these rows, with a wide halo."""
    options = new(_abi.spc_coords_options, capacity=rows, halo=halo)
    options.low[:], options.high[:] = extent
    out = ctypes.c_void_p()
    ctx.check(lib.spc_coords_create_reserved(out, ctx.ptr, options))
    root = _Set(ctx, address_of(out))
    ctx.check(lib.spc_coords_update(root.ptr, address, None, rows, stream))
    ctx.check(lib.spc_coords_check(root.ptr, stream))
    root.rows = rows
    return _Tree(root, stream, False)


def _more(rows: int) -> int:
    """Returns the capacity for a slightly larger scene."""
    return rows + rows // 4 + 1


def _widen(low: List[int], high: List[int]) -> Optional[Extent]:
    """Returns the extent with an eighth more on each axis, widened to all
    values that the same bits of a key can hold. None if a batch is negative, or
    the key needs too many bits."""
    wide_low, wide_high, total = [], [], 0
    for axis, (first, last) in enumerate(zip(low, high)):
        if axis == 0:
            first = min(first, 0)
        guards = 2 * _HALO + (axis == 3) if axis else 0
        span = last - first + 1
        bits = (span + (span // 8 if axis else 0) + guards - 1).bit_length()
        spare = (1 << bits) - guards - span
        below = spare // 2 if axis else 0
        wide_low.append(first - below)
        wide_high.append(last + spare - below)
        total += bits
    if low[0] < 0 or total > _MOST_BITS:
        return None
    if min(wide_low) < -(2**31) or max(wide_high) >= 2**31:
        return None
    return wide_low, wide_high
