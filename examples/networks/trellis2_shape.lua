-- SPDX-License-Identifier: Apache-2.0
-- TRELLIS.2's decoder of shapes, from a grid of 64^3 to one of 1024^3: between
-- its stages a layer selects which of the eight children of each voxel exist,
-- and these take slices of the channels.
local widths = {1024, 512, 256, 128, 64}
local blocks = {4, 16, 8, 4, 0}
-- Voxels of each stage, times the capacity: surfaces have four times as many
-- on a grid of twice the resolution.
local rooms = {5, 20, 80, 320}

network "TRELLIS.2 shape decoder"
local x = input {channels = 32, shape = {64, 64, 64}}

local function linear(x, width, name, more)
  local words = "subm,k=1,cout=" .. width .. ",epilogue=bias"
  more = more or {}
  return conv(x, words .. (more.then_ or ""),
              {name = name, residual = more.residual})
end

local function conv3(x, width, name, residual)
  local words = "subm,k=3,cout=" .. width .. ",epilogue=bias"
  return conv(x, words .. (residual and "+add" or ""),
              {name = name, residual = residual})
end

local function next_block(x, name)
  local h = conv3(x, channels(x), name .. ".conv")
  h = feature(h, "norm=layer,affine=1,eps=1e-6", {name = name .. ".norm"})
  h = linear(h, 4 * channels(x), name .. ".mlp.0", {then_ = "+silu"})
  return linear(h, channels(x), name .. ".mlp.2",
                {then_ = "+add", residual = x})
end

-- Turns channels into the children that `mask` selects.
local function to_space(x, mask, room)
  return regroup({x}, {scale = {2, 2, 2}, split = {2, 2, 2}, slices = true,
                       mask = mask, above = 0, room = room})
end

local function up_block(x, width, name, room)
  local mask = linear(x, 8, name .. ".to_subdiv")
  local h = feature(x, "norm=layer,affine=1,eps=1e-6,act=silu",
                    {name = name .. ".norm1"})
  h = to_space(conv3(h, 8 * width, name .. ".conv1"), mask, room)
  x = to_space(x, mask, room)
  h = feature(h, "norm=layer,eps=1e-6,act=silu")
  local skip = feature(x, "repeat,by=" .. width // channels(x))
  return conv3(h, width, name .. ".conv2", skip)
end

x = linear(x, widths[1], "from_latent")
for i, width in ipairs(widths) do
  for j = 0, blocks[i] - 1 do
    x = next_block(x, string.format("blocks.%d.%d", i - 1, j))
  end
  if i < #widths then
    x = up_block(x, widths[i + 1],
                 string.format("blocks.%d.%d", i - 1, blocks[i]), rooms[i])
  end
end
output(linear(feature(x, "norm=layer,eps=1e-5"), 7, "output_layer"), "shape")
