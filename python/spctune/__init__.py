# SPDX-License-Identifier: Apache-2.0
"""spctune: sparse convolution on 3D point clouds, tuned for the device.

Importing this module loads libspc and checks its version. It needs no other
package; NumPy and PyTorch are used where they are installed.
"""
from ._abi import VERSION as _VERSION
from ._lib import (Error, InvalidError, NotFoundError, OutOfMemoryError,
                   UnsupportedError, version_text)

__version__ = version_text(_VERSION)
__all__ = ["Error", "InvalidError", "NotFoundError", "OutOfMemoryError",
           "UnsupportedError"]
