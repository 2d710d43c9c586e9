# SPDX-License-Identifier: Apache-2.0
"""TorchSparse's interface, on spctune.

    import spctune.torchsparse as torchsparse
    import spctune.torchsparse.nn as spnn

in place of `import torchsparse`, or spctune.torchsparse.install(), after which
`import torchsparse` finds this module.
"""

import sys
import types
from typing import Dict

from ..dropin import serve
from . import nn, tensor, utils
from .nn import functional
from .nn import utils as nn_utils
from .tensor import PointTensor, SparseTensor, cat, generative_add
from .utils import collate, quantize

__all__ = [
    "PointTensor",
    "SparseTensor",
    "cat",
    "generative_add",
    "install",
    "nn",
    "utils",
]

# The version of the interface that this module offers; programs compare it.
__version__ = "2.1.0"

# Switches of TorchSparse that programs set; they have no effect here.
backends = types.SimpleNamespace(
    allow_tf32=False, benchmark=True, hash_rsv_ratio=2
)


def _modules() -> Dict[str, types.ModuleType]:
    """The modules of TorchSparse that programs import, by name."""
    return {
        "torchsparse": sys.modules[__name__],
        "torchsparse.nn": nn,
        "torchsparse.nn.functional": functional,
        "torchsparse.nn.utils": nn_utils,
        "torchsparse.nn.modules": nn,
        "torchsparse.tensor": tensor,
        "torchsparse.operators": tensor,
        "torchsparse.utils": utils,
        "torchsparse.utils.quantize": quantize,
        "torchsparse.utils.collate": collate,
    }


def install() -> None:
    """Makes `import torchsparse` find spctune in this process. Warns if
    torchsparse itself was imported before."""
    ours = sys.modules.get("torchsparse") is sys.modules[__name__]
    serve("torchsparse", _modules(), ours)
