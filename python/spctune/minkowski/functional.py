# SPDX-License-Identifier: Apache-2.0
"""MinkowskiEngine.MinkowskiFunctional: torch's functions on the features."""

from typing import Any

from torch.nn import functional

from .features import on_features

_NAMES = (
    "celu elu gelu hardshrink hardsigmoid hardtanh hardswish leaky_relu "
    "logsigmoid log_softmax prelu relu relu6 rrelu selu sigmoid silu softmax "
    "softmin softplus softshrink softsign tanh tanhshrink threshold dropout "
    "alpha_dropout normalize"
).split()
__all__ = list(_NAMES)


def _made(name: str) -> Any:
    of_torch = getattr(functional, name)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return on_features(input, lambda f: of_torch(f, *args, **kwargs))

    function.__name__ = name
    function.__doc__ = f"torch.nn.functional.{name} on the features."
    return function


for _name in _NAMES:
    globals()[_name] = _made(_name)
