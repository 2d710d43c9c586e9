-- SPDX-License-Identifier: Apache-2.0
-- LargeKernel3D's backbone on nuScenes: CenterPoint's with kernels of 7, 5, 5
-- and 3. The first stage's are a kernel of 7 and a dilated one of 3
-- (dilation 2), added before the batch normalisation: its scale is folded into
-- both, its bias into one.
local blocks = include "blocks.lua"

network "LargeKernel3D"
local x = input {channels = 5, shape = {1440, 1440, 41},
                 voxel = {0.075, 0.075, 0.2}, low = {-54, -54, -5},
                 high = {54, 54, 3}, points = 10}

local function layer(x, words, name)
  return blocks.relu(x, words, name .. ".0", name .. ".1", {eps = 1e-3})
end

-- A convolution of size k; for size 7, with the dilated one added. `more` has
-- the residual and the activation.
local function large(x, k, width, name, norm, residual)
  local words = "subm,cout=" .. width .. ",epilogue=scale+bias"
  local tail = residual and "+add+relu" or "+relu"
  local spread
  if k == 7 then
    spread = conv(x, "subm,k=3,dilation=2,epilogue=scale" ..
                     (residual and "+add" or "") .. ",cout=" .. width,
                  {name = name .. ".spread", norm = norm, eps = 1e-3,
                   residual = residual})
    tail = "+add+relu"
  end
  return conv(x, words .. tail .. ",k=" .. k,
              {name = name, norm = norm, eps = 1e-3,
               residual = spread or residual})
end

local function block(x, k, width, name)
  local y = large(x, k, width, name .. ".conv1", name .. ".bn1")
  return large(y, k, width, name .. ".conv2", name .. ".bn2", x)
end

x = layer(x, "subm,k=3,cout=16", "conv_input")
x = block(block(x, 7, 16, "conv1.0"), 7, 16, "conv1.1")
for level, width in ipairs {32, 64, 128} do
  local name = "conv" .. level + 1
  local k = level < 3 and 5 or 3
  local padding = level < 3 and "2" or "1x1x0"
  x = layer(x, "conv,stride=2,rule=footprint,k=" .. k .. ",padding=" ..
               padding .. ",cout=" .. width, name .. ".0")
  x = block(block(x, k, width, name .. ".1"), k, width, name .. ".2")
end
x = layer(x, "conv,k=1x1x3,stride=1x1x2,padding=0,rule=footprint,cout=128",
          "conv_out")
output(feature(x, "bev,order=zyx"), "bev")
