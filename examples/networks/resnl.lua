-- SPDX-License-Identifier: Apache-2.0
-- ResNL: as ResN21 without its last layer, every convolution of size 5, the
-- strided ones too.
local blocks = include "blocks.lua"

local function residual(x, width, name)
  local words = "subm,k=5,cout=" .. width
  local y = blocks.relu(x, words, name .. ".conv1")
  return conv(y, words .. ",epilogue=scale+bias+add+relu",
              {name = name .. ".conv2", residual = x})
end

network "ResNL"
local x = input {channels = 4}

x = blocks.relu(x, "subm,k=5,cout=16", "stem")
for level, width in ipairs {16, 32, 64, 128} do
  local name = "stage" .. level
  if level > 1 then
    x = blocks.relu(x, "conv,k=5,stride=2,rule=floor,cout=" .. width,
                    name .. ".down")
  end
  x = residual(x, width, name .. ".0")
  x = residual(x, width, name .. ".1")
end
output(x, "out")
