# SPDX-License-Identifier: Apache-2.0
"""FlexGEMM: submanifold layers of at most 32 offsets."""

import importlib.metadata
import inspect
import math
from typing import Any, Dict

import torch
from torch import Tensor

from peers import Built, Unsupported, need_gpu

# The algorithms of its text, from the first to the last.
ALGORITHMS = {
    "explicit": "explicit_gemm",
    "implicit": "implicit_gemm",
    "implicit, split-K": "implicit_gemm_splitk",
    "masked": "masked_implicit_gemm",
    "masked, split-K": "masked_implicit_gemm_splitk",
}


def allow_tf32(allowed: bool) -> None:
    """Sets the switch of its Triton kernels, where the version has one."""
    try:
        from flex_gemm.kernels.triton.spconv import config
    except ImportError:
        return
    if hasattr(config, "allow_tf32"):
        config.allow_tf32 = allowed


class Voxels(Built):
    def __init__(
        self, ops: Any, algorithm: str, layer: Any, definition: Any, weight: Any
    ) -> None:
        self.ops, self.algorithm = ops, algorithm
        coords = definition.inputs
        low = torch.nn.functional.pad(coords[:, 1:].amin(0), (1, 0))
        self.scene = (coords - low).contiguous()
        high = self.scene.amax(0).tolist()
        self.shape = torch.Size(
            [high[0] + 1, layer.cin, *(n + 1 for n in high[1:])]
        )
        self.weight = weight.detach().clone().contiguous().requires_grad_()
        self.takes = inspect.signature(ops.sparse_submanifold_conv3d).parameters
        self.remap()

    def remap(self) -> None:
        self.cache: Any = None

    def run(self, x: Tensor) -> Tensor:
        self.ops.set_algorithm(self.algorithm)
        words: Dict[str, Any] = {
            "feats": x,
            "coords": self.scene,
            "shape": self.shape,
            "weight": self.weight,
            "bias": None,
            "neighbor_cache": self.cache,
        }
        known = {k: v for k, v in words.items() if k in self.takes}
        y, self.cache = self.ops.sparse_submanifold_conv3d(**known)
        return y


class Engine:
    def __init__(self, device: Any, algorithm: str = "masked, split-K") -> None:
        need_gpu(device, "FlexGEMM")
        import flex_gemm.ops.spconv as ops

        self.ops, self.algorithm = ops, ALGORITHMS[algorithm]
        self.device = device
        self.version = importlib.metadata.version("flex_gemm")

    def layer(self, layer: Any, definition: Any, weight: Tensor) -> Built:
        if layer.kind != "subm" or layer.groups != 1:
            raise Unsupported("other layers than submanifold ones")
        if math.prod(layer.sizes()) > 32 and "masked" in self.algorithm:
            raise Unsupported("masks of more than 32 offsets")
        allow_tf32(layer.dtype == "tf32")
        return Voxels(self.ops, self.algorithm, layer, definition, weight)
