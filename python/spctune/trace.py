# SPDX-License-Identifier: Apache-2.0
"""Tracing: one run of a model becomes a tape.

The model runs unchanged. Tracing records each torch function and each layer
with its inputs and results. Tensors on the tape are numbers. `same_path`
compares the tapes of two samples: if they differ in more than sizes, the model
branches on its data.
"""

import copy
import os
import sys
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
)

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from . import ops
from ._lib import InvalidError
from .maps import Map

__all__ = ["Entry", "Ref", "Size", "Tape", "TraceError", "record"]


class TraceError(InvalidError):
    """The model cannot become a network; the message names the line."""


class Ref(NamedTuple):
    """A tensor of the tape."""

    number: int


class Size(NamedTuple):
    """The size of a tensor of the tape along an axis, multiplied or divided by
    a whole number."""

    number: int
    axis: int
    times: int = 1
    over: int = 1


class Given(NamedTuple):
    """An argument that is not a tensor and differs between samples, named by
    its keys."""

    path: Tuple[Any, ...]


class Sparse(NamedTuple):
    """A sparse tensor: an example of its kind, its features and its voxels."""

    like: Any
    features: Any
    coords: Any


class Entry(NamedTuple):
    """One operation of the model.

    kind   "torch", or one of our layers: "conv", "pool", "map", "dense"
    func   the called function; tensors in args, kwargs and out are Refs
    where   the model's line
    map    of a layer
    """

    kind: str
    func: Any
    args: Any
    kwargs: Any
    out: Any
    where: str
    map: Optional[Map] = None


class Escape(NamedTuple):
    """A tensor was converted to a Python number."""

    name: str
    value: Any
    where: str


# ---- structures --------------------------------------------------------------


def is_sparse(value: Any) -> bool:
    """A sparse tensor of this package or of a drop-in. parts() returns its
    features and voxels; remade() makes a tensor with others."""
    return hasattr(type(value), "parts") and hasattr(type(value), "remade")


def change(
    value: Any,
    tensor: Callable[[Tensor], Any],
    sparse: Optional[Callable[[Any], Any]] = None,
) -> Any:
    """Returns a copy of nested lists, tuples and dicts in which tensor()
    replaces tensors, and sparse() replaces sparse tensors."""
    if isinstance(value, Tensor):
        return tensor(value)
    if sparse is not None and is_sparse(value):
        return sparse(value)
    if isinstance(value, dict):
        made = copy.copy(value)
        for key, item in value.items():
            made[key] = change(item, tensor, sparse)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(change(v, tensor, sparse) for v in value))
    if type(value) in (list, tuple, torch.Size):
        kind = list if isinstance(value, list) else tuple
        return kind(change(v, tensor, sparse) for v in value)
    return value


def leaves(value: Any) -> Iterator[Any]:
    """Lists the elements of nested lists, tuples and dicts in order; references
    to the tape count as elements."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple)) and not isinstance(
        value, (Ref, Size, Sparse, Given)
    ):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def places(
    value: Any, path: Tuple[Any, ...] = ()
) -> Iterator[Tuple[Tuple[Any, ...], Any]]:
    """Lists the elements like leaves(), each with its keys."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, path + (key,))
    elif isinstance(value, (list, tuple)) and not isinstance(
        value, (Ref, Size, Sparse, Given)
    ):
        names = getattr(value, "_fields", range(len(value)))
        for key, item in zip(names, value):
            yield from places(item, path + (key,))
    else:
        yield path, value


def fill(value: Any, of: Callable[[Any], Any]) -> Any:
    """Returns a copy in which of() replaces references to the tape."""
    if isinstance(value, (Ref, Size, Sparse, Given)):
        return of(value)
    if isinstance(value, slice):
        return slice(
            fill(value.start, of), fill(value.stop, of), fill(value.step, of)
        )
    if isinstance(value, dict):
        made = copy.copy(value)
        for key, item in value.items():
            made[key] = fill(item, of)
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(fill(v, of) for v in value))
    if type(value) in (list, tuple):
        return type(value)(fill(v, of) for v in value)
    return value


# ---- the tape ----------------------------------------------------------------

_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))


def writes(entry: Entry) -> bool:
    """True if a torch function writes to a tensor of the tape."""
    name = getattr(entry.func, "__name__", "")
    in_place = (
        name == "__setitem__"
        or name.endswith("_")
        and not name.endswith("__")
        or name.startswith("__i")
        and name != "__int__"
        and name != "__invert__"
        and name != "__index__"
    )
    return in_place and bool(entry.args) and isinstance(entry.args[0], Ref)


def _where() -> str:
    """Returns the innermost line outside of torch and this package."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((_HERE, _TORCH)) and os.path.isabs(path):
            return f"{path}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"


# Methods that convert a tensor to a number.
_ESCAPES = (
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "item",
    "tolist",
    "numpy",
    "__contains__",
)


class Tape(TorchFunctionMode):
    """The record of a run. `inputs` are the arguments and `result` the returned
    value, both with Refs; tensors[number] is a tensor as it was at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: List[Entry] = []
        self.escapes: List[Escape] = []
        self.tensors: List[Tensor] = []
        self.shapes: List[Tuple[int, ...]] = []
        self.coords: Dict[int, Any] = {}  # sets of the voxels among tensors
        # The voxels and the words from which a relation was made.
        self._sources: Dict[int, Tuple[Any, str]] = {}
        self._numbers: Dict[int, int] = {}
        self.inputs: Any = None
        self.result: Any = None

    def number(self, tensor: Tensor) -> Optional[int]:
        """Returns the number of a tensor; None for a constant, such as a
        parameter."""
        return self._numbers.get(id(tensor))

    def add(self, tensor: Tensor) -> Ref:
        """Gives a tensor a new number, also after a write to it."""
        self._numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)  # keeps the tensor alive, and so its id
        self.shapes.append(tuple(tensor.shape))
        return Ref(len(self.tensors) - 1)

    def _ref(self, tensor: Tensor) -> Any:
        number = self.number(tensor)
        return tensor if number is None else Ref(number)

    def refs(self, value: Any) -> Any:
        """Returns a structure with Refs in place of the tape's tensors."""
        return change(value, self._ref, self._sparse)

    def _sparse(self, value: Any) -> Sparse:
        return Sparse(value, *map(self._ref, value.parts()))

    def take_inputs(self, args: Any) -> None:
        """Numbers the tensors of the arguments."""

        def new(tensor: Tensor) -> Any:
            number = self.number(tensor)
            return self.add(tensor) if number is None else Ref(number)

        self.inputs = change(
            args, new, lambda s: Sparse(s, *map(new, s.parts()))
        )

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        before = self.refs((args, kwargs))
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        reads = any(isinstance(v, Ref) for v in leaves(before))
        # Results of parameters alone are constants too.
        if not reads and any(isinstance(v, Tensor) for v in leaves(before)):
            return result
        if name in _ESCAPES and reads:
            value = result.tolist() if name == "numpy" else result
            self.escapes.append(Escape(name, value, _where()))
            return result
        returns = any(isinstance(v, Tensor) for v in leaves(result))
        if not returns and not (reads and name == "__setitem__"):
            return result
        out = change(result, self.add)
        if name == "__setitem__":  # a new state of the tensor that was written
            out = self.add(args[0])
        self.entries.append(
            Entry("torch", func, before[0], before[1], out, _where())
        )
        return result

    # ---- our layers ----------------------------------------------------------

    def _source(self, m: Map) -> Optional[Tuple[Any, str]]:
        return self._sources.get(id(m.relation))

    def pool(
        self, x: Tensor, m: Map, kind: str, run: Callable[[], Tensor]
    ) -> Tensor:
        """Records a pooling by "max" or "mean"."""
        with torch._C.DisableTorchFunction():
            result = run()
        args = (self.refs(x), kind, self._source(m))
        self.entries.append(
            Entry("pool", run, args, {}, self.add(result), _where(), m)
        )
        return result

    def layer(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        m: Map,
        run: Callable[[], Tensor],
    ) -> Tensor:
        """Records a convolution."""
        with torch._C.DisableTorchFunction():
            result = run()
        args = self.refs((x, weight, bias)) + (self._source(m),)
        self.entries.append(
            Entry("conv", run, args, {}, self.add(result), _where(), m)
        )
        return result

    def kernel_map(self, indices: Tensor, m: Map, out: Tensor) -> None:
        """Records that a map was made between two sets of voxels."""
        r = m.relation
        ends = (r.coarse, r.fine) if m.inverse else (r.fine, r.coarse)
        before = self.refs(indices)
        self._sources.setdefault(id(r), (before, m.words))
        if isinstance(before, Ref):
            self.coords.setdefault(before.number, ends[0])
        if out is indices:
            return
        number = self.number(out)
        after = self.add(out) if number is None else Ref(number)
        self.coords[after.number] = ends[1]
        if number is None:
            self.entries.append(
                Entry("map", None, (before, m.words), {}, after, _where(), m)
            )

    def dense(
        self,
        features: Tensor,
        indices: Tensor,
        shape: Any,
        batch_size: int,
        run: Callable[[], Tensor],
    ) -> Tensor:
        """Records a dense volume."""
        with torch._C.DisableTorchFunction():
            result = run()
        args = self.refs((features, indices, list(shape), batch_size))
        self.entries.append(
            Entry("dense", run, args, {}, self.add(result), _where())
        )
        return result


def record(
    call: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Tape:
    """Runs call(*args, **kwargs) and returns its tape."""
    tape = Tape()
    # The model may write to its containers, so it gets copies.
    given = change((args, kwargs), lambda t: t)
    tape.take_inputs(given)
    if ops.tape is not None:
        raise TraceError("compile() within a model that is being compiled")
    ops.tape = tape
    try:
        with torch.no_grad(), tape:
            result = call(*given[0], **given[1])
    finally:
        ops.tape = None
    tape.result = tape.refs(result)
    return tape


# ---- two samples -------------------------------------------------------------


def _name(entry: Entry) -> str:
    if entry.kind == "conv":
        assert entry.map is not None
        return f"the layer '{entry.map.words}'"
    return str(getattr(entry.func, "__name__", entry.kind))


def same_path(a: Tape, b: Tape) -> None:
    """Raises TraceError unless both tapes took the same path through the
    model."""
    for one, other in zip(a.escapes, b.escapes):
        if one.where != other.where:
            break
        if one.value != other.value:
            raise TraceError(
                f"{one.where}: {one.name}() makes a number of Python's of the "
                f"data, {str(one.value)[:40]} with the first sample and "
                f"{str(other.value)[:40]} with the second; a network cannot "
                "follow that"
            )
    for first, second in zip(a.entries, b.entries):
        if _name(first) != _name(second) or first.where != second.where:
            raise TraceError(
                f"{first.where}: the model branches on its data: it goes on "
                f"with {_name(first)} after the first sample, and with "
                f"{_name(second)} at {second.where} after the second"
            )
    if len(a.entries) != len(b.entries):
        longer = a if len(a.entries) > len(b.entries) else b
        entry = longer.entries[min(len(a.entries), len(b.entries))]
        raise TraceError(
            f"{entry.where}: the model branches on its data: only "
            f"one of the samples leads to {_name(entry)}"
        )


def _size_of(
    a: Tape,
    b: Tape,
    one: int,
    other: int,
    limit: int,
    known: Callable[[int], bool],
) -> Optional[Size]:
    """Finds the tensor whose sizes explain two numbers; equal sizes are the
    best explanation."""
    found: Optional[Size] = None
    for number in range(limit):
        if not known(number):
            continue
        for axis, (s, t) in enumerate(zip(a.shapes[number], b.shapes[number])):
            if (s, t) == (one, other):
                return Size(number, axis)
            if s == t or not s or not t or found is not None:
                continue
            if one % s == other % t == 0 and one // s == other // t:
                found = Size(number, axis, one // s)
            elif (
                one
                and other
                and s % one == t % other == 0
                and s // one == t // other
            ):
                found = Size(number, axis, 1, s // one)
    return found


def unify(
    a: Tape,
    b: Tape,
    one: Any,
    other: Any,
    entry: Entry,
    known: Callable[[int], bool],
) -> Any:
    """Returns the arguments of an entry for scenes of any size: numbers that
    differ between the tapes become sizes of tensors. Raises TraceError if no
    tensor explains a number."""
    if isinstance(one, bool) or not isinstance(one, int):
        return one
    if one == other:
        return one
    limit = min(
        (v.number for v in leaves(entry.out) if isinstance(v, Ref)),
        default=len(a.shapes),
    )
    found = _size_of(a, b, one, other, limit, known)
    if found is None:
        raise TraceError(
            f"{entry.where}: {_name(entry)} has the number {one} "
            f"with the first sample and {other} with the second, "
            "which is the size of no tensor"
        )
    return found


def unify_all(
    a: Tape,
    b: Tape,
    one: Any,
    other: Any,
    entry: Entry,
    known: Callable[[int], bool],
) -> Any:
    """Applies unify() to nested lists, tuples, dicts and slices."""

    def again(x: Any, y: Any) -> Any:
        return unify_all(a, b, x, y, entry, known)

    if isinstance(one, (Ref, Size, Sparse, Given)):
        return one
    if isinstance(one, slice):
        return slice(
            again(one.start, other.start),
            again(one.stop, other.stop),
            again(one.step, other.step),
        )
    if isinstance(one, dict):
        return {k: again(v, other[k]) for k, v in one.items()}
    if type(one) in (list, tuple, torch.Size):
        kind = list if isinstance(one, list) else tuple
        return kind(again(x, y) for x, y in zip(one, other))
    return unify(a, b, one, other, entry, known)
