# SPDX-License-Identifier: Apache-2.0
"""Sparse convolution on arrays: NumPy on the processor, CuPy on a GPU.

    coords = numpy.array([[0, 1, 2, 3], ...], dtype=numpy.int32)
    m = spctune.array.make_map(coords, "subm,k=3")
    y = spctune.array.conv(x, weight, m)

Voxels are int32 rows (batch, x, y, z), features [rows, channels], and weights
[cout, kx, ky, kz, cin / groups]. Other arrays of the DLPack protocol are read
without a copy where NumPy or CuPy can do so.
"""

from typing import Any, Optional, Tuple

from . import _abi
from ._lib import InvalidError
from .context import Context
from .maps import Coords, Layer, Map, inverse_of, join, layer_of
from .maps import make_map as _make_map

__all__ = [
    "ArrayMap",
    "conv",
    "conv_gradients",
    "inverse_map",
    "join_maps",
    "make_map",
]

_NAMES = {"float16": "f16", "float32": "f32", "bfloat16": "bf16"}


class _Library:
    """The functions of a device's array library that this module needs."""

    def __init__(self, device: str, module: Any, stream: Optional[int]) -> None:
        self.device, self.module, self.stream = device, module, stream

    def bytes(self, size: int) -> Tuple[Any, int]:
        """Returns an array of bytes, and an address in it that is a multiple of
        256."""
        memory = self.module.empty(size + 256, dtype="uint8")
        return memory, -(-_address(memory) // 256) * 256


def _address(array: Any) -> int:
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        interface = array.__array_interface__
    return int(interface["data"][0])


def _as_array(value: Any) -> Tuple[_Library, Any]:
    """Returns an array and its library."""
    if hasattr(value, "__cuda_array_interface__"):
        import cupy  # type: ignore[import-not-found, unused-ignore]

        array = cupy.asarray(value)
        return (
            _Library(
                f"cuda:{array.device.id}",
                cupy,
                cupy.cuda.get_current_stream().ptr,
            ),
            array,
        )
    try:
        import numpy
    except ImportError:
        raise ImportError(
            "spctune.array needs numpy (or cupy, for a GPU): pip install numpy"
        ) from None
    if hasattr(value, "__dlpack__") and not isinstance(value, numpy.ndarray):
        return _Library("cpu", numpy, None), numpy.from_dlpack(value)
    return _Library("cpu", numpy, None), numpy.asarray(value)


def _matrix(
    library: _Library, value: Any, what: str, columns: int, dtype: Any = None
) -> Any:
    """Returns a contiguous matrix at a multiple of 16 bytes."""
    other, array = _as_array(value)
    if other.device != library.device:
        raise InvalidError(
            f"{what} is on {other.device} and the map on {library.device}"
        )
    if array.ndim != 2 or array.shape[1] != columns:
        raise InvalidError(
            f"{what} has the shape {tuple(array.shape)}; it is "
            f"[rows, {columns}]"
        )
    array = library.module.ascontiguousarray(array, dtype=dtype)
    if _address(array) % 16:
        array = array.copy()
    return array


def _set_of(library: _Library, coords: Any, what: str) -> Coords:
    rows = _matrix(library, coords, what, 4, "int32")
    return Coords.of_rows(
        Context.get(library.device),
        _address(rows),
        len(rows),
        library.stream,
        lambda: (rows.min(0).tolist(), rows.max(0).tolist()),
    )


class ArrayMap:
    """A kernel map for arrays. `rows_in` and `rows_out` are the numbers of rows
    of features."""

    def __init__(self, m: Map, library: _Library) -> None:
        self.map, self._library = m, library
        self.rows_in, self.rows_out = m.rows_in, m.rows_out
        self.words = m.words

    def coords(self) -> Any:
        """The voxels of the outputs, int32 [rows_out, 4], in the order of the
        output rows. InvalidError: the outputs are the caller's own voxels."""
        relation = self.map.relation
        side = relation.fine if self.map.inverse else relation.coarse
        data = side.data()
        if data is None:
            raise InvalidError(
                f"the outputs of '{self.words}' are voxels that the caller has"
            )
        module = self._library.module
        out = module.empty((side.rows, 4), dtype="int32")
        if side.rows:
            relation.ctx.copy(_address(out), data, out.nbytes)
        return out

    def __repr__(self) -> str:
        return (
            f"<spctune map '{self.words}' {self.rows_in} -> "
            f"{self.rows_out} rows on {self._library.device}>"
        )


def make_map(coords: Any, words: str) -> ArrayMap:
    """The kernel map of a layer over voxels.

    coords  int32 [rows, 4]: batch, x, y, z; each voxel once
    words   operator and geometry: "subm,k=3", "conv,k=2,stride=2,rule=floor",
            "generative,k=3,stride=2"

    InvalidError: a bad word, equal voxels, or a wrong shape.
    """
    library, _ = _as_array(coords)
    return ArrayMap(
        _make_map(_set_of(library, coords, "coords"), words), library
    )


def inverse_map(forward: ArrayMap) -> ArrayMap:
    """The map of the layer that inverts a strided layer: its outputs are the
    strided layer's inputs, in their order."""
    return ArrayMap(inverse_of(forward.map), forward._library)


def join_maps(coords_in: Any, coords_out: Any, words: str) -> ArrayMap:
    """The map of a layer between two given sets of voxels: "conv,k=3,
    stride=2,rule=given" or "transposed,k=3,stride=2"."""
    library, _ = _as_array(coords_in)
    ends = (
        _set_of(library, coords_in, "coords_in"),
        _set_of(library, coords_out, "coords_out"),
    )
    return ArrayMap(join(*ends, words), library)


def _layer(m: ArrayMap, weight: Any, deterministic: bool) -> Tuple[Any, Layer]:
    """Returns the weights as a contiguous array, and their layer."""
    _, array = _as_array(weight)
    if array.ndim != 5:
        raise InvalidError(
            f"weight has the shape {tuple(array.shape)}; it is "
            "[cout, kx, ky, kz, cin / groups]"
        )
    name = _NAMES.get(str(array.dtype))
    if name is None:
        raise InvalidError(
            f"weight is {array.dtype}; types are " + ", ".join(_NAMES)
        )
    array = m._library.module.ascontiguousarray(array)
    return array, layer_of(
        m.words, array.shape[4], array.shape[0], 1, name, deterministic
    )


def _features(
    m: ArrayMap, value: Any, what: str, rows: int, channels: int, weight: Any
) -> Any:
    array = _matrix(m._library, value, what, channels)
    if array.dtype != weight.dtype:
        raise InvalidError(f"{what} is {array.dtype} and weight {weight.dtype}")
    if len(array) != rows:
        raise InvalidError(f"{what} has {len(array)} rows and the map {rows}")
    return array


def _run(
    m: ArrayMap,
    layer: Layer,
    which: int,
    out: Any,
    inputs: Any,
    weight: Any = None,
    grad: Any = None,
    bias: Any = None,
) -> None:
    library = m._library
    call = m.map.relation.call(layer, which, bias is not None, library.stream)
    memory, packed = library.bytes(call.plan.weights_bytes)
    scratch, work = library.bytes(call.work_bytes)
    if weight is not None:
        call.pack(packed, _address(weight), library.stream)
    call.run(
        _address(inputs),
        _address(out),
        packed if weight is not None else None,
        None if bias is None else _address(bias),
        work,
        None if grad is None else _address(grad),
        library.stream,
        False,
    )
    del memory, scratch  # until here


def conv(
    x: Any,
    weight: Any,
    m: ArrayMap,
    bias: Any = None,
    deterministic: bool = False,
) -> Any:
    """Returns the layer's outputs [rows_out, cout].

    x       features [rows_in, cin], of the type of the weights
    weight  [cout, kx, ky, kz, cin]: float16, float32 (or bfloat16)
    bias    [cout], float32

    InvalidError: shapes or types do not fit. The first use of a layer waits for
    its kernel; on a GPU the result is ready on the current stream.
    """
    weight, layer = _layer(m, weight, deterministic)
    x = _features(m, x, "x", m.rows_in, layer.cin, weight)
    module = m._library.module
    if bias is not None:
        bias = module.ascontiguousarray(bias, dtype="float32")
        if bias.shape != (layer.cout,):
            raise InvalidError(
                f"bias has the shape {tuple(bias.shape)}; it is [{layer.cout}]"
            )
    out = module.zeros((m.rows_out, layer.cout), dtype=weight.dtype)
    if m.rows_out and m.rows_in:
        _run(m, layer, _abi.SPC_FORWARD, out, x, weight, None, bias)
    elif bias is not None:
        out[:] = bias
    return out


def conv_gradients(
    grad: Any, x: Any, weight: Any, m: ArrayMap, deterministic: bool = False
) -> Tuple[Any, Any]:
    """Returns the gradients of x and of weight. `grad` [rows_out, cout] is the
    gradient of the outputs. Shapes and errors are those of conv()."""
    weight, layer = _layer(m, weight, deterministic)
    x = _features(m, x, "x", m.rows_in, layer.cin, weight)
    grad = _features(m, grad, "grad", m.rows_out, layer.cout, weight)
    module = m._library.module
    grad_x = module.zeros((m.rows_in, layer.cin), dtype=weight.dtype)
    grad_w = module.zeros(weight.shape, dtype=weight.dtype)
    if m.rows_out and m.rows_in:
        _run(m, layer, _abi.SPC_DGRAD, grad_x, grad, weight)
        _run(m, layer, _abi.SPC_WGRAD, grad_w, x, None, grad)
    return grad_x, grad_w
