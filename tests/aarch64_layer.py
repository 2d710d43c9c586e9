# SPDX-License-Identifier: Apache-2.0
"""A layer of the installed package on the processor, with NumPy.

The result must equal the definition: all values are small integers, so every
sum is exact.
"""

import platform

import numpy
import spctune

print(platform.machine(), [d["name"] for d in spctune.devices()])
random = numpy.random.default_rng(1)
voxels = numpy.unique(random.integers(0, 8, (120, 3)), axis=0)
coords = numpy.zeros((len(voxels), 4), numpy.int32)
coords[:, 1:] = voxels
x = random.integers(-4, 5, (len(voxels), 8)).astype(numpy.float32)
weight = random.integers(-4, 5, (16, 3, 3, 3, 8)).astype(numpy.float32)

m = spctune.array.make_map(coords, "subm,k=3")
y = spctune.array.conv(x, weight, m)

row_of = {tuple(voxel): row for row, voxel in enumerate(voxels)}
want = numpy.zeros((len(voxels), 16), numpy.float32)
for row, voxel in enumerate(voxels):
    for place in numpy.ndindex(3, 3, 3):
        other = row_of.get(tuple(voxel + numpy.array(place) - 1))
        if other is not None:
            want[row] += weight[(slice(None), *place)] @ x[other]
assert numpy.abs(want).max() > 0
assert (y == want).all(), numpy.abs(y - want).max()
print("ok:", len(voxels), "rows as defined")
