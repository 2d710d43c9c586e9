# SPDX-License-Identifier: Apache-2.0
"""Dense convolution in double precision, as a reference for the PyTorch
tests."""

import itertools

import torch


def scene(rows, extent, batches=1, seed=0):
    """Returns distinct int32 voxels (batch, x, y, z) in random order."""
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
    """Returns [batches, channels, extent, extent, extent] in double
    precision."""
    out = torch.zeros(batches, *extent, x.shape[1], dtype=torch.float64)
    out = out.index_put(tuple(coords.long().T), x.double())
    return out.permute(0, 4, 1, 2, 3)


def pick(volume, coords):
    """Returns the rows of a volume at voxels."""
    return volume.permute(0, 2, 3, 4, 1)[tuple(coords.long().T)]


def conv(x, coords, weight, bias, outputs, extent, batches, out_extent, **how):
    """Runs a layer [cout, kx, ky, kz, cin] in double precision, by torch's
    dense layer."""
    volume = spread(x, coords, extent, batches)
    w = weight.double().permute(0, 4, 1, 2, 3)
    y = torch.nn.functional.conv3d(
        volume, w, None if bias is None else bias.double(), **how
    )
    assert list(y.shape[2:]) == list(out_extent)
    return pick(y, outputs)


def reached(coords, kernel, stride, padding, extent):
    """Returns the sorted voxels that see an input: the footprint."""
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
