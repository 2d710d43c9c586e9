# SPDX-License-Identifier: Apache-2.0
"""Adapters of engines, one file each. They use the installed packages.

A module has a class Engine(device) with `version`, and any of

    layer(layer, definition, weight)  a layer of voxels or points: an object
        with forward(x), step(x, dy), gradients(result), remap(), inputs(),
        outputs()
    kit()  makes the layers of whole networks (networks.py)

Engine() raises an error if the engine is absent or does not run on the device.
"""

import importlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

# The name of an engine and its module. Ours is the first.
NAMES = {
    "spctune": "ours",
    "spconv": "spconv",
    "spconv-Triton": "spconv_triton",
    "FlexGEMM": "flexgemm",
    "TorchSparse++": "torchsparse",
    "WarpConvNet": "warpconvnet",
    "Spira": "spira",
    "pointelligence": "pointelligence",
}


class Unsupported(Exception):
    """The engine does not offer such a layer."""


class Built:
    """A layer of an engine whose weights take gradients. Subclasses define
    run(x), remap(), and, if they order voxels in their own way, inputs() and
    outputs()."""

    weight: Tensor
    static = 0

    def run(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def remap(self) -> None:
        """Forgets the map, so that the next call makes it."""
        raise NotImplementedError

    def inputs(self) -> Optional[Tensor]:
        """Returns the voxels that x has to be on, int32 [rows, 4]; None: those
        of the definition, in its order."""
        return None

    def outputs(self) -> Optional[Tensor]:
        """Returns the voxels of the results, int32 [rows, 4]; None: those of
        the definition, in its order."""
        return None

    def ours(self, grad: Tensor) -> Tensor:
        """Returns a gradient of the weights as [cout, k, k, k, cin/groups]."""
        return grad

    def forward(self, x: Tensor) -> Tensor:
        return self.run(x)

    def step(self, x: Tensor, dy: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Returns results, and gradients of x and of the weights."""
        x = x.detach().requires_grad_()
        y = self.run(x)
        dx, dw = torch.autograd.grad(y, (x, self.weight), dy)
        return y.detach(), dx, dw

    def gradients(self, result: Any) -> Tuple[Tensor, Tensor, Tensor]:
        y, dx, dw = result
        return y, dx, self.ours(dw)


def load(names: Sequence[str], device: Any) -> Tuple[Dict[str, Any], List[str]]:
    """Returns the engines that run on a device, and a sentence for each
    other."""
    engines: Dict[str, Any] = {}
    absent = []
    for name in names:
        if name not in NAMES:
            raise SystemExit(f"no engine '{name}': {', '.join(NAMES)}")
        try:
            module = importlib.import_module(f"peers.{NAMES[name]}")
            engines[name] = module.Engine(device)
        except Exception as error:  # whatever an import may raise
            text = str(error).strip().split("\n")[0][:200]
            absent.append(f"{name} is absent: {type(error).__name__}: {text}")
    return engines, absent


def need_gpu(device: Any, name: str) -> None:
    if torch.device(device).type != "cuda":
        raise RuntimeError(f"{name} runs on GPUs only")
