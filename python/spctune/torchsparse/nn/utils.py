# SPDX-License-Identifier: Apache-2.0
"""The functions that programs import from torchsparse.nn.utils."""

from . import fapply

__all__ = ["fapply"]
