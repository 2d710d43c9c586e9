-- SPDX-License-Identifier: Apache-2.0
-- MinkowskiEngine's completion of shapes: seven levels down; on the way up
-- each level makes all possible voxels, adds the encoder's features at the
-- same voxels, and keeps those that a layer of one channel marks as occupied.

local widths = {16, 32, 64, 128, 256, 512, 1024}
-- Kept voxels, times the capacity: a complete shape has a few times as many
-- as its visible part.
local room = 4

network "completion"
local x = input {channels = 1, shape = {128, 128, 128}}

-- A convolution, its normalisation and an ELU.
local function layer(x, words, name, i)
  return conv(x, words .. ",epilogue=scale+bias+elu",
              {name = name .. "." .. i, norm = name .. "." .. i + 1})
end

local function pair(x, words, width, name)
  x = layer(x, words .. ",cout=" .. width, name, 0)
  return layer(x, "subm,k=3,cout=" .. width, name, 3)
end

local levels = {layer(x, "subm,k=3,cout=" .. widths[1], "enc_block_s1", 0)}
for i = 2, #widths do
  local name = string.format("enc_block_s%ds%d", 1 << (i - 2), 1 << (i - 1))
  levels[i] = pair(levels[i - 1], "conv,k=2,stride=2,rule=floor", widths[i],
                   name)
end

x = levels[#widths]
for i = #widths - 1, 1, -1 do
  local stride = 1 << (i - 1)
  local name = string.format("dec_block_s%ds%d", 2 * stride, stride)
  local kernel = i == #widths - 1 and 4 or 2
  x = pair(x, "generative,stride=2,k=" .. kernel, widths[i], name)
  x = regroup({x, levels[i]})
  local occupied = conv(x, "subm,k=1,bias=1,cout=1",
                        {name = string.format("dec_s%d_cls", stride)})
  output(occupied, string.format("occupied_s%d", stride))
  x = regroup({x}, {mask = occupied, above = 0, room = room})
end
output(x, "shape")
