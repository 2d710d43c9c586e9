# SPDX-License-Identifier: Apache-2.0
"""MinkowskiEngine.modules: blocks of residual networks."""

from . import resnet_block

__all__ = ["resnet_block"]
