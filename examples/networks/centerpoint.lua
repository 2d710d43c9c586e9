-- SPDX-License-Identifier: Apache-2.0
-- CenterPoint's backbone: VoxelResBackBone8x of OpenPCDet, SpMiddleResNetFHD
-- of det3d, on nuScenes with voxels of 7.5 cm.
local blocks = include "blocks.lua"

network "CenterPoint"
local x = input {channels = 5, shape = {1440, 1440, 41},
                 voxel = {0.075, 0.075, 0.2}, low = {-54, -54, -5},
                 high = {54, 54, 3}, points = 10}

local function layer(x, words, name)
  return blocks.relu(x, words, name .. ".0", name .. ".1", {eps = 1e-3})
end

-- The convolutions of its blocks have a bias before the batch normalisation;
-- it is folded into the bias of the latter.
local function stage(x, width, name, from)
  return blocks.stage(x, width, 2, name, nil, 1e-3, from)
end

x = layer(x, "subm,k=3,cout=16", "conv_input")
x = stage(x, 16, "conv1", 0)
for level, width in ipairs {32, 64, 128} do
  local name = "conv" .. level + 1
  local padding = level == 3 and "1x1x0" or "1"
  x = layer(x, "conv,k=3,stride=2,rule=footprint,padding=" .. padding ..
               ",cout=" .. width, name .. ".0")
  x = stage(x, width, name, 1)
end
x = layer(x, "conv,k=1x1x3,stride=1x1x2,padding=0,rule=footprint,cout=128",
          "conv_out")
output(feature(x, "bev,order=zyx"), "bev")
