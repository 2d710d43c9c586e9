# SPDX-License-Identifier: Apache-2.0
"""The helpers of torchsparse.utils."""

from ..tensor import ntuple as make_ntuple

__all__ = ["make_ntuple"]
