# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for engines that run on GPUs only: modules with the parts of their
interfaces that benchmarks/peers uses, computed by the definition. They test the
adapters: orders of rows, corners of scenes, and layouts of weights."""

import functools
import sys
import types

import reference
import torch


def submanifold(coords, x, weight):
    layer = reference.Layer(x.shape[1], weight.shape[0], weight.shape[1])
    return reference.Definition(layer, coords).forward(x, weight).to(x.dtype)


def flexgemm():
    def conv(feats, coords, shape, weight, bias=None, neighbor_cache=None):
        assert bias is None and int(coords.min()) == 0
        assert all(coords.amax(0) < torch.tensor([shape[0], *shape[2:]]))
        return submanifold(coords, feats, weight), "cache"

    ops = types.ModuleType("flex_gemm.ops.spconv")
    ops.sparse_submanifold_conv3d = conv
    ops.set_algorithm = lambda name: None
    return {
        "flex_gemm": types.ModuleType("flex_gemm"),
        "flex_gemm.ops": types.ModuleType("flex_gemm.ops"),
        "flex_gemm.ops.spconv": ops,
    }


class WarpTensor:
    def __init__(self, batched_coordinates, batched_features, offsets):
        counts = (offsets[1:] - offsets[:-1]).tolist()
        batch = torch.cat([torch.full((n,), b) for b, n in enumerate(counts)])
        self.batch_indexed_coordinates = torch.cat(
            [batch[:, None].int(), batched_coordinates], 1
        )
        self.feature_tensor = batched_features

    def replace(self, batched_features):
        made = WarpTensor.__new__(WarpTensor)
        made.batch_indexed_coordinates = self.batch_indexed_coordinates
        made.feature_tensor = batched_features
        return made


class WarpConv(torch.nn.Module):
    def __init__(
        self,
        cin,
        cout,
        kernel_size,
        stride=1,
        bias=True,
        groups=1,
        axes=3,
        **more,
    ):
        super().__init__()
        assert not bias
        kind = "subm" if stride == 1 else "conv"
        if more.get("generative"):
            refines = stride == 1 or more.get("transposed")
            kind = "generative" if refines else "expand"
        k = kernel_size
        self.spec = reference.Layer(
            cin, cout, k, stride, groups, kind=kind, axes=axes
        )
        shape = (cin // groups, cout // groups)
        shape = (k**axes, *((groups,) if groups > 1 else ()), *shape)
        self.weight = torch.nn.Parameter(torch.empty(shape))

    def forward(self, x):
        s = self.spec
        w = self.weight.reshape(-1, s.groups, *self.weight.shape[-2:])
        w = w.permute(1, 3, 0, 2).reshape(s.shape())
        coords = torch.nn.functional.pad(
            x.batch_indexed_coordinates, (0, 3 - s.axes)
        )
        found = reference.Definition(s, coords)
        made = x.replace(
            found.forward(x.feature_tensor, w).to(x.feature_tensor.dtype)
        )
        # In another order than the definition's.
        made.batch_indexed_coordinates = found.outputs.flip(0)[:, : 1 + s.axes]
        made.feature_tensor = made.feature_tensor.flip(0)
        return made


def warpconvnet():
    names = (
        "warpconvnet",
        "warpconvnet.geometry",
        "warpconvnet.geometry.types",
        "warpconvnet.geometry.types.voxels",
        "warpconvnet.nn",
        "warpconvnet.nn.modules",
        "warpconvnet.nn.modules.sparse_conv",
    )
    made = {name: types.ModuleType(name) for name in names}
    made[names[3]].Voxels = WarpTensor
    made[names[6]].SparseConv3d = WarpConv
    made[names[6]].SparseConv2d = functools.partial(WarpConv, axes=2)
    return made


class SpiraTensor:
    def __init__(self, coordinates, features):
        self._coordinates, self._features = coordinates, features


class SpiraConv(torch.nn.Module):
    def __init__(self, cin, cout, kernel_size, stride=1):
        super().__init__()
        k, kind = kernel_size, "subm" if stride == 1 else "conv"
        self.spec = reference.Layer(cin, cout, k, stride, kind=kind)
        self.kernel = torch.nn.Parameter(torch.empty(k**3, cin, cout))
        self._tunable_config = {}

    def forward(self, x):
        s = self.spec
        w = self.kernel.permute(2, 0, 1).reshape(s.shape())
        found = reference.Definition(s, unpacked(x._coordinates, True))
        out = found.outputs.clone()
        out[:, 1:] *= s.stride  # it keeps multiples of the stride
        y = found.forward(x._features, w).to(x._features.dtype)
        return SpiraTensor(packed(out[:, 1:]), y)


def packed(xyz):
    xyz = xyz.long()
    return (xyz[:, 0] << 40) + (xyz[:, 1] << 20) + xyz[:, 2]


def unpacked(flat, batch=False):
    mask = (1 << 20) - 1
    xyz = torch.stack([flat >> 40, flat >> 20 & mask, flat & mask], 1).int()
    return torch.nn.functional.pad(xyz, (1, 0)) if batch else xyz


def spira():
    names = ("spira", "spira.nn", "spira.nn.functional")
    made = {name: types.ModuleType(name) for name in names}
    top, nn, functional = made.values()
    top.nn, nn.functional = nn, functional
    top.SparseTensor = SpiraTensor
    top.set_kernel_map_cache = lambda module, cache: None
    nn.SparseConv = SpiraConv
    nn.KernelMapCache = lambda: types.SimpleNamespace(reset=lambda: None)
    functional.flat_sort = lambda xyz, double: torch.sort(packed(xyz))
    functional.unflatten = unpacked
    return made


class PointConv3d(torch.nn.Module):
    def __init__(self, cin, cout, k, groups=1, bias=True):
        super().__init__()
        assert not bias
        self.weight = torch.nn.Parameter(torch.empty(k**3, 1, cin, cout))

    def forward(self, x, i, j, k, n):
        parts = torch.einsum("tc,tco->to", x[j], self.weight[k, 0])
        return x.new_zeros(n, parts.shape[1]).index_add(0, i, parts)


def voxelize_3d(kernel_size, points, grid_size):
    at = (points / grid_size).round().int() + kernel_size // 2
    at = at.clamp(0, kernel_size - 1).long()
    return (at[:, 0] * kernel_size + at[:, 1]) * kernel_size + at[:, 2]


def build_triplets(
    points,
    sample_inds,
    sample_sizes,
    neighbor_radius,
    kernel_indexer,
    radius_scaler,
):
    d = points[None] - points[:, None]
    i, j = ((d * d).sum(2) <= neighbor_radius**2).nonzero().T
    grid = neighbor_radius / radius_scaler
    return i, j, kernel_indexer(points=d[i, j], grid_size=grid), None


def pointelligence():
    names = ("layers", "models", "models.resnet")
    made = {name: types.ModuleType(name) for name in names}
    made["layers"].PointConv3d = PointConv3d
    made["layers"].build_triplets = build_triplets
    made["layers"].voxelize_3d = voxelize_3d
    made["models.resnet"].resnet18 = None
    return made


def torchsparse():
    """spctune's own module with this interface. Its strided layers follow the
    footprint rule unless the kernel is as long as the stride."""
    import spctune.torchsparse as ts
    from spctune.torchsparse import nn

    functional = types.ModuleType("torchsparse.nn.functional")
    functional.conv_config = types.SimpleNamespace(
        get_default_conv_config=types.SimpleNamespace,
        set_global_conv_config=lambda config: None,
    )
    spnn = types.ModuleType("torchsparse.nn")
    spnn.Conv3d, spnn.functional = nn.Conv3d, functional
    top = types.ModuleType("torchsparse")
    top.SparseTensor, top.backends, top.nn = ts.SparseTensor, ts.backends, spnn
    return {
        "torchsparse": top,
        "torchsparse.nn": spnn,
        "torchsparse.nn.functional": functional,
    }


FAKES = {
    "FlexGEMM": flexgemm,
    "WarpConvNet": warpconvnet,
    "Spira": spira,
    "pointelligence": pointelligence,
    "TorchSparse++": torchsparse,
}


class Installed:
    """Serves the stand-in of an engine to the imports in a with statement."""

    def __init__(self, name):
        self.made = FAKES[name]()

    def __enter__(self):
        self.kept = {n: sys.modules.get(n) for n in self.made}
        sys.modules.update(self.made)

    def __exit__(self, *_):
        for name, module in self.kept.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
