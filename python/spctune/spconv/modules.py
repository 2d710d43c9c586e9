# SPDX-License-Identifier: Apache-2.0
"""Containers of spconv: dense modules work on the features."""

from collections import OrderedDict
from typing import Any, Dict, Iterator, Optional

import torch
from torch import nn

from .core import SparseConvTensor

__all__ = [
    "Identity",
    "RemoveGrid",
    "SparseModule",
    "SparseSequential",
    "ToDense",
    "assign_name_for_sparse_modules",
    "is_sparse_conv",
    "is_spconv_module",
]


class SparseModule(nn.Module):
    """A module that takes a SparseConvTensor in SparseSequential."""

    def __init__(self, name: Optional[str] = None) -> None:
        super().__init__()
        self.name = name
        self._sparse_unique_name = ""


def is_spconv_module(module: Any) -> bool:
    """True if the module takes a SparseConvTensor."""
    return isinstance(module, SparseModule)


def is_sparse_conv(module: Any) -> bool:
    """True if the module is a convolution."""
    from .conv import SparseConvolution

    return isinstance(module, SparseConvolution)


def assign_name_for_sparse_modules(module: nn.Module) -> None:
    """Gives each sparse module its name in `module`."""
    for name, part in module.named_modules():
        if isinstance(part, SparseModule):
            part._sparse_unique_name = name


class SparseSequential(SparseModule):
    """Modules in sequence, given in order or by names. Modules that are not a
    SparseModule get the features, and are skipped if there are no voxels."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], (OrderedDict, dict)):
            named: Dict[str, Any] = dict(args[0])
        else:
            named = {str(i): module for i, module in enumerate(args)}
        for name, module in kwargs.items():
            if name in named:
                raise ValueError(f"two modules have the name '{name}'")
            named[name] = module
        for name, module in named.items():
            self.add_module(name, module)

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no module {index} of {len(self)}")
        return list(self._modules.values())[index]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def add(self, module: nn.Module, name: Optional[str] = None) -> None:
        """Appends a module."""
        name = str(len(self._modules)) if name is None else name
        if name in self._modules:
            raise KeyError(f"there is a module '{name}'")
        self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Returns the output of the last module."""
        for module in self._modules.values():
            assert module is not None
            if is_spconv_module(module) or not isinstance(
                input, SparseConvTensor
            ):
                input = module(input)
            elif (  # a compiled graph is one for any number of voxels
                torch.compiler.is_compiling() or input.indices.shape[0] != 0
            ):
                input = input.replace_feature(module(input.features))
        return input


class Identity(SparseModule):
    """Returns its input."""

    def forward(self, x: Any) -> Any:
        """Returns x."""
        return x


class ToDense(SparseModule):
    """Returns the dense tensor [batch, channels, *shape]."""

    def forward(self, x: SparseConvTensor) -> Any:
        """x.dense()."""
        return x.dense()


class RemoveGrid(SparseModule):
    """Removes the grid, which is not used here."""

    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        """Returns x without its grid."""
        x.grid = None  # type: ignore[assignment]
        return x
