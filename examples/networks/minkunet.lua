-- SPDX-License-Identifier: Apache-2.0
-- MinkowskiEngine's MinkUNet (examples/minkunet.py): a stem of size 5, blocks
-- by `depth`, widths by `planes`, and a class for each voxel.
local blocks = include "blocks.lua"
local unet = include "unet.lua"

local function minkunet(cin, classes, depth, planes)
  local x = input {channels = cin}
  x = blocks.relu(x, "subm,k=5,cout=32", "conv0p1s1", "bn0")
  local names = {
    down = function(i) return "conv" .. i .. "p" .. (1 << i - 1) .. "s2",
                              "bn" .. i end,
    encode = function(i) return "block" .. i end,
    up = function(i) return "convtr" .. i + 3 .. "p" .. (32 >> i) .. "s2",
                            "bntr" .. i + 3 end,
    decode = function(i) return "block" .. i + 4 end,
    parts = {"conv1", "norm1", "conv2", "norm2", "downsample.0",
             "downsample.1"},
  }
  x = unet(names, x, {32, planes[1], planes[2], planes[3]},
           {planes[1], planes[2], planes[3], planes[4]},
           {planes[5], planes[6], planes[7], planes[8]}, depth)
  x = conv(x, "subm,k=1,bias=1,cout=" .. classes, {name = "final"})
  output(x, "classes")
end

return minkunet
