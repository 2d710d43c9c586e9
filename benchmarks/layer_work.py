# SPDX-License-Identifier: Apache-2.0
"""A layer on a scene in all engines: inputs, reference, and the calls of each
pass."""

import math
from typing import Any, Dict, Optional, Tuple

import reference
import torch
from reference import FAR, TORCH, Layer
from timing import Entry, Scene


class LayerWork:
    """A layer on a scene with its inputs and its reference."""

    def __init__(
        self, bench: Any, scene: Scene, layer: Layer, definition: Any
    ) -> None:
        self.bench, self.scene, self.layer = bench, scene, layer
        self.map = definition or reference.Definition(layer, scene.coords)
        kind, device = TORCH[layer.dtype], bench.device
        draw = torch.Generator(device).manual_seed(1)

        def normal(*shape: int) -> torch.Tensor:
            made = torch.randn(*shape, generator=draw, device=device)
            return made.to(kind)

        fan = math.prod(layer.shape()[1:])
        self.x = normal(len(self.map.inputs), layer.cin)
        self.weight = normal(*layer.shape()) / fan**0.5
        self.dy = normal(len(self.map.outputs), layer.cout)
        self.wanted: Optional[Tuple[Any, ...]] = None

    def wants(self) -> Tuple[Any, ...]:
        """Returns outputs and both gradients, computed once."""
        if self.wanted is None:
            self.wanted = self.map.step(self.x, self.weight, self.dy)
        return self.wanted

    def build(self, engine: Any) -> Any:
        """Returns the layer of an engine, with its order of rows. Raises an
        error if it has other outputs."""
        before = torch.cuda.memory_allocated() if self.bench.gpu else 0
        torch.backends.cudnn.allow_tf32 = self.layer.dtype == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = self.layer.dtype == "tf32"
        made = engine.layer(self.layer, self.map, self.weight)
        made.order, made.x, made.dy = slice(None), self.x, self.dy
        made.back = slice(None)
        inputs = made.inputs()
        if inputs is not None:
            made.back = self.order(inputs, self.map.inputs, "inputs")
            made.x = torch.empty_like(self.x)
            made.x[made.back] = self.x
        with torch.no_grad():
            made.forward(made.x)
        outputs = made.outputs()
        if outputs is not None:
            made.order = self.order(outputs, self.map.outputs, "outputs")
            made.dy = torch.empty_like(self.dy)
            made.dy[made.order] = self.dy
        if self.bench.gpu:
            made.static = torch.cuda.memory_allocated() - before
        return made

    def order(self, coords: Any, wanted: Any, what: str) -> Any:
        """Returns the rows of an engine's voxels in the definition's order.
        ValueError: they are other voxels."""
        rows = reference.permuted(coords, wanted)
        if rows is None:
            raise ValueError(
                f"its {len(coords)} {what} are not the {len(wanted)} voxels of "
                "the definition"
            )
        return rows

    def entry(self, name: str, built: Any, which: str) -> Entry:
        far = FAR[self.layer.dtype]

        def forward() -> Any:
            with torch.no_grad():
                return built.forward(built.x)

        def with_map() -> Any:
            built.remap()
            return forward()

        def off(result: Any) -> float:
            found = built.gradients(result)
            found = (found[0][built.order], found[1][built.back], found[2])
            return max(
                reference.distance(a, b) for a, b in zip(found, self.wants())
            )

        if which == "step":
            return Entry(name, lambda: built.step(built.x, built.dy), off, far)
        if which in ("dgrad", "wgrad"):
            return self.gradient(name, built, which)
        call = with_map if which == "with map" else forward
        want = self.wants()[0]
        return Entry(
            name,
            call,
            lambda y: reference.distance(y[built.order], want),
            far,
        )

    def gradient(self, name: str, built: Any, which: str) -> Entry:
        """One gradient alone, of a forward pass that is kept."""
        x = built.x.detach().requires_grad_(which == "dgrad")
        built.weight.requires_grad_(which == "wgrad")
        y = built.run(x)
        built.weight.requires_grad_()
        to, nth = (x, 1) if which == "dgrad" else (built.weight, 2)
        want = self.wants()[nth]

        def off(grad: Any) -> float:
            mine = grad[built.back] if nth == 1 else built.ours(grad)
            return reference.distance(mine, want)

        def call() -> Any:
            (grad,) = torch.autograd.grad(y, to, built.dy, retain_graph=True)
            return grad

        return Entry(name, call, off, FAR[self.layer.dtype])

    def add_peaks(self, text: str, built: Dict[str, Any], trains: bool) -> None:
        bench = self.bench
        for name, made in built.items():
            which = "step" if trains else "forward"
            call = self.entry(name, made, which).call
            mb = bench.trying(
                f"{name}, {text}",
                lambda m=made, c=call: bench.peak(m.static, c),
            )
            if mb is not None:
                bench.add(
                    self.scene.name,
                    len(self.scene.coords),
                    text,
                    name,
                    "peak",
                    mb,
                    "MB",
                    pass_=which,
                    dtype=self.layer.dtype,
                )
