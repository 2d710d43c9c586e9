# SPDX-License-Identifier: Apache-2.0
"""Networks with strided layers by the floor rule, written once for the kits of
all engines (peers), and for the definition (reference.Kit).

ResN21, ResNL and UNet42 are those of Spira and TorchSparse++; ResUNet2 is
FCGF's (Choy, Park, Koltun, ICCV 2019), which PointCNN++ takes for its tables.
"""

from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import Tensor, nn


class Net(nn.Module):
    """A network that a function describes. The function runs once with numbers
    of channels, which makes the modules, and then with tensors."""

    def __init__(
        self, kit: Any, describe: Callable[..., Any], cin: int
    ) -> None:
        super().__init__()
        self.kit, self.describe, self.making = kit, describe, True
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        self.lines = nn.ModuleList()
        describe(self, cin)
        self.making = False

    def conv(
        self,
        x: Any,
        cout: int,
        k: Any = 3,
        stride: Any = 1,
        up: Any = None,
        add: Any = None,
    ) -> Any:
        """Convolution, normalisation, sum with `add`, ReLU. up: the finer
        tensor to whose voxels the layer returns."""
        if self.making:
            made = self.kit.conv(x, cout, k, stride, up is not None)
            self.convs.append(made)
            self.norms.append(nn.BatchNorm1d(cout))
            return cout
        conv, norm = self.convs[self.at], self.norms[self.at]
        self.at += 1
        y = self.kit.call(conv, x, up)
        features = norm(self.kit.features(y))
        if add is not None:
            features = features + self.kit.features(add)
        return self.kit.replace(y, torch.relu(features))

    def line(self, x: Any, cout: int) -> Any:
        """A linear layer of each row."""
        if self.making:
            self.lines.append(nn.Linear(x, cout, bias=False))
            return cout
        linear = self.lines[self.line_at]
        self.line_at += 1
        return self.kit.replace(x, linear(self.kit.features(x)))

    def cat(self, x: Any, y: Any) -> Any:
        if self.making:
            return x + y
        both = [self.kit.features(x), self.kit.features(y)]
        return self.kit.replace(x, torch.cat(both, 1))

    def pair(self, x: Any, cout: int, k: int = 3) -> Any:
        """Two convolutions and a shortcut."""
        channels = x if self.making else self.kit.features(x).shape[1]
        short = x if channels == cout else self.line(x, cout)
        return self.conv(self.conv(x, cout, k), cout, k, add=short)

    def forward(
        self, features: Tensor, coords: Tensor, shape: Any, batches: int
    ) -> Tuple[Tensor, Tensor]:
        """Returns the features and the voxels of the last layer."""
        self.at = self.line_at = 0
        y = self.describe(
            self, self.kit.tensor(features, coords, shape, batches)
        )
        return self.kit.features(y), self.kit.coords(y)

    def grads(self) -> List[Tensor]:
        """Returns the gradients of all parameters, weights of convolutions as
        [cout, k, k, k, cin]."""
        rest = [*self.norms.parameters(), *self.lines.parameters()]
        return [
            *(self.kit.grad(conv) for conv in self.convs),
            *(p.grad for p in rest),
        ]

    def size(self) -> int:
        """Returns the bytes of the parameters."""
        return sum(p.numel() * p.element_size() for p in self.parameters())

    def load(self, other: "Net") -> None:
        """Copies the parameters of the same network of the reference."""
        for mine, its in zip(self.convs, other.convs):
            self.kit.load(mine, its.weight.detach())
        self.norms.load_state_dict(other.norms.state_dict())
        self.lines.load_state_dict(other.lines.state_dict())


def _resnet(net: Any, x: Any, k: int) -> Any:
    x = net.pair(net.pair(net.conv(x, 16, k), 16, k), 16, k)
    for width in (32, 64, 128):
        x = net.conv(x, width, k, 2)
        x = net.pair(net.pair(x, width, k), width, k)
    return x


def resn21(net: Any, x: Any) -> Any:
    return net.conv(_resnet(net, x, 3), 128, (1, 1, 3), (1, 1, 2))


def resnl(net: Any, x: Any) -> Any:
    return _resnet(net, x, 5)


def unet42(net: Any, x: Any) -> Any:
    x = net.conv(net.conv(x, 32), 32)
    kept = []
    for down, width in ((32, 32), (32, 64), (64, 128), (128, 256)):
        kept.append(x)
        x = net.conv(x, down, 2, 2)
        x = net.pair(net.pair(x, width), width)
    for width in (256, 128, 96, 96):
        side = kept.pop()
        x = net.cat(net.conv(x, width, 2, 2, up=side), side)
        x = net.pair(net.pair(x, width), width)
    return x


def resunet2(net: Any, x: Any) -> Any:
    kept = []
    x = net.pair(net.conv(x, 32, 5), 32)
    for width in (64, 128, 256):
        kept.append(x)
        x = net.pair(net.conv(x, width, 3, 2), width)
    for width in (128, 64, 64):
        side = kept.pop()
        x = net.pair(net.conv(x, width, 3, 2, up=side), width)
        x = net.cat(x, side)
    return net.line(net.conv(x, 64, 1), 32)


NETWORKS: Dict[str, Callable[..., Any]] = {
    "ResN21": resn21,
    "ResNL": resnl,
    "UNet42": unet42,
    "ResUNet2": resunet2,
}
