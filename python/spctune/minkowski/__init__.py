# SPDX-License-Identifier: Apache-2.0
"""MinkowskiEngine's interface, on spctune.

    import spctune.minkowski as ME

in place of `import MinkowskiEngine as ME`, or spctune.minkowski.install(),
after which `import MinkowskiEngine` finds this module.
"""

import enum
import sys
import types
import warnings
from typing import Any, Dict

from torch import nn

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

# The version whose interface this is; programs compare it.
__version__ = "0.5.4"


class MinkowskiAlgorithm(enum.Enum):
    """Kept and not used."""

    DEFAULT = 0
    MEMORY_EFFICIENT = 1
    SPEED_OPTIMIZED = 2


class SparseTensorOperationMode(enum.Enum):
    """Tensors of one scene always share their voxels."""

    SEPARATE_COORDINATE_MANAGER = 0
    SHARE_COORDINATE_MANAGER = 1


def set_sparse_tensor_operation_mode(mode: Any) -> None:
    """Kept for programs that call it."""


def clear_global_coordinate_manager() -> None:
    """Kept for programs that call it: voxels end with their tensors."""


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
    there = sys.modules.get("MinkowskiEngine")
    if there is not None and there is not sys.modules[__name__]:
        warnings.warn(
            "MinkowskiEngine was imported before install(); modules that took "
            "names from it keep them",
            stacklevel=2,
        )
    for name in [
        n for n in sys.modules if n.split(".")[0] == "MinkowskiEngine"
    ]:
        del sys.modules[name]
    sys.modules.update(_modules())
