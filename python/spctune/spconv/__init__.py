# SPDX-License-Identifier: Apache-2.0
"""spconv's interface for PyTorch, on spctune.

    import spctune.spconv as spconv

in place of `import spconv.pytorch as spconv`, or spctune.install(), after which
`import spconv.pytorch` finds this module.
"""

import sys
import types
from typing import Any, Dict

from ..dropin import serve
from . import algo, conv, core, modules, pool, utils
from .algo import ConvAlgo
from .conv import *  # noqa: F403
from .core import ImplicitGemmIndiceData, IndiceData, SparseConvTensor
from .modules import (
    Identity,
    RemoveGrid,
    SparseModule,
    SparseSequential,
    ToDense,
    assign_name_for_sparse_modules,
    is_spconv_module,
)
from .pool import *  # noqa: F403

ops = algo  # programs import ConvAlgo from there
__all__ = [
    "ConvAlgo",
    "Identity",
    "ImplicitGemmIndiceData",
    "IndiceData",
    "RemoveGrid",
    "SparseConvTensor",
    "SparseModule",
    "SparseSequential",
    "ToDense",
    "assign_name_for_sparse_modules",
    "install",
    "is_spconv_module",
    *conv.__all__,
    *pool.__all__,
]

# The version of the interface that this module offers; programs compare it.
__version__ = "2.3.8"


constants = types.SimpleNamespace(
    SPCONV_USE_DIRECT_TABLE=True,
    SPCONV_ALLOW_TF32=False,
    SPCONV_DO_SORT=True,
    SAVED_WEIGHT_LAYOUT="",
    ALL_WEIGHT_IS_KRSC=True,
    FILTER_HWIO=False,
)


def _modules() -> Dict[str, types.ModuleType]:
    """The modules of spconv that programs import, by name."""
    me = sys.modules[__name__]

    def module(name: str, **names: Any) -> types.ModuleType:
        made = types.ModuleType(name, "spctune in the place of " + name)
        made.__dict__.update(names)
        made.__path__ = []
        return made

    core_cc = module("spconv.core", ConvAlgo=ConvAlgo)
    found = {
        "spconv.pytorch": me,
        "spconv.pytorch.conv": conv,
        "spconv.pytorch.core": core,
        "spconv.pytorch.modules": modules,
        "spconv.pytorch.pool": pool,
        "spconv.pytorch.ops": algo,
        "spconv.pytorch.identity": modules,
        "spconv.conv": conv,
        "spconv.modules": modules,
        "spconv.pool": pool,
        "spconv.core": core_cc,
        "spconv.constants": module("spconv.constants", **vars(constants)),
        "spconv.algo": algo,
        "spconv.utils": utils,
        "spconv.pytorch.utils": utils,
    }
    # spconv 1 has its layers in the top module.
    names = {n: getattr(me, n) for n in dir(me) if not n.startswith("_")}
    top = module("spconv", **names)
    top.__version__ = __version__  # type: ignore[attr-defined]
    top.pytorch = me  # type: ignore[attr-defined]
    top.utils = utils  # type: ignore[attr-defined]
    top.core = core_cc  # type: ignore[attr-defined]
    top.constants = found["spconv.constants"]  # type: ignore[attr-defined]
    return {"spconv": top, **found}


def install() -> None:
    """Makes `import spconv` and `import spconv.pytorch` find spctune in this
    process. Warns if spconv itself was imported before: names that were
    imported from it stay spconv's."""
    there = sys.modules.get("spconv")
    ours = getattr(there, "pytorch", None) is sys.modules[__name__]
    serve("spconv", _modules(), ours)
