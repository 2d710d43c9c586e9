-- SPDX-License-Identifier: Apache-2.0
-- SECOND: VoxelBackBone8x of OpenPCDet on KITTI. Axes are x, y, z; the files
-- of weights have z first.
local blocks = include "blocks.lua"

network "SECOND"
local x = input {channels = 4, shape = {1408, 1600, 41},
                 voxel = {0.05, 0.05, 0.1}, low = {0, -40, -3},
                 high = {70.4, 40, 1}, points = 5}

local function layer(x, words, name, key)
  return blocks.relu(x, words, name .. ".0", name .. ".1",
                     {eps = 1e-3, key = key})
end

x = layer(x, "subm,k=3,cout=16", "conv_input", "subm1")
for i = 0, count("conv1.#.0", 0, 1) - 1 do
  x = layer(x, "subm,k=3,cout=16", "conv1." .. i, "subm1")
end
for level, width in ipairs {32, 64, 64} do
  local name = "conv" .. level + 1
  local padding = level == 3 and "1x1x0" or "1"
  local down = "conv,k=3,stride=2,rule=footprint,padding=" .. padding ..
               ",cout=" .. width
  x = layer(x, down, name .. ".0", "spconv" .. level + 1)
  for i = 1, count(name .. ".#.0", 1, 2) do
    x = layer(x, "subm,k=3,cout=" .. width, name .. "." .. i,
              "subm" .. level + 1)
  end
end
x = layer(x, "conv,k=1x1x3,stride=1x1x2,padding=0,rule=footprint,cout=128",
          "conv_out", "spconv_down2")
output(feature(x, "bev,order=zyx"), "bev")
