-- SPDX-License-Identifier: Apache-2.0
-- ResN21: 21 convolutions of size 3, four levels by the floor rule (the
-- network that Spira and TorchSparse++ are compared on).
local blocks = include "blocks.lua"

network "ResN21"
local x = input {channels = 4}

x = blocks.relu(x, "subm,k=3,cout=16", "stem")
x = blocks.stage(x, 16, 2, "stage1")
for level, width in ipairs {32, 64, 128} do
  local name = "stage" .. level + 1
  x = blocks.relu(x, "conv,k=3,stride=2,rule=floor,cout=" .. width,
                  name .. ".down")
  x = blocks.stage(x, width, 2, name)
end
x = blocks.relu(x, "conv,k=1x1x3,stride=1x1x2,rule=floor,cout=128", "last")
output(x, "out")
