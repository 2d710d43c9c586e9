# SPDX-License-Identifier: Apache-2.0
"""What the drop-ins have in common: serving the imports of another package."""

import sys
import types
import warnings
from typing import Dict

__all__ = ["serve"]


def serve(
    name: str, modules: Dict[str, types.ModuleType], is_ours: bool
) -> None:
    """Makes `import NAME` find these modules in this process. Warns if the
    package itself was imported before, that is unless `is_ours`."""
    if name in sys.modules and not is_ours:
        warnings.warn(
            f"{name} was imported before install(); modules that took names "
            "from it keep them",
            stacklevel=3,
        )
    for known in [n for n in sys.modules if n.split(".")[0] == name]:
        del sys.modules[known]
    sys.modules.update(modules)
