-- SPDX-License-Identifier: Apache-2.0
-- VoxelNeXt on nuScenes: six levels, the last three in one plane, and heads
-- that stay sparse.
local blocks = include "blocks.lua"

network "VoxelNeXt"
local x = input {channels = 5, shape = {1440, 1440, 41},
                 voxel = {0.075, 0.075, 0.2}, low = {-54, -54, -5},
                 high = {54, 54, 3}, points = 10}

local function layer(x, words, name, eps)
  return blocks.relu(x, words, name .. ".0", name .. ".1", {eps = eps or 1e-3})
end

x = layer(x, "subm,k=3,cout=16", "conv_input")
x = blocks.stage(x, 16, 2, "conv1", nil, 1e-3)
local levels = {}
for level, width in ipairs {32, 64, 128, 128, 128} do
  local name = "conv" .. level + 1
  x = layer(x, "conv,k=3,stride=2,padding=1,rule=footprint,cout=" .. width,
            name .. ".0")
  x = blocks.stage(x, width, 2, name, nil, 1e-3, 1)
  levels[level + 1] = x
end

-- Levels 5 and 6 in the voxels of level 4; then z is dropped and voxels that
-- meet are added.
local five = regroup({levels[5]}, {scale = {2, 2, 2}})
local six = regroup({levels[6]}, {scale = {4, 4, 4}})
x = regroup({levels[4], five, six}, {scale = {1, 1, 0}})
x = layer(x, "conv,k=3x3x1,stride=1,padding=1x1x0,rule=footprint,cout=128",
          "conv_out")
x = blocks.relu(x, "subm,k=3x3x1,cout=128", "shared_conv.0", "shared_conv.1",
                {eps = 1e-5})

local branches = {center = 2, center_z = 1, dim = 3, rot = 2, vel = 2}
for task, classes in ipairs {1, 2, 2, 1, 2, 2} do
  branches.hm = classes
  for branch, width in pairs(branches) do
    local name = "heads_list." .. task - 1 .. "." .. branch
    local y = blocks.relu(x, "subm,k=1,cout=128", name .. ".0.0",
                          name .. ".0.1", {eps = 1e-5})
    y = conv(y, "subm,k=1,bias=1,cout=" .. width, {name = name .. ".1"})
    output(y, task - 1 .. "." .. branch)
  end
end
