# SPDX-License-Identifier: Apache-2.0
"""The functions of torchsparse.nn.functional.

Conventions are those of TorchSparse 2.1: a layer is submanifold if its strides
are 1. If each stride is 1 or the kernel's size, outputs are at floor(voxel /
stride); otherwise at all voxels that see an input.
"""

from typing import Any, List, Optional, Sequence, Union

import torch
from torch import Tensor

from ... import ops, pooling
from ..._lib import InvalidError
from ...sparse import by_axis, footprint_shape
from ..tensor import Level, SparseTensor, Strided, ntuple

__all__ = [
    "calc_ti_weights",
    "conv3d",
    "global_avg_pool",
    "global_max_pool",
    "leaky_relu",
    "relu",
    "silu",
    "spcount",
    "spdevoxelize",
    "sphash",
    "sphashquery",
    "spvoxelize",
]

Sizes = Union[int, Sequence[int]]


# ---- convolution -------------------------------------------------------------


def to_krsc(weight: Tensor, kernel: Sequence[int]) -> Tensor:
    """Returns weights [K, cin, cout] as [cout, x, y, z, cin]. Offsets count
    with x fastest if their number is odd, else with z fastest."""
    x, y, z = kernel
    cin, cout = weight.shape[-2:]
    if x * y * z % 2 == 1:
        return weight.view(z, y, x, cin, cout).permute(4, 2, 1, 0, 3)
    return weight.view(x, y, z, cin, cout).permute(4, 0, 1, 2, 3)


def _reach(x: SparseTensor) -> List[int]:
    """Returns the number of voxels along each axis: the spatial range, else up
    to the highest voxel."""
    if x.spatial_range is not None:
        return list(x.spatial_range[1:])
    if x.coords.shape[0] == 0:
        return [1, 1, 1]
    return [int(v) + 1 for v in x.coords[:, 1:].max(0).values.tolist()]


def _words(
    x: SparseTensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> str:
    """Returns the layer's geometry."""
    box = f"k={by_axis(kernel)},dilation={by_axis(dilation)}"
    if all(s == 1 for s in stride):
        return "subm," + box
    box += f",stride={by_axis(stride)}"
    if all(s in (1, k) for s, k in zip(stride, kernel)):
        return f"conv,rule=floor,{box}"
    return (
        f"conv,rule=footprint,{box},padding={by_axis(padding)},"
        f"shape={by_axis(_reach(x))}"
    )


def _out_range(
    x: SparseTensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Any:
    if x.spatial_range is None:
        return None
    shape = footprint_shape(
        x.spatial_range[1:], kernel, stride, padding, dilation
    )
    return (x.spatial_range[0], *shape)


def _forward(
    x: SparseTensor,
    weight: Tensor,
    kernel: Any,
    bias: Optional[Tensor],
    stride: Any,
    padding: Any,
    dilation: Any,
) -> SparseTensor:
    words = _words(x, kernel, stride, padding, dilation)
    m, coords = ops.kernel_map(x.coords, words)
    feats = ops.conv(x.feats, weight, m, words, coords.shape[0], bias)
    level = Level(x.coords, x.spatial_range)
    x._caches.cmaps.setdefault(x.stride, level)
    if words.startswith("subm"):
        return x.like(feats)
    x._caches.kmaps[(x.stride, kernel, stride, dilation)] = Strided(
        m, words, level
    )
    coarse = tuple(a * b for a, b in zip(x.stride, stride))
    out_range = _out_range(x, kernel, stride, padding, dilation)
    made = x.like(feats, coords, coarse, out_range)
    x._caches.cmaps.setdefault(coarse, Level(coords, out_range))
    return made


def _transposed(
    x: SparseTensor,
    weight: Tensor,
    kernel: Any,
    bias: Optional[Tensor],
    stride: Any,
    dilation: Any,
) -> SparseTensor:
    fine = tuple(a // b for a, b in zip(x.stride, stride))
    made = x._caches.kmaps.get((fine, kernel, stride, dilation))
    if made is None:
        raise InvalidError(
            f"a transposed layer of kernel {by_axis(kernel)} and stride "
            f"{by_axis(stride)} returns to the voxels of the layer of these "
            f"that led to stride {by_axis(x.stride)}; there was none"
        )
    m = ops.inverse_map(made.map, made.words)
    words = "inverse," + made.words.split(",", 1)[1]
    coords = made.inputs.coords
    feats = ops.conv(x.feats, weight, m, words, coords.shape[0], bias)
    return x.like(feats, coords, fine, made.inputs.spatial_range)


def _generative(
    x: SparseTensor,
    weight: Tensor,
    kernel: Any,
    bias: Optional[Tensor],
    stride: Any,
) -> SparseTensor:
    if x.spatial_range is None:
        raise InvalidError("a generative layer needs a spatial_range")
    if any(k % 2 == 0 for k in kernel):
        raise InvalidError(
            "generative layers with even kernels are not offered: TorchSparse "
            "makes other voxels with them than it reads"
        )
    # An output reads the input at its own voxel plus the offset.
    weight = weight.flip(1, 2, 3)
    shape = [r * s for r, s in zip(x.spatial_range[1:], stride)]
    words = (
        f"generative,k={by_axis(kernel)},stride={by_axis(stride)},"
        f"shape={by_axis(shape)}"
    )
    m, coords = ops.kernel_map(x.coords, words)
    feats = ops.conv(x.feats, weight, m, words, coords.shape[0], bias)
    fine = tuple(a // b for a, b in zip(x.stride, stride))
    out_range = (x.spatial_range[0], *shape)
    x._caches.kmaps.clear()
    x._caches.cmaps[fine] = Level(coords, out_range)
    return x.like(feats, coords, fine, out_range)


def conv3d(
    input: SparseTensor,
    weight: Tensor,
    kernel_size: Sizes,
    bias: Optional[Tensor] = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    config: Any = None,
    transposed: bool = False,
    generative: bool = False,
    training: bool = False,
) -> SparseTensor:
    """A convolution. weight: [K, cin, cout], or [cin, cout] for one offset.
    `config` and `training` are not used."""
    kernel, stride = ntuple(kernel_size, 3), ntuple(stride, 3)
    padding, dilation = ntuple(padding, 3), ntuple(dilation, 3)
    ones = (1, 1, 1)
    if kernel == stride == dilation == ones:
        feats = torch.nn.functional.linear(
            input.feats, weight.reshape(weight.shape[-2:]).t(), bias
        )
        return input.like(feats)
    weight = to_krsc(weight, kernel)
    if not transposed:
        return _forward(input, weight, kernel, bias, stride, padding, dilation)
    if generative:
        return _generative(input, weight, kernel, bias, stride)
    return _transposed(input, weight, kernel, bias, stride, dilation)


# ---- features ----------------------------------------------------------------


def relu(input: SparseTensor, inplace: bool = True) -> SparseTensor:
    """max(x, 0)."""
    return input.like(torch.nn.functional.relu(input.feats, inplace=inplace))


def silu(input: SparseTensor, inplace: bool = True) -> SparseTensor:
    """x * sigmoid(x)."""
    return input.like(torch.nn.functional.silu(input.feats, inplace=inplace))


def leaky_relu(
    input: SparseTensor, negative_slope: float = 0.1, inplace: bool = True
) -> SparseTensor:
    """x, below zero times the slope."""
    return input.like(
        torch.nn.functional.leaky_relu(
            input.feats, negative_slope=negative_slope, inplace=inplace
        )
    )


def global_avg_pool(inputs: SparseTensor) -> Tensor:
    """[batch, channels]: the mean over each batch element."""
    return pooling.over_batches(inputs.feats, inputs.coords[:, 0], "mean")


def global_max_pool(inputs: SparseTensor) -> Tensor:
    """[batch, channels]: the maximum over each batch element."""
    return pooling.over_batches(inputs.feats, inputs.coords[:, 0], "max")


# ---- points and voxels -------------------------------------------------------


def sphash(coords: Tensor, offsets: Optional[Tensor] = None) -> Tensor:
    """Returns numbers that are equal for equal rows of int32 [rows, 4]: [rows],
    or [K, rows] if offsets [K, 3] are added to the first three columns. These
    columns are
    from -2^15 to 2^15 - 1, the last is from 0 to 2^15 - 1."""
    rows = coords.long()
    if offsets is None:
        shifted = rows
    else:
        shift = torch.nn.functional.pad(offsets.long(), (0, 1))
        shifted = rows[None] + shift[:, None]
    *axes, key = shifted.unbind(-1)
    for axis in axes:
        key = (key << 16) | (axis + (1 << 15))
    return key


def sphashquery(queries: Tensor, references: Tensor) -> Tensor:
    """Returns the row of each query among the references, or -1."""
    known, order = references.flatten().sort()
    wanted = queries.flatten()
    if known.numel() == 0:
        return torch.full_like(queries, -1)
    at = torch.searchsorted(known, wanted).clamp(max=known.numel() - 1)
    found = torch.where(known[at] == wanted, order[at], -1)
    return found.view(queries.shape)


def spcount(coords: Tensor, num: int) -> Tensor:
    """Counts how often each number below `num` occurs; other numbers are not
    counted."""
    at = coords.flatten().long()
    return at[(at >= 0) & (at < num)].bincount(minlength=num).int()


def spvoxelize(feats: Tensor, coords: Tensor, counts: Tensor) -> Tensor:
    """Returns the mean of the points of each voxel. coords has the voxel of
    each point, counts the number of points of each voxel."""
    at = coords.flatten().long()
    keep = at >= 0
    safe = torch.where(keep, at, 0)
    part = (
        feats * (keep.to(feats.dtype) / counts[safe].to(feats.dtype))[:, None]
    )
    out = feats.new_zeros(counts.shape[0], feats.shape[1])
    return out.index_add(0, safe, part)


def calc_ti_weights(
    coords: Tensor, idx_query: Tensor, scale: float = 1
) -> Tensor:
    """Returns weights [points, 8] of trilinear interpolation between the
    corners of a point's cell, with x slowest. Weights of missing corners (-1)
    are 0, and the others sum to 1."""
    with torch.no_grad():
        at = coords[:, :3] / scale
        part = at - at.floor()
        sides = torch.stack([1 - part, part], 2)
        x, y, z = sides.unbind(1)
        w = x[:, :, None, None] * y[:, None, :, None] * z[:, None, None, :]
        w = w.flatten(1) * (idx_query != -1)
        return w / (w.sum(1, keepdim=True) + 1e-8)


def spdevoxelize(feats: Tensor, coords: Tensor, weights: Tensor) -> Tensor:
    """Returns features of points: the weighted sum over eight voxels, coords
    [points, 8]; -1 is no voxel."""
    keep = coords >= 0
    safe = torch.where(keep, coords, 0).long()
    w = (weights * keep).to(feats.dtype)
    out = feats[safe[:, 0]] * w[:, :1]
    for i in range(1, safe.shape[1]):
        out = out + feats[safe[:, i]] * w[:, i : i + 1]
    return out
