# SPDX-License-Identifier: Apache-2.0
"""The names of spconv's algorithms, which choose nothing here."""

import enum

__all__ = ["ConvAlgo"]


class ConvAlgo(enum.Enum):
    """As in spconv.core. Kernels are chosen by measurement."""

    Native = 0
    MaskImplicitGemm = 1
    MaskSplitImplicitGemm = 2
