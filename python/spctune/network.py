# SPDX-License-Identifier: Apache-2.0
"""Networks: a graph of layers, and its plan on a device.

A `Graph` is a value on the host: layers, weights, outputs. A `Network` is the
graph on a device, for scenes of up to `capacity` voxels. One call runs all of
it, indexing included; on a GPU that is one CUDA graph.
"""

import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from . import _abi
from ._lib import InvalidError, check, fast, lib, new
from .context import Context
from .maps import DTYPES

__all__ = ["Graph", "Network", "Output", "Step", "Verdict"]

NO_TENSOR = -1
_TORCH = {
    _abi.SPC_F16: torch.float16,
    _abi.SPC_BF16: torch.bfloat16,
    _abi.SPC_F32: torch.float32,
    _abi.SPC_TF32: torch.float32,
}
_KINDS = ("voxels", "set", "map", "conv", "feature", "gather")
_MATCHES = ("exact", "bucket", "nearest", "default")


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


# ---- the graph ---------------------------------------------------------------


class Graph:
    """Layers, weights and outputs. Tensors are numbers from 0.

    Layers are words, as in a network's file: "subm,cin=16,cout=32,k=3,
    dtype=f16,epilogue=scale+bias+relu" (spc/layer.h), "add,c=64,act=relu,
    dtype=f16" (spc/features.h). Each method raises InvalidError with a sentence
    for a bad layer, and the graph stays as it was.
    """

    def __init__(self, name: str) -> None:
        pointer, error = ctypes.c_void_p(), _abi.spc_error()
        check(lib.spc_net_create(pointer, name.encode(), error), error)
        self.ptr: Optional[int] = pointer.value
        self.name = name

    @classmethod
    def opened(cls, ctx: Context, name: str) -> "Graph":
        """Reads the network of that name from a context's database.
        NotFoundError."""
        pointer = ctypes.c_void_p()
        with ctx.calling():
            ctx.check(lib.spc_net_open(pointer, ctx.ptr, name.encode()))
        graph = cls.__new__(cls)
        graph.ptr, graph.name = pointer.value, name
        return graph

    def __del__(self) -> None:
        pointer = getattr(self, "ptr", None)
        if pointer is not None:
            lib.spc_net_free(pointer)

    def input(
        self,
        channels: int,
        dtype: str,
        shape: Sequence[int] = (0, 0, 0),
        name: str = "x",
    ) -> int:
        """Adds the only input. shape: voxels along each axis, from 0; 0: any
        number."""
        out, error = ctypes.c_int(), _abi.spc_error()
        what = new(
            _abi.spc_net_input,
            name=name.encode(),
            channels=channels,
            dtype=DTYPES[dtype],
            shape=(ctypes.c_int * 3)(*shape),
        )
        check(
            lib.spc_net_add_input(ctypes.byref(out), self.ptr, what, error),
            error,
        )
        return out.value

    def conv(
        self,
        x: int,
        words: str,
        name: str,
        residual: int = NO_TENSOR,
        at: int = NO_TENSOR,
        key: Optional[str] = None,
    ) -> int:
        """Adds a convolution. residual: the tensor that its epilogue adds; at:
        the tensor whose rows are the outputs of an inverse layer."""
        out, error = ctypes.c_int(), _abi.spc_error()
        layer = new(
            _abi.spc_net_layer,
            name=name.encode(),
            in_=x,
            residual=residual,
            at=at,
            key=None if key is None else key.encode(),
        )
        check(lib.spc_conv_parse(layer.conv, words.encode(), error), error)
        check(
            lib.spc_net_add_conv(ctypes.byref(out), self.ptr, layer, error),
            error,
        )
        return out.value

    def feature(
        self,
        x: int,
        words: str,
        name: Optional[str] = None,
        add: int = NO_TENSOR,
        at: int = NO_TENSOR,
    ) -> int:
        """Adds an operator on features."""
        out, error = ctypes.c_int(), _abi.spc_error()
        what = new(_abi.spc_feature)
        check(lib.spc_feature_parse(what, words.encode(), error), error)
        check(
            lib.spc_net_add_feature(
                ctypes.byref(out),
                self.ptr,
                None if name is None else name.encode(),
                what,
                x,
                add,
                at,
                error,
            ),
            error,
        )
        return out.value

    def concat(self, parts: Sequence[int]) -> int:
        """Concatenates the channels of several tensors."""
        out, error = ctypes.c_int(), _abi.spc_error()
        array = (ctypes.c_int * len(parts))(*parts)
        check(
            lib.spc_net_add_concat(
                ctypes.byref(out), self.ptr, array, len(parts), error
            ),
            error,
        )
        return out.value

    def output(self, x: int, name: str) -> None:
        """Makes a tensor an output."""
        error = _abi.spc_error()
        check(lib.spc_net_add_output(self.ptr, x, name.encode(), error), error)

    def set_param(self, layer: str, which: int, values: Tensor) -> None:
        """Sets an operand of a layer: SPC_OPERAND_WEIGHTS, [cout][K]
        [cin / groups], SPC_OPERAND_SCALE or SPC_OPERAND_BIAS."""
        error = _abi.spc_error()
        values = values.detach().to("cpu", torch.float32).contiguous()
        check(
            lib.spc_net_set_param(
                self.ptr,
                layer.encode(),
                which,
                values.data_ptr(),
                values.numel(),
                error,
            ),
            error,
        )

    def describe(self) -> Any:
        """Returns the spc_net_info."""
        info = _abi.spc_net_info()
        lib.spc_net_describe(info, self.ptr)
        return info

    def notes(self) -> List[str]:
        """Notes that are not errors, as sentences."""
        found: List[str] = []
        while True:
            note = lib.spc_net_note_at(self.ptr, len(found))
            if note is None:
                return found
            found.append(_text(note))

    def store(
        self,
        ctx: Context,
        name: str,
        source: str = "python",
        replace: bool = False,
    ) -> None:
        """Stores graph and weights in a context's database."""
        with ctx.calling():
            ctx.check(
                lib.spc_net_store(
                    ctx.ptr, self.ptr, name.encode(), source.encode(), replace
                )
            )


# ---- results of a run --------------------------------------------------------


class Output(NamedTuple):
    """An output of a network.

    features  [rows, channels], or dense [batches, elements]
    coords    int32 [rows, 4], the voxels of the rows; None where they are the
              input's, or the output is dense
    """

    features: Tensor
    coords: Optional[Tensor]


class Step(NamedTuple):
    """A step of a run: what it does, its kernel, and times in microseconds (0
    where they were not measured)."""

    kind: str
    name: str
    text: str
    kernel: str
    match: str
    rows_in: int
    rows_out: int
    density: float
    us: float
    floor_us: float


class Verdict(NamedTuple):
    """layers: number of layers that were compared with the oracle; error: the
    largest difference over its tolerance (at most 1 passes); worst: the layer
    that has it."""

    layers: int
    error: float
    worst: str


# The lowest and the highest voxel of scenes, with three numbers each.
Extent = Tuple[Sequence[int], Sequence[int]]


def extent_around(coords: Tensor) -> Optional[Extent]:
    """Returns the extent of voxels [rows, 4], enlarged by its size on each
    side."""
    rows = coords.detach()[:, 1:].to("cpu", torch.int64)
    if len(rows) == 0:
        return None
    low, high = rows.min(0).values, rows.max(0).values
    margin = torch.clamp(high - low, min=64)
    return (low - margin).tolist(), (high + margin).tolist()


# ---- the plan ----------------------------------------------------------------


class Network:
    """A graph on a device.

    graph     with all weights set; the graph cannot change any more
    device    "cpu", "cuda:0"
    capacity  the most voxels of a scene
    batches   the most batch elements of a scene
    sample    int32 [rows, 4]: a scene whose sizes choose the kernels
    growth    room of strided sets, as a multiple of the capacity
    keep      keeps every tensor, for verify()
    extent    (low, high): the voxels of scenes, both ends included, three
              numbers each; only for graphs whose input has no shape. None: the
              sample's extent, enlarged by its size on each side

    One thread at a time runs a network. Its outputs are its memory, which the
    next run overwrites.
    """

    def __init__(
        self,
        graph: Graph,
        device: Union[str, Context],
        capacity: int,
        batches: int = 1,
        sample: Optional[Tensor] = None,
        growth: float = 2.0,
        keep: bool = False,
        extent: Optional[Extent] = None,
    ) -> None:
        self.graph = graph
        self.ctx = (
            device if isinstance(device, Context) else Context.get(device)
        )
        self.capacity, self.batches, self.keep = capacity, batches, keep
        where = self.ctx.device
        self._where = torch.device("cpu" if where == "sim" else where)
        info = graph.describe()
        self.channels = int(info.input.contents.channels)
        self.dtype = _TORCH[info.input.contents.dtype]
        self._plan(sample, growth, extent)
        self._reserve()
        self._rows = 0

    def _plan(
        self,
        sample: Optional[Tensor],
        growth: float,
        extent: Optional[Extent],
    ) -> None:
        is_free = not any(self.graph.describe().input.contents.shape)
        if extent is None and is_free and sample is not None:
            extent = extent_around(sample)
        low, high = extent or ((0, 0, 0), (0, 0, 0))
        words = new(
            _abi.spc_net_options,
            capacity=self.capacity,
            growth=growth,
            keep=self.keep,
            flags=_abi.SPC_PLAN_JIT,
            low=(ctypes.c_int32 * 4)(0, *low),
            high=(ctypes.c_int32 * 4)(self.batches - 1, *high),
        )
        if sample is not None:
            sample = sample.detach().to("cpu", torch.int32).contiguous()
            words.sample, words.sample_rows = sample.data_ptr(), len(sample)
        pointer = ctypes.c_void_p()
        with self.ctx.calling():
            self.ctx.check(
                lib.spc_net_plan_create(
                    pointer, self.ctx.ptr, self.graph.ptr, words
                )
            )
        self.ptr: Optional[int] = pointer.value

    def __del__(self) -> None:
        if getattr(self, "ptr", None) is not None:
            self.ctx.release(lib.spc_net_plan_free, self.ptr)

    def _reserve(self) -> None:
        """Allocates memory of the plan, and the buffers that a captured graph
        reads."""
        size = int(lib.spc_net_plan_memory_bytes(self.ptr))
        self._memory = torch.empty(
            size + 256, dtype=torch.uint8, device=self._where
        )
        self._start = -self._memory.data_ptr() % 256
        self._coords = torch.zeros(
            (self.capacity, 4), dtype=torch.int32, device=self._where
        )
        self._features = torch.zeros(
            (self.capacity, self.channels), dtype=self.dtype, device=self._where
        )
        self._count = torch.zeros(1, dtype=torch.int32, device=self._where)
        self._counted = 0  # what it has
        self._buffers = new(
            _abi.spc_net_buffers,
            coords=self._coords.data_ptr(),
            features=self._features.data_ptr(),
            memory=self._memory.data_ptr() + self._start,
        )
        self._is_captured = False
        outputs = self.graph.describe().outputs
        self.output_names = []
        self._outputs = []
        for i in range(outputs):
            out = _abi.spc_net_output()
            self.ctx.check(lib.spc_net_plan_output_at(out, self.ptr, i))
            self._outputs.append(out)
            self.output_names.append(_text(out.name))

    @property
    def memory_bytes(self) -> int:
        """Bytes of device memory that the network keeps: tensors, workspace and
        packed weights."""
        weights = int(lib.spc_net_plan_weights_bytes(self.ptr))
        return (
            self._memory.numel()
            + weights
            + self._features.numel() * self._features.element_size()
            + self._coords.numel() * 4
        )

    def _stream(self) -> Optional[int]:
        if self._where.type == "cpu":
            return None
        stream: int = torch._C._cuda_getCurrentRawStream(self._where.index or 0)
        return stream

    def _take(self, features: Tensor, coords: Tensor) -> None:
        rows = len(coords)
        if features.dim() != 2 or features.shape != (rows, self.channels):
            raise InvalidError(
                f"features have the shape "
                f"{tuple(features.shape)}; the network takes "
                f"[{rows}, {self.channels}]"
            )
        if rows > self.capacity:
            raise InvalidError(
                f"a scene of {rows} voxels does not fit the "
                f"capacity of {self.capacity}"
            )
        self._coords[:rows].copy_(coords)
        self._features[:rows].copy_(features)
        self._rows = rows

    def run(self, features: Tensor, coords: Tensor) -> None:
        """Runs a scene: features [rows, channels], coords [rows, 4] (batch and
        three coordinates), each voxel once. Enqueues on the current stream and
        returns; finish() waits."""
        self._take(features, coords)
        self.ctx.need_own()
        stream = self._stream()
        if stream is None:
            self._buffers.rows = self._rows
            self.ctx.check(
                lib.spc_net_plan_execute(self.ptr, self._buffers, None)
            )
            return
        if self._counted != self._rows:
            self._count.fill_(self._rows)
            self._counted = self._rows
        if not self._is_captured:
            self._buffers.count = self._count.data_ptr()
            with self.ctx.calling():
                self.ctx.check(
                    lib.spc_net_plan_capture(self.ptr, self._buffers)
                )
            self._is_captured = True
        self.ctx.check(fast.spc_net_plan_replay(self.ptr, stream))

    def finish(self) -> None:
        """Waits, and raises Error if a level did not fit, two voxels were
        equal, or one lay outside of the shape."""
        self.ctx.check(lib.spc_net_plan_check(self.ptr, self._stream()))

    def is_dense(self, i: int) -> bool:
        """Returns whether output i is dense, so that features(i) needs no
        finish()."""
        return bool(self._outputs[i].dense)

    def features(self, i: int) -> Tensor:
        """Returns the features of output i of a finished run, as a view of the
        memory: [rows, channels], or dense [batches, elements]."""
        out = self._outputs[i]
        dtype = _TORCH[out.dtype]
        rows = (
            int(out.batches) if out.dense else int(lib.spc_coords_rows(out.set))
        )
        size = rows * int(out.elements) * dtype.itemsize
        start = self._start + int(out.offset)
        memory = self._memory[start : start + size]
        return memory.view(dtype).view(rows, int(out.elements))

    def voxels(self, i: int) -> Optional[Tensor]:
        """Returns a copy of the voxels of output i's rows; None if they are the
        input's voxels, or the output is dense."""
        out = self._outputs[i]
        if out.dense:
            return None
        return self._set_coords(out.set, int(lib.spc_coords_rows(out.set)))

    def output(self, i: int) -> Output:
        """Returns output i of a finished run."""
        return Output(self.features(i), self.voxels(i))

    def _set_coords(self, handle: int, rows: int) -> Optional[Tensor]:
        """Returns a copy of the voxels of a set; None for the input's set,
        whose rows the caller has."""
        data = lib.spc_coords_data(handle)
        if not data:
            return None
        coords = torch.empty((rows, 4), dtype=torch.int32, device=self._where)
        if rows == 0:
            return coords
        if self._where.type == "cpu":
            ctypes.memmove(coords.data_ptr(), data, coords.numel() * 4)
        else:
            self._copy_on_device(coords, data)
        return coords

    def _copy_on_device(self, coords: Tensor, data: int) -> None:
        """Returns a tensor over the library's memory, by the CUDA array
        interface."""

        class Rows:
            __cuda_array_interface__ = {
                "shape": tuple(coords.shape),
                "typestr": "<i4",
                # PyTorch refuses the flag "read only", although it only reads.
                "data": (data, False),
                "version": 2,
            }

        coords.copy_(torch.as_tensor(Rows(), device=self._where))

    def __call__(self, features: Tensor, coords: Tensor) -> Dict[str, Output]:
        """Runs a scene and waits. Returns the outputs by name; they are the
        network's memory until the next run."""
        self.run(features, coords)
        self.finish()
        return {
            name: self.output(i) for i, name in enumerate(self.output_names)
        }

    # ---- inspection ----------------------------------------------------------

    def steps(self) -> List[Step]:
        """Returns the steps of a run, with the rows and densities of the last
        finish()."""
        return [
            self._step(i, 0, 0)
            for i in range(lib.spc_net_plan_step_count(self.ptr))
        ]

    def _step(self, i: int, us: float, floor_us: float) -> Step:
        step = _abi.spc_net_step()
        self.ctx.check(lib.spc_net_plan_step_at(step, self.ptr, i))
        return Step(
            _KINDS[step.kind],
            _text(step.name),
            _text(step.text),
            _text(step.kernel),
            _MATCHES[step.match] if step.kernel else "",
            step.rows_in,
            step.rows_out,
            step.density,
            us,
            floor_us,
        )

    def profile(self) -> List[Step]:
        """Returns the steps of the last run, each timed alone, with its floor
        on this device. Takes about a second."""
        count = lib.spc_net_plan_step_count(self.ptr)
        times = (_abi.spc_net_time * max(count, 1))()
        with self.ctx.calling():
            self.ctx.check(
                lib.spc_net_plan_profile(times, self.ptr, self._buffers)
            )
        return [
            self._step(i, times[i].warm_us, times[i].floor_us)
            for i in range(count)
        ]

    def _scene(self, number: int) -> ctypes.c_void_p:
        """Returns the voxels of a set of the last run, as a spc_scene that the
        caller frees."""
        scene, error = ctypes.c_void_p(), _abi.spc_error()
        if number > 0:
            with self.ctx.calling():
                self.ctx.check(
                    lib.spc_net_plan_scene_of_set(scene, self.ptr, number)
                )
            return scene
        coords = self._coords[: self._rows].cpu().contiguous()
        check(
            lib.spc_scene_create(
                scene, coords.data_ptr(), self._rows, b"batch", error
            ),
            error,
        )
        return scene

    def layer_scenes(self) -> Dict[str, ctypes.c_void_p]:
        """Returns the distinct layers of the network in words, each with the
        voxels that it read in the last run: a spc_scene that the caller
        frees."""
        found: Dict[str, ctypes.c_void_p] = {}
        step = _abi.spc_net_step()
        for i in range(lib.spc_net_plan_step_count(self.ptr)):
            self.ctx.check(lib.spc_net_plan_step_at(step, self.ptr, i))
            words = _text(step.text)
            if step.kind != _abi.SPC_NET_CONV or words in found:
                continue
            # The scene of an inverse layer is that of the layer that it
            # inverts.
            is_inverse = words.startswith(("inverse,", "transposed,"))
            found[words] = self._scene(step.set if is_inverse else step.set_in)
        return found

    def verify(self) -> Verdict:
        """Compares every set and layer of the last run with the oracle. Needs a
        network made with keep=True. Error: SPC_EWRONG with the wrong set or
        layer."""
        scene = self._scene(0)
        verdict = _abi.spc_net_verdict()
        try:
            with self.ctx.calling():
                self.ctx.check(
                    lib.spc_net_plan_verify(
                        verdict, self.ptr, self._buffers, scene
                    )
                )
        finally:
            lib.spc_scene_free(scene)
        return Verdict(verdict.layers, verdict.error, _text(verdict.worst))
