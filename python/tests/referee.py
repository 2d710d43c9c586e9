# SPDX-License-Identifier: Apache-2.0
"""Runs a network of backbones.py with spconv itself: python3 referee.py FILE.
Replaces the file (name, state, scene) by the outputs."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import backbones
import spconv.pytorch as sp
import torch

name, state, given = torch.load(sys.argv[1])
model = getattr(backbones, name)(sp)
model.load_state_dict(state)
# spconv refuses a bias in evaluation mode; only the normalisations depend on
# this mode.
model.eval()
for module in model.modules():
    if isinstance(module, sp.conv.SparseConvolution):
        module.train()
with torch.no_grad():
    out = model(*given)
torch.save([(x.features, x.indices) for x in out], sys.argv[1])
