-- SPDX-License-Identifier: Apache-2.0
-- A ResNet-18 (He and others, 2016) of native point convolutions (PointCNN++: Li
-- and others, 2025, section 3) instead of those of voxels: outputs are true
-- points, and every level keeps one point of each voxel of twice the edge.
-- Lengths are in the unit of the points; the radius is 2.5 edges of a level,
-- the reach of a convolution of size 5 on voxels.
local edge = 0.05

local function relu(x, words, name, more)
  local options = {name = name .. ".conv", norm = name .. ".bn"}
  for key, value in pairs(more or {}) do options[key] = value end
  return conv(x, words .. ",epilogue=scale+bias+relu", options)
end

local function points(radius, cout)
  return "points,k=3,radius=" .. radius .. ",cout=" .. cout
end

-- Two convolutions and a shortcut. In a block that goes to another level, the
-- outputs see the points of this one, and the shortcut has the kept points.
local function block(x, cout, radius, name, down)
  local short, there, words = x, points(radius, cout), points(radius, cout)
  if down then
    there = points(radius / 2, cout) .. ",voxel=" .. down
    short = conv(x, "points,k=1,nearest=1,radius=" .. radius / 2 .. ",voxel=" ..
                 down .. ",cout=" .. cout .. ",epilogue=scale+bias",
                 {name = name .. ".short.conv", norm = name .. ".short.bn"})
  end
  local y = relu(x, there, name .. ".1")
  return conv(y, words .. ",epilogue=scale+bias+add+relu",
              {name = name .. ".2.conv", norm = name .. ".2.bn",
               residual = short})
end

network "PointResNet18"
local x = input {channels = 4, cloud = true}

local radius = 1.25 * edge
x = relu(x, points(radius, 64), "stem")
for stage, width in ipairs {64, 128, 256, 512} do
  local down = stage > 1 and edge * 2 ^ (stage - 2)
  x = block(x, width, radius * 2 ^ (stage - 1), "stage" .. stage .. ".1", down)
  x = block(x, width, radius * 2 ^ (stage - 1), "stage" .. stage .. ".2")
end
output(x, "out")
