# SPDX-License-Identifier: Apache-2.0
"""The sparse tensor of spconv."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .._lib import InvalidError
from ..fourth import Kernel
from ..ops import AnyMap
from ..sparse import describe, to_dense

__all__ = ["IndiceData", "ImplicitGemmIndiceData", "SparseConvTensor"]


class IndiceData(NamedTuple):
    """The data that a layer with an indice_key stores for other layers with
    this key."""

    map: AnyMap
    words: str
    indices: Tensor
    out_indices: Tensor
    spatial_shape: List[int]
    out_spatial_shape: List[int]
    ksize: Tuple[int, ...]
    is_subm: bool
    kernel: Optional[Kernel] = None  # of a layer of four axes


ImplicitGemmIndiceData = IndiceData


def _check_rows(features: Tensor, indices: Tensor) -> None:
    if torch.compiler.is_compiling():
        torch._check(features.shape[0] == indices.shape[0])
    elif features.shape[0] != indices.shape[0]:
        raise InvalidError(
            f"there are {features.shape[0]} rows of features and "
            f"{indices.shape[0]} of indices"
        )


class SparseConvTensor:
    """Features of voxels.

    features       [rows, channels]
    indices        int32 [rows, 1 + dimensions]: the batch element first, then
                   coordinates in the order of `spatial_shape`; each voxel once
    spatial_shape  voxels along each axis
    batch_size     number of batch elements

    `grid`, `voxel_num`, `benchmark` and the arguments after them are accepted
    without effect. InvalidError: sizes do not fit each other.
    """

    def __init__(
        self,
        features: Tensor,
        indices: Tensor,
        spatial_shape: Sequence[int],
        batch_size: int,
        grid: Optional[Tensor] = None,
        voxel_num: Optional[Tensor] = None,
        indice_dict: Optional[Dict[Any, Any]] = None,
        benchmark: bool = False,
        permanent_thrust_allocator: bool = False,
        enable_timer: bool = False,
        force_algo: Any = None,
    ) -> None:
        dimensions = len(spatial_shape)
        if features.dim() != 2:
            raise InvalidError(
                f"features have the shape {tuple(features.shape)}; it is "
                "[rows, channels]"
            )
        if indices.dim() != 2 or indices.shape[1] != dimensions + 1:
            raise InvalidError(
                f"indices have the shape {tuple(indices.shape)}; with "
                f"{dimensions} axes it is [rows, {dimensions + 1}]"
            )
        if indice_dict is None:
            # The voxels of a derived tensor may be assigned later.
            _check_rows(features, indices)
        self._features, self.indices = features, indices
        self.spatial_shape = [int(v) for v in spatial_shape]
        self.batch_size = int(batch_size)
        self.indice_dict = {} if indice_dict is None else indice_dict
        self.grid = torch.Tensor() if grid is None else grid
        self.voxel_num = voxel_num
        self.benchmark = benchmark
        self.benchmark_record: Dict[str, Any] = {}
        self.thrust_allocator: Any = None
        self._timer: Any = None
        self.force_algo = force_algo
        self.int8_scale: Any = None

    @property
    def features(self) -> Tensor:
        """[rows, channels]. replace_feature() makes a tensor with other
        features."""
        return self._features

    @features.setter
    def features(self, value: Tensor) -> None:
        raise AttributeError(
            "features cannot be assigned: x = x.replace_feature(features)"
        )

    @classmethod
    def from_dense(cls, x: Tensor) -> "SparseConvTensor":
        """Makes a tensor of the non-zero voxels of [batch, *shape,
        channels]."""
        sparse = x.to_sparse(x.dim() - 1).coalesce()
        return cls(
            sparse.values(),
            sparse.indices().t().contiguous().int(),
            list(x.shape[1:-1]),
            x.shape[0],
        )

    def replace_feature(self, feature: Tensor) -> "SparseConvTensor":
        """Returns the same voxels with other features; kernel maps are
        shared."""
        return self._with(feature, self.indices, self.spatial_shape)

    def parts(self) -> Tuple[Tensor, Tensor]:
        """Returns features and voxels, for spctune.compile()."""
        return self._features, self.indices

    def remade(self, features: Tensor, coords: Tensor) -> "SparseConvTensor":
        """Returns this tensor with other features and voxels."""
        return SparseConvTensor(
            features, coords, self.spatial_shape, self.batch_size
        )

    def shadow_copy(self) -> "SparseConvTensor":
        """Returns a tensor with the same voxels and features."""
        return self.replace_feature(self._features)

    def _with(
        self, features: Tensor, indices: Tensor, spatial_shape: List[int]
    ) -> "SparseConvTensor":
        if torch.compiler.is_compiling() or features.dim() != 2:
            out = SparseConvTensor(
                features,
                indices,
                spatial_shape,
                self.batch_size,
                self.grid,
                self.voxel_num,
                self.indice_dict,
            )
        else:  # the same without checks
            out = SparseConvTensor.__new__(SparseConvTensor)
            out._features, out.indices = features, indices
            out.spatial_shape = list(spatial_shape)
            out.batch_size, out.grid = self.batch_size, self.grid
            out.voxel_num, out.indice_dict = self.voxel_num, self.indice_dict
        out.benchmark, out.force_algo = self.benchmark, self.force_algo
        out.benchmark_record = self.benchmark_record
        out.thrust_allocator, out._timer = self.thrust_allocator, self._timer
        out.int8_scale = self.int8_scale
        return out

    def select_by_index(self, valid_indices: Tensor) -> "SparseConvTensor":
        """Returns the rows with these indices."""
        out = self._with(
            self._features[valid_indices],
            self.indices[valid_indices],
            self.spatial_shape,
        )
        out.indice_dict = {}
        return out

    def minus(self) -> "SparseConvTensor":
        """Returns the same voxels with the features negated."""
        return self.replace_feature(-self._features)

    def dense(self, channels_first: bool = True) -> Tensor:
        """[batch, channels, *shape], or channels last; 0 without a voxel."""
        _check_rows(self._features, self.indices)
        out = to_dense(
            self._features, self.indices, self.spatial_shape, self.batch_size
        )
        if channels_first:
            return out
        return out.permute(0, *range(2, out.dim()), 1).contiguous()

    def find_indice_pair(self, key: Any) -> Optional[IndiceData]:
        """Returns the data that a layer stored under its indice_key, or
        None."""
        return None if key is None else self.indice_dict.get(key)

    @property
    def spatial_size(self) -> int:
        """Number of voxels in the whole volume."""
        size = 1
        for extent in self.spatial_shape:
            size *= extent
        return size

    @property
    def is_quantized(self) -> bool:
        """False, as features are floating point."""
        return False

    @property
    def sparity(self) -> float:
        """The fraction of the volume that has voxels."""
        return self.indices.shape[0] / self.spatial_size / self.batch_size

    def __repr__(self) -> str:
        return (
            f"SparseConvTensor[shape={tuple(self._features.shape)}, "
            f"spatial_shape={self.spatial_shape}]"
        )

    def _repr_html_(self) -> str:
        return describe(
            "SparseConvTensor",
            self._features,
            self.indices,
            [
                ("spatial shape", self.spatial_shape),
                ("batch size", self.batch_size),
                ("indice keys", ", ".join(map(str, self.indice_dict))),
            ],
        )
