# SPDX-License-Identifier: Apache-2.0
"""MinkowskiEngine's interface, on spctune.

    import spctune.minkowski as ME

in place of `import MinkowskiEngine as ME`, or spctune.minkowski.install(),
after which `import MinkowskiEngine` finds this module.
"""

import enum
import sys
import types
from typing import Any, Dict

from torch import nn

from ..dropin import serve
from . import features, functional, layers, modules, tensor, utils
from . import functional as MinkowskiFunctional
from .features import *  # noqa: F403
from .layers import *  # noqa: F403
from .tensor import *  # noqa: F403

__all__ = [
    "MinkowskiFunctional",
    "MinkowskiNetwork",
    "install",
    "modules",
    "utils",
    *features.__all__,
    *layers.__all__,
    *tensor.__all__,
]

# The version of the interface that this module offers; programs compare it.
__version__ = "0.5.4"


class MinkowskiAlgorithm(enum.Enum):
    """Accepted for programs that set it; has no effect."""

    DEFAULT = 0
    MEMORY_EFFICIENT = 1
    SPEED_OPTIMIZED = 2


class SparseTensorOperationMode(enum.Enum):
    """Tensors of one scene always share their voxels."""

    SEPARATE_COORDINATE_MANAGER = 0
    SHARE_COORDINATE_MANAGER = 1


def set_sparse_tensor_operation_mode(mode: Any) -> None:
    """Does nothing; exists for programs that call it."""


def clear_global_coordinate_manager() -> None:
    """Does nothing, as voxels end with their tensors; exists for programs that
    call it."""


class MinkowskiNetwork(nn.Module):
    """The base of networks: D is the number of axes."""

    def __init__(self, D: int) -> None:
        super().__init__()
        self.D = D


def _modules() -> Dict[str, types.ModuleType]:
    """The modules of MinkowskiEngine that programs import, by name."""
    me = sys.modules[__name__]
    return {
        "MinkowskiEngine": me,
        "MinkowskiEngine.MinkowskiFunctional": functional,
        "MinkowskiEngine.MinkowskiSparseTensor": tensor,
        "MinkowskiEngine.MinkowskiTensorField": tensor,
        "MinkowskiEngine.MinkowskiConvolution": layers,
        "MinkowskiEngine.MinkowskiPooling": me,
        "MinkowskiEngine.MinkowskiNormalization": features,
        "MinkowskiEngine.MinkowskiNonlinearity": features,
        "MinkowskiEngine.modules": modules,
        "MinkowskiEngine.modules.resnet_block": modules.resnet_block,
        "MinkowskiEngine.utils": utils,
    }


def install() -> None:
    """Makes `import MinkowskiEngine` find spctune in this process. Warns if
    MinkowskiEngine itself was imported before."""
    ours = sys.modules.get("MinkowskiEngine") is sys.modules[__name__]
    serve("MinkowskiEngine", _modules(), ours)
