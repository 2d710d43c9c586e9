# SPDX-License-Identifier: Apache-2.0
"""The sparse tensor and the tensor field of MinkowskiEngine.

MinkowskiEngine keeps coordinates as multiples of the tensor stride. Here a key
holds coordinates divided by the stride, as the library's rule "floor" has them;
`C` multiplies them.
"""

import enum
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .._lib import InvalidError, UnsupportedError
from ..ops import AnyMap
from ..sparse import per_axis, to_dense

__all__ = [
    "CoordinateManager",
    "CoordinateMapKey",
    "SparseTensor",
    "SparseTensorQuantizationMode",
    "TensorField",
    "cat",
]


class SparseTensorQuantizationMode(enum.Enum):
    """How the points of a voxel are combined."""

    RANDOM_SUBSAMPLE = 0  # the first point stays
    UNWEIGHTED_AVERAGE = 1
    UNWEIGHTED_SUM = 2
    NO_QUANTIZATION = 3


class CoordinateMapKey:
    """Voxels: coordinates divided by their stride, int32 [rows, 1 + D]."""

    def __init__(self, stride: Tuple[int, ...], indices: Tensor) -> None:
        self.stride, self.indices = stride, indices

    def get_tensor_stride(self) -> List[int]:
        """The stride of the coordinates."""
        return list(self.stride)

    def __repr__(self) -> str:
        return f"coordinate map key: {list(self.stride)}"


class Strided(NamedTuple):
    """The data that a strided layer keeps for its transposed layer."""

    map: AnyMap
    words: str
    fine: CoordinateMapKey
    coarse: CoordinateMapKey


class CoordinateManager:
    """Shared by the tensors of one scene: voxels by their stride."""

    def __init__(self, D: int, **_: Any) -> None:
        self.D = D
        self.first: Dict[Tuple[int, ...], CoordinateMapKey] = {}
        # Outputs of strided layers, by input and stride.
        self.coarse: Dict[Any, CoordinateMapKey] = {}
        self.made: Dict[Any, Strided] = {}

    def add(self, key: CoordinateMapKey) -> CoordinateMapKey:
        """Remembers the first voxels of each stride: a transposed layer returns
        to them."""
        self.first.setdefault(key.stride, key)
        return key


def distinct(rows: Tensor) -> Tuple[Tensor, Tensor]:
    """Returns the first of equal rows, in their order, and the voxel of each
    row."""
    found, inverse = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.arange(rows.shape[0], device=rows.device)
    if found.shape[0] == rows.shape[0]:
        return numbers, numbers
    first = numbers.new_full((found.shape[0],), rows.shape[0])
    first = first.scatter_reduce(0, inverse, numbers, "amin")
    index, order = first.sort()
    rank = torch.empty_like(order)
    rank[order] = numbers[: order.shape[0]]
    return index, rank[inverse]


def _merge(
    features: Tensor, index: Tensor, inverse: Tensor, mode: Any
) -> Tensor:
    """Computes the features of voxels from those of points."""
    modes = SparseTensorQuantizationMode
    if mode is modes.NO_QUANTIZATION or index.shape[0] == features.shape[0]:
        return features
    if mode is modes.RANDOM_SUBSAMPLE:
        return features[index]
    out = features.new_zeros(index.shape[0], features.shape[1])
    out = out.index_add(0, inverse, features)
    if mode is modes.UNWEIGHTED_AVERAGE:
        counts = inverse.bincount(minlength=index.shape[0])
        out = out / counts[:, None].to(out.dtype)
    return out


class SparseTensor:
    """Features of voxels.

    features            [rows, channels]
    coordinates         int32 [rows, 1 + D]: the batch element first; multiples
                        of tensor_stride. quantization_mode combines equal rows
    coordinate_map_key  in place of coordinates: another tensor's voxels

    InvalidError: neither is given, or sizes do not fit.
    """

    def __init__(
        self,
        features: Tensor,
        coordinates: Optional[Tensor] = None,
        tensor_stride: Union[int, Sequence[int]] = 1,
        coordinate_map_key: Optional[CoordinateMapKey] = None,
        coordinate_manager: Optional[CoordinateManager] = None,
        quantization_mode: Any = SparseTensorQuantizationMode.RANDOM_SUBSAMPLE,
        allocator_type: Any = None,
        minkowski_algorithm: Any = None,
        requires_grad: Optional[bool] = None,
        device: Any = None,
    ) -> None:
        if device is not None:
            features = features.to(device)
        self.quantization_mode = quantization_mode
        self.unique_index: Optional[Tensor] = None
        self.inverse_mapping: Optional[Tensor] = None
        if coordinates is not None:
            if device is not None:
                coordinates = coordinates.to(device)
            features, coordinate_map_key = self._take(
                features, coordinates, tensor_stride
            )
        elif coordinate_map_key is None:
            raise InvalidError(
                "a sparse tensor needs coordinates or a coordinate_map_key"
            )
        key = coordinate_map_key
        if features.shape[0] != key.indices.shape[0]:
            raise InvalidError(
                f"there are {features.shape[0]} rows of features and "
                f"{key.indices.shape[0]} of coordinates"
            )
        if requires_grad is not None:
            features.requires_grad_(requires_grad)
        self._F, self.coordinate_map_key = features, key
        self._manager = coordinate_manager or CoordinateManager(
            key.indices.shape[1] - 1
        )
        self._manager.add(key)

    def _take(
        self, features: Tensor, coordinates: Tensor, tensor_stride: Any
    ) -> Tuple[Tensor, CoordinateMapKey]:
        if features.shape[0] != coordinates.shape[0]:
            raise InvalidError(
                f"there are {features.shape[0]} rows of features and "
                f"{coordinates.shape[0]} of coordinates"
            )
        if coordinates.dtype.is_floating_point:
            warnings.warn(
                "coordinates are floating point and rounded down",
                stacklevel=4,
            )
            coordinates = coordinates.floor()
        rows = coordinates.int()
        stride = per_axis(tensor_stride, rows.shape[1] - 1)
        if any(s != 1 for s in stride):
            by = torch.tensor((1, *stride), dtype=torch.int32)
            rows = torch.div(rows, by.to(rows.device), rounding_mode="floor")
        index, inverse = distinct(rows)
        self.unique_index, self.inverse_mapping = index, inverse
        if index.shape[0] != rows.shape[0]:
            rows = rows[index]
        merged = _merge(features, index, inverse, self.quantization_mode)
        return merged, CoordinateMapKey(stride, rows.contiguous())

    # ---- properties ----

    @property
    def F(self) -> Tensor:
        """Features."""
        return self._F

    feats = features = F

    @property
    def C(self) -> Tensor:
        """Coordinates, multiples of the stride."""
        key = self.coordinate_map_key
        if all(s == 1 for s in key.stride):
            return key.indices
        by = torch.tensor((1, *key.stride), dtype=torch.int32)
        return key.indices * by.to(key.indices.device)

    coords = coordinates = C

    @property
    def D(self) -> int:
        """Number of axes."""
        return self.coordinate_map_key.indices.shape[1] - 1

    dimension = D

    @property
    def tensor_stride(self) -> List[int]:
        """The stride of the coordinates."""
        return list(self.coordinate_map_key.stride)

    @property
    def coordinate_manager(self) -> CoordinateManager:
        """The data that tensors of one scene share."""
        return self._manager

    @property
    def coordinate_key(self) -> CoordinateMapKey:
        """The voxels."""
        return self.coordinate_map_key

    @property
    def device(self) -> torch.device:
        """The device of the features."""
        return self._F.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the features."""
        return self._F.dtype

    @property
    def shape(self) -> torch.Size:
        """(rows, channels)."""
        return self._F.shape

    def size(self) -> torch.Size:
        """(rows, channels)."""
        return self._F.size()

    def __len__(self) -> int:
        return self._F.shape[0]

    def _batch(self) -> Tensor:
        return self.coordinate_map_key.indices[:, 0]

    def features_at(self, batch_index: int) -> Tensor:
        """Returns the features of a batch element."""
        return self._F[self._batch() == batch_index]

    def coordinates_at(self, batch_index: int) -> Tensor:
        """Returns the coordinates of a batch element, without its number."""
        return self.C[self._batch() == batch_index, 1:]

    def _elements(self) -> range:
        batch = self._batch()
        return range(int(batch.max()) + 1 if batch.numel() else 0)

    @property
    def decomposed_features(self) -> List[Tensor]:
        """Features by batch element."""
        return [self.features_at(b) for b in self._elements()]

    @property
    def decomposed_coordinates(self) -> List[Tensor]:
        """Coordinates by batch element."""
        return [self.coordinates_at(b) for b in self._elements()]

    @property
    def decomposed_coordinates_and_features(
        self,
    ) -> Tuple[List[Tensor], List[Tensor]]:
        """Coordinates and features by batch element."""
        return self.decomposed_coordinates, self.decomposed_features

    # ---- derived tensors ----

    def like(
        self, features: Tensor, key: Optional[CoordinateMapKey] = None
    ) -> "SparseTensor":
        """Makes a tensor of the same scene, on the same voxels unless others
        are named."""
        return SparseTensor(
            features,
            coordinate_map_key=key or self.coordinate_map_key,
            coordinate_manager=self._manager,
        )

    def parts(self) -> Tuple[Tensor, Tensor]:
        """Returns features and voxels, for spctune.compile()."""
        return self._F, self.coordinate_map_key.indices

    def remade(self, features: Tensor, coords: Tensor) -> "SparseTensor":
        """Returns this tensor with other features and voxels."""
        key = CoordinateMapKey(self.coordinate_map_key.stride, coords)
        return SparseTensor(features, coordinate_map_key=key)

    def detach(self) -> "SparseTensor":
        """Returns the tensor detached from autograd's graph."""
        return self.like(self._F.detach())

    def dense(
        self,
        shape: Optional[Sequence[int]] = None,
        min_coordinate: Optional[Tensor] = None,
        contract_stride: bool = True,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """[batch, channels, *shape], the lowest coordinate, and the stride. The
        shape is MinkowskiEngine's: (batch, channels, *sizes); None: up to the
        highest voxel."""
        if not contract_stride:
            raise InvalidError("dense() is offered with contract_stride alone")
        indices = self.coordinate_map_key.indices
        stride = torch.tensor(self.tensor_stride, dtype=torch.int32)
        if min_coordinate is None:
            low = indices[:, 1:].min(0).values
        else:
            low = torch.div(
                min_coordinate.flatten().int(), stride, rounding_mode="floor"
            )
        at = indices.clone()
        at[:, 1:] -= low
        sizes = (
            (at[:, 1:].max(0).values + 1).tolist()
            if shape is None
            else list(shape[2:])
        )
        batches = int(at[:, 0].max()) + 1 if shape is None else shape[0]
        out = to_dense(self._F, at, sizes, batches)
        return out, low * stride.to(low.device), stride

    def slice(self, field: "TensorField") -> "TensorField":
        """Returns for each point the features of its voxel."""
        at = field.inverse_mapping(self.coordinate_map_key)
        return TensorField(self._F[at], field.C, _of=field)

    def cat_slice(self, field: "TensorField") -> "TensorField":
        """Returns for each point the features of its voxel, followed by its
        own."""
        at = field.inverse_mapping(self.coordinate_map_key)
        return TensorField(
            torch.cat([self._F[at], field.F], 1), field.C, _of=field
        )

    # ---- arithmetic ----

    def _same(self, other: "SparseTensor") -> bool:
        return other.coordinate_map_key is self.coordinate_map_key

    def _union(self, other: "SparseTensor", sign: int) -> "SparseTensor":
        keys = self.coordinate_map_key, other.coordinate_map_key
        if keys[0].stride != keys[1].stride:
            raise InvalidError(
                f"tensors of the strides {list(keys[0].stride)} and "
                f"{list(keys[1].stride)} cannot be added"
            )
        rows = torch.cat([keys[0].indices, keys[1].indices])
        index, inverse = distinct(rows)
        features = torch.cat([self._F, sign * other._F])
        out = features.new_zeros(index.shape[0], features.shape[1])
        out = out.index_add(0, inverse, features)
        key = CoordinateMapKey(keys[0].stride, rows[index].contiguous())
        return self.like(out, key)

    def __add__(self, other: Any) -> "SparseTensor":
        if not isinstance(other, SparseTensor):
            return self.like(self._F + other)
        if self._same(other):
            return self.like(self._F + other._F)
        return self._union(other, 1)

    __radd__ = __iadd__ = __add__

    def __sub__(self, other: Any) -> "SparseTensor":
        if not isinstance(other, SparseTensor):
            return self.like(self._F - other)
        if self._same(other):
            return self.like(self._F - other._F)
        return self._union(other, -1)

    __isub__ = __sub__

    def __mul__(self, other: Any) -> "SparseTensor":
        if not isinstance(other, SparseTensor):
            return self.like(self._F * other)
        if not self._same(other):
            raise InvalidError(
                "products are offered for tensors on the same voxels alone"
            )
        return self.like(self._F * other._F)

    __rmul__ = __imul__ = __mul__

    def __truediv__(self, other: Any) -> "SparseTensor":
        if isinstance(other, SparseTensor):
            if not self._same(other):
                raise InvalidError(
                    "quotients are offered for tensors on the same voxels alone"
                )
            other = other._F
        return self.like(self._F / other)

    def __repr__(self) -> str:
        return (
            f"SparseTensor({tuple(self._F.shape)}, "
            f"tensor_stride={self.tensor_stride}, {self._F.device})"
        )


_AVERAGE = SparseTensorQuantizationMode.UNWEIGHTED_AVERAGE


class TensorField:
    """Features of points with continuous coordinates [rows, 1 + D], the batch
    element first. UnsupportedError: tensor_stride is not 1; sparse() takes a
    stride."""

    def __init__(
        self,
        features: Tensor,
        coordinates: Tensor,
        tensor_stride: Union[int, Sequence[int]] = 1,
        quantization_mode: Any = _AVERAGE,
        device: Any = None,
        _of: Optional["TensorField"] = None,
        **_: Any,
    ) -> None:
        if any(
            s != 1 for s in per_axis(tensor_stride, coordinates.shape[1] - 1)
        ):
            raise UnsupportedError(
                f"a tensor field with the stride {tensor_stride}: points have "
                "the stride 1; sparse(tensor_stride) makes other voxels"
            )
        if features.shape[0] != coordinates.shape[0]:
            raise InvalidError(
                f"there are {features.shape[0]} rows of features and "
                f"{coordinates.shape[0]} of coordinates"
            )
        if device is not None:
            features, coordinates = (
                features.to(device),
                coordinates.to(device),
            )
        self.F, self.C = features, coordinates
        self.quantization_mode = quantization_mode
        self._known: List[Tuple[CoordinateMapKey, Tensor]] = (
            [] if _of is None else _of._known
        )

    feats = property(lambda self: self.F)
    coordinates = property(lambda self: self.C)

    @property
    def D(self) -> int:
        """Number of axes."""
        return self.C.shape[1] - 1

    def sparse(
        self,
        tensor_stride: Union[int, Sequence[int]] = 1,
        coordinate_map_key: Optional[CoordinateMapKey] = None,
        quantization_mode: Any = None,
        coordinate_manager: Optional[CoordinateManager] = None,
    ) -> SparseTensor:
        """Returns the sparse tensor of the voxels of this stride that contain
        the points; or of the voxels of a key, with its stride. Points outside
        the key's voxels are left out, and voxels without a point are 0."""
        mode = quantization_mode or self.quantization_mode
        if coordinate_map_key is not None:
            features = self._onto(coordinate_map_key, mode)
            return SparseTensor(
                features,
                coordinate_map_key=coordinate_map_key,
                coordinate_manager=coordinate_manager,
            )
        made = SparseTensor(
            self.F,
            self.C.floor().int(),
            tensor_stride,
            coordinate_manager=coordinate_manager,
            quantization_mode=mode,
        )
        assert made.inverse_mapping is not None
        self._known.append((made.coordinate_map_key, made.inverse_mapping))
        return made

    def _onto(self, key: CoordinateMapKey, mode: Any) -> Tensor:
        """Returns the features of the voxels of a key."""
        modes = SparseTensorQuantizationMode
        if mode is modes.NO_QUANTIZATION:
            raise InvalidError(
                "NO_QUANTIZATION gives a row for each point, and the key's "
                "voxels may have several"
            )
        at = self._voxels(key)
        rows = (at >= 0).nonzero().flatten()
        at = at[rows]
        out = self.F.new_zeros(key.indices.shape[0], self.F.shape[1])
        if mode is modes.RANDOM_SUBSAMPLE:  # the first point of each voxel
            index, _ = distinct(at[:, None])
            return out.index_copy(0, at[index], self.F[rows[index]])
        out = out.index_add(0, at, self.F[rows])
        if mode is modes.UNWEIGHTED_AVERAGE:
            counts = at.bincount(minlength=len(out)).clamp(min=1)
            out = out / counts[:, None].to(out.dtype)
        return out

    def _voxels(self, key: CoordinateMapKey) -> Tensor:
        """Returns the row of the voxel that contains each point, or -1."""
        if key.indices.shape[1] != self.C.shape[1]:
            raise InvalidError(
                f"points with {self.D} axes and voxels with "
                f"{key.indices.shape[1] - 1}"
            )
        by = torch.tensor((1, *key.stride), dtype=torch.int32)
        rows = torch.div(
            self.C.floor().int(), by.to(self.C.device), rounding_mode="floor"
        )
        count = key.indices.shape[0]
        _, number = torch.unique(
            torch.cat([key.indices, rows]), dim=0, return_inverse=True
        )
        row_of = number.new_full((number.shape[0],), -1)
        row_of[number[:count]] = torch.arange(count, device=number.device)
        found: Tensor = row_of[number[count:]]
        return found

    def inverse_mapping(self, key: CoordinateMapKey) -> Tensor:
        """Returns the row of the voxel that contains each point, at the stride
        of the key. InvalidError: a point lies in no voxel."""
        for known, inverse in self._known:
            if known is key:
                return inverse
        at = self._voxels(key)
        missing = (at < 0).nonzero().flatten()
        if missing.numel():
            row = int(missing[0])
            raise InvalidError(
                f"{missing.numel()} of {len(self)} points lie in no voxel of "
                f"the stride {list(key.stride)}, first point {row} at "
                f"{self.C[row].tolist()}: slice() takes voxels that came of "
                "sparse() of this tensor field"
            )
        self._known.append((key, at))
        return at

    def __len__(self) -> int:
        return self.F.shape[0]


def cat(*tensors: Any) -> SparseTensor:
    """Concatenates the channels of tensors on the same voxels."""
    parts = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    for other in parts[1:]:
        if other.coordinate_map_key is not parts[0].coordinate_map_key:
            raise InvalidError("cat() takes tensors on the same voxels")
    out: SparseTensor = parts[0].like(torch.cat([x.F for x in parts], 1))
    return out
