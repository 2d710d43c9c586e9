# SPDX-License-Identifier: Apache-2.0
"""Well-known networks, written once for every module with spconv's interface:
spconv itself, or spctune.spconv.

SECOND and CenterPoint are as in OpenPCDet (Yan, Mao, Li, Sensors 2018; Yin,
Zhou, Krahenbuhl, CVPR 2021), MinkUNet34C (Choy, Gwak, Savarese, CVPR 2019), and
SpUNet is as in Pointcept.
"""

from typing import Any, Sequence

import torch
from torch import nn


def _norm(channels: int, eps: float) -> nn.BatchNorm1d:
    return nn.BatchNorm1d(channels, eps=eps, momentum=0.01)


def _relu(sp: Any, x: Any) -> Any:
    return x.replace_feature(torch.relu(x.features))


def _layer(sp: Any, conv: Any, eps: float = 1e-3) -> Any:
    return sp.SparseSequential(conv, _norm(conv.out_channels, eps), nn.ReLU())


def _residual(
    sp: Any, cin: int, cout: int, key: str, bias: bool, eps: float
) -> Any:
    class Residual(sp.SparseModule):
        def __init__(self) -> None:
            super().__init__()
            self.a = sp.SubMConv3d(
                cin, cout, 3, 1, 1, bias=bias, indice_key=key
            )
            self.b = sp.SubMConv3d(
                cout, cout, 3, 1, 1, bias=bias, indice_key=key
            )
            self.norm_a, self.norm_b = _norm(cout, eps), _norm(cout, eps)
            self.short = (
                None
                if cin == cout
                else sp.SparseSequential(
                    sp.SubMConv3d(cin, cout, 1, bias=False), _norm(cout, eps)
                )
            )

        def forward(self, x: Any) -> Any:
            y = self.a(x)
            y = self.b(y.replace_feature(torch.relu(self.norm_a(y.features))))
            y = y.replace_feature(self.norm_b(y.features))
            kept = x if self.short is None else self.short(x)
            return y.replace_feature(torch.relu(y.features + kept.features))

    return Residual()


def detector(sp: Any, residual: bool) -> nn.Module:
    """SECOND's backbone (4 channels in), or CenterPoint's (5) with residual
    blocks: five levels and a dense plane of 256 channels."""
    cin, last = (5, 128) if residual else (4, 64)
    subm, strided = sp.SubMConv3d, sp.SparseConv3d

    def same(c: int, level: int) -> Sequence[nn.Module]:
        key = f"subm{level}"
        if residual:
            return [_residual(sp, c, c, key, True, 1e-3) for _ in range(2)]
        count = 1 if level == 1 else 2
        return [
            _layer(sp, subm(c, c, 3, padding=1, bias=False, indice_key=key))
            for _ in range(count)
        ]

    def down(a: int, b: int, level: int, padding: Any) -> nn.Module:
        key = f"spconv{level}"
        return _layer(
            sp, strided(a, b, 3, 2, padding, bias=False, indice_key=key)
        )

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            first = subm(cin, 16, 3, padding=1, bias=False, indice_key="subm1")
            out = strided(last, 128, (3, 1, 1), (2, 1, 1), 0, bias=False)
            self.net = sp.SparseSequential(
                _layer(sp, first),
                *same(16, 1),
                down(16, 32, 2, 1),
                *same(32, 2),
                down(32, 64, 3, 1),
                *same(64, 3),
                down(64, last, 4, (0, 1, 1)),
                *same(last, 4),
                _layer(sp, out),
            )

        def forward(
            self, features: Any, indices: Any, shape: Any, batches: int
        ) -> Any:
            x = sp.SparseConvTensor(features, indices, shape, batches)
            plane = self.net(x).dense()
            n, c, d, h, w = plane.shape
            return plane.view(n, c * d, h, w)

    return Backbone()


def unet(sp: Any, widens_down: bool) -> nn.Module:
    """MinkUNet34C (3 channels in; strided layers keep their channels), or
    SpUNet (6 channels in; they widen): blocks 2, 3, 4, 6, then 2 on each level
    up; 20 classes."""
    cin = 6 if widens_down else 3
    planes = (32, 64, 128, 256, 256, 128, 96, 96)
    blocks = (2, 3, 4, 6, 2, 2, 2, 2)
    eps = 1e-3 if widens_down else 1e-5

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            stem = sp.SubMConv3d(
                cin, 32, 5, padding=2, bias=False, indice_key="stem"
            )
            self.stem = _layer(sp, stem, eps)
            self.down, self.encode = nn.ModuleList(), nn.ModuleList()
            self.up, self.decode = nn.ModuleList(), nn.ModuleList()
            c, kept = 32, [32]
            for i in range(4):
                wide = planes[i] if widens_down else c
                conv = sp.SparseConv3d(
                    c, wide, 2, 2, bias=False, indice_key=f"down{i}"
                )
                self.down.append(_layer(sp, conv, eps))
                c = wide
                part = []
                for _ in range(blocks[i]):
                    part.append(
                        _residual(sp, c, planes[i], f"subm{i + 1}", False, eps)
                    )
                    c = planes[i]
                self.encode.append(sp.SparseSequential(*part))
                kept.append(c)
            for i in range(4):
                level = 3 - i
                conv = sp.SparseInverseConv3d(
                    c, planes[4 + i], 2, indice_key=f"down{level}", bias=False
                )
                self.up.append(_layer(sp, conv, eps))
                c = planes[4 + i] + kept[level]
                part = []
                for _ in range(blocks[4 + i]):
                    part.append(
                        _residual(
                            sp, c, planes[4 + i], f"subm{level}", False, eps
                        )
                    )
                    c = planes[4 + i]
                self.decode.append(sp.SparseSequential(*part))
            self.head = nn.Linear(c, 20)

        def forward(
            self, features: Any, indices: Any, shape: Any, batches: int
        ) -> Any:
            x = self.stem(
                sp.SparseConvTensor(features, indices, shape, batches)
            )
            kept = [x]
            for down, encode in zip(self.down, self.encode):
                x = encode(down(x))
                kept.append(x)
            for i, (up, decode) in enumerate(zip(self.up, self.decode)):
                x, side = up(x), kept[3 - i]
                both = torch.cat([x.features, side.features], 1)
                x = decode(x.replace_feature(both))
            return self.head(x.features)

    return UNet()


def settle(model: nn.Module, seed: int = 1) -> nn.Module:
    """Sets statistics of normalisations as after some training, from a seed."""
    draw = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            for tensor, low, high in (
                (module.running_mean, -0.1, 0.1),
                (module.running_var, 0.5, 1.5),
                (module.weight.data, 0.5, 1.5),
                (module.bias.data, -0.1, 0.1),
            ):
                part = torch.rand(tensor.shape, generator=draw)
                tensor.copy_(low + (high - low) * part)
    return model


# The name of a network, the function that makes it, and its input channels.
NETWORKS = {
    "SECOND": (lambda sp: detector(sp, False), 4),
    "CenterPoint": (lambda sp: detector(sp, True), 5),
    "MinkUNet34C": (lambda sp: unet(sp, False), 3),
    "SpUNet": (lambda sp: unet(sp, True), 6),
}
