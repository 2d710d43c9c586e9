-- SPDX-License-Identifier: Apache-2.0
-- UNetV2 of OpenPCDet (Part-A2, PV-RCNN++) on KITTI: the encoder of SECOND,
-- and back up by its inverse convolutions.
local blocks = include "blocks.lua"

network "UNetV2"
local x = input {channels = 4, shape = {1408, 1600, 41},
                 voxel = {0.05, 0.05, 0.1}, low = {0, -40, -3},
                 high = {70.4, 40, 1}, points = 5}

local function layer(x, words, name)
  return blocks.relu(x, words, name .. ".0", name .. ".1", {eps = 1e-3})
end

local widths = {16, 32, 64, 64}
local down = {}
for level = 2, 4 do
  down[level] = ",k=3,stride=2,rule=footprint,padding=" ..
                (level == 4 and "1x1x0" or "1")
end

x = layer(x, "subm,k=3,cout=16", "conv_input")
x = layer(x, "subm,k=3,cout=16", "conv1.0")
local levels = {x}
for level = 2, 4 do
  local name, words = "conv" .. level, "subm,k=3,cout=" .. widths[level]
  x = layer(x, "conv" .. down[level] .. ",cout=" .. widths[level],
            name .. ".0")
  x = layer(x, words, name .. ".1")
  x = layer(x, words, name .. ".2")
  levels[level] = x
end
output(layer(x, "conv,k=1x1x3,stride=1x1x2,padding=0,rule=footprint,cout=128",
             "conv_out"), "encoded")

-- Concatenates the lateral block and the features from below; a convolution of
-- both, plus the sums of groups of their channels.
local function up(bottom, level)
  local width = widths[level]
  local t = blocks.residual(levels[level], width, "conv_up_t" .. level, nil,
                            1e-3)
  local both = cat(bottom, t)
  local sums = feature(both, "groupsum,by=" .. channels(both) // width)
  local name = "conv_up_m" .. level
  return conv(both, "subm,k=3,epilogue=scale+bias+relu+add,cout=" .. width,
              {name = name .. ".0", norm = name .. ".1", eps = 1e-3,
               residual = sums})
end

for level = 4, 2, -1 do
  x = up(x, level)
  x = layer(x, "inverse" .. down[level] .. ",cout=" .. widths[level - 1],
            "inv_conv" .. level)
end
x = up(x, 1)
output(layer(x, "subm,k=3,cout=16", "conv5.0"), "voxels")
