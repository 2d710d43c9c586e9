# SPDX-License-Identifier: Apache-2.0
"""Kernel maps, and the plans that run on them.

A `Relation` is two sets and a geometry, and a `Map` a relation read in one
direction: the kernel map of a layer. Both live as long as an object refers to
them. This module does not use NumPy or PyTorch; data are addresses.
"""

import ctypes
import functools
import itertools
import logging
import sys
import threading
import weakref
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _abi, captures, context
from ._lib import Error, check, fast, lib, new, text_of
from .context import Context, logger
from .sets import Coords, Shelf, address_of

__all__ = ["Coords", "Layer", "Map", "Relation", "layer_of"]

DTYPES = {
    "f16": _abi.SPC_F16,
    "f32": _abi.SPC_F32,
    "tf32": _abi.SPC_TF32,
    "bf16": _abi.SPC_BF16,
}
_INVERSE = (_abi.SPC_INVERSE, _abi.SPC_TRANSPOSED, _abi.SPC_GENERATIVE)
_numbers = itertools.count(1)
# Relations by number, as operators of torch.compile take only tensors.
relations: "weakref.WeakValueDictionary[int, Relation]" = (
    weakref.WeakValueDictionary()
)


# ---- layers ------------------------------------------------------------------


class Layer(NamedTuple):
    """A layer as a value: its geometry in words, channels, and type.

    words   operator and geometry as spc_conv_parse reads them: "subm,k=3",
            "conv,k=3,stride=2,padding=1,rule=footprint,shape=41x1600x1408"
    dtype   "f16", "bf16", "f32", "tf32"
    """

    words: str
    cin: int
    cout: int
    groups: int
    dtype: str
    deterministic: bool = False

    def text(self) -> str:
        """Returns the layer in the words of spc_conv_parse."""
        return (
            f"{self.words},cin={self.cin},cout={self.cout},"
            f"groups={self.groups},dtype={self.dtype},"
            f"deterministic={int(self.deterministic)}"
        )


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Any:
    """Returns the spc_conv of a text, which must not be changed. InvalidError:
    a bad word."""
    conv, error = _abi.spc_conv(), _abi.spc_error()
    check(lib.spc_conv_parse(conv, text.encode(), error), error)
    return conv


def geometry_of(words: str) -> Any:
    """Returns the spc_conv of an operator and its geometry, with arbitrary
    channels."""
    return parse(words + ",cin=16,cout=16,dtype=f32")


def layer_of(
    words: str,
    cin: int,
    cout: int,
    groups: int = 1,
    dtype: str = "f32",
    deterministic: bool = False,
) -> Layer:
    """Returns a layer with its words in canonical form."""
    return Layer(canonical(words), cin, cout, groups, dtype, deterministic)


@functools.lru_cache(maxsize=4096)
def canonical(words: str) -> str:
    """Returns canonical words, which are equal for equal geometries."""
    kept = text_of(lib.spc_conv_format, geometry_of(words)).split(",")
    return ",".join(
        w
        for w in kept
        if not w.startswith(("cin=", "cout=", "dtype=", "groups="))
    )


@functools.lru_cache(maxsize=4096)
def problem(layer: Layer, which: int, extra: bool) -> Any:
    """Returns the spc_conv of a pass, which must not be changed. With `extra`
    the forward pass adds a bias, and the gradient of weights is stored as
    fp32."""
    bias = extra and which == _abi.SPC_FORWARD
    forward = parse(layer.text() + (",bias=1" if bias else ""))
    if which == _abi.SPC_FORWARD:
        return forward
    conv, error = _abi.spc_conv(), _abi.spc_error()
    check(lib.spc_conv_pass(conv, forward, which, error), error)
    if extra:
        conv.out = _abi.SPC_OUT_F32
    return conv


def _words_of(conv: Any) -> str:
    """Returns a layer as text."""
    return text_of(lib.spc_conv_format, conv)


# ---- maps --------------------------------------------------------------------


class Plan:
    """A layer bound to a kernel. Any thread may run it."""

    def __init__(self, ctx: Context, pointer: int) -> None:
        self.ctx, self.ptr = ctx, pointer
        self.weights_bytes: int = lib.spc_plan_weights_bytes(pointer)

    def __del__(self) -> None:
        self.ctx.release(lib.spc_plan_free, self.ptr)

    def words(self) -> str:
        """Returns template and configuration: "os_warp rows=16,..."."""
        words: bytes = (
            lib.spc_plan_template(self.ptr)
            + b" "
            + lib.spc_plan_config(self.ptr)
        )
        return words.decode()


class Table:
    """A spc_map. One thread prepares it while no other thread runs on it.

    Its memory is allocated and freed in the order of the stream `home`. If
    other streams ran on the map, freeing it waits for them.
    """

    def __init__(self, ctx: Context, pointer: int, home: Optional[int]) -> None:
        self.ctx, self.ptr, self.home = ctx, pointer, home
        self.lock = threading.Lock()
        self.is_shared, self.is_used = False, True
        # plan() prepares the map for each scene, so its lists need no room for
        # pairs that no scene has.
        lib.spc_map_fit_lists(pointer)
        self.features: Dict[str, FeaturePlan] = {}

    def __del__(self) -> None:
        free = self._wait_and_free if self.is_shared else lib.spc_map_free
        self.ctx.release(free, self.ptr)

    def _wait_and_free(self, pointer: int) -> None:
        lib.spc_ctx_synchronize(self.ctx.ptr)
        lib.spc_map_free(pointer)

    def refill(self) -> None:
        """Enqueues the filling of the map and its layouts, after the sets are
        filled and after all runs of the last scene."""
        check = self.ctx.check
        check(lib.spc_map_update(self.ptr, None, None, 0, self.home))
        self.is_shared = self.is_used = False

    def check(self) -> None:
        """Waits until the map is filled. Errors are those of the sets."""
        self.ctx.check(lib.spc_map_check(self.ptr, self.home))

    def ready(self, stream: Optional[int]) -> None:
        """Prepares a run on `stream`, which differs from home: waits for the
        work on the map that the home stream has begun."""
        if self.is_shared:
            return
        torch = sys.modules.get("torch")
        # A capture must not wait. torch.cuda.graph waited before the capture,
        # and the captured kernels run even later.
        if torch and torch.cuda.is_current_stream_capturing():
            return
        self.ctx.check(lib.spc_ctx_synchronize(self.ctx.ptr))
        self.is_shared = True

    def plan(
        self, key: Tuple["Layer", int, bool], stream: Optional[int]
    ) -> Plan:
        """Returns a plan of a pass that fits the map, and prepares the map for
        it. May compile."""
        ctx, conv, which = self.ctx, problem(*key), key[1]
        with self.lock, ctx.calling():
            known: List[Plan] = ctx.plans.setdefault(key, [])
            known[:] = [p for p in known if not lib.spc_plan_is_outdated(p.ptr)]
            for plan in known:
                if lib.spc_plan_fits(plan.ptr, self.ptr):
                    ctx.check(lib.spc_map_prepare(self.ptr, plan.ptr, stream))
                    if stream != self.home:
                        ctx.check(lib.spc_ctx_synchronize(ctx.ptr))
                    return plan
            self._tell(conv)
            out = ctypes.c_void_p()
            flags = ctx.flags
            if which == _abi.SPC_WGRAD:  # gradients in the weights' layout
                flags |= _abi.SPC_PLAN_KRSC
            ctx.check(lib.spc_plan_create(out, ctx.ptr, conv, self.ptr, flags))
            plan = Plan(ctx, address_of(out))
            known.append(plan)
            return plan

    def _tell(self, conv: Any) -> None:
        """Logs that a kernel has to be compiled: the first time as a warning,
        since compiling takes seconds."""
        rows_in = lib.spc_map_rows_in(self.ptr)
        rows_out = lib.spc_map_rows_out(self.ptr)
        ask = new(
            _abi.spc_explain_question,
            conv=ctypes.pointer(conv),
            rows_in=rows_in,
            rows_out=rows_out,
            pairs=lib.spc_map_pairs(self.ptr),
        )
        out = _abi.spc_explanation()
        if lib.spc_explain(out, self.ctx.ptr, ask, 0) or out.has_code:
            return
        level = logging.INFO if self.ctx.has_told else logging.WARNING
        self.ctx.has_told = True
        logger.log(
            level,
            "%s: compiling a kernel for '%s'; it is kept in the database",
            self.ctx.device,
            text_of(lib.spc_conv_format, conv),
        )


class Call:
    """A pass that is ready to run on a map."""

    __slots__ = ("table", "plan", "work_bytes", "_args", "_buffers")

    def __init__(self, table: Table, plan: Plan) -> None:
        self.table, self.plan = table, plan
        self.work_bytes: int = lib.spc_plan_workspace_bytes(plan.ptr, table.ptr)
        # Arguments are converted once, as conversions cost more than the call.
        # The lock of the table guards the block.
        self._buffers = new(_abi.spc_buffers)
        self._args = (
            ctypes.c_void_p(plan.ptr),
            ctypes.c_void_p(table.ptr),
            ctypes.pointer(self._buffers),
        )

    def run(
        self,
        inputs: int,
        out: int,
        weights: Optional[int] = None,
        bias: Optional[int] = None,
        work: Optional[int] = None,
        grad: Optional[int] = None,
        stream: Optional[int] = None,
        quick: bool = True,
    ) -> None:
        """Runs the pass with device addresses as in spc_buffers. `quick` calls
        keep the interpreter's lock."""
        table, block = self.table, self._buffers
        if stream != table.home:
            table.ready(stream)
        with table.lock:
            block.in_, block.out = inputs, out
            block.weights, block.bias = weights, bias
            block.workspace, block.grad = work, grad
            if quick:
                status = _execute_fast(*self._args, stream)
            else:
                status = _execute(*self._args, stream)
        if status:
            table.ctx.check(status)

    def pack(
        self,
        packed: int,
        weights: int,
        stream: Optional[int],
        quick: bool = False,
    ) -> None:
        """Packs canonical weights [cout][kx][ky][kz][cin / groups]."""
        status = (_pack_fast if quick else _pack)(
            packed, self._args[0], weights, _abi.SPC_KRSC, stream
        )
        if status:
            self.table.ctx.check(status)


_execute, _execute_fast = lib.spc_plan_execute, fast.spc_plan_execute
_pack, _pack_fast = lib.spc_plan_pack, fast.spc_plan_pack


class FeaturePlan:
    """Returns an operator on features for a map, and prepares the map for
    it."""

    def __init__(self, table: Table, text: str) -> None:
        ctx, out = table.ctx, ctypes.c_void_p()
        self.ctx = ctx
        with table.lock, ctx.calling():
            ctx.check(
                lib.spc_feature_plan_create(
                    out, ctx.ptr, parse_feature(text), _abi.SPC_PLAN_JIT
                )
            )
            self.ptr = address_of(out)
            ctx.check(lib.spc_feature_plan_prepare(self.ptr, table.ptr, None))
        # Other streams may run the operator from here on.
        ctx.check(lib.spc_ctx_synchronize(ctx.ptr))

    def __del__(self) -> None:
        self.ctx.release(lib.spc_feature_plan_free, self.ptr)


class FeatureCall:
    """An operator on features that is ready to run on a map."""

    def __init__(self, table: Table, text: str, set_in: Coords) -> None:
        plan = table.features.get(text)
        if plan is None:
            plan = table.features[text] = FeaturePlan(table, text)
        self.table, self.plan = table, plan
        self.work_bytes: int = lib.spc_feature_plan_workspace_bytes(
            self.plan.ptr, set_in.ptr
        )

    def run(self, stream: Optional[int], **addresses: Optional[int]) -> None:
        """Runs the operator with device addresses by the fields of
        spc_feature_buffers."""
        buffers = new(_abi.spc_feature_buffers)
        for name, address in addresses.items():
            setattr(buffers, name, address)
        if stream != self.table.home:
            self.table.ready(stream)
        with self.table.lock:
            status = lib.spc_feature_plan_execute(
                self.plan.ptr, None, self.table.ptr, buffers, stream
            )
        self.table.ctx.check(status)


@functools.lru_cache(maxsize=1024)
def parse_feature(text: str) -> Any:
    """Returns the spc_feature of a text, which must not be changed.
    "pass=dgrad" before the operator selects its gradient."""
    backward = text.startswith("pass=dgrad,")
    feature, error = _abi.spc_feature(), _abi.spc_error()
    words = text.split(",", 1)[1] if backward else text
    check(lib.spc_feature_parse(feature, words.encode(), error), error)
    if backward:
        made = _abi.spc_feature()
        check(lib.spc_feature_pass(made, feature, _abi.SPC_DGRAD, error), error)
        return made
    return feature


class Relation:
    """Two sets and a geometry. The maps of both directions are made when they
    are needed; `shelf` has them."""

    def __init__(
        self, fine: Coords, coarse: Coords, geometry: Any, shelf: Shelf
    ) -> None:
        self.number = next(_numbers)
        self.ctx, self.fine, self.coarse = fine.ctx, fine, coarse
        self.geometry, self.shelf = geometry, shelf
        self.calls: Dict[Any, Any] = {}
        # Calls of ops.py, by properties of a layer that are cheap to find.
        self.bound: Dict[Any, Any] = {}
        # The voxels of the scene while capture() is on, int32 [rows, 4].
        self.scene: Optional[bytes] = None
        relations[self.number] = self

    def call(
        self, layer: Layer, which: int, extra: bool, stream: Optional[int]
    ) -> Call:
        """Returns a pass of a layer, ready to run. May compile the first
        time."""
        key = (layer, which, extra)
        found = self.calls.get(key)
        if found is None:
            self.ctx.need_own()
            conv, retry = problem(*key), self.ctx.retry
            table = retry(
                lambda: self.table(conv.geometry, conv.op in _INVERSE, stream)
            )
            if captures.folder is not None and self.scene is not None:
                captures.folder.add(_words_of(conv), self.scene)
            found = self.calls[key] = Call(
                table, retry(lambda: table.plan(key, stream))
            )
        elif self.ctx.pid != context.own_pid:
            self.ctx.need_own()
        return found

    def feature(
        self, text: str, inverse: bool, stream: Optional[int]
    ) -> FeatureCall:
        """Returns an operator on features over this relation, ready to run."""
        self.ctx.need_own()
        found = self.calls.get(text)
        if found is None:
            geometry = parse_feature(text).geometry
            table = self.table(geometry, inverse, stream)
            set_in = self.coarse if inverse else self.fine
            found = self.calls[text] = FeatureCall(table, text, set_in)
        return found

    def table(
        self, geometry: Any, inverse: bool, stream: Optional[int]
    ) -> Table:
        """Returns the map of a geometry between the two sets, from fine to
        coarse or inverse. The first call makes and checks it."""
        key = (bytes(geometry), inverse)
        with self.shelf.lock:
            found: Optional[Table] = self.shelf.tables.get(key)
            if found is None:
                found = self._make(geometry, inverse, stream)
                self.shelf.tables[key] = found
            found.is_used = True
        return found

    def _make(
        self, geometry: Any, inverse: bool, stream: Optional[int]
    ) -> Table:
        ctx, out = self.ctx, ctypes.c_void_p()
        create = lib.spc_map_create_inverse if inverse else lib.spc_map_create
        ends = (self.coarse, self.fine) if inverse else (self.fine, self.coarse)
        with ctx.calling():
            ctx.check(create(out, ends[0].ptr, ends[1].ptr, geometry))
            table = Table(ctx, address_of(out), stream)
            table.refill()
            table.check()
        return table


class Map(NamedTuple):
    """The kernel map of a layer: a relation, and the direction in which the
    layer reads it. `words` are the layer's geometry."""

    relation: Relation
    inverse: bool
    words: str

    @property
    def rows_in(self) -> int:
        """Number of rows of the inputs."""
        r = self.relation
        return (r.coarse if self.inverse else r.fine).rows

    @property
    def rows_out(self) -> int:
        """Number of rows of the outputs."""
        r = self.relation
        return (r.fine if self.inverse else r.coarse).rows

    def pairs(self) -> int:
        """Number of (output, input, offset) triplets of the map."""
        conv = geometry_of(self.words)
        table = self.relation.table(conv.geometry, self.inverse, None)
        return int(lib.spc_map_pairs(table.ptr))


def make_map(fine: Coords, words: str) -> Map:
    """Returns the map of a layer over a set, and makes the set of outputs if it
    differs. `words` are as Layer.words: subm, conv or generative; the set has
    the inputs of a generative layer."""
    words = canonical(words)
    conv = geometry_of(words)
    if conv.op == _abi.SPC_SUBM:
        shelf = fine.held.shelf
        return Map(Relation(fine, fine, conv.geometry, shelf), False, words)
    other = fine.outputs(conv.geometry)
    shelf = other.held.shelf
    if conv.op == _abi.SPC_GENERATIVE:
        return Map(Relation(other, fine, conv.geometry, shelf), True, words)
    return Map(Relation(fine, other, conv.geometry, shelf), False, words)


def join(inputs: Coords, outputs: Coords, words: str) -> Map:
    """Returns the map of a layer between two existing sets (rule=given)."""
    words = canonical(words)
    conv = geometry_of(words)
    shelf = Shelf()  # not part of a tree; ends with the relation
    if conv.op in _INVERSE:
        return Map(Relation(outputs, inputs, conv.geometry, shelf), True, words)
    return Map(Relation(inputs, outputs, conv.geometry, shelf), False, words)


def inverse_of(forward: Map) -> Map:
    """Returns the map of the layer that inverts a strided layer: its outputs
    are the strided layer's inputs, in their order."""
    if forward.inverse or not forward.words.startswith("conv,"):
        raise Error(
            f"an inverse layer inverts a strided one, not '{forward.words}'"
        )
    return Map(
        forward.relation,
        True,
        canonical("inverse," + forward.words.split(",", 1)[1]),
    )
