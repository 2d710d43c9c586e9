# SPDX-License-Identifier: Apache-2.0
"""Pooling of PyTorch tensors over a kernel map, with gradients."""

from typing import Any, Tuple

import torch
from torch import Tensor

from . import ops
from ._lib import InvalidError
from .maps import Map
from .ops import (
    _NAMES,
    AnyMap,
    _bytes,
    _map_of,
    _need_rows,
    _ready,
    _stream,
    need_first,
)

__all__ = ["pool"]


def _text(words: str, kind: str, x: Tensor) -> str:
    """Returns the operator in the words of the library."""
    name = _NAMES.get(x.dtype)
    if name is None:
        raise InvalidError(
            f"features are {x.dtype}; types are float16, bfloat16 and float32"
        )
    index = ",index=1" if kind == "max" else ""
    geometry = words.split(",", 1)[1]
    return f"pool={kind},c={x.shape[1]},dtype={name}{index},{geometry}"


def _forward(x: Tensor, m: Map, kind: str) -> Tuple[Tensor, Tensor]:
    """Returns outputs [rows_out, channels], and for a maximum the input row of
    each output, int32."""
    _need_rows(x, m.rows_in, "features")
    rows, channels = m.rows_out, x.shape[1]
    out = x.new_zeros(rows, channels)
    index = torch.zeros(
        rows if kind == "max" else 0,
        channels,
        dtype=torch.int32,
        device=x.device,
    )
    if rows and x.shape[0]:
        stream, x = _stream(x), _ready(x)
        call = m.relation.feature(_text(m.words, kind, x), False, stream)
        scratch, work = _bytes(call.work_bytes, x)
        call.run(
            stream,
            out=out.data_ptr(),
            workspace=work,
            index=index.data_ptr() if kind == "max" else None,
            in_=x.data_ptr(),
        )
    return out, index


def _backward(grad: Tensor, index: Tensor, m: Map, kind: str) -> Tensor:
    """Returns the gradient of the features: [rows_in, channels]."""
    out = grad.new_zeros(m.rows_in, grad.shape[1])
    if grad.shape[0] and m.rows_in:
        stream, grad = _stream(grad), _ready(grad)
        text = "pass=dgrad," + _text(m.words, kind, grad)
        call = m.relation.feature(text, True, stream)
        scratch, work = _bytes(call.work_bytes, grad)
        call.run(
            stream,
            out=out.data_ptr(),
            workspace=work,
            index=index.data_ptr() if kind == "max" else None,
            in_=grad.data_ptr(),
        )
    return out


class _Pool(torch.autograd.Function):
    """The autograd function of a pooling in eager code."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, m: Map, kind: str) -> Tensor:
        out, index = _forward(x, m, kind)
        ctx.save_for_backward(index)
        ctx.map, ctx.kind = m, kind
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        need_first(grad)
        return (
            _backward(grad, ctx.saved_tensors[0], ctx.map, ctx.kind),
            None,
            None,
        )


def pool(x: Tensor, m: AnyMap, words: str, rows: int, kind: str) -> Tensor:
    """Returns the maximum or the mean of the inputs that each output sees.

    x     [rows of the inputs, channels]: float16, bfloat16, float32
    m     a map of a strided layer; words: its geometry
    rows  rows of the outputs
    kind  "max" or "mean"
    """
    if ops.tape is not None and isinstance(m, Map):
        found = m
        traced: Tensor = ops.tape.pool(
            x, found, kind, lambda: _forward(x, found, kind)[0]
        )
        return traced
    if isinstance(m, Map):
        apply: Any = _Pool.apply
        out: Tensor = apply(x, m, kind)
        return out
    out, _ = torch.ops.spctune.pool(x, m, rows, words, kind)
    return out


def over_batches(x: Tensor, batch: Tensor, kind: str) -> Tensor:
    """Returns the "max", "mean" or "sum" of the rows of each batch element:
    [batches, channels] from [rows, channels]. batch [rows] has the batch
    element of each row."""
    batch = batch.long()
    n = int(batch.max()) + 1 if batch.numel() else 0
    if kind == "max":
        out = x.new_full((n, x.shape[1]), float("-inf"))
        return out.scatter_reduce(0, batch[:, None].expand_as(x), x, "amax")
    total = x.new_zeros(n, x.shape[1]).index_add(0, batch, x)
    if kind == "sum":
        return total
    counts = batch.bincount(minlength=n).clamp(min=1)
    return total / counts[:, None].to(total.dtype)


# ---- registered operators ----------------------------------------------------

_library = torch.library.Library("spctune", "FRAGMENT")
_library.define(
    "pool(Tensor x, Tensor map, SymInt rows, str words, str kind) -> "
    "(Tensor, Tensor)"
)
_library.define(
    "pool_backward(Tensor grad, Tensor index, Tensor map, SymInt rows, "
    "str words, str kind) -> Tensor"
)


def _op_pool(
    x: Tensor, handle: Tensor, rows: int, words: str, kind: str
) -> Tuple[Tensor, Tensor]:
    return _forward(x, _map_of(handle, words), kind)


def _op_pool_backward(
    grad: Tensor,
    index: Tensor,
    handle: Tensor,
    rows: int,
    words: str,
    kind: str,
) -> Tensor:
    return _backward(grad, index, _map_of(handle, words), kind)


def _fake_pool(
    x: Tensor, handle: Tensor, rows: int, words: str, kind: str
) -> Tuple[Tensor, Tensor]:
    return x.new_empty(rows, x.shape[1]), x.new_empty(
        (rows if kind == "max" else 0, x.shape[1]), dtype=torch.int32
    )


def _fake_pool_backward(
    grad: Tensor,
    index: Tensor,
    handle: Tensor,
    rows: int,
    words: str,
    kind: str,
) -> Tensor:
    return grad.new_empty(rows, grad.shape[1])


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, handle, _, words, kind = inputs
    ctx.save_for_backward(output[1], handle)
    ctx.rows, ctx.words, ctx.kind = x.shape[0], words, kind


def _op_backward(ctx: Any, grad: Tensor, _: Any) -> Any:
    index, handle = ctx.saved_tensors
    dx = torch.ops.spctune.pool_backward(
        grad.contiguous(), index, handle, ctx.rows, ctx.words, ctx.kind
    )
    return dx, None, None, None, None


for _name, _run, _fake in (
    ("pool", _op_pool, _fake_pool),
    ("pool_backward", _op_pool_backward, _fake_pool_backward),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"spctune::{_name}", _fake, lib=_library)
torch.library.register_autograd(
    "spctune::pool", _op_backward, setup_context=_setup, lib=_library
)
