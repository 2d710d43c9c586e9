# SPDX-License-Identifier: Apache-2.0
"""Sparse convolution in JAX, through XLA's foreign function interface.

    m = spctune.jax.make_map(coords, "subm,k=3")        # outside of jit
    y = jax.jit(lambda x, w: spctune.jax.conv(x, w, m))(x, w)

Voxels are int32 rows (batch, x, y, z), features [rows, channels], and weights
[cout, kx, ky, kz, cin / groups]: float16, bfloat16, float32. A map is made of
concrete voxels, outside of jit, and functions that use it are compiled for it.
The library computes gradients; vmap is refused.

The first use compiles jax_calls.c with $CC (cc), against JAX's own header.
"""

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
import weakref
from typing import Any, Dict, Optional, Tuple

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy

from . import _abi
from ._lib import InvalidError, UnsupportedError, lib
from .context import Context
from .maps import Coords, Map, inverse_of, join, layer_of
from .maps import make_map as _make_map

__all__ = ["JaxMap", "conv", "inverse_map", "join_maps", "make_map"]

_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}
_TARGET = "spctune_run"
_with_vmap: Any = jax.custom_batching.custom_vmap


# ---- the handlers ------------------------------------------------------------


class _Call(ctypes.Structure):
    """The struct `call` of jax_calls.c."""

    _fields_ = [
        ("ctx", ctypes.c_void_p),
        ("plan", ctypes.c_void_p),
        ("map", ctypes.c_void_p),
        ("packed_bytes", ctypes.c_size_t),
        ("work_bytes", ctypes.c_size_t),
        ("which", ctypes.c_int),
        ("krsc", ctypes.c_int),
        ("on_cuda", ctypes.c_bool),
    ]


def _built() -> str:
    """Returns the path of the compiled handlers, which are compiled once for
    each header and source."""
    include = jax.ffi.include_dir()
    source = os.path.join(os.path.dirname(__file__), "jax_calls.c")
    header = os.path.join(include, "xla", "ffi", "api", "c_api.h")
    digest = hashlib.sha256()
    for path in (source, header):
        with open(path, "rb") as file:
            digest.update(file.read())
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(home, "spctune")
    found = os.path.join(folder, f"jax-{digest.hexdigest()[:16]}.so")
    if os.path.exists(found):
        return found
    os.makedirs(folder, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = os.path.join(work, "made.so")
        flags = ["-std=c11", "-O2", "-fPIC", "-shared", "-pthread"]
        command = [*compiler, *flags, "-I", include, source, "-o", made]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise ImportError(
                f"spctune.jax needs a C compiler to compile {source}: "
                f"{error}; set CC to one"
            ) from None
        if done.returncode:
            raise ImportError(f"{shlex.join(command)}: {done.stderr}")
        os.replace(made, found)
    return found


@functools.lru_cache(maxsize=None)
def _handlers() -> Any:
    """Loads the handlers and registers them with JAX."""
    loaded = ctypes.CDLL(_built())
    loaded.spc_jax_buffers_bytes.restype = ctypes.c_size_t
    loaded.spc_jax_add.restype = ctypes.c_int64
    loaded.spc_jax_add.argtypes = [ctypes.POINTER(_Call)]
    loaded.spc_jax_end.argtypes = [ctypes.c_int64]
    loaded.spc_jax_end.restype = None
    if loaded.spc_jax_buffers_bytes() != ctypes.sizeof(_abi.spc_buffers):
        raise ImportError("jax_calls.c is of another version than _abi.py")
    functions = [lib.spc_plan_execute, lib.spc_plan_pack, lib.spc_ctx_error]
    table = (ctypes.c_void_p * 3)(
        *(ctypes.cast(f, ctypes.c_void_p).value for f in functions)
    )
    loaded.spc_jax_use(table)
    for platform, handler in (
        ("cpu", loaded.spc_jax_cpu),
        ("CUDA", loaded.spc_jax_cuda),
    ):
        jax.ffi.register_ffi_target(
            _TARGET, jax.ffi.pycapsule(handler), platform=platform
        )
    return loaded


# ---- maps --------------------------------------------------------------------


class JaxMap:
    """A kernel map. `rows_in` and `rows_out` are the numbers of rows of
    features. Keep the map as long as compiled functions that use it run."""

    def __init__(self, m: Map) -> None:
        self.map, self.words = m, m.words
        self.rows_in, self.rows_out = m.rows_in, m.rows_out
        self._calls: Dict[Any, Tuple[int, int]] = {}

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
        out = numpy.empty((side.rows, 4), numpy.int32)
        ctx = relation.ctx
        ctx.check(
            lib.spc_memory_download(out.ctypes.data, ctx.ptr, data, out.nbytes)
        )
        return jnp.asarray(out)

    def call(self, shape: Any, dtype: str, which: int) -> Tuple[int, int]:
        """Returns the number of a pass with weights of this shape, and the
        bytes of memory that the pass needs. May compile the first time."""
        key = (tuple(shape), dtype, which)
        found = self._calls.get(key)
        if found is None:
            found = self._calls[key] = self._add(shape, dtype, which)
        return found

    def _add(self, shape: Any, dtype: str, which: int) -> Tuple[int, int]:
        relation, loaded = self.map.relation, _handlers()
        layer = layer_of(self.words, shape[4], shape[0], 1, dtype)
        made = relation.call(layer, which, False, None)
        relation.ctx.check(lib.spc_ctx_synchronize(relation.ctx.ptr))
        # XLA runs programs on its own streams; refilling a map has to wait for
        # them.
        made.table.is_shared = True
        packed = (made.plan.weights_bytes + 255) // 256 * 256
        call = _Call(
            relation.ctx.ptr,
            made.plan.ptr,
            made.table.ptr,
            packed,
            made.work_bytes,
            which,
            _abi.SPC_KRSC,
            relation.ctx.kind == "cuda",
        )
        number = int(loaded.spc_jax_add(call))
        if number < 0:
            raise MemoryError("no memory for a call of a layer")
        # A call ends before its map does.
        weakref.finalize(self, loaded.spc_jax_end, number)
        return number, packed + made.work_bytes + 256

    def __repr__(self) -> str:
        return (
            f"<spctune map '{self.words}' {self.rows_in} -> {self.rows_out} "
            f"rows on {self.map.relation.ctx.device}>"
        )


def _set_of(coords: Any, what: str) -> Coords:
    """Returns the set of concrete voxels."""
    if isinstance(coords, jax.core.Tracer):
        raise UnsupportedError(
            "kernel maps are made of voxels that are there: call make_map() "
            "outside of jit, grad and vmap"
        )
    array = jnp.asarray(coords, jnp.int32)
    if array.ndim != 2 or array.shape[1] != 4:
        raise InvalidError(
            f"{what} has the shape {tuple(array.shape)}; it is [rows, 4]"
        )
    array.block_until_ready()
    (device,) = array.devices()
    if device.platform == "cpu":
        rows = numpy.ascontiguousarray(array)
        if rows.ctypes.data % 16:
            rows = rows.copy()
        ctx, address = Context.get("cpu"), rows.ctypes.data
    elif device.platform == "gpu":
        rows, ctx = array, Context.get(f"cuda:{device.local_hardware_id}")
        address = array.unsafe_buffer_pointer()
    else:
        raise InvalidError(f"no spctune device for JAX's '{device.platform}'")
    return Coords.of_rows(
        ctx,
        address,
        len(rows),
        None,
        lambda: (rows.min(0).tolist(), rows.max(0).tolist()),
    )


def make_map(coords: Any, words: str) -> JaxMap:
    """The kernel map of a layer over voxels, on the device of the voxels.

    coords  int32 [rows, 4]: batch, x, y, z; each voxel once
    words   operator and geometry: "subm,k=3", "conv,k=2,stride=2,rule=floor",
            "generative,k=3,stride=2"

    InvalidError: a bad word, equal voxels, or a wrong shape. UnsupportedError:
    within jit.
    """
    return JaxMap(_make_map(_set_of(coords, "coords"), words))


def inverse_map(forward: JaxMap) -> JaxMap:
    """The map of the layer that inverts a strided layer: its outputs are the
    strided layer's inputs, in their order."""
    return JaxMap(inverse_of(forward.map))


def join_maps(coords_in: Any, coords_out: Any, words: str) -> JaxMap:
    """The map of a layer between two given sets of voxels: "conv,k=3,
    stride=2,rule=given" or "transposed,k=3,stride=2"."""
    ends = _set_of(coords_in, "coords_in"), _set_of(coords_out, "coords_out")
    return JaxMap(join(*ends, words))


# ---- layers ------------------------------------------------------------------


def _run(m: JaxMap, which: int, shape: Any, out: Any, *operands: Any) -> Any:
    """Runs a pass of the layer with weights of this shape and returns the
    result `out`."""
    dtype = _NAMES[str(out.dtype)]
    number, size = m.call(shape, dtype, which)
    scratch = jax.ShapeDtypeStruct((size,), jnp.uint8)

    def run(*given: Any) -> Any:
        call = jax.ffi.ffi_call(_TARGET, (out, scratch))
        return call(*given, number=numpy.int64(number))[0]

    guarded = _with_vmap(run)
    guarded.def_vmap(_refuse)
    return guarded(*operands)


def _refuse(*_: Any) -> Any:
    raise UnsupportedError(
        "vmap over a sparse layer is not supported: put the elements into one "
        "tensor of voxels, with their numbers in the batch column"
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _conv(m: JaxMap, x: Any, weight: Any) -> Any:
    out = jax.ShapeDtypeStruct((m.rows_out, weight.shape[0]), x.dtype)
    return _run(m, _abi.SPC_FORWARD, weight.shape, out, x, weight)


def _forward(m: JaxMap, x: Any, weight: Any) -> Any:
    return _conv(m, x, weight), (x, weight)


def _backward(m: JaxMap, kept: Any, grad: Any) -> Any:
    x, weight = kept
    like_x = jax.ShapeDtypeStruct(x.shape, x.dtype)
    like_w = jax.ShapeDtypeStruct(weight.shape, weight.dtype)
    shape = weight.shape
    return (
        _run(m, _abi.SPC_DGRAD, shape, like_x, grad, weight),
        _run(m, _abi.SPC_WGRAD, shape, like_w, x, grad),
    )


_conv.defvjp(_forward, _backward)


def conv(x: Any, weight: Any, m: JaxMap, bias: Optional[Any] = None) -> Any:
    """Returns the layer's outputs [rows_out, cout], inside or outside of jit,
    with gradients.

    x       features [rows_in, cin], of the type of the weights
    weight  [cout, kx, ky, kz, cin]: float16, bfloat16, float32
    bias    [cout]

    InvalidError: shapes or types do not fit. UnsupportedError: vmap. XLA raises
    an error with the library's sentence if the map has ended or is on another
    device.
    """
    if weight.ndim != 5 or str(weight.dtype) not in _NAMES:
        raise InvalidError(
            f"weight is {weight.dtype} {tuple(weight.shape)}; it is [cout, kx, "
            f"ky, kz, cin], one of {', '.join(_NAMES)}"
        )
    if x.dtype != weight.dtype:
        raise InvalidError(f"x is {x.dtype} and weight {weight.dtype}")
    if x.shape != (m.rows_in, weight.shape[4]):
        raise InvalidError(
            f"x has the shape {tuple(x.shape)}; with this map and weight it "
            f"is [{m.rows_in}, {weight.shape[4]}]"
        )
    if m.rows_in and m.rows_out:
        y = _conv(m, x, weight)
    else:
        y = jnp.zeros((m.rows_out, weight.shape[0]), x.dtype)
    return y if bias is None else y + bias.astype(y.dtype)
