# SPDX-License-Identifier: Apache-2.0
"""The names of spconv's algorithms, which have no effect here."""

import enum

__all__ = ["ConvAlgo"]


class ConvAlgo(enum.Enum):
    """The names of spconv.core. spctune chooses kernels by measurement."""

    Native = 0
    MaskImplicitGemm = 1
    MaskSplitImplicitGemm = 2
