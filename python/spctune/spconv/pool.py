# SPDX-License-Identifier: Apache-2.0
"""The pooling layers of spconv."""

from typing import Any, List, Optional, Tuple

from torch import Tensor

from .. import ops, pooling
from ..sparse import footprint_shape, per_axis
from .conv import Sizes, _words
from .core import IndiceData, SparseConvTensor
from .modules import SparseModule

__all__ = [
    "SparseAvgPool2d",
    "SparseAvgPool3d",
    "SparseGlobalAvgPool",
    "SparseGlobalMaxPool",
    "SparseMaxPool2d",
    "SparseMaxPool3d",
]


class SparsePool(SparseModule):
    """Maximum or mean over the occupied inputs that an output sees. Sizes are
    those of a strided layer."""

    def __init__(
        self,
        ndim: int,
        kind: str,
        kernel_size: Sizes,
        stride: Optional[Sizes] = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        indice_key: Optional[str] = None,
        algo: Any = None,
        record_voxel_count: bool = False,
        name: Optional[str] = None,
    ) -> None:
        super().__init__(name)
        self.ndim, self.kind = ndim, kind
        self.kernel_size = list(per_axis(kernel_size, ndim))
        self.stride = (
            list(self.kernel_size)
            if stride is None
            else list(per_axis(stride, ndim))
        )
        self.padding = list(per_axis(padding, ndim))
        self.dilation = list(per_axis(dilation, ndim))
        self.indice_key = indice_key

    def forward(self, input: SparseConvTensor) -> SparseConvTensor:
        """Returns the pooled features, on the voxels of a strided layer."""
        words = (
            f"conv,rule=footprint,k={_words(self.kernel_size, 1)},"
            f"dilation={_words(self.dilation, 1)},"
            f"stride={_words(self.stride, 1)},"
            f"padding={_words(self.padding, 0)},"
            f"shape={_words(input.spatial_shape, 1)}"
        )
        m, indices = ops.kernel_map(input.indices, words)
        shape: List[int] = list(
            footprint_shape(
                input.spatial_shape,
                self.kernel_size,
                self.stride,
                self.padding,
                self.dilation,
            )
        )
        y = pooling.pool(input.features, m, words, indices.shape[0], self.kind)
        if self.indice_key is not None:
            input.indice_dict.setdefault(
                self.indice_key,
                IndiceData(
                    m,
                    words,
                    input.indices,
                    indices,
                    list(input.spatial_shape),
                    shape,
                    tuple(self.kernel_size),
                    False,
                ),
            )
        return input._with(y, indices, shape)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class SparseMaxPool2d(SparsePool):
    """The maximum, over two axes."""

    def __init__(self, kernel_size: Sizes, *args: Any, **kwargs: Any) -> None:
        super().__init__(2, "max", kernel_size, *args, **kwargs)


class SparseMaxPool3d(SparsePool):
    """The maximum, over three axes."""

    def __init__(self, kernel_size: Sizes, *args: Any, **kwargs: Any) -> None:
        super().__init__(3, "max", kernel_size, *args, **kwargs)


class SparseAvgPool2d(SparsePool):
    """The mean of the occupied inputs, over two axes."""

    def __init__(self, kernel_size: Sizes, *args: Any, **kwargs: Any) -> None:
        super().__init__(2, "mean", kernel_size, *args, **kwargs)


class SparseAvgPool3d(SparsePool):
    """The mean of the occupied inputs, over three axes."""

    def __init__(self, kernel_size: Sizes, *args: Any, **kwargs: Any) -> None:
        super().__init__(3, "mean", kernel_size, *args, **kwargs)


def _by_element(x: SparseConvTensor) -> Tuple[Tensor, Tensor]:
    batch = x.indices[:, :1].long().expand_as(x.features)
    return batch, x.features.new_zeros(x.batch_size, x.features.shape[1])


class SparseGlobalMaxPool(SparseModule):
    """[batch, channels]: the maximum over the voxels of each batch element."""

    def forward(self, input: SparseConvTensor) -> Tensor:
        """Returns the maxima; 0 for an element without voxels."""
        batch, out = _by_element(input)
        return out.scatter_reduce(
            0, batch, input.features, "amax", include_self=False
        )


class SparseGlobalAvgPool(SparseModule):
    """[batch, channels]: the mean over the voxels of each batch element."""

    def forward(self, input: SparseConvTensor) -> Tensor:
        """Returns the means; 0 for an element without voxels."""
        batch, out = _by_element(input)
        return out.scatter_reduce(
            0, batch, input.features, "mean", include_self=False
        )
