# SPDX-License-Identifier: Apache-2.0
"""Scenes and a dense definition of convolution for the tests of arrays."""

import itertools

import numpy as np


def scene(rows, extent, seed=0, batches=1):
    """Returns distinct int32 rows (batch, x, y, z) in random order."""
    rng = np.random.default_rng(seed)
    all_rows = np.stack(
        [
            rng.integers(0, batches, rows),
            *(rng.integers(0, extent, rows) for _ in range(3)),
        ],
        1,
    )
    return rng.permutation(np.unique(all_rows, axis=0)).astype(np.int32)


def dense_conv(x, coords, weight, outputs, stride, origin):
    """Computes the definition in double precision: at offset p, output o reads
    the input at o * stride + origin + p."""
    index = {tuple(c): i for i, c in enumerate(coords.tolist())}
    out = np.zeros((len(outputs), weight.shape[0]))
    places = list(itertools.product(*(range(k) for k in weight.shape[1:4])))
    for row, (b, *o) in enumerate(outputs.tolist()):
        for p in places:
            at = tuple(a * stride + origin + q for a, q in zip(o, p))
            i = index.get((b, *at))
            if i is not None:
                out[row] += weight[(slice(None), *p)].astype(float) @ x[i]
    return out
