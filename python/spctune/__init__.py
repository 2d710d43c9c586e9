# SPDX-License-Identifier: Apache-2.0
"""spctune: sparse convolution on 3D point clouds, tuned for the device.

Importing this module loads libspc and checks its version. It needs no other
package; NumPy and PyTorch are used where they are installed.

    spctune.array     convolution on NumPy and CuPy arrays
    spctune.options   the database, background mode, determinism
    spctune.tune      measures the kernels of a layer and stores the best
    spctune.capture   writes down the layers that a program runs, to be tuned
    spctune.wait      waits for kernels that are compiled in the background
    spctune.explain   which kernel a layer gets, and why
    spctune.db        what the database has

With JAX:

    spctune.jax       convolution within jit, with gradients

With PyTorch:

    spctune.SparseTensor, spctune.nn   a sparse tensor, and layers
    spctune.PointTensor                points that stay where they are
    spctune.ops                        functions on tensors
    spctune.spconv, spctune.install    spconv's interface
    spctune.compile, spctune.load      a model as one network
"""

import importlib
from typing import Any

from . import array
from ._abi import VERSION as _VERSION
from ._lib import (
    Error,
    InvalidError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
    version_text,
)
from .captures import capture
from .context import Context, empty_cache, options
from .tuning import db, devices, explain, tune, wait

__version__ = version_text(_VERSION)
__all__ = [
    "Context",
    "Error",
    "InvalidError",
    "NotFoundError",
    "OutOfMemoryError",
    "UnsupportedError",
    "array",
    "capture",
    "db",
    "devices",
    "empty_cache",
    "explain",
    "options",
    "tune",
    "wait",
]

# Modules that need PyTorch or JAX are imported at their first use.
_LATER = {
    "PointTensor": "points",
    "SparseTensor": "sparse",
    "compile": "compiled",
    "install": "spconv",
    "jax": "",
    "load": "compiled",
    "nn": "",
    "ops": "",
    "spconv": "",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'spctune' has no attribute '{name}'")
    try:
        found = importlib.import_module(f".{_LATER[name] or name}", __name__)
    except ModuleNotFoundError as error:
        needs = {"torch": "PyTorch 2.4 or later", "jax": "JAX 0.5 or later"}
        if error.name not in needs:
            raise
        raise ImportError(
            f"spctune.{name} needs {needs[error.name]}: pip install "
            f"{error.name}"
        ) from None
    return getattr(found, name) if _LATER[name] else found
