# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling of MinkowskiEngine.

Weights are [K, cin, cout] with the first axis fastest; odd kernels are centred,
even ones begin at the voxel. Outputs of strided layers depend on the stride
alone: all layers of one stride share them.
"""

import math
from typing import Any, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from .. import fourth, ops, pooling
from .._lib import InvalidError, UnsupportedError
from ..sparse import by_axis, per_axis
from .tensor import CoordinateMapKey, SparseTensor, Strided

__all__ = [
    "KernelGenerator",
    "MinkowskiAvgPooling",
    "MinkowskiChannelwiseConvolution",
    "MinkowskiConvolution",
    "MinkowskiConvolutionTranspose",
    "MinkowskiGenerativeConvolutionTranspose",
    "MinkowskiMaxPooling",
    "MinkowskiModuleBase",
    "RegionType",
]

Sizes = Union[int, Sequence[int]]
Coordinates = Union[None, Tensor, CoordinateMapKey, SparseTensor]


class RegionType:
    """Shapes of kernels; only the cube is supported."""

    HYPER_CUBE, HYPER_CROSS, CUSTOM = range(3)


class MinkowskiModuleBase(nn.Module):
    """The base of layers."""


class KernelGenerator:
    """The geometry of a kernel. UnsupportedError: the kernel is not a cube."""

    def __init__(
        self,
        kernel_size: Sizes = -1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        is_transpose: bool = False,
        region_type: int = RegionType.HYPER_CUBE,
        region_offsets: Any = None,
        expand_coordinates: bool = False,
        axis_types: Any = None,
        dimension: int = -1,
    ) -> None:
        if region_type != RegionType.HYPER_CUBE:
            raise UnsupportedError("kernels are cubes (RegionType.HYPER_CUBE)")
        if not 1 <= dimension <= 4:
            raise UnsupportedError(f"layers have 1 to 4 axes, not {dimension}")
        self.dimension = dimension
        self.kernel_size = per_axis(kernel_size, dimension)
        self.kernel_stride = per_axis(stride, dimension)
        self.kernel_dilation = per_axis(dilation, dimension)
        self.kernel_volume = math.prod(self.kernel_size)
        self.expand_coordinates = expand_coordinates

    @property
    def is_still(self) -> bool:
        """True if the stride is 1 on every axis."""
        return all(s == 1 for s in self.kernel_stride)

    def of_four(self, fine: Tensor, coarse: Optional[Tensor]) -> fourth.Kernel:
        """Returns a kernel of four axes whose fold has room for both sets."""
        half = fourth.half_range(fine)
        if coarse is not None:
            far = self.kernel_stride[2] * fourth.half_range(coarse)
            half = max(half, far)
        return fourth.unlimited(
            half, self.kernel_size, self.kernel_stride, self.kernel_dilation
        )

    def box(self) -> str:
        """Returns kernel and dilation in the words of a layer."""
        return (
            f"k={_three(self.kernel_size)},"
            f"dilation={_three(self.kernel_dilation)}"
        )

    def strided(self) -> str:
        """Returns kernel, dilation and stride in the words of a layer."""
        return f"{self.box()},stride={_three(self.kernel_stride)}"


def _three(values: Sequence[int]) -> str:
    return by_axis([*values, *[1] * (3 - len(values))])


def _key_of(x: SparseTensor, coordinates: Coordinates) -> Any:
    """Returns the voxels that a caller names for the outputs."""
    if coordinates is None or isinstance(coordinates, CoordinateMapKey):
        return coordinates
    if isinstance(coordinates, SparseTensor):
        return coordinates.coordinate_map_key
    raise UnsupportedError(
        "outputs are named by a sparse tensor or its coordinate_map_key"
    )


def _forward_map(
    x: SparseTensor, g: KernelGenerator, to: Optional[CoordinateMapKey]
) -> Tuple[ops.AnyMap, str, CoordinateMapKey]:
    """Returns the map of a layer that keeps or coarsens voxels."""
    key, manager = x.coordinate_map_key, x.coordinate_manager
    _need_axes(g, key.indices)
    if to is None and g.is_still and g.dimension == 4:
        kernel = g.of_four(key.indices, None)
        return (*fourth.submanifold(key.indices, kernel), key)
    if to is None and g.is_still:
        words = "subm," + g.box()
        return ops.kernel_map(key.indices, words)[0], words, key
    by_stride = (key, g.kernel_stride)
    to = to or manager.coarse.get(by_stride)
    own = (key, to, g.strided())
    known = manager.made.get(own)
    if known is not None:
        return known.map, known.words, known.coarse
    if g.dimension == 4:
        if to is None:
            to = manager.add(_floor(key, g.kernel_stride))
            manager.coarse[by_stride] = to
        kernel = g.of_four(key.indices, to.indices)
        m, words = fourth.map_between(key.indices, to.indices, kernel)
    elif to is None:
        words = "conv,rule=floor," + g.strided()
        m, indices = ops.kernel_map(key.indices, words)
        stride = tuple(a * b for a, b in zip(key.stride, g.kernel_stride))
        to = manager.add(CoordinateMapKey(stride, indices))
        manager.coarse[by_stride] = to
    else:
        words = "conv,rule=given," + g.strided()
        m = ops.join_maps(key.indices, to.indices, words)
    manager.made[(key, to, g.strided())] = Strided(m, words, key, to)
    return m, words, to


def _floor(key: CoordinateMapKey, by: Sequence[int]) -> CoordinateMapKey:
    """Returns the voxels floor(voxel / by), sorted."""
    divisor = torch.tensor((1, *by), device=key.indices.device)
    rows = torch.div(key.indices, divisor, rounding_mode="floor")
    stride = tuple(a * b for a, b in zip(key.stride, by))
    return CoordinateMapKey(stride, torch.unique(rows, dim=0).to(torch.int32))


def _need_axes(g: KernelGenerator, indices: Tensor) -> None:
    """Refuses a layer of four axes over other voxels, and the reverse."""
    axes = indices.shape[1] - 1
    if (g.dimension == 4) != (axes == 4):
        raise InvalidError(
            f"the layer has {g.dimension} axes, and its input {axes}"
        )


def _transposed_map(
    x: SparseTensor, g: KernelGenerator, to: Optional[CoordinateMapKey]
) -> Tuple[ops.AnyMap, str, CoordinateMapKey]:
    """Returns the map of a layer that returns to finer voxels."""
    key, manager = x.coordinate_map_key, x.coordinate_manager
    stride = tuple(a // b for a, b in zip(key.stride, g.kernel_stride))
    to = to or manager.first.get(stride)
    if to is None:
        raise InvalidError(
            f"a transposed layer of stride {list(g.kernel_stride)} returns "
            f"from {list(key.stride)} to voxels of stride {list(stride)}; "
            "there are none (MinkowskiGenerativeConvolutionTranspose makes "
            "voxels)"
        )
    _need_axes(g, key.indices)
    if g.dimension == 4:
        kernel = g.of_four(to.indices, key.indices)
        return (
            *fourth.map_between(key.indices, to.indices, kernel, True),
            to,
        )
    known = manager.made.get((to, key, g.strided()))
    if known is not None and known.words.startswith("conv,rule=floor"):
        m = ops.inverse_map(known.map, known.words)
        return m, "inverse," + known.words.split(",", 1)[1], to
    words = "transposed," + g.strided()
    return ops.join_maps(key.indices, to.indices, words), words, to


def _generative_map(
    x: SparseTensor, g: KernelGenerator
) -> Tuple[ops.AnyMap, str, CoordinateMapKey]:
    key = x.coordinate_map_key
    if g.dimension == 4:
        raise UnsupportedError("generative layers have 1 to 3 axes, not 4")
    words = "generative," + g.strided()
    m, indices = ops.kernel_map(key.indices, words)
    stride = tuple(a // b for a, b in zip(key.stride, g.kernel_stride))
    return m, words, CoordinateMapKey(stride, indices)


def _turned(size: Sequence[int]) -> List[int]:
    """Returns the shape in which MinkowskiEngine stores the offsets of a
    kernel: its first axis is the fastest."""
    return [*[1] * (3 - len(size)), *reversed(size)]


def _turn(weight: Tensor) -> Tensor:
    """Returns weights [..., z, y, x, cin, cout] as [cout, x, y, z, ...,
    cin]."""
    n = weight.dim() - 2
    return weight.permute(n + 1, *reversed(range(n)), n)


class _Convolution(MinkowskiModuleBase):
    """`kernel` is [K, cin, cout], [cin, cout] for one offset of stride 1;
    `bias` is [1, cout]."""

    transposes = generates = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes = -1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        bias: bool = False,
        kernel_generator: Optional[KernelGenerator] = None,
        expand_coordinates: bool = False,
        convolution_mode: Any = None,
        dimension: int = -1,
    ) -> None:
        super().__init__()
        self.kernel_generator = kernel_generator or KernelGenerator(
            kernel_size, stride, dilation, dimension=dimension
        )
        if expand_coordinates and not self.generates:
            raise UnsupportedError("expand_coordinates is not offered")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.dimension = self.kernel_generator.dimension
        volume = self.kernel_generator.kernel_volume
        self.use_mm = volume == 1 and self.kernel_generator.is_still
        shape = (in_channels, out_channels)
        self.kernel = nn.Parameter(
            torch.empty(shape if self.use_mm else (volume, *shape))
        )
        if bias:
            self.bias = nn.Parameter(torch.empty(1, out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self, is_transpose: bool = False) -> None:
        """Initialises weights and bias as MinkowskiEngine does."""
        fan = self.out_channels if self.transposes else self.in_channels
        bound = 1 / math.sqrt(fan * self.kernel_generator.kernel_volume)
        nn.init.uniform_(self.kernel, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def _weight(self) -> Tensor:
        """[cout, x, y, z, cin]."""
        turned = _turned(self.kernel_generator.kernel_size)
        shape = (*turned, self.in_channels, self.out_channels)
        return _turn(self.kernel.view(shape))

    def forward(
        self, input: SparseTensor, coordinates: Coordinates = None
    ) -> SparseTensor:
        """Returns the layer's outputs; `coordinates` names their voxels."""
        g, to = self.kernel_generator, _key_of(input, coordinates)
        bias = None if self.bias is None else self.bias.view(-1)
        if self.use_mm and to is None:
            return input.like(
                nn.functional.linear(input.F, self.kernel.t(), bias)
            )
        if self.generates:
            m, words, key = _generative_map(input, g)
        elif self.transposes:
            m, words, key = _transposed_map(input, g, to)
        else:
            m, words, key = _forward_map(input, g, to)
        rows = key.indices.shape[0]
        y = ops.conv(input.F, self._weight(), m, words, rows, bias)
        return input.like(y, key)

    def extra_repr(self) -> str:
        g = self.kernel_generator
        return (
            f"in={self.in_channels}, out={self.out_channels}, "
            f"kernel_size={list(g.kernel_size)}, "
            f"stride={list(g.kernel_stride)}, "
            f"dilation={list(g.kernel_dilation)}"
        )


class MinkowskiConvolution(_Convolution):
    """A convolution: submanifold for the stride 1, else onto
    floor(voxel / stride)."""


class MinkowskiConvolutionTranspose(_Convolution):
    """A transposed convolution onto the finer voxels of the scene."""

    transposes = True


class MinkowskiGenerativeConvolutionTranspose(_Convolution):
    """A transposed convolution that makes the voxels of its outputs."""

    transposes = generates = True


class MinkowskiChannelwiseConvolution(MinkowskiModuleBase):
    """A depthwise convolution; `kernel` is [K, channels]."""

    def __init__(
        self,
        in_channels: int,
        kernel_size: Sizes = -1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        bias: bool = False,
        kernel_generator: Optional[KernelGenerator] = None,
        dimension: int = -1,
    ) -> None:
        super().__init__()
        self.kernel_generator = kernel_generator or KernelGenerator(
            kernel_size, stride, dilation, dimension=dimension
        )
        self.in_channels = self.out_channels = in_channels
        self.dimension = self.kernel_generator.dimension
        volume = self.kernel_generator.kernel_volume
        self.kernel = nn.Parameter(torch.empty(volume, in_channels))
        bound = 1 / math.sqrt(volume)
        nn.init.uniform_(self.kernel, -bound, bound)
        if bias:
            self.bias = nn.Parameter(torch.zeros(1, in_channels))
        else:
            self.register_parameter("bias", None)

    def forward(
        self, input: SparseTensor, coordinates: Coordinates = None
    ) -> SparseTensor:
        """Returns the layer's outputs; `coordinates` names their voxels."""
        g = self.kernel_generator
        turned = _turned(g.kernel_size)
        weight = self.kernel.view(*turned, 1, self.in_channels)
        m, words, key = _forward_map(input, g, _key_of(input, coordinates))
        bias = None if self.bias is None else self.bias.view(-1)
        y = ops.conv(
            input.F,
            _turn(weight),
            m,
            words,
            key.indices.shape[0],
            bias,
        )
        return input.like(y, key)


class _Pooling(MinkowskiModuleBase):
    kind = "max"

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        kernel_generator: Optional[KernelGenerator] = None,
        dimension: int = -1,
    ) -> None:
        super().__init__()
        self.kernel_generator = kernel_generator or KernelGenerator(
            kernel_size, stride, dilation, dimension=dimension
        )

    def forward(
        self, input: SparseTensor, coordinates: Coordinates = None
    ) -> SparseTensor:
        """Returns the outputs; `coordinates` names their voxels."""
        m, words, key = _forward_map(
            input, self.kernel_generator, _key_of(input, coordinates)
        )
        rows = key.indices.shape[0]
        return input.like(pooling.pool(input.F, m, words, rows, self.kind), key)


class MinkowskiMaxPooling(_Pooling):
    """The maximum of the voxels that a kernel sees."""


class MinkowskiAvgPooling(_Pooling):
    """The mean of the occupied voxels that a kernel sees."""

    kind = "mean"
