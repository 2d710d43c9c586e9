# SPDX-License-Identifier: Apache-2.0
"""pointcnn_resnet.py - Fig. 5 of PointCNN++: ResNet-18 on points, forward and
backward.

    python3 benchmarks/pointcnn_resnet.py --out FOLDER [--quick]

Ours has a stem of kernel 3 at all points. The authors' network (pointelligence)
has a stem of kernel 7 and stride 2 and a pool, so it computes less on the first
level, and its result cannot be compared with ours: it is compared with its own
in float32.
"""

from typing import Any, List

import harness
import reference
import torch
from harness import Entry
from pointcnn_layer import cloud
from reference import Layer, PointDefinition
from torch import nn

SCALE = 2.0**8  # of the loss: gradients in float16 stay above zero


class Ours(nn.Module):
    """The network of examples/networks/pointresnet18.lua."""

    def __init__(self, edge: float, widths: Any, dtype: str) -> None:
        super().__init__()
        import spctune.nn

        self.edge, self.dtype = edge, dtype
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        self.lines = nn.ModuleList()
        self.plan: List[Any] = []  # (level of inputs, of outputs, radius)

        def conv(cin: int, cout: int, a: int, b: int, radius: float) -> None:
            made = spctune.nn.PointConv(cin, cout, 3, radius=radius, bias=False)
            self.convs.append(made)
            self.norms.append(nn.BatchNorm1d(cout))
            self.plan.append((a, b, radius))

        radius, c = 1.25 * edge, 4
        conv(c, widths[0], 0, 0, radius)
        c = widths[0]
        for level, width in enumerate(widths):
            reach = radius * 2**level
            for block in range(2):
                down = level > 0 and block == 0
                before = level - 1 if down else level
                conv(c, width, before, level, reach / 2 if down else reach)
                conv(width, width, level, level, reach)
                same = c == width
                line = (
                    nn.Identity() if same else nn.Linear(c, width, bias=False)
                )
                self.lines.append(line)
                c = width

    def places(self, points: torch.Tensor) -> List[Any]:
        """The points of each level."""
        from spctune.points import Place

        found = [Place(points, None)]
        levels = max(b for _, b, _ in self.plan)
        for level in range(levels):
            found.append(found[-1].sample(self.edge * 2**level))
        return found

    def run(self, x: Any, points: List[torch.Tensor], conv: Any) -> Any:
        """conv(n, x): convolution n. Shortcuts to another level take the
        nearest point of the finer level."""

        def layer(n: int, x: Any, add: Any = None) -> Any:
            y = self.norms[n](conv(n, x))
            return torch.relu(y if add is None else y + add)

        x, n = layer(0, x), 1
        for line in self.lines:
            a, b, _ = self.plan[n]
            short = x if a == b else x[nearest(points[a], points[b])]
            y = layer(n, x)
            x = layer(n + 1, y, line(short))
            n += 2
        return x

    def forward(self, features: torch.Tensor, points: torch.Tensor) -> Any:
        import spctune

        places = self.places(points)

        def conv(n: int, x: torch.Tensor) -> Any:
            a, b, _ = self.plan[n]
            here = spctune.PointTensor.at(places[a], x)
            there = spctune.PointTensor.at(places[b], places[b].points)
            return self.convs[n](here, there).features

        return self.run(features, [p.points for p in places], conv)


def nearest(fine: torch.Tensor, coarse: torch.Tensor) -> torch.Tensor:
    """Returns the row of each coarse point, which is one of the fine points."""
    keys = [(p * 1024).round().int() for p in (fine, coarse)]
    keys = [torch.nn.functional.pad(k, (1, 0)) for k in keys]
    return reference.rows_of(*keys)


def defined(net: Ours, x: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """The network by the definition, in double precision."""
    levels = [p.points for p in net.places(points)]
    maps: dict = {}

    def conv(n: int, x: torch.Tensor) -> torch.Tensor:
        a, b, radius = net.plan[n]
        weight = net.convs[n].weight
        layer = Layer(x.shape[1], weight.shape[0], kind="points")
        key = (a, b, radius)
        if key not in maps:
            maps[key] = PointDefinition(layer, levels[a], radius, levels[b])
        maps[key].layer = layer
        return maps[key].forward(x, weight)

    return net.run(x.double(), levels, conv)


def ours(bench: harness.Bench, points: torch.Tensor, edge: float) -> Any:
    """Returns the network and its input, with statistics of this cloud."""
    torch.manual_seed(1)
    widths = bench.pick((64, 128, 256, 512), (8, 16))
    net = Ours(edge, widths, bench.dtype).to(bench.device).train()
    x = torch.randn(len(points), 4, device=bench.device)
    for norm in net.norms:
        norm.momentum = None
    with torch.no_grad():
        net(x, points)
    return net.eval(), x


def entries(bench: harness.Bench, points: torch.Tensor, edge: float) -> Any:
    """Returns the calls of a forward pass and of a training step."""
    kind = reference.TORCH[bench.dtype]
    net, x = ours(bench, points, edge)
    want = defined(net.double(), x, points)
    (want.square().mean() * SCALE).backward()
    grads = [conv.weight.grad for conv in net.convs]
    want = want.detach()
    net.zero_grad(set_to_none=True)
    net, x = net.to(kind), x.to(kind)
    far = {"f16": 0.3, "f32": 1e-3}[bench.dtype]

    def forward() -> Any:
        with torch.no_grad():
            return net(x, points.clone())

    def step() -> Any:
        net.zero_grad(set_to_none=True)
        y = net(x, points.clone())
        (y.float().square().mean() * SCALE).backward()
        return [conv.weight.grad for conv in net.convs]

    def off(y: Any) -> float:
        return reference.distance(y, want)

    def off_grads(found: Any) -> float:
        return reference.apart(found, grads)

    return (
        Entry("spctune", forward, off, far),
        Entry("spctune", step, off_grads, far),
    )


def theirs(bench: harness.Bench, points: torch.Tensor, edge: float) -> Any:
    engine = bench.engines["pointelligence"]
    torch.manual_seed(1)
    net = engine.resnet18(in_channels=4).to(bench.device).eval()
    sizes = torch.tensor([len(points)], device=bench.device)
    x = torch.randn(len(points), 4, device=bench.device)
    with torch.no_grad():
        want = net(x, points, sizes, edge).double()
    kind = reference.TORCH[bench.dtype]
    half, x = net.to(kind), x.to(kind)

    def forward() -> Any:
        with torch.no_grad():
            return half(x, points, sizes, edge)

    def step() -> Any:
        half.zero_grad(set_to_none=True)
        y = half(x, points, sizes, edge)
        y.float().square().mean().backward()
        return y.detach()

    def off(y: Any) -> float:
        return reference.distance(y, want)

    name = "pointelligence"
    return Entry(name, forward, off, 0.3), Entry(name, step, off, 0.3)


def measure(bench: harness.Bench) -> None:
    cases = bench.pick(((100000, 0.0363), (20000, 0.08)), ((300, 0.2),))
    for count, edge in bench.each("clouds", cases):
        points = cloud(bench, count)
        calls = [entries(bench, points, edge)]
        if "pointelligence" in bench.engines:
            made = bench.trying(
                "pointelligence", lambda p=points, e=edge: theirs(bench, p, e)
            )
            calls += [made] if made else []
        for n, pass_ in enumerate(("forward", "step")):
            bench.compare(
                "room",
                len(points),
                f"ResNet-18, {len(points)} points",
                [c[n] for c in calls],
                pass_=pass_,
            )
            for made in calls:
                mb = bench.peak(0, made[n].call)
                if mb is not None:
                    bench.add(
                        "room",
                        len(points),
                        f"ResNet-18, {len(points)} points",
                        made[n].engine,
                        "peak",
                        mb,
                        "MB",
                        pass_=pass_,
                    )


if __name__ == "__main__":
    harness.main(__doc__, __file__, measure)
