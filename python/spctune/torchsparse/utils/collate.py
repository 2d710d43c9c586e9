# SPDX-License-Identifier: Apache-2.0
"""Batches of scenes."""

from typing import Any, Sequence

import torch

from ..._lib import InvalidError
from ..tensor import SparseTensor

__all__ = ["sparse_collate", "sparse_collate_fn"]


def sparse_collate(inputs: Sequence[SparseTensor]) -> SparseTensor:
    """Makes a batch of scenes whose voxels are [rows, 3]: x, y, z."""
    stride = inputs[0].stride
    coords, feats = [], []
    for k, x in enumerate(inputs):
        if x.stride != stride:
            raise InvalidError(
                f"scene {k} has the stride {x.stride}, scene 0 {stride}"
            )
        rows = torch.as_tensor(x.coords).int()
        first = torch.full_like(rows[:, :1], k)
        coords.append(torch.cat([first, rows], 1))
        feats.append(torch.as_tensor(x.feats))
    return SparseTensor(torch.cat(feats), torch.cat(coords), stride)


def sparse_collate_fn(inputs: Sequence[Any]) -> Any:
    """Makes a dict of batches from a list of dicts, for DataLoader."""
    if not isinstance(inputs[0], dict):
        return inputs
    out = {}
    for name, first in inputs[0].items():
        values = [one[name] for one in inputs]
        if isinstance(first, dict):
            out[name] = sparse_collate_fn(values)
        elif isinstance(first, SparseTensor):
            out[name] = sparse_collate(values)
        elif isinstance(first, torch.Tensor) or hasattr(first, "__array__"):
            out[name] = torch.stack([torch.as_tensor(v) for v in values])
        else:
            out[name] = values
    return out
