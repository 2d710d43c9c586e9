# SPDX-License-Identifier: Apache-2.0
"""The convolutions of spconv.

Coordinates keep the order of their columns: the first axis of `spatial_shape`
is the first of the kernel, whatever its name is. Weights [out, *kernel, in] are
the library's own layout.

An `indice_key` is checked but not trusted: layers find kernel maps by voxels
and geometry. If a key contradicts them, the layer warns and computes the right
result.
"""

import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from .. import fourth, ops
from .._lib import InvalidError
from ..nn import Convolution
from ..sparse import by_axis, footprint_shape, per_axis
from .checkpoint import load_weight
from .core import IndiceData, SparseConvTensor
from .modules import SparseModule

__all__ = ["SparseConvolution"]

Sizes = Union[int, Sequence[int]]


# The name of a buffer in spconv's checkpoints.
_MOST_VOXELS = "_max_num_voxels_during_training"


def _words(values: Sequence[int], rest: int) -> str:
    """Returns sizes of up to three axes as text; missing axes have `rest`."""
    return by_axis([*values, *[rest] * (3 - len(values))])


class SparseConvolution(Convolution, SparseModule):
    """Any convolution of spconv; the classes below name its kinds.

    ndim          1 to 4; four axes are for example space and time
    in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
    bias          as in torch.nn.Conv3d; a submanifold layer ignores stride and
                  padding
    subm          outputs at the inputs' voxels
    transposed    makes finer voxels
    inverse       returns to the voxels of the layer with the same indice_key
    algo, fp32_accum, record_voxel_count, large_kernel_fast_algo, name
                  accepted without effect

    InvalidError: five axes, or sizes that do not fit.
    """

    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes = 3,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        subm: bool = False,
        output_padding: Sizes = 0,
        transposed: bool = False,
        inverse: bool = False,
        indice_key: Optional[str] = None,
        algo: Any = None,
        fp32_accum: Optional[bool] = None,
        record_voxel_count: bool = False,
        act_type: Any = None,
        act_alpha: float = 0,
        act_beta: float = 0,
        large_kernel_fast_algo: bool = False,
        name: Optional[str] = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if not 1 <= ndim <= 4:
            raise InvalidError(f"layers have 1 to 4 axes, not {ndim}")
        kernel = per_axis(kernel_size, ndim)
        super().__init__(
            in_channels, out_channels, kernel, groups, bias, device, dtype
        )
        self.name, self._sparse_unique_name = name, ""
        self.ndim, self.kernel_size = ndim, list(kernel)
        self.stride = list(per_axis(stride, ndim))
        self.padding = list(per_axis(padding, ndim))
        self.dilation = list(per_axis(dilation, ndim))
        self.output_padding = list(per_axis(output_padding, ndim))
        self.subm, self.transposed, self.inverse = subm, transposed, inverse
        self.indice_key, self.algo, self.fp32_accum = (
            indice_key,
            algo,
            fp32_accum,
        )
        self.conv1x1 = self.weight[0, ..., 0].numel() == 1 and (
            subm or all(s == 1 for s in self.stride)
        )
        if self.conv1x1 and not subm and any(self.padding):
            raise InvalidError("a layer of one offset has no padding")
        self.record_voxel_count = record_voxel_count
        if record_voxel_count and not subm and not inverse:
            self.register_buffer(
                _MOST_VOXELS, torch.zeros(1, dtype=torch.int32)
            )
        self._words: Dict[Tuple[int, ...], str] = {}
        self._kernels: Dict[Tuple[int, ...], fourth.Kernel] = {}

    # ---- geometry ----

    def _geometry(self, shape: Sequence[int]) -> str:
        """Returns the layer's words on a spatial shape."""
        key = tuple(shape)
        words = self._words.get(key)
        if words is None:
            words = self._words[key] = self._make_words(shape)
        return words

    def _make_words(self, shape: Sequence[int]) -> str:
        box = (
            f"k={_words(self.kernel_size, 1)},"
            f"dilation={_words(self.dilation, 1)}"
        )
        if self.subm:
            return "subm," + box
        box += f",stride={_words(self.stride, 1)}"
        if self.transposed:
            origin = _words([-p for p in self.padding], 0)
            shape = self._out_shape(shape)
            return f"generative,{box},origin={origin},shape={_words(shape, 1)}"
        return (
            f"conv,rule=footprint,{box},padding={_words(self.padding, 0)},"
            f"shape={_words(shape, 1)}"
        )

    def _out_shape(self, shape: Sequence[int]) -> List[int]:
        if self.subm:
            return list(shape)
        if self.transposed:
            return [
                (s - 1) * t - 2 * p + d * (k - 1) + 1 + o
                for s, k, t, p, d, o in zip(
                    shape,
                    self.kernel_size,
                    self.stride,
                    self.padding,
                    self.dilation,
                    self.output_padding,
                )
            ]
        return list(
            footprint_shape(
                shape,
                self.kernel_size,
                self.stride,
                self.padding,
                self.dilation,
            )
        )

    # ---- running ----

    def is_inverseable(self) -> bool:
        """True if an inverse layer can name this layer."""
        return self.indice_key is not None and not self.subm

    def forward(
        self,
        input: SparseConvTensor,
        add_input: Optional[SparseConvTensor] = None,
    ) -> SparseConvTensor:
        """Returns the layer's outputs, plus the features of `add_input`, which
        has the same voxels. InvalidError: an inverse layer whose key names no
        strided layer over these voxels."""
        out = self._convolve(input)
        if add_input is not None:
            out = out.replace_feature(out.features + add_input.features)
        return out

    def _convolve(self, input: SparseConvTensor) -> SparseConvTensor:
        if not isinstance(input, SparseConvTensor):
            raise TypeError(
                f"{type(self).__name__} takes a SparseConvTensor, not "
                f"{type(input).__name__}"
            )
        if self.conv1x1:
            return input.replace_feature(self._one_by_one(input.features))
        if self.inverse:
            return self._invert(input)
        shape = input.spatial_shape
        out_shape = shape if self.subm else self._out_shape(shape)
        m, words, indices = self._map(input)
        if self.indice_key is not None:
            self._leave(input, m, words, indices, out_shape)
        if (
            self.record_voxel_count
            and self.training
            and _MOST_VOXELS in self._buffers
        ):
            getattr(self, _MOST_VOXELS).clamp_(min=indices.shape[0])
        y = self.run(input.features, m, words, indices.shape[0])
        return input._with(y, indices, out_shape)

    def _map(self, x: SparseConvTensor) -> Tuple[ops.AnyMap, str, Tensor]:
        """Returns the kernel map, the layer's words, and the voxels of the
        outputs."""
        if self.ndim == 4:
            return self._map_of_four(x)
        words = self._geometry(x.spatial_shape)
        m, indices = ops.kernel_map(x.indices, words)
        return m, words, indices

    def _map_of_four(
        self, x: SparseConvTensor
    ) -> Tuple[ops.AnyMap, str, Tensor]:
        if x.indices.shape[1] != 5:
            raise InvalidError(
                f"{type(self).__name__} has 4 axes, and its input "
                f"{x.indices.shape[1] - 1}"
            )
        kernel = self._kernel(x.spatial_shape)
        if self.subm:
            m, words = fourth.submanifold(x.indices, kernel)
            return m, words, x.indices
        # Layers with the same geometry share their outputs.
        known = x.indice_dict.get(self.indice_key)
        indices = (
            known.out_indices
            if known is not None
            and known.words == kernel.words("conv")
            and _same(known.indices, x.indices)
            and not self.transposed
            else fourth.outputs(x.indices, kernel, self.transposed)
        )
        m, words = fourth.map_between(
            x.indices, indices, kernel, self.transposed
        )
        return m, words, indices

    def _kernel(self, shape: Sequence[int]) -> fourth.Kernel:
        """Returns the kernel of four axes on a spatial shape. A transposed
        layer has the kernel of the layer that it reverses."""
        found = self._kernels.get(tuple(shape))
        if found is None:
            ends = tuple(shape), tuple(self._out_shape(shape))
            wide, narrow = ends[::-1] if self.transposed else ends
            found = self._kernels[tuple(shape)] = fourth.Kernel(
                tuple(self.kernel_size),
                (1,) * 4 if self.subm else tuple(self.stride),
                tuple(self.dilation),
                tuple(
                    -d * ((k - 1) // 2) if self.subm else -p
                    for k, d, p in zip(
                        self.kernel_size, self.dilation, self.padding
                    )
                ),
                wide,
                narrow,
            )
        return found

    def _one_by_one(self, features: Tensor) -> Tensor:
        """spconv reads the memory of these weights as [in, out]."""
        weight = self.weight.view(self.in_channels, self.out_channels)
        return torch.nn.functional.linear(features, weight.t(), self.bias)

    def _leave(
        self,
        x: SparseConvTensor,
        m: ops.AnyMap,
        words: str,
        indices: Tensor,
        out_shape: List[int],
    ) -> None:
        """Stores the map under the layer's key; warns if another geometry or
        other voxels have the key."""
        known = x.indice_dict.get(self.indice_key)
        if known is None:
            x.indice_dict[self.indice_key] = IndiceData(
                m,
                words,
                x.indices,
                indices,
                list(x.spatial_shape),
                out_shape,
                tuple(self.kernel_size),
                self.subm,
                self._kernel(x.spatial_shape) if self.ndim == 4 else None,
            )
        elif known.words != words or not _same(known.indices, x.indices):
            _warn(
                f"indice_key '{self.indice_key}' belongs to "
                f"'{known.words}' over {known.indices.shape[0]} voxels, and "
                f"this layer is '{words}' over {x.indices.shape[0]}; the layer "
                "uses its own kernel map, where spconv would use the other"
            )

    def _invert(self, x: SparseConvTensor) -> SparseConvTensor:
        known = self._find_strided(x)
        if tuple(self.kernel_size) != known.ksize:
            raise InvalidError(
                f"the layer of indice_key '{self.indice_key}' has the kernel "
                f"{by_axis(known.ksize)}, its inverse "
                f"{by_axis(self.kernel_size)}"
            )
        if self.ndim == 4:
            m, words = self._map_back(x, known)
        else:
            m = ops.inverse_map(known.map, known.words)
            words = "inverse," + known.words.split(",", 1)[1]
        y = self.run(x.features, m, words, known.indices.shape[0])
        return x._with(y, known.indices, list(known.spatial_shape))

    def _map_back(
        self, x: SparseConvTensor, known: IndiceData
    ) -> Tuple[ops.AnyMap, str]:
        kernel = known.kernel
        assert kernel is not None
        return fourth.map_between(x.indices, known.indices, kernel, True)

    def _find_strided(self, x: SparseConvTensor) -> IndiceData:
        """Returns the strided layer of the key if it made these voxels, else
        the layer that made them."""
        named = x.indice_dict.get(self.indice_key)
        if _made(named, x):
            return named  # type: ignore[return-value]
        for key, other in x.indice_dict.items():
            if _made(other, x) and other.ksize == tuple(self.kernel_size):
                _warn(
                    f"indice_key '{self.indice_key}' names "
                    + ("no layer" if named is None else f"'{named.words}'")
                    + f"; these voxels are of '{key}', which is inverted"
                )
                return other  # type: ignore[no-any-return]
        raise InvalidError(
            f"no strided layer with the indice_key '{self.indice_key}' made "
            "these voxels; an inverse layer returns to the voxels of one"
        )

    # ---- checkpoints ----

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, *rest: Any
    ) -> None:
        load_weight(state_dict, prefix + "weight", self.weight)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        words = (
            f"{self.in_channels}, {self.out_channels}, kernel_size="
            f"{self.kernel_size}, stride={self.stride}, padding={self.padding}"
        )
        if any(d != 1 for d in self.dilation):
            words += f", dilation={self.dilation}"
        if self.groups != 1:
            words += f", groups={self.groups}"
        if self.bias is None:
            words += ", bias=False"
        if self.indice_key is not None:
            words += f", indice_key='{self.indice_key}'"
        return words


def _same(one: Tensor, other: Tensor) -> bool:
    """True if the voxels are equal. Compares them only if the tensors
    differ."""
    if one is other:
        return True
    if torch.compiler.is_compiling() or one.shape != other.shape:
        return False
    return torch.equal(one, other)


def _made(data: Any, x: SparseConvTensor) -> bool:
    return (
        isinstance(data, IndiceData)
        and not data.is_subm
        and data.words.startswith("conv,")
        and _same(data.out_indices, x.indices)
    )


_said: Dict[str, bool] = {}


def _warn(sentence: str) -> None:
    """Warns once with a sentence."""
    if torch.compiler.is_compiling() or sentence in _said:
        return
    _said[sentence] = True
    warnings.warn(sentence, stacklevel=5)


# ---- the kinds of layers -----------------------------------------------------


def _kind(name: str, ndim: int, doc: str, **fixed: Any) -> Any:
    """Makes a class with spconv's name from the dimension and fixed
    arguments."""

    class Kind(SparseConvolution):
        def __init__(
            self,
            in_channels: int,
            out_channels: int,
            kernel_size: Sizes,
            *args: Any,
            **kwargs: Any,
        ) -> None:
            words = dict(zip(_ORDER[bool(fixed.get("inverse"))], args))
            twice = set(words) & set(kwargs)
            if twice or len(args) > len(_ORDER[bool(fixed.get("inverse"))]):
                raise TypeError(f"{name}() has too many arguments")
            super().__init__(
                ndim,
                in_channels,
                out_channels,
                kernel_size,
                **{**words, **kwargs, **fixed},
            )

    Kind.__name__ = Kind.__qualname__ = name
    Kind.__doc__ = doc
    Kind.__module__ = __name__
    return Kind


# The order of arguments after the kernel size.
_ORDER = {
    False: (
        "stride",
        "padding",
        "dilation",
        "groups",
        "bias",
        "indice_key",
        "algo",
    ),
    True: ("indice_key", "bias", "algo"),
}

for _ndim in (1, 2, 3, 4):
    _d = f"{_ndim}d"
    _places = {
        "SparseConv" + _d: ("Outputs at all voxels that see an input.", {}),
        "SubMConv" + _d: ("Outputs at the inputs' voxels.", {"subm": True}),
        "SparseInverseConv" + _d: (
            "Returns to the voxels of the strided layer with the same "
            "indice_key.",
            {"inverse": True},
        ),
        "SparseConvTranspose" + _d: (
            "Makes finer voxels: all that see an input.",
            {"transposed": True},
        ),
    }
    for _name, (_doc, _fixed) in _places.items():
        globals()[_name] = _kind(_name, _ndim, _doc, **_fixed)
        __all__.append(_name)
