# SPDX-License-Identifier: Apache-2.0
"""Layers for PyTorch.

    x = spctune.SparseTensor(features, coords)
    x = spctune.nn.Conv3d(16, 32, 3)(x)             # submanifold
    y = spctune.nn.Conv3d(32, 64, 2, stride=2)(x)   # half the resolution
    z = spctune.nn.InverseConv3d(64, 32, 2)(y, x)

    p = spctune.PointTensor(features, points, batch)
    q = spctune.nn.PointConv(16, 32, 3, radius=0.1)(p)
    r = spctune.nn.PointConv(32, 64, 3, radius=0.2, voxel=0.1)(q)   # fewer
    s = spctune.nn.InversePointConv(64, 32, 3, radius=0.2)(r, q)

Weights are [cout, kx, ky, kz, cin / groups].
"""

import math
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from . import clouds, ops
from ._lib import InvalidError
from .maps import Map
from .points import PointTensor, apart, near
from .sparse import Made, SparseTensor, by_axis, footprint_shape, three

__all__ = [
    "BatchNorm",
    "Conv3d",
    "DepthwiseConv3d",
    "GenerativeConv3d",
    "InverseConv3d",
    "InversePointConv",
    "OnFeatures",
    "PointConv",
    "Sequential",
    "SparseModule",
    "TransposedConv3d",
]

Sizes = Union[int, Sequence[int]]


class SparseModule(nn.Module):
    """A module that takes a SparseTensor. Sequential applies modules that do
    not derive from this class to the features alone."""


class Convolution(SparseModule):
    """Weights and bias of a layer: [cout, *kernel, cin / groups] and [cout].
    InvalidError: the groups do not divide the channels."""

    bias: Optional[nn.Parameter]

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel: Sequence[int],
        groups: int,
        bias: bool,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups < 1 or cin % groups or cout % groups:
            raise InvalidError(
                f"{groups} groups do not divide {cin} and {cout} channels"
            )
        self.in_channels, self.out_channels = cin, cout
        self.groups = groups
        self.weight = nn.Parameter(
            torch.empty(
                cout, *kernel, cin // groups, device=device, dtype=dtype
            )
        )
        if bias:
            self.bias = nn.Parameter(
                torch.empty(cout, device=device, dtype=dtype)
            )
        else:
            self.register_parameter("bias", None)
        self._packs = ops.Packs()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialises weights and bias as torch.nn.Conv3d does."""
        bound = 1 / math.sqrt(max(self.weight[0].numel(), 1))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def run(
        self, features: Tensor, m: ops.AnyMap, words: str, rows: int
    ) -> Tensor:
        """Returns the outputs on a map: [rows, cout]."""
        return ops.conv(
            features, self.weight, m, words, rows, self.bias, self._packs
        )


class Conv3d(Convolution):
    """A convolution of voxels.

    rule "subm"       outputs at the inputs' voxels; stride 1, padding ignored
                      (the default where the stride is 1)
         "floor"      outputs at floor(voxel / stride), as in MinkowskiEngine
                      (the default for other strides)
         "footprint"  outputs at all voxels that see an input, as in spconv,
                      inside the spatial shape if there is one
         "expand"     outputs at floor(voxel / stride) and at all offsets of
                      the kernel from there, as in WarpConvNet's generative
                      layers

    InvalidError: an unknown rule, or a stride that "subm" cannot have.
    """

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Sizes = 3,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        rule: Optional[str] = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kernel = three(kernel_size)
        super().__init__(cin, cout, kernel, groups, bias, device, dtype)
        self.kernel_size, self.stride = kernel, three(stride)
        self.padding, self.dilation = three(padding), three(dilation)
        self._words: Dict[Optional[Tuple[int, ...]], str] = {}
        still = self.stride == (1, 1, 1)
        self.rule = rule or ("subm" if still else "floor")
        if self.rule not in ("subm", "floor", "footprint", "expand"):
            raise InvalidError(
                f"unknown rule '{rule}' (subm, floor, footprint, expand)"
            )
        if self.rule == "subm" and not still:
            raise InvalidError(
                f"a submanifold layer has the stride 1, not "
                f"{by_axis(self.stride)}"
            )

    def words(self, shape: Optional[Sequence[int]]) -> str:
        """Returns the geometry of the layer on a spatial shape."""
        key = tuple(shape) if shape and self.rule == "footprint" else None
        words = self._words.get(key)
        if words is None:
            words = self._words[key] = self._make_words(shape)
        return words

    def _make_words(self, shape: Optional[Sequence[int]]) -> str:
        words = (
            f"k={by_axis(self.kernel_size)},dilation={by_axis(self.dilation)}"
        )
        if self.rule == "subm":
            return "subm," + words
        words = f"conv,rule={self.rule},{words},stride={by_axis(self.stride)}"
        if self.rule == "footprint":
            words += f",padding={by_axis(self.padding)}"
            if shape is not None:
                words += f",shape={by_axis(shape)}"
        return words

    def _shape(self, shape: Optional[Sequence[int]]) -> Any:
        if self.rule == "expand":
            return None  # the kernel reaches out of the shape
        if shape is None or self.rule == "subm":
            return shape
        if self.rule == "floor":
            return [(s - 1) // t + 1 for s, t in zip(shape, self.stride)]
        return footprint_shape(
            shape, self.kernel_size, self.stride, self.padding, self.dilation
        )

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Returns the layer's outputs on its own voxels."""
        words = self.words(x.shape)
        m, coords = ops.kernel_map(x.coords, words)
        y = self.run(x.features, m, words, coords.shape[0])
        if self.rule == "subm":
            return x.replace(y)
        return SparseTensor(
            y, coords, self._shape(x.shape), x._batch_size, Made(m, words)
        )

    def extra_repr(self) -> str:
        words = (
            f"{self.in_channels}, {self.out_channels}, "
            f"kernel_size={by_axis(self.kernel_size)}, rule={self.rule}"
        )
        if self.rule != "subm":
            words += f", stride={by_axis(self.stride)}"
        if self.groups != 1:
            words += f", groups={self.groups}"
        return words + ("" if self.bias is not None else ", bias=False")


class DepthwiseConv3d(Conv3d):
    """A depthwise Conv3d: each output channel reads one input channel."""

    def __init__(
        self,
        channels: int,
        kernel_size: Sizes = 3,
        stride: Sizes = 1,
        **more: Any,
    ) -> None:
        super().__init__(
            channels, channels, kernel_size, stride, groups=channels, **more
        )


class InverseConv3d(Convolution):
    """Inverts a strided layer: its outputs are on that layer's input voxels.

    Kernel and stride are those of the strided layer. forward(y, x): y is the
    output of that layer, x its input.
    """

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Sizes = 3,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kernel = three(kernel_size)
        super().__init__(cin, cout, kernel, groups, bias, device, dtype)
        self.kernel_size = kernel

    def forward(self, y: SparseTensor, x: SparseTensor) -> SparseTensor:
        """Returns the outputs on the voxels of x. InvalidError: y is not the
        output of a strided layer with this kernel on these voxels."""
        if y.made is None or not y.made.words.startswith("conv,"):
            raise InvalidError(
                "an inverse layer needs what came of a strided "
                "layer; these voxels did not"
            )
        if f",k={by_axis(self.kernel_size)}," not in y.made.words:
            raise InvalidError(
                f"the layer to be inverted is '{y.made.words}', "
                f"this kernel is {by_axis(self.kernel_size)}"
            )
        m = ops.inverse_map(y.made.map, y.made.words)
        words = "inverse," + y.made.words.split(",", 1)[1]
        if isinstance(m, Map) and m.rows_out != len(x):
            raise InvalidError(
                f"the strided layer read {m.rows_out} voxels, the "
                f"outputs are to be on {len(x)}"
            )
        return x.replace(self.run(y.features, m, words, x.coords.shape[0]))


class TransposedConv3d(Convolution):
    """A transposed convolution onto given voxels. forward(y, x): an output at
    voxel o of x sees the input i of y where o = i * stride + offset, as in
    MinkowskiEngine."""

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Sizes = 3,
        stride: Sizes = 2,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kernel = three(kernel_size)
        super().__init__(cin, cout, kernel, groups, bias, device, dtype)
        self.kernel_size, self.stride = kernel, three(stride)

    def forward(self, y: SparseTensor, x: SparseTensor) -> SparseTensor:
        """Returns the outputs on the voxels of x."""
        words = (
            f"transposed,k={by_axis(self.kernel_size)},"
            f"stride={by_axis(self.stride)}"
        )
        m = ops.join_maps(y.coords, x.coords, words)
        return x.replace(self.run(y.features, m, words, x.coords.shape[0]))


class GenerativeConv3d(Convolution):
    """A transposed convolution that makes the voxels of its outputs: all that
    see an input (MinkowskiEngine's generative transposed convolution)."""

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Sizes = 2,
        stride: Sizes = 2,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kernel = three(kernel_size)
        super().__init__(cin, cout, kernel, groups, bias, device, dtype)
        self.kernel_size, self.stride = kernel, three(stride)

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Returns the outputs, on finer voxels."""
        words = (
            f"generative,k={by_axis(self.kernel_size)},"
            f"stride={by_axis(self.stride)}"
        )
        m, coords = ops.kernel_map(x.coords, words)
        return SparseTensor(
            self.run(x.features, m, words, coords.shape[0]),
            coords,
            None,
            x._batch_size,
        )


class PointConv(Convolution):
    """A convolution of points that keep their positions (PointCNN++).

    radius   an output sees the inputs within this distance, in the unit of the
             points
    nearest  an output sees at most this many nearest inputs; 0: all
    voxel    outputs are at one point in each voxel of this edge; 0: at all
             points, or at those of forward(x, to)
    keep     that point: "first" in the order of rows, or the one nearest to the
             "centre" of its voxel

    The cube of edge 2 * radius about an output has kernel_size cells along each
    axis. An input has the weights of the cell in which it lies, and a cell may
    have several inputs or none. InvalidError: no radius, another `keep`, or
    both `voxel` and `to`.
    """

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Sizes = 3,
        radius: float = 0,
        nearest: int = 0,
        voxel: float = 0,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        keep: str = "first",
    ) -> None:
        kernel = three(kernel_size)
        super().__init__(cin, cout, kernel, groups, bias, device, dtype)
        if not 0 < radius < math.inf:
            raise InvalidError(
                f"a radius of {radius}: a number above 0, in the unit of the "
                "points"
            )
        if keep not in ("first", "centre"):
            raise InvalidError(f"unknown keep '{keep}' (first, centre)")
        self.kernel_size, self.voxel, self.keep = kernel, voxel, keep
        self.words = _point_words(kernel, radius, nearest)

    @apart
    def forward(
        self, x: PointTensor, to: Optional[PointTensor] = None
    ) -> PointTensor:
        """Returns the outputs at the points of x, at some of them (`voxel`), or
        at the points of `to`."""
        if to is not None and self.voxel:
            raise InvalidError(
                "outputs are at the points of voxels or at those of a tensor, "
                "not both"
            )
        place = x.place if to is None else to.place
        if self.voxel:
            place = x.place.sample(self.voxel, self.keep == "centre")
        m = near(x, place, self.words)
        y = self.run(x.features, m, self.words, m.rows_out)
        return PointTensor.at(place, y)

    def extra_repr(self) -> str:
        words = f"{self.in_channels}, {self.out_channels}, '{self.words}'"
        if self.keep != "first":
            words += f", keep='{self.keep}'"
        return words + (f", voxel={self.voxel}" if self.voxel else "")


class InversePointConv(Convolution):
    """Inverts a PointConv of the same kernel, radius and `nearest`: its outputs
    are at that layer's inputs. forward(y, x): y is the output of that layer, x
    its input."""

    def __init__(
        self,
        cin: int,
        cout: int,
        kernel_size: Sizes = 3,
        radius: float = 0,
        nearest: int = 0,
        groups: int = 1,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        kernel = three(kernel_size)
        super().__init__(cin, cout, kernel, groups, bias, device, dtype)
        if not 0 < radius < math.inf:
            raise InvalidError(
                f"a radius of {radius}: that of the layer to be inverted"
            )
        self.kernel_size = kernel
        self.words = _point_words(kernel, radius, nearest)

    @apart
    def forward(self, y: PointTensor, x: PointTensor) -> PointTensor:
        """Returns the outputs at the points of x."""
        m = clouds.inverse_of(near(x, y.place, self.words))
        return x.replace(self.run(y.features, m, m.words, m.rows_out))

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, '{self.words}'"


def _point_words(kernel: Sequence[int], radius: float, nearest: int) -> str:
    words = f"points,k={by_axis(kernel)},radius={radius!r}"
    return words + (f",nearest={nearest}" if nearest else "")


class OnFeatures(SparseModule):
    """A dense module that is applied to the features: OnFeatures(nn.ReLU()).
    It is not called for a tensor without voxels."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Returns the same voxels with the module's outputs."""
        return x.replace(self.module(x.features)) if len(x) else x


class BatchNorm(nn.BatchNorm1d, SparseModule):
    """Batch normalisation over all voxels of the batch."""

    def forward(  # type: ignore[override]
        self, x: SparseTensor
    ) -> SparseTensor:
        """Returns the same voxels with normalised features."""
        return x.replace(super().forward(x.features)) if len(x) else x


class Sequential(nn.Sequential, SparseModule):
    """Modules in sequence; modules that are not a SparseModule are applied to
    the features."""

    def forward(self, x: Any) -> Any:
        """Returns the output of the last module."""
        for module in self:
            if isinstance(module, SparseModule) or not isinstance(
                x, (SparseTensor, PointTensor)
            ):
                x = module(x)
            elif len(x):
                x = x.replace(module(x.features))
        return x
