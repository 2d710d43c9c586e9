# SPDX-License-Identifier: Apache-2.0
"""Dense convolution in double as a reference for the tests of PyTorch."""

import itertools

import torch


def scene(rows, extent, batches=1, seed=0):
    """Distinct int32 voxels (batch, x, y, z) in no order."""
    draw = torch.Generator().manual_seed(seed)
    c = torch.stack(
        [
            torch.randint(0, n, (rows,), generator=draw)
            for n in (batches, extent, extent, extent)
        ],
        1,
    )
    c = torch.unique(c, dim=0)
    return c[torch.randperm(len(c), generator=draw)].int().contiguous()


def spread(x, coords, extent, batches):
    """[batches, channels, extent, extent, extent] in double."""
    out = torch.zeros(batches, *extent, x.shape[1], dtype=torch.float64)
    out = out.index_put(tuple(coords.long().T), x.double())
    return out.permute(0, 4, 1, 2, 3)


def pick(volume, coords):
    """The rows of a volume at voxels."""
    return volume.permute(0, 2, 3, 4, 1)[tuple(coords.long().T)]


def conv(x, coords, weight, bias, outputs, extent, batches, out_extent, **how):
    """A layer [cout, kx, ky, kz, cin] in double, by torch's dense one."""
    volume = spread(x, coords, extent, batches)
    w = weight.double().permute(0, 4, 1, 2, 3)
    y = torch.nn.functional.conv3d(
        volume, w, None if bias is None else bias.double(), **how
    )
    assert list(y.shape[2:]) == list(out_extent)
    return pick(y, outputs)


def reached(coords, kernel, stride, padding, extent):
    """The voxels that see an input, sorted: the footprint."""
    found = set()
    for b, *c in coords.tolist():
        for place in itertools.product(range(kernel), repeat=3):
            at = [v + padding - p for v, p in zip(c, place)]
            if all(
                v % stride == 0 and 0 <= v // stride < e
                for v, e in zip(at, extent)
            ):
                found.add((b, *(v // stride for v in at)))
    return sorted(found)
