# SPDX-License-Identifier: Apache-2.0
"""Sparse convolution on PyTorch tensors.

Eager code calls an autograd.Function. While torch.compile or torch.export
traces, the same work is done by the registered operators torch.ops.spctune.*,
which have fake implementations. A kernel map is then a small tensor that keeps
it alive.
"""

import ctypes
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from . import _abi, captures, context, maps
from ._lib import Error, InvalidError, UnsupportedError
from .context import Context
from .maps import Coords, Layer, Map

__all__ = ["AnyMap", "conv", "kernel_map", "inverse_map", "join_maps"]

_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
# The tape that compile() records; None: nothing is recorded.
tape: Any = None
# A map, or its tensor handle while a graph is traced.
AnyMap = Union[Map, Tensor]


# ---- devices -----------------------------------------------------------------


def _context(tensor: Tensor) -> Context:
    """Returns the context of a tensor's device."""
    device = tensor.device
    if device.type == "cpu":
        return Context.get("cpu")
    if device.type != "cuda":
        raise InvalidError(
            f"no spctune device for tensors on '{device}'; move "
            "them to 'cpu' or 'cuda'"
        )
    with torch.cuda.device(device):  # makes its CUcontext current
        return Context.get(f"cuda:{device.index}")


def _stream(tensor: Tensor) -> Optional[int]:
    """Returns torch's current stream on a tensor's device; None on the
    processor."""
    if tensor.is_cpu:
        return None
    current: int = torch._C._cuda_getCurrentRawStream(tensor.get_device())
    return current


def _cuda_memory(device: str) -> Any:
    """Returns the spc_memory_hook by which libspc uses torch's caching
    allocator. The allocator orders reuse by stream; memory that any stream may
    use waits for the current stream."""
    index = int(device.partition(":")[2])
    hook = _abi.spc_memory_hook(ordered=True)

    def alloc(size: int, stream: Optional[int], _: Any) -> int:
        try:
            used = stream or torch._C._cuda_getCurrentRawStream(index)
            if not stream and used:
                torch.cuda.current_stream(index).synchronize()
            return int(torch.cuda.caching_allocator_alloc(size, index, used))
        except RuntimeError:  # torch.OutOfMemoryError: the library reports it
            return 0

    def free(memory: int, size: int, stream: Optional[int], _: Any) -> None:
        torch.cuda.caching_allocator_delete(memory)

    hook.alloc, hook.free = type(hook.alloc)(alloc), type(hook.free)(free)
    _hooks.append(hook)  # the library uses it until the process ends
    return hook


_hooks: List[Any] = []
context.memory_hooks["cuda"] = _cuda_memory


def _ready(tensor: Tensor) -> Tensor:
    """Returns the tensor, contiguous and at a multiple of 16 bytes."""
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def _bytes(size: int, like: Tensor) -> Tuple[Optional[Tensor], Optional[int]]:
    """Returns device memory, and an address in it that is a multiple of 256."""
    if size == 0:
        return None, None
    memory = torch.empty(size + 256, dtype=torch.uint8, device=like.device)
    return memory, (memory.data_ptr() + 255) & ~255


def _version(tensor: Tensor) -> int:
    """Returns the number of writes to a tensor; inference tensors do not count
    writes."""
    return 0 if tensor.is_inference() else tensor._version


# ---- maps --------------------------------------------------------------------


class Level:
    """The data of a tensor of voxels: its set, and the maps over it. The level
    is an attribute of the tensor and ends with it; a write to the tensor makes
    the level stale. Copies and files of the tensor do not have it."""

    def __init__(self, coords: Coords, version: int) -> None:
        self.coords, self.version = coords, version
        # The lowest and highest coordinate of each axis, if known.
        self.extent: Optional[Tuple[List[int], List[int]]] = None
        # The map, the voxels of its outputs, and their version, by words.
        self.maps: Dict[str, Tuple[Map, Optional[Tensor], int]] = {}

    def __reduce__(self) -> Any:
        return (type(None), ())


def _level(indices: Tensor, halo: int = 0) -> Level:
    """Returns the level of a tensor of voxels, and makes it if it is missing.
    `halo` is as in Coords.of_rows()."""
    level = getattr(indices, "_spctune", None)
    if (
        level is not None
        and level.version == _version(indices)
        and level.coords.ctx.pid == context.own_pid
    ):
        return level  # type: ignore[no-any-return]
    if indices.dim() != 2 or not 2 <= indices.shape[1] <= 4:
        raise InvalidError(
            f"voxels have the shape {tuple(indices.shape)}; it is "
            "[rows, 4] (batch and three coordinates), or fewer "
            "for fewer dimensions"
        )
    if indices.dtype not in (torch.int32, torch.int64):
        raise InvalidError(f"voxels are {indices.dtype}, not int32")
    rows = indices.detach().to(torch.int32)
    if rows.shape[1] < 4:  # fewer dimensions: the others are one voxel wide
        rows = torch.nn.functional.pad(rows, (0, 4 - rows.shape[1]))
    rows = _ready(rows)
    coords = Coords.of_rows(
        _context(rows),
        rows.data_ptr(),
        rows.shape[0],
        _stream(rows),
        lambda: (rows.amin(0).tolist(), rows.amax(0).tolist()),
        halo,
    )
    return _attach(indices, coords)


def prepare(indices: Tensor, halo: int) -> None:
    """Makes the set of voxels over which kernels reach as far as `halo`."""
    if tape is None:
        _level(indices, halo)
        return
    with torch._C.DisableTorchFunction():
        _level(indices, halo)


def _attach(indices: Tensor, coords: Coords) -> Level:
    level = Level(coords, _version(indices))
    indices._spctune = level  # type: ignore[attr-defined]
    return level


class _Numbers:
    """An array of int32 numbers on a GPU that torch.as_tensor can read."""

    def __init__(self, address: int, shape: Tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<i4",
            "strides": None,
            # PyTorch refuses the flag "read only", although it only reads.
            "data": (address, False),
            "version": 2,
        }


def _copied(
    ctx: Context, address: Optional[int], shape: Tuple[int, ...], like: Tensor
) -> Tensor:
    """Returns a copy of int32 numbers of the library, on the device of
    `like`."""
    out = torch.empty(shape, dtype=torch.int32, device=like.device)
    if out.numel() and address is not None:
        if like.is_cpu:
            ctx.copy(out.data_ptr(), address, out.nbytes)
        else:
            there = _Numbers(address, shape)
            out.copy_(torch.as_tensor(there, device=like.device))
    return out


def _rows_of(coords: Coords, like: Tensor) -> Tensor:
    """Returns the voxels of a set of outputs in the order of their rows, as a
    tensor with the columns of `like`, and with its level."""
    columns = like.shape[1]
    tree = coords.scene.tree
    tree.is_shared |= _stream(like) != tree.home
    out = _copied(coords.ctx, coords.data(), (coords.rows, 4), like)
    if columns < 4:
        out = out[:, :columns].contiguous()
    _attach(out, coords)
    return out


def _keep_scene(m: Map, indices: Tensor) -> None:
    """Keeps the voxels of a map for capture()."""
    rows = indices.detach().to("cpu", torch.int32)
    if rows.shape[1] < 4:
        rows = torch.nn.functional.pad(rows, (0, 4 - rows.shape[1]))
    rows = rows.contiguous()
    m.relation.scene = ctypes.string_at(rows.data_ptr(), rows.nbytes)


# Returns a spatial shape that no voxel reaches.
_NO_BOUND = 1 << 20


def _outputs_extent(
    geometry: Any, extent: Tuple[List[int], List[int]]
) -> Tuple[List[int], List[int], bool]:
    """Returns the extent of the outputs of a footprint layer, and whether its
    spatial shape cuts them off."""
    low, high, is_cut = [], [], False
    for axis, (first, last) in enumerate(zip(*extent)):
        k, s = geometry.kernel[axis], geometry.stride[axis]
        p, reach = geometry.padding[axis], geometry.dilation[axis] * (k - 1)
        end = (geometry.shape[axis] + 2 * p - reach - 1) // s
        is_cut |= (last + p) // s > end
        low.append(max(-((reach - first - p) // s), 0))
        high.append(min((last + p) // s, end))
    return low, high, is_cut


def _without_bound(level: Level, indices: Tensor, words: str) -> str:
    """Returns the words of a layer whose spatial shape differs from scene to
    scene. If no voxel reaches the shape's end, one large shape replaces all
    shapes, so that plans and the memory of maps serve every scene."""
    rest, _, shape = words.partition(",shape=")
    if not shape or "," in shape or not rest.startswith("conv,"):
        return words
    shapes = level.coords.ctx.shapes
    if shapes.setdefault(rest, shape) == shape or tape is not None:
        return words
    shapes[rest] = ""  # the shape differs from now on
    if level.extent is None:
        rows = indices[:, 1:]
        if not len(rows):
            return words
        level.extent = rows.amin(0).tolist(), rows.amax(0).tolist()
    geometry = maps.geometry_of(words).geometry
    _, high, is_cut = _outputs_extent(geometry, level.extent)
    if is_cut or max(high) >= _NO_BOUND // 2:
        return words
    return f"{rest},shape={_NO_BOUND}"


def _find_map(indices: Tensor, words: str) -> Tuple[Map, Tensor]:
    """Returns the map of a layer over voxels, and the voxels of its outputs."""
    level = _level(indices)
    found = level.maps.get(words)
    # The tape records the layer's own shape, as an earlier eager call may have
    # widened it.
    if found and tape is not None and f"={_NO_BOUND}" in found[0].words:
        found = None
    m, out, written = found or (
        maps.make_map(level.coords, _without_bound(level, indices, words)),
        None,
        0,
    )
    if captures.folder is not None and found is None:
        _keep_scene(m, indices)
    if m.relation.fine is m.relation.coarse:
        # The level does not refer to its own tensor, as that would be a cycle.
        level.maps[words] = (m, None, 0)
        return m, indices
    if out is None or written != _version(out):
        # The tensor does not exist yet, or the caller has written to it.
        r = m.relation
        out = _rows_of(r.fine if m.inverse else r.coarse, indices)
        geometry = maps.geometry_of(words).geometry
        if level.extent and geometry.rule == _abi.SPC_RULE_FOOTPRINT:
            low, high, _ = _outputs_extent(geometry, level.extent)
            _level(out).extent = low, high
        level.maps[words] = (m, out, _version(out))
    return m, out


class _Owner(bytearray):
    """The memory of a map's tensor handle, which keeps the map alive."""

    relation: Optional[maps.Relation] = None


def _handle(m: Map) -> Tensor:
    owner = _Owner(16)
    owner.relation = m.relation
    handle = torch.frombuffer(owner, dtype=torch.int64)
    handle[0], handle[1] = m.relation.number, int(m.inverse)
    return handle


def _map_of(handle: Tensor, words: str) -> Map:
    number, inverse = handle.tolist()
    relation = maps.relations.get(number)
    if relation is None:
        raise Error(
            "this tensor names a kernel map that is no longer there; a "
            "map cannot be stored or sent to another process"
        )
    words = maps.canonical(words)
    if relation.geometry.shape[0] == _NO_BOUND:  # _without_bound()
        words = re.sub("shape=[^,]*", f"shape={_NO_BOUND}", words)
    return Map(relation, bool(inverse), words)


def kernel_map(indices: Tensor, words: str) -> Tuple[AnyMap, Tensor]:
    """Returns the map of a layer over voxels, and the voxels of its outputs.

    indices  int32 [rows, 4]: batch, x, y, z; each voxel once
    words    operator and geometry: "subm,k=3", "conv,k=2,stride=2,rule=floor"

    The map is made once and kept with the tensor of voxels. InvalidError: a bad
    word, equal voxels, or a wrong shape.
    """
    if torch.compiler.is_compiling():
        if words.startswith("subm"):
            return torch.ops.spctune.map(indices, words), indices
        made, out = torch.ops.spctune.map_out(indices, words)
        torch._check(
            out.shape[0] > 1,
            lambda: "a compiled graph needs two voxels at each level",
        )
        return made, out
    if tape is None:
        return _find_map(indices, words)
    with torch._C.DisableTorchFunction():
        m, out = _find_map(indices, words)
    tape.kernel_map(indices, m, out)
    return m, out


def inverse_map(forward: AnyMap, words: str) -> AnyMap:
    """Returns the map of the layer that inverts a strided layer with these
    words: its outputs are the strided layer's inputs, in their order."""
    if isinstance(forward, Map):
        return maps.inverse_of(forward)
    out: Tensor = torch.ops.spctune.map_inverse(forward, words)
    return out


def join_maps(inputs: Tensor, outputs: Tensor, words: str) -> AnyMap:
    """Returns the map of a layer between two given sets of voxels
    (rule=given)."""
    if torch.compiler.is_compiling():
        made: Tensor = torch.ops.spctune.map_join(inputs, outputs, words)
        return made
    return _join(inputs, outputs, words)


def _join(inputs: Tensor, outputs: Tensor, words: str) -> Map:
    level, to = _level(inputs), _level(outputs)
    # The key is the number of the other set, so that the map does not keep that
    # set alive.
    key = f"{words} to {id(to.coords)}"
    found = level.maps.get(key)
    if (
        found is None
        or found[0].relation.coarse is not to.coords
        and found[0].relation.fine is not to.coords
    ):
        made = maps.join(level.coords, to.coords, words)
        found = level.maps[key] = (made, None, 0)
    return found[0]


# ---- passes ------------------------------------------------------------------


class Packs:
    """Packed weights of a module. They are kept only with the option `frozen`,
    since writes to `weight.data` cannot be detected."""

    def __init__(self) -> None:
        self.kept: Dict[int, Tuple[Any, ...]] = {}

    def __reduce__(self) -> Any:
        return (Packs, ())

    def __deepcopy__(self, memo: Any) -> "Packs":
        return Packs()


class Bound:
    """A layer on a map, with the data that its calls share.

    `call()` is a pass, ready to run. The relation refers to this object, so the
    object must not refer to the relation.
    """

    __slots__ = ("calls", "cin", "cout", "layer", "rows")

    def __init__(self, layer: Layer, m: Map) -> None:
        self.layer = layer
        self.cin, self.cout = layer.cin, layer.cout
        self.rows = (m.rows_in, m.rows_out)
        self.calls: Dict[Any, maps.Call] = {}

    def call(
        self, m: Map, which: int, extra: bool, stream: Optional[int]
    ) -> maps.Call:
        """Returns a pass on its map; `extra` is as in Relation.call()."""
        found = self.calls.get((which, extra))
        if found is None or m.relation.ctx.pid != context.own_pid:
            found = m.relation.call(self.layer, which, extra, stream)
            self.calls[which, extra] = found
        return found


def _bound(x: Tensor, weight: Tensor, m: Map) -> Bound:
    """Returns the layer of a call on its map, and checks that the tensors fit
    together."""
    deterministic = context.deterministic(
        torch.are_deterministic_algorithms_enabled()
    )
    allows = x.is_cuda and torch.backends.cudnn.allow_tf32
    if x.device != weight.device:
        raise InvalidError(
            f"features are on {x.device} and weights on {weight.device}"
        )
    relation, inverse, words = m
    shape = weight.shape
    key = (words, inverse, x.dtype, x.shape[1], shape, deterministic, allows)
    found: Optional[Bound] = relation.bound.get(key)
    if found is None:
        layer = _layer(x, shape, words, deterministic, allows)
        found = relation.bound[key] = Bound(layer, m)
    return found


def _layer(
    x: Tensor, shape: Any, words: str, deterministic: bool, allows_tf32: bool
) -> Layer:
    name = _NAMES.get(x.dtype)
    if name is None:
        raise InvalidError(
            f"features are {x.dtype}; types are float16, bfloat16 and float32"
        )
    cout, group_in, cin = shape[0], shape[-1], x.shape[1]
    if group_in == 0 or cin % group_in:
        raise InvalidError(
            f"features have {cin} channels and weights take "
            f"{group_in} for each group"
        )
    if name == "f32" and allows_tf32:
        name = "tf32"
    return Layer(words, cin, cout, cin // group_in, name, deterministic)


def _pack(
    call: maps.Call,
    weight: Tensor,
    x: Tensor,
    stream: Optional[int],
    packs: Optional[Packs],
    which: int,
) -> Tuple[Any, Optional[int], Optional[int]]:
    """Returns packed weights and the workspace of a call: the objects that keep
    their memory alive, and their addresses."""
    size, dtype = call.plan.weights_bytes, x.dtype
    if packs is not None and context.frozen():
        scratch, work = _bytes(call.work_bytes, x)
        stamp = (weight.data_ptr(), _version(weight), dtype, stream)
        entry = packs.kept.get(which)
        if entry is None or entry[0] is not call.plan or entry[1] != stamp:
            memory, packed = _bytes(size, x)
            _pack_into(call, packed, weight, dtype, stream)
            entry = packs.kept[which] = (call.plan, stamp, packed, memory)
        return (entry, scratch), entry[2], work
    # Both share one piece of memory.
    padded = (size + 255) & ~255
    memory, packed = _bytes(padded + call.work_bytes, x)
    _pack_into(call, packed, weight, dtype, stream)
    work = packed + padded if packed and call.work_bytes else None
    return memory, packed, work


def _pack_into(
    call: maps.Call,
    packed: Optional[int],
    weight: Tensor,
    dtype: torch.dtype,
    stream: Optional[int],
) -> None:
    if packed is None:
        return
    if weight.dtype is not dtype:
        weight = weight.detach().to(dtype)
    weight = _ready(weight)
    is_small = call.plan.weights_bytes < 1 << 16
    call.pack(packed, weight.data_ptr(), stream, stream is not None or is_small)


def _need_rows(tensor: Tensor, rows: int, what: str) -> None:
    if tensor.shape[0] != rows:
        raise InvalidError(
            f"{what} have {tensor.shape[0]} rows and the kernel map has {rows}"
        )


def _forward(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    m: Map,
    packs: Optional[Packs],
) -> Tensor:
    """Returns the outputs of a layer: [rows_out, cout]."""
    bound = _bound(x, weight, m)
    rows_in, rows = bound.rows
    if x.shape[0] != rows_in:
        _need_rows(x, rows_in, "features")
    if rows == 0 or rows_in == 0:
        out = x.new_zeros(rows, bound.cout)
        return out if bias is None else out + bias.to(x.dtype)
    stream = _stream(x)
    out = x.new_empty(rows, bound.cout)
    call = bound.call(m, _abi.SPC_FORWARD, bias is not None, stream)
    keep, packed, work = _pack(call, weight, x, stream, packs, _abi.SPC_FORWARD)
    x = _ready(x)
    if bias is not None:
        bias = _ready(bias.detach().float())
    call.run(
        x.data_ptr(),
        out.data_ptr(),
        packed,
        None if bias is None else bias.data_ptr(),
        work,
        None,
        stream,
        stream is not None or rows < 1000,
    )
    return out


def _backward_input(
    grad: Tensor, weight: Tensor, m: Map, bound: Bound, packs: Optional[Packs]
) -> Tensor:
    """Returns the gradient of the features: [rows_in, cin]."""
    rows = bound.rows[0]
    if grad.shape[0] == 0 or rows == 0:
        return grad.new_zeros(rows, bound.cin)
    stream = _stream(grad)
    out = grad.new_empty(rows, bound.cin)
    call = bound.call(m, _abi.SPC_DGRAD, False, stream)
    keep, packed, work = _pack(
        call, weight, grad, stream, packs, _abi.SPC_DGRAD
    )
    call.run(
        grad.data_ptr(),
        out.data_ptr(),
        packed,
        None,
        work,
        None,
        stream,
        stream is not None or rows < 1000,
    )
    return out


def _backward_weight(
    grad: Tensor, x: Tensor, weight: Tensor, m: Map, bound: Bound
) -> Tensor:
    """Returns the gradient of the weights, in their shape and type."""
    if grad.shape[0] == 0 or x.shape[0] == 0:
        return torch.zeros_like(weight, memory_format=torch.contiguous_format)
    stream = _stream(grad)
    wide = weight.dtype is torch.float32
    out = x.new_empty(weight.shape, dtype=torch.float32 if wide else x.dtype)
    call = bound.call(m, _abi.SPC_WGRAD, wide, stream)
    scratch, work = _bytes(call.work_bytes, x)
    call.run(
        x.data_ptr(),
        out.data_ptr(),
        None,
        None,
        work,
        grad.data_ptr(),
        stream,
        stream is not None or x.shape[0] < 1000,
    )
    return out if wide else out.to(weight.dtype)


def _gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    m: Map,
    needs: Tuple[bool, bool],
    packs: Optional[Packs],
) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    bound = _bound(x, weight, m)
    grad, x = _ready(grad), _ready(x)
    return (
        _backward_input(grad, weight, m, bound, packs) if needs[0] else None,
        _backward_weight(grad, x, weight, m, bound) if needs[1] else None,
    )


class _Conv(torch.autograd.Function):
    """The autograd function of a layer in eager code."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        m: Map,
        packs: Optional[Packs],
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.map, ctx.packs = m, packs
        return _forward(x, weight, bias, m, packs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        need_first(grad)
        x, weight, bias = ctx.saved_tensors
        needs = ctx.needs_input_grad
        dx, dw = _gradients(grad, x, weight, ctx.map, needs[:2], ctx.packs)
        db = _bias_gradient(grad, bias) if needs[2] else None
        return dx, dw, db, None, None


_bare: Any = super(torch.autograd.Function, _Conv).apply


def _apply(*arguments: Any) -> Any:
    """_Conv.apply without the parts that only torch.func's transforms need."""
    if torch._C._are_functorch_transforms_active():
        guarded: Any = _Conv.apply
        return guarded(*arguments)
    return _bare(*arguments)


def need_first(grad: Tensor) -> None:
    """Refuses second derivatives, as gradients are computed outside of
    autograd."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise UnsupportedError(
            "second derivatives of sparse layers are not supported: call "
            "backward() without create_graph"
        )


def _bias_gradient(grad: Tensor, bias: Tensor) -> Tensor:
    return grad.sum(0, dtype=torch.float32).to(bias.dtype)


def _autocast(x: Tensor, weight: Tensor) -> Tensor:
    """Returns the features in the type of the computation: autocast's type if
    it is on, else their own type, which must be that of the weights."""
    kind = "cuda" if x.is_cuda else "cpu" if x.is_cpu else None
    if kind is None:
        raise InvalidError(
            f"features are on '{x.device}'; layers run on 'cpu' and 'cuda'"
        )
    if torch.is_autocast_enabled(kind):
        if x.dtype.is_floating_point and x.dtype != torch.float64:
            x = x.to(torch.get_autocast_dtype(kind))
    elif x.dtype is not weight.dtype:
        raise InvalidError(f"features are {x.dtype} and weights {weight.dtype}")
    return x


def conv(
    x: Tensor,
    weight: Tensor,
    m: AnyMap,
    words: str,
    rows: int,
    bias: Optional[Tensor] = None,
    packs: Optional[Packs] = None,
) -> Tensor:
    """Returns the outputs of a layer, [rows, cout], with gradients.

    x       features [rows of the inputs, cin]: float16, bfloat16, float32
    weight  [cout, kx, ky, kz, cin / groups]
    m       the map, of kernel_map() and the like; words: the layer's geometry
    rows    rows of the outputs
    bias    [cout]

    Runs on torch's current stream. InvalidError: types, devices or sizes do not
    fit each other.
    """
    x = _autocast(x, weight)
    if tape is not None and isinstance(m, Map):
        found = m
        traced: Tensor = tape.layer(
            x,
            weight,
            bias,
            found,
            lambda: _forward(x, weight, bias, found, None),
        )
        return traced
    if isinstance(m, Map):
        if torch.is_grad_enabled() and (
            weight.requires_grad
            or x.requires_grad
            or bias is not None
            and bias.requires_grad
        ):
            out: Tensor = _apply(x, weight, bias, m, packs)
            return out
        return _forward(x, weight, bias, m, packs)
    out = torch.ops.spctune.conv(x, weight, bias, m, rows, words)
    return out


# ---- registered operators ----------------------------------------------------

_library = torch.library.Library("spctune", "DEF")
_library.define("map(Tensor coords, str words) -> Tensor")
_library.define("map_out(Tensor coords, str words) -> (Tensor, Tensor)")
_library.define("map_inverse(Tensor map, str words) -> Tensor")
_library.define("map_join(Tensor coords, Tensor to, str words) -> Tensor")
_library.define(
    "conv(Tensor x, Tensor weight, Tensor? bias, Tensor map, "
    "SymInt rows, str words) -> Tensor"
)
_library.define(
    "conv_backward(Tensor grad, Tensor x, Tensor weight, Tensor map, "
    "str words) -> (Tensor, Tensor)"
)


def _op_map(coords: Tensor, words: str) -> Tensor:
    return _handle(_find_map(coords, words)[0])


def _op_map_out(coords: Tensor, words: str) -> Tuple[Tensor, Tensor]:
    m, out = _find_map(coords, words)
    # An operator's outputs must not alias other tensors, so the cached voxels
    # are copied.
    copy = out.clone()
    _attach(copy, _level(out).coords)
    return _handle(m), copy


def _op_map_inverse(handle: Tensor, words: str) -> Tensor:
    return _handle(maps.inverse_of(_map_of(handle, words)))


def _op_map_join(coords: Tensor, to: Tensor, words: str) -> Tensor:
    return _handle(_join(coords, to, words))


def _op_conv(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    handle: Tensor,
    rows: int,
    words: str,
) -> Tensor:
    m = _map_of(handle, words)
    if rows != m.rows_out:
        raise InvalidError(
            f"the kernel map has {m.rows_out} rows of outputs, not {rows}"
        )
    return _forward(x, weight, bias, m, None)


def _op_conv_backward(
    grad: Tensor, x: Tensor, weight: Tensor, handle: Tensor, words: str
) -> Tuple[Tensor, Tensor]:
    dx, dw = _gradients(
        grad, x, weight, _map_of(handle, words), (True, True), None
    )
    assert dx is not None and dw is not None
    return dx, dw


def _fake_handle(*_: Any) -> Tensor:
    return torch.empty(2, dtype=torch.int64, device="cpu")


def _fake_map_out(coords: Tensor, words: str) -> Tuple[Tensor, Tensor]:
    rows = torch.library.get_ctx().new_dynamic_size()
    return _fake_handle(), coords.new_empty(
        (rows, coords.shape[1]), dtype=torch.int32
    )


def _fake_conv(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    handle: Tensor,
    rows: int,
    words: str,
) -> Tensor:
    return x.new_empty(rows, weight.shape[0])


def _fake_conv_backward(
    grad: Tensor, x: Tensor, weight: Tensor, handle: Tensor, words: str
) -> Tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _op_setup(ctx: Any, inputs: Any, output: Tensor) -> None:
    x, weight, bias, handle, _, words = inputs
    ctx.save_for_backward(x, weight, bias, handle)
    ctx.words = words


def _op_backward(ctx: Any, grad: Tensor) -> Any:
    x, weight, bias, handle = ctx.saved_tensors
    dx, dw = torch.ops.spctune.conv_backward(
        grad.contiguous(), x, weight, handle, ctx.words
    )
    db = _bias_gradient(grad, bias) if bias is not None else None
    return dx, dw, db, None, None, None


class _Operator(NamedTuple):
    run: Any
    fake: Any


for _name, _operator in {
    "map": _Operator(_op_map, _fake_handle),
    "map_out": _Operator(_op_map_out, _fake_map_out),
    "map_inverse": _Operator(_op_map_inverse, _fake_handle),
    "map_join": _Operator(_op_map_join, _fake_handle),
    "conv": _Operator(_op_conv, _fake_conv),
    "conv_backward": _Operator(_op_conv_backward, _fake_conv_backward),
}.items():
    # Handles, by which maps are found, are on the CPU for every device.
    _library.impl(_name, _operator.run, "CompositeExplicitAutograd")
    torch.library.register_fake(
        f"spctune::{_name}", _operator.fake, lib=_library
    )
torch.library.register_autograd(
    "spctune::conv", _op_backward, setup_context=_op_setup, lib=_library
)
