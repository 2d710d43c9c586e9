# SPDX-License-Identifier: Apache-2.0
"""The definition of sparse layers in double precision, with maps of its own.

It shares no code with any engine. Voxels are int32 [rows, 4]: batch, x, y, z;
weights are [cout, k, k, k, cin / groups].
"""

import itertools
from typing import (
    Any,
    Dict,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import torch
from torch import Tensor

# The largest allowed difference from the reference, as a fraction of the root
# mean square of the results. A lost pair changes a result by more.
FAR = {"f16": 0.05, "bf16": 0.3, "tf32": 0.02, "f32": 1e-3}
TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "f32": torch.float32,
}


class Layer(NamedTuple):
    """A layer of voxels. kind: "subm"; "conv" (outputs at floor(voxel /
    stride)); "up" (the inverse of "conv", onto the scene's own voxels);
    "generative" (outputs at voxel * stride + offset); "expand" (outputs at
    floor(voxel / stride) + offset); "points"."""

    cin: int
    cout: int
    k: int = 3
    stride: int = 1
    groups: int = 1
    dtype: str = "f16"
    kind: str = "subm"
    axes: int = 3

    def sizes(self) -> Tuple[int, int, int]:
        """The kernel along each axis. Scenes of two axes have z = 0."""
        return (self.k, self.k, self.k if self.axes == 3 else 1)

    def text(self) -> str:
        words = f"{self.cin}->{self.cout} K{self.k}"
        words += " 2D" if self.axes == 2 else ""
        if self.kind == "points":
            words = f"points {words}"
        elif self.kind != "subm":
            words += f" {self.kind} s{self.stride}"
        return words + (f" G{self.groups}" if self.groups > 1 else "")

    def words(self) -> str:
        """The layer as the command writes it."""
        more = {
            "subm": "",
            "conv": f",stride={self.stride},rule=floor",
            "up": f",stride={self.stride},rule=floor",
            "generative": f",stride={self.stride}",
            "expand": f",stride={self.stride},rule=expand",
        }[self.kind]
        names = {"up": "inverse", "expand": "conv"}
        name = names.get(self.kind, self.kind)
        group = f",groups={self.groups}" if self.groups > 1 else ""
        return (
            f"{name},cin={self.cin},cout={self.cout}"
            f",k={'x'.join(map(str, self.sizes()))}"
            f"{more}{group},dtype={self.dtype}"
        )

    def shape(self) -> Tuple[int, ...]:
        return (self.cout, *self.sizes(), self.cin // self.groups)


def keys(coords: Tensor) -> Tensor:
    """Returns one int64 number a voxel, in coordinate order. Each axis has 16
    bits, so coordinates lie within -32768 and 32767."""
    c = coords.long() + torch.tensor([0, 1, 1, 1], device=coords.device) * 2**15
    return ((c[:, 0] * 2**16 + c[:, 1]) * 2**16 + c[:, 2]) * 2**16 + c[:, 3]


def rows_of(coords: Tensor, wanted: Tensor) -> Tensor:
    """Returns the row of each wanted voxel in `coords`; -1: it is absent."""
    have, order = torch.sort(keys(coords))
    want = keys(wanted)
    at = torch.searchsorted(have, want).clamp(max=len(have) - 1)
    found = have[at] == want
    return torch.where(found, order[at], torch.full_like(at, -1))


Sizes = Union[int, Sequence[int]]


def three(size: Sizes, like: Tensor) -> Tensor:
    sizes = [size] * 3 if isinstance(size, int) else list(size)
    return torch.tensor(sizes, device=like.device, dtype=like.dtype)


def offsets(k: Sizes) -> List[Tuple[int, ...]]:
    """Returns the offsets of a kernel, the last axis fastest. Axes of odd size
    are centred, others begin at 0."""
    sizes = [k] * 3 if isinstance(k, int) else list(k)
    firsts = [-((n - 1) // 2) if n % 2 else 0 for n in sizes]
    ranges = [range(f, f + n) for f, n in zip(firsts, sizes)]
    return list(itertools.product(*ranges))


def pairs(
    inputs: Tensor, outputs: Tensor, k: Sizes, stride: Sizes = 1
) -> List[Tuple[Tensor, Tensor]]:
    """Returns (output row, input row) for each offset: an output at o sees the
    input at o * stride + offset."""
    made = []
    for offset in offsets(k):
        at = outputs.clone()
        at[:, 1:] *= three(stride, at)
        at[:, 1:] += three(offset, at)
        i = rows_of(inputs, at)
        o = (i >= 0).nonzero()[:, 0]
        made.append((o, i[o]))
    return made


def moved(coords: Tensor, k: Sizes) -> List[Tensor]:
    """Returns the voxels moved by each offset of a kernel."""
    made = []
    for offset in offsets(k):
        at = coords.clone()
        at[:, 1:] += three(offset, at)
        made.append(at)
    return made


def unique(coords: Tensor) -> Tensor:
    return torch.unique(coords, dim=0)


def floored(coords: Tensor, stride: Sizes) -> Tensor:
    out, by = coords.clone(), three(stride, coords)
    out[:, 1:] = torch.div(out[:, 1:], by, rounding_mode="floor")
    return unique(out)


class Definition:
    """The map of a layer on a scene. `inputs` and `outputs` are the voxels of
    its input and output rows."""

    def __init__(self, layer: Layer, coords: Tensor) -> None:
        self.layer, kind, k = layer, layer.kind, layer.sizes()
        self.inputs = self.outputs = coords
        if kind == "subm":
            self.pairs = pairs(coords, coords, k)
        elif kind == "generative":
            scaled = coords.clone()
            scaled[:, 1:] *= layer.stride
            parts = moved(scaled, k)
            self.outputs = unique(torch.cat(parts))
            every = torch.arange(len(coords), device=coords.device)
            self.pairs = [(rows_of(self.outputs, p), every) for p in parts]
        elif kind == "expand":
            coarse = floored(coords, layer.stride)
            self.outputs = unique(torch.cat(moved(coarse, k)))
            self.pairs = pairs(coords, self.outputs, k, layer.stride)
        else:
            coarse = floored(coords, layer.stride)
            found = pairs(coords, coarse, k, layer.stride)
            if kind == "conv":
                self.outputs, self.pairs = coarse, found
            else:
                self.inputs = coarse
                self.pairs = [(i, o) for o, i in found]

    def count(self) -> int:
        return sum(len(o) for o, _ in self.pairs)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        """Returns the outputs in double precision; takes gradients."""
        layer, g = self.layer, self.layer.groups
        x, weight = x.double(), weight.double()
        flat = weight.reshape(g, layer.cout // g, -1, layer.cin // g)
        out = x.new_zeros(len(self.outputs), layer.cout)
        for n, (o, i) in enumerate(self.pairs):
            part = x[i].reshape(-1, g, layer.cin // g)
            made = torch.einsum("tgc,goc->tgo", part, flat[:, :, n])
            out = out.index_add(0, o, made.reshape(-1, layer.cout))
        return out

    def step(
        self, x: Tensor, weight: Tensor, dy: Tensor
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Returns outputs and gradients of inputs and weights. Autograd would
        keep the gathered rows of all offsets."""
        layer, g = self.layer, self.layer.groups
        x, weight, dy = x.double(), weight.double(), dy.double()
        flat = weight.reshape(g, layer.cout // g, -1, layer.cin // g)
        dx, dw = torch.zeros_like(x), torch.zeros_like(flat)
        for n, (o, i) in enumerate(self.pairs):
            inputs = x[i].reshape(-1, g, layer.cin // g)
            grads = dy[o].reshape(-1, g, layer.cout // g)
            part = torch.einsum("tgo,goc->tgc", grads, flat[:, :, n])
            dx.index_add_(0, i, part.reshape(-1, layer.cin))
            dw[:, :, n] = torch.einsum("tgo,tgc->goc", grads, inputs)
        return self.forward(x, weight), dx, dw.reshape(weight.shape)


class PointDefinition(Definition):
    """The map of a layer of points: an output sees all inputs within the
    radius; the cube of the radius has k cells along each axis."""

    def __init__(
        self, layer: Layer, points: Tensor, radius: float, to: Any = None
    ) -> None:
        self.layer, self.radius = layer, radius
        self.inputs, self.outputs = points, points if to is None else to
        r = torch.tensor(radius, device=points.device)
        parts: List[List[Tuple[Tensor, Tensor]]] = [
            [] for _ in range(layer.k**3)
        ]
        for first in range(0, len(self.outputs), 512):
            there = self.outputs[first : first + 512]
            d = points[None] - there[:, None]
            x, y, z = (d * d).unbind(2)
            o, i = ((x + y) + z <= r * r).nonzero().T
            cell = torch.floor(d[o, i] * (layer.k / (2 * r)) + layer.k / 2)
            at = cell.clamp(0, layer.k - 1).long()
            n = (at[:, 0] * layer.k + at[:, 1]) * layer.k + at[:, 2]
            for offset, part in enumerate(parts):
                mine = n == offset
                part.append((o[mine] + first, i[mine]))
        self.pairs = [
            (torch.cat([o for o, _ in part]), torch.cat([i for _, i in part]))
            for part in parts
        ]


class Conv(torch.nn.Module):
    """A convolution of the kit, with weights in double precision."""

    def __init__(
        self, cin: int, cout: int, k: Sizes, stride: Sizes, up: bool
    ) -> None:
        super().__init__()
        self.k, self.stride, self.up = k, stride, up
        sizes = [k] * 3 if isinstance(k, int) else list(k)
        weight = torch.randn(cout, *sizes, cin, dtype=torch.float64)
        # Scales weights so that sums over a scan's few inputs keep their size.
        self.weight = torch.nn.Parameter(weight * (2.0 / (4 * cin)) ** 0.5)


class Kit:
    """Layers of whole networks by the definition. A tensor is (features,
    voxels); the maps of a scene are kept until the next scene."""

    def __init__(self) -> None:
        self.maps: Dict[Any, Any] = {}

    def tensor(
        self, features: Tensor, coords: Tensor, shape: Any, batches: int
    ) -> Any:
        self.maps.clear()
        return features.double(), coords

    def conv(self, cin: int, cout: int, k: Any, stride: Any, up: bool) -> Conv:
        return Conv(cin, cout, k, stride, up)

    def load(self, conv: Any, weight: Tensor) -> None:
        conv.weight.data.copy_(weight)

    def grad(self, conv: Any) -> Tensor:
        return conv.weight.grad

    def found(self, coords: Tensor, k: Any, stride: Any) -> Any:
        """Returns the voxels of the outputs, and the pairs."""
        key = (id(coords), str(k), str(stride))
        if key not in self.maps:
            out = coords if stride == 1 else floored(coords, stride)
            made = pairs(coords, out, k, stride)
            self.maps[key] = (out, made, coords)
        return self.maps[key][:2]

    def call(self, conv: Any, x: Any, to: Any) -> Any:
        features, coords = x
        fine = coords if to is None else to[1]
        out, found = self.found(fine, conv.k, conv.stride)
        if to is not None:
            out, found = fine, [(i, o) for o, i in found]
        y = features.new_zeros(len(out), conv.weight.shape[0])
        flat = conv.weight.flatten(1, 3)
        for n, (o, i) in enumerate(found):
            y = y.index_add(0, o, features[i] @ flat[:, n].t())
        return y, out

    def features(self, x: Any) -> Tensor:
        return x[0]

    def replace(self, x: Any, features: Tensor) -> Any:
        return features, x[1]

    def coords(self, x: Any) -> Tensor:
        return x[1]


def distance(found: Any, want: Tensor) -> float:
    """Returns the largest difference relative to the root mean square of
    `want`; infinity if a number is missing or not finite."""
    if found is None or found.shape != want.shape:
        return float("inf")
    found, want = found.detach().double(), want.detach().double()
    if not bool(torch.isfinite(found).all()):
        return float("inf")
    scale = want.square().mean().sqrt() + 1e-30
    return float(((found - want).abs().max() / scale).item())


def apart(found: Sequence[Any], want: Sequence[Tensor]) -> float:
    """Returns the largest norm of a difference relative to the norm of the
    wanted tensor: for gradients of networks, whose numbers differ in size."""
    worst = 0.0
    for a, b in zip(found, want):
        if a is None or a.shape != b.shape:
            return float("inf")
        off = (a.double() - b.double()).norm() / (b.double().norm() + 1e-30)
        worst = max(worst, float(off)) if torch.isfinite(off) else float("inf")
    return worst


def explicit(definition: Definition, x: Tensor, weight: Tensor) -> Tensor:
    """The layer as one dense product of all gathered rows, in the type of x
    (im2col): the first algorithm of FlexGEMM's text."""
    layer, count = definition.layer, len(definition.pairs)
    cols = x.new_zeros(len(definition.outputs), count, layer.cin)
    for n, (o, i) in enumerate(definition.pairs):
        cols[o, n] = x[i]
    return cols.flatten(1) @ weight.reshape(layer.cout, -1).t()


def permuted(coords: Tensor, to: Tensor) -> Optional[Tensor]:
    """Returns the rows of `coords` in the order of `to`; None: other voxels."""
    if len(coords) != len(to):
        return None
    rows = rows_of(coords, to)
    return None if bool((rows < 0).any()) else rows
