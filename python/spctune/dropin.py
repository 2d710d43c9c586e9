# SPDX-License-Identifier: Apache-2.0
"""Shared by the drop-ins: makes imports of another package find spctune."""

import sys
import types
import warnings
from typing import Dict

__all__ = ["serve"]


def serve(
    name: str, modules: Dict[str, types.ModuleType], is_ours: bool
) -> None:
    """Makes `import NAME` find these modules in this process. Warns if the
    package itself was imported before; `is_ours` tells that it was not."""
    if name in sys.modules and not is_ours:
        warnings.warn(
            f"{name} was imported before install(); modules that took names "
            "from it keep them",
            stacklevel=3,
        )
    for known in [n for n in sys.modules if n.split(".")[0] == name]:
        del sys.modules[known]
    sys.modules.update(modules)
