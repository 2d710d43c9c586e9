# SPDX-License-Identifier: Apache-2.0
"""Networks with the shapes of well-known networks, for any module with spconv's
interface; and their definition in double precision on dense tensors."""

import dense
import torch
from torch import nn


def block(sp, cin, cout, kernel, key, stride=1, padding=0, kind="subm"):
    if kind == "subm":
        conv = sp.SubMConv3d(
            cin, cout, kernel, padding=1, bias=False, indice_key=key
        )
    elif kind == "strided":
        conv = sp.SparseConv3d(
            cin, cout, kernel, stride, padding, bias=False, indice_key=key
        )
    else:
        conv = sp.SparseInverseConv3d(
            cin, cout, kernel, indice_key=key, bias=False
        )
    norm = nn.BatchNorm1d(cout, eps=1e-3, momentum=0.01)
    return sp.SparseSequential(conv, norm, nn.ReLU())


def detector(sp, cin=4):
    """A backbone with the shape of SECOND's: four levels and a flat last
    layer."""

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv_input = block(sp, cin, 16, 3, "subm1")
            self.conv1 = sp.SparseSequential(block(sp, 16, 16, 3, "subm1"))
            levels = ((16, 32, 1), (32, 64, 1), (64, 64, (0, 1, 1)))
            for i, (a, b, padding) in enumerate(levels, 2):
                down = block(
                    sp, a, b, 3, f"spconv{i}", 2, padding, kind="strided"
                )
                same = [block(sp, b, b, 3, f"subm{i}") for _ in range(2)]
                setattr(self, f"conv{i}", sp.SparseSequential(down, *same))
            self.conv_out = block(
                sp, 64, 128, (3, 1, 1), "down", (2, 1, 1), 0, kind="strided"
            )

        def forward(self, features, coords, shape, batches):
            x = sp.SparseConvTensor(features, coords, shape, batches)
            out = []
            for name in (
                "conv_input",
                "conv1",
                "conv2",
                "conv3",
                "conv4",
                "conv_out",
            ):
                x = getattr(self, name)(x)
                out.append(x)
            return out

    return Detector()


def unet(sp, cin=4):
    """An encoder and a decoder with residual blocks and inverse layers."""

    class Residual(sp.SparseModule):
        def __init__(self, channels, key):
            super().__init__()
            self.a = block(sp, channels, channels, 3, key)
            self.b = sp.SubMConv3d(channels, channels, 3, indice_key=key)

        def forward(self, x):
            y = self.b(self.a(x))
            return y.replace_feature(torch.relu(y.features + x.features))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.start = block(sp, cin, 16, 3, "s1")
            self.r1 = Residual(16, "s1")
            self.down = block(sp, 16, 32, 3, "d2", 2, 1, kind="strided")
            self.r2 = Residual(32, "s2")
            self.up = block(sp, 32, 16, 3, "d2", kind="inverse")
            self.merge = sp.SubMConv3d(32, 16, 1, bias=True, indice_key="one")
            self.end = Residual(16, "s1")

        def forward(self, features, coords, shape, batches):
            x = sp.SparseConvTensor(features, coords, shape, batches)
            x = self.r1(self.start(x))
            low = self.r2(self.down(x))
            up = self.up(low)
            both = torch.cat([up.features, x.features], 1)
            return [low, self.end(self.merge(up.replace_feature(both)))]

    return UNet()


def settle(model, seed=0):
    """Sets random parameters and statistics of batch normalisations."""
    draw = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            for tensor, low, high in (
                (module.running_mean, -0.1, 0.1),
                (module.running_var, 0.5, 1.5),
                (module.weight.data, 0.5, 1.5),
                (module.bias.data, -0.1, 0.1),
            ):
                tensor.copy_(
                    low
                    + (high - low) * torch.rand(tensor.shape, generator=draw)
                )
    return model


def scene(seed=0, shape=(41, 32, 24), rows=700, batches=2, cin=4):
    """Returns features and voxels along a ground, in random order."""
    draw = torch.Generator().manual_seed(seed)
    c = torch.stack(
        [
            torch.randint(0, n, (rows,), generator=draw)
            for n in (batches, 6, *shape[1:])
        ],
        1,
    )
    c[:, 1] += (c[:, 2] // 4) % (shape[0] - 6)
    c = torch.unique(c, dim=0)
    c = c[torch.randperm(len(c), generator=draw)].int().contiguous()
    return torch.randn(len(c), cin, generator=draw), c, list(shape), batches


# ---- the definition ----------------------------------------------------------


class Dense:
    """spconv's interface, computed in double precision by torch's dense
    layers."""

    class SparseModule(nn.Module):
        pass

    class SparseConvTensor:
        def __init__(self, features, indices, shape, batches, keys=None):
            self.features, self.indices = features.double(), indices
            self.shape, self.batches = list(shape), batches
            self.keys = {} if keys is None else keys

        def replace_feature(self, features):
            return Dense.SparseConvTensor(
                features, self.indices, self.shape, self.batches, self.keys
            )

        def volume(self):
            return dense.spread(
                self.features, self.indices, self.shape, self.batches
            )

    class Conv(SparseModule):
        kind = "strided"

        def __init__(
            self,
            cin,
            cout,
            kernel,
            stride=1,
            padding=0,
            bias=True,
            indice_key=None,
        ):
            super().__init__()
            three = [kernel] * 3 if isinstance(kernel, int) else list(kernel)
            self.weight = nn.Parameter(torch.empty(cout, *three, cin).double())
            self.bias = (
                nn.Parameter(torch.empty(cout).double()) if bias else None
            )
            self.kernel, self.stride, self.padding = three, stride, padding
            self.key = indice_key

        def forward(self, x):
            w = self.weight.permute(0, 4, 1, 2, 3)
            if self.kernel == [1, 1, 1]:
                cout, cin = self.weight.shape[0], self.weight.shape[-1]
                y = x.features @ self.weight.view(cin, cout)
                return x.replace_feature(
                    y if self.bias is None else y + self.bias
                )
            if self.kind == "subm":
                padding = [k // 2 for k in self.kernel]
                y = nn.functional.conv3d(
                    x.volume(), w, self.bias, padding=padding
                )
                return x.replace_feature(dense.pick(y, x.indices))
            if self.kind == "inverse":
                fine, strided = x.keys[self.key]
                return fine.replace_feature(
                    self.transposed(x, w, fine, strided)
                )
            y = nn.functional.conv3d(
                x.volume(), w, self.bias, self.stride, self.padding
            )
            seen = nn.functional.conv3d(
                x.replace_feature(torch.ones_like(x.features[:, :1])).volume(),
                torch.ones_like(w[:1, :1]),
                None,
                self.stride,
                self.padding,
            )
            at = seen[:, 0].nonzero().int()
            x.keys[self.key] = (x, self)
            return Dense.SparseConvTensor(
                dense.pick(y, at), at, y.shape[2:], x.batches, x.keys
            )

        def transposed(self, x, w, fine, strided):
            short = [
                f - ((c - 1) * 2 - 2 * 1 + 3)
                for f, c in zip(fine.shape, x.shape)
            ]
            y = nn.functional.conv_transpose3d(
                x.volume(),
                w.transpose(0, 1),
                self.bias,
                strided.stride,
                strided.padding,
                short,
            )
            return dense.pick(y, fine.indices)

    class SparseConv3d(Conv):
        pass

    class SubMConv3d(Conv):
        kind = "subm"

    class SparseInverseConv3d(Conv):
        kind = "inverse"

    class SparseSequential(SparseModule):
        def __init__(self, *parts):
            super().__init__()
            for i, part in enumerate(parts):
                self.add_module(str(i), part)

        def forward(self, x):
            for part in self._modules.values():
                if isinstance(part, Dense.SparseModule):
                    x = part(x)
                else:
                    x = x.replace_feature(part(x.features))
            return x


def definition(make, model):
    """Returns the same network in double precision, with the parameters of
    `model`."""
    twin = make(Dense).double()
    twin.load_state_dict(
        {
            k: v.double() if v.is_floating_point() else v
            for k, v in model.state_dict().items()
        }
    )
    return twin.train(model.training)
