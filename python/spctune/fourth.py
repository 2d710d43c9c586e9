# SPDX-License-Identifier: Apache-2.0
"""Layers of four axes, such as space and time, on kernel maps of three.

The last coordinate is folded into the one before it: the voxel (a, b, c, d)
becomes (a, b, c + width * d). An offset (i, j, l, m) of the kernel becomes
(i, j, l + width * m), so that the layer has an explicit list of offsets. The
width is so large that an offset of c alone never reaches the next d.
"""

import functools
import itertools
import math
import weakref
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
from torch import Tensor

from . import _abi, ops
from ._lib import InvalidError
from .sparse import by_axis

__all__ = [
    "Kernel",
    "folded",
    "half_range",
    "map_between",
    "outputs",
    "submanifold",
    "unlimited",
]

_LONGEST = (1 << 15) - 1  # of one displacement of a list
_FAR = (1 << 31) - 1


class Kernel(NamedTuple):
    """A kernel of four axes. An output o sees the input o * stride + origin +
    dilation * place.

    shape, out_shape  voxels of the inputs and of the outputs along each axis
    shift             is added to the third coordinates of the inputs, which
                      then begin at 0
    """

    size: Tuple[int, ...]
    stride: Tuple[int, ...]
    dilation: Tuple[int, ...]
    origin: Tuple[int, ...]
    shape: Tuple[int, ...]
    out_shape: Tuple[int, ...]
    shift: int = 0

    @functools.lru_cache(maxsize=1024)  # noqa: B019
    def widths(self) -> Tuple[int, int]:
        """Returns the widths of the inputs and of the outputs. The width of the
        outputs times the stride of c is the width of the inputs times the
        stride of d, so that one stride serves the folded axis."""
        first, s, t = self.origin[2], self.stride[2], self.stride[3]
        last = first + self.dilation[2] * (self.size[2] - 1)
        size, out_size = self.shape[2], self.out_shape[2]
        least = max(
            # The inputs that an output sees, from output * s + first on.
            size + max(-first, 0),
            (out_size - 1) * s + max(last, 0) + 1,
            # The outputs that see an input, from (input - last) / s on.
            s * (out_size + max(-(-last // s), 0)),
            s * (-((first - size + 1) // s) + 1),
        )
        # A power of two, so that scenes of similar shape share their kernels.
        width = s << (-(-least // s) - 1).bit_length()
        return width, width * t // s

    @functools.lru_cache(maxsize=1024)  # noqa: B019
    def folds(self) -> List[Tuple[int, int, int]]:
        """Returns the offsets of the folded kernel in the order of the weights:
        the last axis is the fastest. InvalidError: too many offsets, or one
        that is too long."""
        count, width = math.prod(self.size), self.widths()[0]
        if count > _abi.SPC_MAX_OFFSETS:
            raise InvalidError(
                f"a kernel of {by_axis(self.size)} has {count} offsets; a "
                f"layer has at most {_abi.SPC_MAX_OFFSETS}"
            )
        axes = [
            [origin + dilation * place for place in range(size)]
            for size, origin, dilation in zip(
                self.size, self.origin, self.dilation
            )
        ]
        made = [
            (a, b, c + width * d) for a, b, c, d in itertools.product(*axes)
        ]
        longest = max(abs(v) for offset in made for v in offset)
        if longest > _LONGEST:
            raise InvalidError(
                f"a kernel of {by_axis(self.size)} over {self.shape[2]} voxels "
                f"of the third axis has an offset of {longest}, with the "
                f"fourth folded into the third; it is at most {_LONGEST}"
            )
        return made

    @functools.lru_cache(maxsize=1024)  # noqa: B019
    def reach(self, op: str) -> int:
        """Returns how far past the extent the library may look along an axis
        (spc__geometry_halo)."""
        folds = self.folds()
        if op == "subm":
            longest: int = max(abs(v) for offset in folds for v in offset)
            return longest
        wide = max(max(axis) - min(axis) for axis in zip(*folds))
        return 2 * int(wide) + 3

    @functools.lru_cache(maxsize=1024)  # noqa: B019
    def words(self, op: str) -> str:
        """Returns the layer in words: "subm", "conv" or "transposed"."""
        listed = "+".join(by_axis(offset) for offset in self.folds())
        if op == "subm":
            return f"subm,offsets={listed}"
        rule = ",rule=given" if op == "conv" else ""
        return f"{op}{rule},offsets={listed},stride={by_axis(self.stride[:3])}"


class _Folded(Dict[Tuple[int, ...], Tuple[int, Any, Tensor]]):
    """The folded voxels of a tensor by width, reach and shift, each with the
    tensor's version and a reference to the tape that saw the fold. It is an
    attribute of the tensor; copies and files of the tensor do not have it."""

    def __reduce__(self) -> Any:
        return (type(None), ())


def folded(
    indices: Tensor, width: int, size: int, reach: int, shift: int = 0
) -> Tensor:
    """Returns voxels [rows, 5] as int32 [rows, 4]. They are kept with the
    tensor, and their kernel maps with them.

    width  see above
    size   voxels along c, from -shift on
    reach  of the kernel

    InvalidError: a voxel is outside of them, where it would become another
    voxel."""
    kept = getattr(indices, "_spctune_folded", None)
    if kept is None:
        kept = indices._spctune_folded = _Folded()  # type: ignore[attr-defined]
    version = ops._version(indices)
    # A tape must see the fold. The reference is weak, as a tape holds all
    # tensors of a run.
    tape = None if ops.tape is None else weakref.ref(ops.tape)
    found = kept.get((width, reach, shift))
    if found is None or found[:2] != (version, tape):
        made = _fold(indices, width, size, shift)
        ops.prepare(made, reach)
        found = kept[width, reach, shift] = (version, tape, made)
    return found[2]


def _fold(indices: Tensor, width: int, size: int, shift: int) -> Tensor:
    c = indices[:, 3:4].long() + shift
    last = c + width * indices[:, 4:5].long()
    is_in = (c >= 0) & (c < size) & (last.abs() < _FAR)
    if ops.tape is not None:
        # A network refuses voxels that are far away.
        last = torch.where(is_in, last, _FAR)
    elif not bool(is_in.all()):
        row = int((~is_in).nonzero()[0, 0])
        at = indices[row].tolist()
        raise InvalidError(
            f"row {row} is the voxel {at[1:]}: the third axis has {size} "
            f"voxels from {-shift}, and the fourth coordinate times {width} "
            "must fit 32 bits"
        )
    return torch.cat([indices[:, :3], last], 1).to(torch.int32)


def half_range(indices: Tensor) -> int:
    """Returns a power of two that is above the absolute value of every third
    coordinate. Waits for the device, once for each tensor."""
    kept = getattr(indices, "_spctune_half", None)
    version = ops._version(indices)
    if kept is None or kept[0] != version:
        c = indices[:, 3]
        most = max(int(c.max()), -int(c.min()), 63) if len(c) else 63
        kept = indices._spctune_half = (  # type: ignore[attr-defined]
            version,
            1 << most.bit_length(),
        )
    half: int = kept[1]
    return half


def unlimited(
    half: int,
    size: Tuple[int, ...],
    stride: Tuple[int, ...],
    dilation: Tuple[int, ...],
) -> Kernel:
    """Returns the kernel of a layer without a spatial shape, as
    MinkowskiEngine's: an odd kernel is centred, and an even one begins at
    output * stride. half: third coordinates of the inputs are from -half to
    half - 1."""
    s = stride[2]
    half = -(-half // s) * s
    origin = tuple(
        -d * (k // 2) if k % 2 else 0 for k, d in zip(size, dilation)
    )
    shapes = (0, 0, 2 * half, 0), (0, 0, 2 * half // s, 0)
    return Kernel(size, stride, dilation, origin, *shapes, half)


def submanifold(indices: Tensor, kernel: Kernel) -> Tuple[ops.AnyMap, str]:
    """Returns the map of a submanifold layer, and its words."""
    words = kernel.words("subm")
    width, reach = kernel.widths()[0], kernel.reach("subm")
    rows = folded(indices, width, kernel.shape[2], reach, kernel.shift)
    return ops.kernel_map(rows, words)[0], words


def map_between(
    inputs: Tensor, outputs: Tensor, kernel: Kernel, transposed: bool = False
) -> Tuple[ops.AnyMap, str]:
    """Returns the map of a strided layer between two sets of voxels, and its
    words. With `transposed` the layer goes from the kernel's outputs to its
    inputs."""
    wide, narrow = kernel.widths()
    words = kernel.words("transposed" if transposed else "conv")
    fine, coarse = (outputs, inputs) if transposed else (inputs, outputs)
    reach = kernel.reach("conv")
    shift = kernel.shift
    fine = folded(fine, wide, kernel.shape[2], reach, shift)
    shift //= kernel.stride[2]
    coarse = folded(coarse, narrow, kernel.out_shape[2], reach, shift)
    ends = (coarse, fine) if transposed else (fine, coarse)
    return ops.join_maps(*ends, words), words


def outputs(
    indices: Tensor, kernel: Kernel, transposed: bool = False
) -> Tensor:
    """Returns the voxels of a strided layer's outputs, int32 [rows, 5], sorted:
    all that see an input. With `transposed` those of the layer from the
    kernel's outputs to its inputs."""
    shape = kernel.shape if transposed else kernel.out_shape
    rows = indices.long()
    cells = 1 + (int(rows[:, 0].max()) if len(rows) else 0)
    for size in shape:
        cells *= size
    if cells >= 1 << 63:
        raise InvalidError(
            f"outputs of {by_axis(shape)} voxels in each batch element cannot "
            "be numbered with 63 bits"
        )
    # One axis after the other, so that most candidates fall out early.
    numbers, which = rows[:, 0], torch.arange(len(rows), device=rows.device)
    for axis, extent in enumerate(shape):
        stride, found = kernel.stride[axis], []
        for place in range(kernel.size[axis]):
            offset = kernel.origin[axis] + kernel.dilation[axis] * place
            at = rows[which, axis + 1]
            if transposed:
                to = at * stride + offset
                is_in = (to >= 0) & (to < extent)
            else:
                to = torch.div(at - offset, stride, rounding_mode="floor")
                is_in = (to >= 0) & (to < extent)
                is_in &= at - offset == to * stride
            number = numbers[is_in] * extent + to[is_in]
            found.append((number, which[is_in]))
        numbers, which = map(torch.cat, zip(*found))
    numbers = torch.unique(numbers)
    columns = []
    for extent in reversed(shape):
        columns.append(numbers % extent)
        numbers = torch.div(numbers, extent, rounding_mode="floor")
    columns.append(numbers)
    return torch.stack(columns[::-1], 1).to(torch.int32)
