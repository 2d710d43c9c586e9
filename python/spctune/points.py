# SPDX-License-Identifier: Apache-2.0
"""Features of points that keep their positions."""

from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import torch
from torch import Tensor

from . import clouds, context, ops, show
from ._lib import InvalidError, UnsupportedError
from .clouds import Cloud
from .maps import Map
from .ops import _context, _copied, _ready, _stream, _version

__all__ = ["PointTensor"]


class Place:
    """Points, and the kernel maps from them. Tensors with the same points share
    this object. A write to the points makes new maps; copies and files of the
    points have no maps."""

    def __init__(self, points: Tensor, batch: Optional[Tensor]) -> None:
        self.points, self.batch = points, batch
        self._cloud: Optional[Cloud] = None
        self._stamp: Tuple[int, ...] = ()
        self._maps: Dict[str, List[Map]] = {}
        self._samples: Dict[Tuple[float, bool], "Place"] = {}

    def __reduce__(self) -> Any:
        return (Place, (self.points, self.batch))

    def cloud(self) -> Cloud:
        """Returns the cloud of the current points."""
        xyz, batch = self.points, self.batch
        stamp = (
            _version(xyz),
            0 if batch is None else _version(batch),
            context.own_pid,
        )
        if self._cloud is not None and self._stamp == stamp:
            return self._cloud
        self._maps, self._samples = {}, {}
        xyz = _ready(xyz.detach().float())
        if batch is not None:
            batch = _ready(batch.detach().int())
        self._cloud = Cloud.of_points(
            _context(xyz),
            xyz.data_ptr(),
            None if batch is None else batch.data_ptr(),
            len(xyz),
            _stream(xyz),
        )
        self._stamp = stamp
        return self._cloud

    def map_to(self, to: "Place", words: str) -> Map:
        """Returns the map of a layer from these points to other points, or to
        themselves."""
        here, there = self.cloud(), to.cloud()
        known = self._maps.setdefault(words, [])
        for m in known:
            if m.relation.coarse.ptr == there.ptr:
                return m
        known.append(clouds.join(here, there, words))
        return known[-1]

    def sample(self, edge: float, centred: bool = False) -> "Place":
        """Returns the first point in each voxel of this edge, or the one
        nearest to the voxel's centre, in ascending order of the voxels."""
        cloud = self.cloud()
        found = self._samples.get((edge, centred))
        if found is None:
            made = cloud.sampled(edge, _stream(self.points), centred)
            rows = (made.rows,)
            source = _copied(cloud.ctx, made.sources(), rows, self.points)
            source = source.long()
            batch = None if self.batch is None else self.batch[source]
            found = Place(self.points.detach()[source], batch)
            self._samples[edge, centred] = found
        return found


class PointTensor:
    """Features of points.

    features  [rows, channels]
    points    [rows, 3]: x, y, z; converted to float32
    batch     [rows]: the batch element of each point, from 0; None: one element

    Points may be equal. Layers keep kernel maps with the points; the result of
    replace() shares them. No gradient reaches the points. InvalidError: sizes
    do not fit each other.
    """

    def __init__(
        self, features: Tensor, points: Tensor, batch: Optional[Tensor] = None
    ) -> None:
        if points.dim() != 2 or points.shape[1] != 3:
            raise InvalidError(
                f"points have the shape {tuple(points.shape)}; it is [rows, 3]"
            )
        if batch is not None and batch.shape != points.shape[:1]:
            raise InvalidError(
                f"batch has the shape {tuple(batch.shape)}; with "
                f"{points.shape[0]} points it is [{points.shape[0]}]"
            )
        if batch is not None and batch.device != points.device:
            raise InvalidError(
                f"points are on {points.device} and batch on {batch.device}"
            )
        self._fill(features, Place(points, batch))

    def _fill(self, features: Tensor, place: Place) -> "PointTensor":
        rows = place.points.shape[0]
        if features.dim() != 2 or features.shape[0] != rows:
            raise InvalidError(
                f"features have the shape {tuple(features.shape)}; with "
                f"{rows} points it is [{rows}, channels]"
            )
        self.features, self.place = features, place
        return self

    @property
    def points(self) -> Tensor:
        """[rows, 3]."""
        return self.place.points

    @property
    def batch(self) -> Optional[Tensor]:
        """[rows], or None."""
        return self.place.batch

    def replace(self, features: Tensor) -> "PointTensor":
        """Returns the same points with other features."""
        return self.at(self.place, features)

    @staticmethod
    def at(place: Place, features: Tensor) -> "PointTensor":
        """Makes features of points that have maps."""
        return PointTensor.__new__(PointTensor)._fill(features, place)

    def to(self, *args: Any, **kwargs: Any) -> "PointTensor":
        """Converts features as Tensor.to() does, and moves the points to the
        same device."""
        features, batch = self.features.to(*args, **kwargs), self.batch
        if features.device == self.points.device:
            return self.replace(features)
        return PointTensor(
            features,
            self.points.to(features.device),
            None if batch is None else batch.to(features.device),
        )

    def __len__(self) -> int:
        return self.features.shape[0]

    def __repr__(self) -> str:
        f = self.features
        return (
            f"PointTensor({f.shape[0]} points, {f.shape[1]} channels, "
            f"{str(f.dtype)[6:]}, {f.device})"
        )

    def _repr_html_(self) -> str:
        f, pairs = self.features, []
        if len(self):
            low, high = self.points.amin(0), self.points.amax(0)
            axes = zip("xyz", low.tolist(), high.tolist())
            pairs = [(a, f"{first:g} to {last:g}") for a, first, last in axes]
        if self.batch is not None and len(self):
            pairs.append(("batch elements", f"0 to {int(self.batch.max())}"))
        kind = f"{str(f.dtype)[6:]} on {f.device}"
        return show.facts(
            "spctune.PointTensor",
            [
                ("points", len(self)),
                ("channels", f.shape[1]),
                ("type", kind),
                *pairs,
            ],
        )


def near(x: PointTensor, to: Place, words: str) -> Map:
    """Returns the map of a layer of points. UnsupportedError: called within
    spctune.compile()."""
    if ops.tape is not None:
        raise UnsupportedError(
            "spctune.compile() records layers of voxels; a layer of points "
            "runs by itself"
        )
    return x.place.map_to(to, words)


F = TypeVar("F", bound=Callable[..., Any])


def apart(function: F) -> F:
    """Marks a function that torch.compile leaves out of its graphs, as clouds
    have no registered operators."""
    made: F = torch.compiler.disable(function)
    return made
