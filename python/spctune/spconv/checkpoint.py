# SPDX-License-Identifier: Apache-2.0
"""Weights of spconv 1 and 2 in checkpoints.

spconv 2.1 and later   [out, *kernel, in], as here
spconv 1               [*kernel, in, out]
spconv 2.0             [*kernel, out, in]
"""

from typing import Any

from torch import Tensor

__all__ = ["load_weight"]


def load_weight(state_dict: Any, name: str, weight: Tensor) -> None:
    """Converts an entry of `state_dict` to this layout, if its shape is that of
    another layout. An entry of unknown shape stays, and torch refuses it."""
    found = state_dict.get(name)
    if not isinstance(found, Tensor) or found.shape == weight.shape:
        return
    out, *kernel, group_in = weight.shape
    axes = range(found.dim() - 2)
    if list(found.shape) == [*kernel, group_in, out]:
        if weight[0, ..., 0].numel() == 1:
            # For a kernel of one offset spconv reads the memory as [in, out].
            state_dict[name] = found.reshape(weight.shape)
        else:
            state_dict[name] = found.permute(-1, *axes, -2).contiguous()
    elif list(found.shape) == [*kernel, out, group_in]:
        state_dict[name] = found.permute(-2, *axes, -1).contiguous()
